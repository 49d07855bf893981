// bucket - gradients that are reduced together.
//
// The problem. One all-reduce per gradient pays the latency for each bias of 64 numbers.
// One all-reduce for everything cannot begin before backward is over, and then nothing
// hides it.
//
// The idea. Neighbours in the order in which backward finishes them are one bucket, up
// to a size (`tt__bucket_full`). A bucket leaves when its last gradient is finished.
//
//   backward   dw9 dw8 dw7 dw6 dw5 dw4 dw3 dw2 dw1 dw0
//   buckets    [b0][   b1     ][   b2     ][ b3  ][b4]
//
//   all        at most 1/16 of everything, so that they follow each other while
//              gradients are made; at least 1/64, so that they are not too many
//   first      at most 1 MiB, so that communication starts early
//   last ones  at most half of what is left, because nothing hides the last
//
// Members of a bucket have the same collective, axis, fold and type. Gradients that are
// reduced in place lie side by side in memory (pack.c), so a bucket is one message. Other
// members of a bucket are sent one after another.
//
// The order is that of nodes, and bytes are counted as if all ranks held as much, so
// buckets are the same on every rank.

#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "plan/flights.h"

#include <stdlib.h>

enum { MIB = 1 << 20, SMALL = 4 << 10, MOST_KINDS = 16 };

typedef struct kind { // members of a bucket are alike
    const tt_op_def *op;
    int64_t axis;
    int64_t bytes; // of the bucket that is being filled
    int32_t bucket;
    int reduce;
    tt_dtype dtype;
    bool in_place, is_merged;
} kind;

// Reduced or gathered in the update, but finished before: a gradient, or a code of one.
static bool is_gradient(const tt__lower *l, const tt__trip *trip)
{
    const tt_node *node = &l->g->node[trip->node];
    if (!tt_is(node->in[0]) ||
        tt__is_across_stages(l->g, &l->plan->step[trip->step]))
        return false; // stages have other gradients
    const int32_t from =
        l->g->value[l->info[node->in[0].id].root].node; // -1: a leaf
    return node->phase == TT_UPDATE &&
           (node->op == &tt_op_all_reduce ||
            node->op == &tt_op_reduce_scatter ||
            node->op == &tt_op_all_gather) &&
           from >= 0 && l->runs_in[from] != TT_UPDATE;
}

static kind kind_of(const tt__lower *l, const tt__trip *trip)
{
    const tt_step *step = &l->plan->step[trip->step];
    const tt_comm_params *p = step->params;
    return (kind){.op = step->op,
                  .axis = p->axis,
                  .reduce = p->reduce,
                  .dtype = step->in[0].operand.dtype,
                  .in_place = step->in[0].buffer == step->out[0].buffer,
                  .is_merged = p->merge > 0,
                  .bucket = -1};
}

static bool same_kind(const kind *a, const kind *b)
{
    return a->op == b->op && a->axis == b->axis && a->reduce == b->reduce &&
           a->dtype == b->dtype && a->in_place == b->in_place &&
           a->is_merged == b->is_merged;
}

static int by_finish(const void *pa, const void *pb)
{
    const tt__trip *a = *(const tt__trip *const *)pa;
    const tt__trip *b = *(const tt__trip *const *)pb;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->step < b->step ? -1 : 1;
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t tt__bucket_full(const tt__lower *l, bool is_first, int64_t all,
                        int64_t left)
{
    const int64_t most = l->bucket_bytes;
    const int64_t least = min(most, all / 64 > SMALL ? all / 64 : SMALL);
    int64_t n = min(most, min(all / 16, left / 2));
    if (is_first)
        n = min(n, MIB);
    return n > least ? n : least;
}

int64_t tt__scatter_full(const tt__lower *l, int64_t all)
{
    const int64_t most = l->bucket_bytes;
    return min(most, all / 64 > SMALL ? all / 64 : SMALL);
}

static kind *find_kind(kind *kinds, int *n, const kind *wanted)
{
    for (int i = 0; i < *n; i++)
        if (same_kind(&kinds[i], wanted))
            return &kinds[i];
    if (*n == MOST_KINDS)
        return NULL;
    kinds[*n] = *wanted;
    return &kinds[(*n)++];
}

// Gives every trip of sorted[0..n) the number of its bucket.
static void fill(tt__trips *t, tt__trip **sorted, int32_t n)
{
    kind kinds[MOST_KINDS];
    int n_kinds = 0;
    int64_t all = 0, left = 0;
    for (int32_t i = 0; i < n; i++)
        all += sorted[i]->bytes;
    left = all;
    for (int32_t i = 0; i < n; i++) {
        const kind wanted = kind_of(t->l, sorted[i]);
        if (i > 0 && tt__updates_apart(t->l) &&
            t->l->stage[sorted[i]->node] != t->l->stage[sorted[i - 1]->node])
            n_kinds = 0; // its update comes at another time
        kind *k = find_kind(kinds, &n_kinds, &wanted);
        if (k == NULL)
            continue; // not in a bucket: travels alone
        if (k->bucket < 0)
            k->bucket = t->n_buckets++;
        sorted[i]->bucket = k->bucket;
        k->bytes += sorted[i]->bytes;
        left -= sorted[i]->bytes;
        if (k->bytes >= tt__bucket_full(t->l, k->bucket == 0, all, left)) {
            k->bucket = -1;
            k->bytes = 0;
        }
    }
}

// Numbers the buckets anew, in the order in which they are complete.
static tt_status number(tt__trips *t, tt__trip *const *sorted, int32_t n)
{
    int32_t *last =
        tt_arena_alloc(t->l->arena, t->n_buckets * (int64_t)sizeof(*last));
    int32_t *name =
        tt_arena_alloc(t->l->arena, t->n_buckets * (int64_t)sizeof(*name));
    int32_t next = 0;
    if (last == NULL || name == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < n; i++)
        if (sorted[i]->bucket >= 0)
            last[sorted[i]->bucket] = i;
    for (int32_t i = 0; i < n; i++)
        if (sorted[i]->bucket >= 0 && last[sorted[i]->bucket] == i)
            name[sorted[i]->bucket] = next++;
    for (int32_t i = 0; i < n; i++)
        if (sorted[i]->bucket >= 0)
            sorted[i]->bucket = name[sorted[i]->bucket];
    return TT_OK;
}

static tt_status list(tt__trips *t, tt__trip *const *sorted, int32_t n)
{
    t->order = tt_arena_alloc(t->l->arena, n * (int64_t)sizeof(int32_t));
    t->bucket =
        tt_arena_alloc(t->l->arena, t->n_buckets * (int64_t)sizeof(*t->bucket));
    if (t->order == NULL || t->bucket == NULL)
        return TT_ERR_NOMEM;
    int32_t at = 0;
    for (int32_t b = 0; b < t->n_buckets; b++) {
        t->bucket[b].first = at;
        for (int32_t i = 0; i < n; i++)
            if (sorted[i]->bucket == b)
                t->order[at++] = (int32_t)(sorted[i] - t->trip);
        t->bucket[b].n = at - t->bucket[b].first;
    }
    return TT_OK;
}

tt_status tt__buckets_make(tt__trips *t)
{
    tt__trip **sorted =
        tt_arena_alloc(t->l->arena, t->n * (int64_t)sizeof(*sorted));
    if (sorted == NULL)
        return TT_ERR_NOMEM;
    int32_t n = 0;
    for (int32_t i = 0; i < t->n; i++)
        if (is_gradient(t->l, &t->trip[i]))
            sorted[n++] = &t->trip[i];
    qsort(sorted, (size_t)n, sizeof(*sorted), by_finish);
    fill(t, sorted, n);
    TT_TRY(number(t, sorted, n));
    return list(t, sorted, n);
}
