// registry - every algorithm, and how a call is run.

#include "base/registry.h"

#include "comm/coll/coll.h"

#include <string.h>

#define TT_COLL(name) extern const tt_coll_def tt_coll_##name;
#include "comm/coll/list.h"
#undef TT_COLL

static const tt_coll_def *const all[] = {
#define TT_COLL(name) &tt_coll_##name,
#include "comm/coll/list.h"
#undef TT_COLL
};

TT_REGISTRY(tt_coll, all)

const char *tt_coll_name(tt_coll_kind kind)
{
    static const char *const names[TT_N_COLLS] = {
        "all_reduce", "reduce",  "broadcast",  "reduce_scatter", "all_gather",
        "gather",     "scatter", "all_to_all", "barrier",
    };
    return names[kind];
}

static const tt_coll_way *way_of(const tt_coll_def *def, tt_coll_kind kind)
{
    const tt_coll_way *way = &def->way[kind];
    return way->run != NULL ? way : &tt_coll_naive.way[kind];
}

int64_t tt_coll_scratch_bytes(const tt_coll_def *def, const tt_coll_call *call)
{
    return way_of(def, call->kind)->scratch * tt_coll_bytes(call, call->count);
}

static bool has_whole_bound(const tt_coll_call *call)
{
    const int32_t n = call->group.n;
    if (call->bound == NULL)
        return true;
    for (int32_t i = 0; i < n; i++)
        if (call->bound[i] > call->bound[i + 1])
            return false;
    return call->bound[0] == 0 && call->bound[n] == call->count;
}

tt_status tt_coll_run(const tt_coll_def *def, tt_comm *comm,
                      const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    if (g->n < 1 || g->me < 0 || g->me >= g->n || call->root < 0 ||
        call->root >= g->n || call->count < 0)
        return tt_fail(TT_ERR_ARG,
                       "%s: member %d, root %d of %d, %lld elements",
                       tt_coll_name(call->kind), g->me, call->root, g->n,
                       (long long)call->count);
    if (!has_whole_bound(call))
        return tt_fail(TT_ERR_ARG, "%s: the blocks do not make %lld elements",
                       tt_coll_name(call->kind), (long long)call->count);
    const tt_status status = way_of(def, call->kind)->run(comm, call);
    return status == TT_OK
               ? TT_OK
               : tt_fail_context(status, "%s", tt_coll_name(call->kind));
}

// ---- parts of algorithms -------------------------------------------------

tt_block tt_block_of(int64_t count, int32_t n, int32_t i)
{
    const int64_t least = count / n, more = count % n;
    return (tt_block){.first = i * least + (i < more ? i : more),
                      .n = least + (i < more)};
}

tt_block tt_coll_block(const tt_coll_call *call, int32_t i)
{
    const int64_t *bound = call->bound;
    return bound == NULL
               ? tt_block_of(call->count, call->group.n, i)
               : (tt_block){.first = bound[i], .n = bound[i + 1] - bound[i]};
}

tt_block tt_coll_blocks(const tt_coll_call *call, int32_t i, int32_t k)
{
    const tt_block a = tt_coll_block(call, i);
    const tt_block b = tt_coll_block(call, i + k - 1);
    return (tt_block){.first = a.first, .n = b.first + b.n - a.first};
}

int64_t tt_coll_bytes(const tt_coll_call *call, int64_t n)
{
    return n * tt_num_bytes(call->fold.type);
}

const void *tt_coll_from(const tt_coll_call *call, int64_t first)
{
    return call->in == NULL
               ? NULL
               : (const char *)call->in + tt_coll_bytes(call, first);
}

void *tt_coll_at(const tt_coll_call *call, void *base, int64_t first)
{
    return base == NULL ? NULL : (char *)base + tt_coll_bytes(call, first);
}

void *tt_coll_to(const tt_coll_call *call, int64_t first)
{
    return tt_coll_at(call, call->out, first);
}

tt_coll_path tt_coll_path_of(const tt_coll_call *call, int64_t rounds,
                             int64_t bytes_n, int64_t folds_n)
{
    const int64_t block =
        tt_coll_bytes(call, call->count + call->group.n - 1) / call->group.n;
    return (tt_coll_path){rounds, bytes_n * block, folds_n * block};
}

int64_t tt_coll_log2(int32_t n)
{
    int64_t k = 0;
    for (int64_t m = 1; m < n; m *= 2)
        k++;
    return k;
}

int32_t tt_coll_rank(const tt_group *group, int32_t i)
{
    return group->rank != NULL ? group->rank[i] : i;
}

tt_msg tt_coll_out(const tt_coll_call *call, int32_t to, const void *data,
                   int64_t n)
{
    return (tt_msg){.peer = tt_coll_rank(&call->group, to),
                    .tag = call->tag,
                    .data = (void *)(uintptr_t)data,
                    .bytes = tt_coll_bytes(call, n)};
}

tt_msg tt_coll_in(const tt_coll_call *call, int32_t from, void *data, int64_t n)
{
    return (tt_msg){.peer = tt_coll_rank(&call->group, from),
                    .tag = call->tag,
                    .data = data,
                    .bytes = tt_coll_bytes(call, n)};
}

tt_msg tt_coll_add(const tt_coll_call *call, int32_t from, void *data,
                   int64_t n)
{
    tt_msg msg = tt_coll_in(call, from, data, n);
    msg.fold = call->fold;
    return msg;
}

void tt_coll_copy(const tt_coll_call *call, void *to, const void *from,
                  int64_t n)
{
    if (n > 0 && to != from)
        memmove(to, from, (size_t)tt_coll_bytes(call, n));
}
