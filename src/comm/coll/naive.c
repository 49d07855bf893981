// naive - everything through the root (or member 0), one message after another:
// what the others are compared with.
//
//   all_reduce   fold in pairs of neighbours at member 0, then copies for all
//
// It has every kind of collective, so it stands in where another algorithm has no such
// kind. It is short enough to be right at a glance, and it folds in the order of
// pairs.h. Its cost is n-1 messages one after another at one member.

#include "comm/coll/pairs.h"

enum { FIRST = 0 };

static bool is_me(const tt_coll_call *call, int32_t i)
{
    return call->group.me == i;
}

static tt_status send_to(tt_comm *comm, const tt_coll_call *call, int32_t to,
                         const void *data, int64_t n)
{
    tt_msg out = tt_coll_out(call, to, data, n);
    return tt_comm_swap(comm, &out, NULL);
}

static tt_status take_from(tt_comm *comm, const tt_coll_call *call,
                           int32_t from, void *data, int64_t n)
{
    tt_msg in = tt_coll_in(call, from, data, n);
    return tt_comm_swap(comm, NULL, &in);
}

static tt_status take_all(tt_comm *comm, const tt_coll_call *call, int32_t root,
                          const void *own, tt__coll_pairs *pairs)
{
    for (int32_t i = 0; i < call->group.n; i++) {
        bool adds = false;
        char *to = tt__pairs_next(pairs, &adds);
        tt_msg in = adds ? tt_coll_add(call, i, to, call->count)
                         : tt_coll_in(call, i, to, call->count);
        if (i != root)
            TT_TRY(tt_comm_swap(comm, NULL, &in));
        else if (adds)
            tt_fold_into(call->fold, to, own, in.bytes);
        else
            tt_coll_copy(call, to, own, call->count);
        tt__pairs_took(pairs);
    }
    tt__pairs_finish(pairs);
    return TT_OK;
}

// The fold of all at `root`, in `to`. Only member 0's data may lie there: the others
// come after it.
static tt_status fold_at(tt_comm *comm, const tt_coll_call *call, int32_t root,
                         void *to)
{
    tt__coll_pairs pairs;
    char few[TT__PAIRS_BYTES] = {0};
    const void *own = call->in;
    if (!is_me(call, root))
        return send_to(comm, call, root, call->in, call->count);
    if (root > 0) {
        own = call->scratch;
        tt_coll_copy(call, call->scratch, call->in, call->count);
    }
    TT_TRY(tt__pairs_begin(&pairs, call, call->count, to,
                           (tt__pairs_room){comm, few, (int64_t)sizeof few}));
    return take_all(comm, call, root, own, &pairs);
}

static tt_status spread(tt_comm *comm, const tt_coll_call *call, int32_t root)
{
    if (!is_me(call, root))
        return take_from(comm, call, root, call->out, call->count);
    for (int32_t i = 0; i < call->group.n; i++)
        if (i != root)
            TT_TRY(send_to(comm, call, i, call->out, call->count));
    return TT_OK;
}

// The root's `all` in blocks: one for each.
static tt_status deal(tt_comm *comm, const tt_coll_call *call, int32_t root,
                      const void *all)
{
    const tt_group *g = &call->group;
    const tt_block mine = tt_coll_block(call, g->me);
    if (!is_me(call, root))
        return take_from(comm, call, root, call->out, mine.n);
    for (int32_t i = 0; i < g->n; i++) {
        const tt_block b = tt_coll_block(call, i);
        const void *data = (const char *)all + tt_coll_bytes(call, b.first);
        if (i == root)
            tt_coll_copy(call, call->out, data, b.n);
        else
            TT_TRY(send_to(comm, call, i, data, b.n));
    }
    return TT_OK;
}

static tt_status collect(tt_comm *comm, const tt_coll_call *call, int32_t root)
{
    const tt_group *g = &call->group;
    const tt_block mine = tt_coll_block(call, g->me);
    if (!is_me(call, root))
        return send_to(comm, call, root, call->in, mine.n);
    for (int32_t i = 0; i < g->n; i++) {
        const tt_block b = tt_coll_block(call, i);
        void *to = tt_coll_to(call, b.first);
        if (i == root)
            tt_coll_copy(call, to, call->in, b.n);
        else
            TT_TRY(take_from(comm, call, i, to, b.n));
    }
    return TT_OK;
}

static tt_status all_reduce(tt_comm *comm, const tt_coll_call *call)
{
    TT_TRY(fold_at(comm, call, FIRST, call->out));
    return spread(comm, call, FIRST);
}

static tt_status reduce(tt_comm *comm, const tt_coll_call *call)
{
    return fold_at(comm, call, call->root, call->out);
}

static tt_status broadcast(tt_comm *comm, const tt_coll_call *call)
{
    return spread(comm, call, call->root);
}

static tt_status reduce_scatter(tt_comm *comm, const tt_coll_call *call)
{
    TT_TRY(fold_at(comm, call, FIRST, call->scratch));
    return deal(comm, call, FIRST, call->scratch);
}

static tt_status all_gather(tt_comm *comm, const tt_coll_call *call)
{
    TT_TRY(collect(comm, call, FIRST));
    return spread(comm, call, FIRST);
}

static tt_status gather(tt_comm *comm, const tt_coll_call *call)
{
    return collect(comm, call, call->root);
}

static tt_status scatter(tt_comm *comm, const tt_coll_call *call)
{
    return deal(comm, call, call->root, call->in);
}

// Pairs one after another; within a pair both directions at once.
static tt_status all_to_all(tt_comm *comm, const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    const int64_t mine = tt_coll_block(call, g->me).n;
    for (int32_t i = 0; i < g->n; i++) {
        const tt_block b = tt_coll_block(call, i);
        tt_msg out = tt_coll_out(call, i, tt_coll_from(call, b.first), b.n);
        tt_msg in = tt_coll_in(call, i, tt_coll_to(call, i * mine), mine);
        if (i == g->me)
            tt_coll_copy(call, in.data, out.data, mine);
        else
            TT_TRY(tt_comm_swap(comm, &out, &in));
    }
    return TT_OK;
}

static tt_status barrier(tt_comm *comm, const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    if (!is_me(call, FIRST)) {
        TT_TRY(send_to(comm, call, FIRST, NULL, 0));
        return take_from(comm, call, FIRST, NULL, 0);
    }
    for (int32_t i = 1; i < g->n; i++)
        TT_TRY(take_from(comm, call, i, NULL, 0));
    for (int32_t i = 1; i < g->n; i++)
        TT_TRY(send_to(comm, call, i, NULL, 0));
    return TT_OK;
}

// ---- cost ----------------------------------------------------------------

static tt_coll_cost cost(const tt_coll_call *call, int64_t messages, int64_t n)
{
    return (tt_coll_cost){messages, tt_coll_bytes(call, n)};
}

// All but the root send `n`; the root sends one such message to each.
static tt_coll_cost through(const tt_coll_call *call, int32_t root, int64_t up,
                            int64_t down)
{
    const int64_t others = call->group.n - 1;
    if (is_me(call, root))
        return cost(call, down >= 0 ? others : 0, down > 0 ? down : 0);
    return cost(call, up >= 0, up > 0 ? up : 0);
}

static int64_t block_n(const tt_coll_call *call, int32_t i)
{
    return tt_coll_block(call, i).n;
}

static tt_coll_cost cost_all_reduce(const tt_coll_call *call)
{
    return through(call, FIRST, call->count, call->count * (call->group.n - 1));
}

static tt_coll_cost cost_reduce(const tt_coll_call *call)
{
    return through(call, call->root, call->count, -1);
}

static tt_coll_cost cost_broadcast(const tt_coll_call *call)
{
    return through(call, call->root, -1, call->count * (call->group.n - 1));
}

static tt_coll_cost cost_reduce_scatter(const tt_coll_call *call)
{
    return through(call, FIRST, call->count, call->count - block_n(call, 0));
}

static tt_coll_cost cost_all_gather(const tt_coll_call *call)
{
    return through(call, FIRST, block_n(call, call->group.me),
                   call->count * (call->group.n - 1));
}

static tt_coll_cost cost_gather(const tt_coll_call *call)
{
    return through(call, call->root, block_n(call, call->group.me), -1);
}

static tt_coll_cost cost_scatter(const tt_coll_call *call)
{
    return through(call, call->root, -1,
                   call->count - block_n(call, call->root));
}

static tt_coll_cost cost_all_to_all(const tt_coll_call *call)
{
    return cost(call, call->group.n - 1,
                call->count - block_n(call, call->group.me));
}

static tt_coll_cost cost_barrier(const tt_coll_call *call)
{
    return through(call, FIRST, 0, 0);
}

static tt_coll_path path_all_reduce(const tt_coll_call *call)
{
    const int64_t n = call->group.n, others = n - 1;
    return tt_coll_path_of(call, 2 * others, 2 * others * n, others * n);
}

static tt_coll_path path_reduce(const tt_coll_call *call)
{
    const int64_t n = call->group.n, others = n - 1;
    return tt_coll_path_of(call, others, others * n, others * n);
}

static tt_coll_path path_reduce_scatter(const tt_coll_call *call)
{
    const int64_t n = call->group.n, others = n - 1;
    return tt_coll_path_of(call, 2 * others, others * (n + 1), others * n);
}

static tt_coll_path path_broadcast(const tt_coll_call *call)
{
    const int64_t n = call->group.n, others = n - 1;
    return tt_coll_path_of(call, others, others * n, 0);
}

static tt_coll_path path_all_gather(const tt_coll_call *call)
{
    const int64_t n = call->group.n, others = n - 1;
    return tt_coll_path_of(call, 2 * others, others * (n + 1), 0);
}

static tt_coll_path path_blocks(const tt_coll_call *call)
{
    const int64_t others = call->group.n - 1;
    return tt_coll_path_of(call, others, others, 0);
}

static tt_coll_path path_barrier(const tt_coll_call *call)
{
    return tt_coll_path_of(call, 2 * (int64_t)(call->group.n - 1), 0, 0);
}

const tt_coll_def tt_coll_naive = {
    .name = "naive",
    .doc = "Everything through one member: the reference.",
    .is_ordered = true,
    .way = {[TT_ALL_REDUCE] = {all_reduce, cost_all_reduce, 0, path_all_reduce},
            [TT_REDUCE_TO] = {reduce, cost_reduce, 1, path_reduce},
            [TT_BROADCAST] = {broadcast, cost_broadcast, 0, path_broadcast},
            [TT_REDUCE_SCATTER] = {reduce_scatter, cost_reduce_scatter, 1,
                                   path_reduce_scatter},
            [TT_ALL_GATHER] = {all_gather, cost_all_gather, 0, path_all_gather},
            [TT_GATHER] = {gather, cost_gather, 0, path_blocks},
            [TT_SCATTER] = {scatter, cost_scatter, 0, path_blocks},
            [TT_ALL_TO_ALL] = {all_to_all, cost_all_to_all, 0, path_blocks},
            [TT_BARRIER] = {barrier, cost_barrier, 0, path_barrier}},
};
