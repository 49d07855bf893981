// tree - a binomial tree: few messages in a row, whole data on every edge.
//
//   reduce, broadcast   log2 n rounds of all the data
//   gather, scatter     log2 n rounds; an edge carries its subtree's blocks
//
// Members are counted from the root. Member v's children are v + 1, v + 2, v + 4,
// ... below its own lowest bit, and the subtree of v + m is [v + m, v + 2m). So a
// subtree is a range of indices, and its blocks lie side by side in scratch memory.
//
//   8 members    0 --+-- 1
//                    +-- 2 ----- 3          parent of v: v without its lowest bit
//                    +-- 4 --+-- 5
//                            +-- 6 ----- 7
//
// Sums go from the leaves up, broadcasts from the root down, the largest subtree first
// so that it can begin early. The root's links carry log2 n times the data, so this is
// for small arrays, and for kinds with a root, which a ring does not have.

#include "comm/coll/coll.h"

// Index counted from the root, and back.
static int32_t relative(const tt_coll_call *call, int32_t root)
{
    const tt_group *g = &call->group;
    return (g->me - root + g->n) % g->n;
}

static int32_t member(const tt_coll_call *call, int32_t root, int32_t v)
{
    return (v + root) % call->group.n;
}

// The reach of v: its children are at distances below it.
static int32_t reach(const tt_coll_call *call, int32_t v)
{
    int32_t m = 1;
    while (m < call->group.n && (v & m) == 0)
        m *= 2;
    return m;
}

static int32_t parent(int32_t v)
{
    return v & (v - 1);
}

static tt_status fold_up(tt_comm *comm, const tt_coll_call *call, int32_t root,
                         void *sum)
{
    const int32_t v = relative(call, root), most = reach(call, v);
    tt_coll_copy(call, sum, call->in, call->count);
    for (int32_t m = 1; m < most && v + m < call->group.n; m *= 2) {
        tt_msg in =
            tt_coll_add(call, member(call, root, v + m), sum, call->count);
        TT_TRY(tt_comm_swap(comm, NULL, &in));
    }
    if (v == 0)
        return TT_OK;
    tt_msg out =
        tt_coll_out(call, member(call, root, parent(v)), sum, call->count);
    return tt_comm_swap(comm, &out, NULL);
}

static tt_status send_down(tt_comm *comm, const tt_coll_call *call,
                           int32_t root)
{
    const int32_t v = relative(call, root);
    if (v > 0) {
        tt_msg in = tt_coll_in(call, member(call, root, parent(v)), call->out,
                               call->count);
        TT_TRY(tt_comm_swap(comm, NULL, &in));
    }
    for (int32_t m = reach(call, v) / 2; m > 0; m /= 2) {
        if (v + m >= call->group.n)
            continue;
        tt_msg out = tt_coll_out(call, member(call, root, v + m), call->out,
                                 call->count);
        TT_TRY(tt_comm_swap(comm, &out, NULL));
    }
    return TT_OK;
}

static tt_status all_reduce(tt_comm *comm, const tt_coll_call *call)
{
    TT_TRY(fold_up(comm, call, 0, call->out));
    return send_down(comm, call, 0);
}

static tt_status reduce(tt_comm *comm, const tt_coll_call *call)
{
    const bool is_root = call->group.me == call->root;
    return fold_up(comm, call, call->root, is_root ? call->out : call->scratch);
}

static tt_status broadcast(tt_comm *comm, const tt_coll_call *call)
{
    return send_down(comm, call, call->root);
}

// ---- blocks, in the order counted from the root --------------------------

// Elements of the blocks [from, to) counted from the root.
static int64_t between(const tt_coll_call *call, int32_t from, int32_t to)
{
    int64_t n = 0;
    for (int32_t v = from; v < to && v < call->group.n; v++)
        n += tt_coll_block(call, member(call, call->root, v)).n;
    return n;
}

static void *place(const tt_coll_call *call, int32_t v)
{
    return tt_coll_at(call, call->scratch, between(call, 0, v));
}

static tt_status gather(tt_comm *comm, const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    const int32_t v = relative(call, call->root), most = reach(call, v);
    tt_coll_copy(call, place(call, v), call->in, between(call, v, v + 1));
    for (int32_t m = 1; m < most && v + m < g->n; m *= 2) {
        tt_msg in =
            tt_coll_in(call, member(call, call->root, v + m),
                       place(call, v + m), between(call, v + m, v + 2 * m));
        TT_TRY(tt_comm_swap(comm, NULL, &in));
    }
    if (v > 0) {
        tt_msg out = tt_coll_out(call, member(call, call->root, parent(v)),
                                 place(call, v), between(call, v, v + most));
        return tt_comm_swap(comm, &out, NULL);
    }
    for (int32_t i = 0; i < g->n; i++) {
        const tt_block b = tt_coll_block(call, member(call, call->root, i));
        tt_coll_copy(call, tt_coll_to(call, b.first), place(call, i), b.n);
    }
    return TT_OK;
}

static tt_status scatter(tt_comm *comm, const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    const int32_t v = relative(call, call->root), most = reach(call, v);
    for (int32_t i = 0; v == 0 && i < g->n; i++) {
        const tt_block b = tt_coll_block(call, member(call, call->root, i));
        tt_coll_copy(call, place(call, i), tt_coll_from(call, b.first), b.n);
    }
    if (v > 0) {
        tt_msg in = tt_coll_in(call, member(call, call->root, parent(v)),
                               place(call, v), between(call, v, v + most));
        TT_TRY(tt_comm_swap(comm, NULL, &in));
    }
    for (int32_t m = most / 2; m > 0; m /= 2) {
        if (v + m >= g->n)
            continue;
        tt_msg out =
            tt_coll_out(call, member(call, call->root, v + m),
                        place(call, v + m), between(call, v + m, v + 2 * m));
        TT_TRY(tt_comm_swap(comm, &out, NULL));
    }
    tt_coll_copy(call, call->out, place(call, v), between(call, v, v + 1));
    return TT_OK;
}

// ---- cost ----------------------------------------------------------------

static int32_t children(const tt_coll_call *call, int32_t v)
{
    int32_t n = 0;
    for (int32_t m = 1; m < reach(call, v) && v + m < call->group.n; m *= 2)
        n++;
    return n;
}

static tt_coll_cost cost(const tt_coll_call *call, int64_t messages, int64_t n)
{
    return (tt_coll_cost){messages, tt_coll_bytes(call, n)};
}

static tt_coll_cost cost_reduce(const tt_coll_call *call)
{
    const int64_t sends = relative(call, call->root) > 0;
    return cost(call, sends, sends * call->count);
}

static tt_coll_cost cost_broadcast(const tt_coll_call *call)
{
    const int64_t n = children(call, relative(call, call->root));
    return cost(call, n, n * call->count);
}

static tt_coll_cost cost_all_reduce(const tt_coll_call *call)
{
    const int32_t v = relative(call, 0);
    const int64_t n = children(call, v) + (v > 0);
    return cost(call, n, n * call->count);
}

static tt_coll_cost cost_gather(const tt_coll_call *call)
{
    const int32_t v = relative(call, call->root);
    return cost(call, v > 0, v > 0 ? between(call, v, v + reach(call, v)) : 0);
}

// Everything that is handed on: the subtree without the member itself.
static tt_coll_cost cost_scatter(const tt_coll_call *call)
{
    const int32_t v = relative(call, call->root);
    return cost(call, children(call, v),
                between(call, v + 1, v + reach(call, v)));
}

static tt_coll_path path_all_reduce(const tt_coll_call *call)
{
    const int64_t n = call->group.n, rounds = tt_coll_log2(call->group.n);
    return tt_coll_path_of(call, 2 * rounds, 2 * rounds * n, rounds * n);
}

static tt_coll_path path_reduce(const tt_coll_call *call)
{
    const int64_t n = call->group.n, rounds = tt_coll_log2(call->group.n);
    return tt_coll_path_of(call, rounds, rounds * n, rounds * n);
}

static tt_coll_path path_broadcast(const tt_coll_call *call)
{
    const int64_t n = call->group.n, rounds = tt_coll_log2(call->group.n);
    return tt_coll_path_of(call, rounds, rounds * n, 0);
}

static tt_coll_path path_blocks(const tt_coll_call *call)
{
    const int64_t rounds = tt_coll_log2(call->group.n);
    return tt_coll_path_of(call, rounds, call->group.n - 1, 0);
}

const tt_coll_def tt_coll_tree = {
    .name = "tree",
    .doc = "A binomial tree: few messages, one after another.",
    .way = {[TT_ALL_REDUCE] = {all_reduce, cost_all_reduce, 0, path_all_reduce},
            [TT_REDUCE_TO] = {reduce, cost_reduce, 1, path_reduce},
            [TT_BROADCAST] = {broadcast, cost_broadcast, 0, path_broadcast},
            [TT_GATHER] = {gather, cost_gather, 1, path_blocks},
            [TT_SCATTER] = {scatter, cost_scatter, 1, path_blocks}},
};
