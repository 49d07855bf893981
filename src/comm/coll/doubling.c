// doubling - partners at distances 1, 2, 4, ...: the fewest rounds, for small data.
//
// The problem. A small array costs almost only latency, and a ring has n-1 rounds or
// more.
//
// The idea. In round k each member exchanges all it has with the partner whose index
// differs in bit k. What a member knows doubles each time, so log2 n rounds are enough:
// a butterfly.
//
//   member      0     1     2     3
//   distance 1  0+1 = 0+1   2+3 = 2+3
//   distance 2  (0+1)+(2+3) on all four
//
//   all_reduce   log2 n rounds of all the data. When n is no power of two, the members
//                after the largest power give their data to a partner first and get
//                the result from it
//   all_gather   log2 n rounds, data that doubles (Bruck et al. 1997)
//   barrier      log2 n rounds of nothing (dissemination)
//
// Every round of an all_reduce carries the whole array, log2 n times in all, where a
// ring sends less than two arrays. So this loses for large arrays.

#include "comm/coll/coll.h"

static int32_t largest_power(int32_t n)
{
    int32_t p = 1;
    while (2 * p <= n)
        p *= 2;
    return p;
}

// Both partners compute lower + higher, in this order, and so get the same bits. (A
// maximum with a NaN, and the bits of a NaN, depend on the order.)
static tt_status meet(tt_comm *comm, const tt_coll_call *call, int32_t with)
{
    const int64_t bytes = tt_coll_bytes(call, call->count);
    tt_msg out = tt_coll_out(call, with, call->out, call->count);
    tt_msg in = tt_coll_in(call, with, call->scratch, call->count);
    TT_TRY(tt_comm_swap(comm, &out, &in));
    if (call->group.me < with) {
        tt_fold_into(call->fold, call->out, call->scratch, bytes);
    } else {
        tt_fold_into(call->fold, call->scratch, call->out, bytes);
        tt_coll_copy(call, call->out, call->scratch, call->count);
    }
    return TT_OK;
}

static tt_status all_reduce(tt_comm *comm, const tt_coll_call *call)
{
    const int32_t n = call->group.n, me = call->group.me;
    const int32_t p = largest_power(n), extra = n - p;
    tt_coll_copy(call, call->out, call->in, call->count);
    if (me >= p) {
        tt_msg out = tt_coll_out(call, me - p, call->out, call->count);
        TT_TRY(tt_comm_swap(comm, &out, NULL));
        tt_msg in = tt_coll_in(call, me - p, call->out, call->count);
        return tt_comm_swap(comm, NULL, &in);
    }
    if (me < extra) {
        tt_msg in = tt_coll_add(call, me + p, call->out, call->count);
        TT_TRY(tt_comm_swap(comm, NULL, &in));
    }
    for (int32_t m = 1; m < p; m *= 2)
        TT_TRY(meet(comm, call, me ^ m));
    if (me >= extra)
        return TT_OK;
    tt_msg out = tt_coll_out(call, me + p, call->out, call->count);
    return tt_comm_swap(comm, &out, NULL);
}

// ---- blocks in the order that begins with this member's own --------------
//
// Bruck's all-gather keeps blocks in scratch memory in the order me, me + 1, ... So
// what is sent in a round is always the beginning of that memory, one message, also
// when n is no power of two. A last copy puts the blocks where they belong.

static int32_t turned(const tt_group *g, int32_t i)
{
    return (g->me + i) % g->n;
}

// Elements of the blocks [from, to) in that order.
static int64_t between(const tt_coll_call *call, int32_t from, int32_t to)
{
    const tt_group *g = &call->group;
    int64_t n = 0;
    for (int32_t i = from; i < to; i++)
        n += tt_coll_block(call, turned(g, i)).n;
    return n;
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static tt_status all_gather(tt_comm *comm, const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    tt_coll_copy(call, call->scratch, call->in, between(call, 0, 1));
    for (int32_t m = 1; m < g->n; m *= 2) {
        const int32_t k = least(m, g->n - m);
        tt_msg out = tt_coll_out(call, (g->me - m + g->n) % g->n, call->scratch,
                                 between(call, 0, k));
        tt_msg in =
            tt_coll_in(call, turned(g, m),
                       tt_coll_at(call, call->scratch, between(call, 0, m)),
                       between(call, m, m + k));
        TT_TRY(tt_comm_swap(comm, &out, &in));
    }
    for (int32_t i = 0; i < g->n; i++) {
        const tt_block b = tt_coll_block(call, turned(g, i));
        tt_coll_copy(call, tt_coll_to(call, b.first),
                     tt_coll_at(call, call->scratch, between(call, 0, i)), b.n);
    }
    return TT_OK;
}

static tt_status barrier(tt_comm *comm, const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    for (int32_t m = 1; m < g->n; m *= 2) {
        tt_msg out = tt_coll_out(call, turned(g, m), NULL, 0);
        tt_msg in = tt_coll_in(call, (g->me - m + g->n) % g->n, NULL, 0);
        TT_TRY(tt_comm_swap(comm, &out, &in));
    }
    return TT_OK;
}

// ---- cost ----------------------------------------------------------------

static tt_coll_cost cost_all_reduce(const tt_coll_call *call)
{
    const int32_t n = call->group.n, me = call->group.me;
    const int32_t p = largest_power(n);
    const int64_t messages = me >= p ? 1 : tt_coll_log2(p) + (me < n - p);
    return (tt_coll_cost){messages,
                          messages * tt_coll_bytes(call, call->count)};
}

static tt_coll_cost cost_all_gather(const tt_coll_call *call)
{
    const int32_t n = call->group.n;
    int64_t elements = 0;
    for (int32_t m = 1; m < n; m *= 2)
        elements += between(call, 0, least(m, n - m));
    return (tt_coll_cost){tt_coll_log2(n), tt_coll_bytes(call, elements)};
}

static tt_coll_cost cost_barrier(const tt_coll_call *call)
{
    return (tt_coll_cost){tt_coll_log2(call->group.n), 0};
}

static tt_coll_path path_all_reduce(const tt_coll_call *call)
{
    const int32_t n = call->group.n, p = largest_power(n);
    const int64_t folds = tt_coll_log2(p) + (p < n);
    const int64_t rounds = folds + (p < n);
    return tt_coll_path_of(call, rounds, rounds * n, folds * n);
}

static tt_coll_path path_all_gather(const tt_coll_call *call)
{
    const int32_t n = call->group.n;
    return tt_coll_path_of(call, tt_coll_log2(n), n - 1, 0);
}

static tt_coll_path path_barrier(const tt_coll_call *call)
{
    return tt_coll_path_of(call, tt_coll_log2(call->group.n), 0, 0);
}

const tt_coll_def tt_coll_doubling = {
    .name = "doubling",
    .doc = "Partners at distances 1, 2, 4, ...: the fewest rounds.",
    .way = {[TT_ALL_REDUCE] = {all_reduce, cost_all_reduce, 1, path_all_reduce},
            [TT_ALL_GATHER] = {all_gather, cost_all_gather, 1, path_all_gather},
            [TT_BARRIER] = {barrier, cost_barrier, 0, path_barrier}},
};
