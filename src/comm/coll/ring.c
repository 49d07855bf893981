// ring - members in a circle, each sends to the next: as few bytes as possible.
//
// The problem. In an all-reduce of D bytes each of n members must send at least
// 2 D (n-1)/n bytes. A tree sends D on each edge, and its root is a bottleneck.
//
// The idea. The array is cut into n blocks. In each of n-1 rounds every member sends
// one block to the next member, which adds its own part to it. All links are busy all
// the time, and each carries the least that is possible. After these rounds each
// member has one block complete (reduce-scatter); n-1 more rounds pass the complete
// blocks on (all-gather).
//
//   3 members, blocks a b c, reduce-scatter: who sends which block in which round
//
//              round 0        round 1              has at the end
//   member 0   c  -> 1        b+   -> 1            a
//   member 1   a  -> 2        c+   -> 2            b
//   member 2   b  -> 0        a+   -> 0            c
//
//   all_reduce       2(n-1) messages, 2(n-1)/n of the data
//   reduce_scatter   n-1 messages, (n-1)/n of the data; all_gather as well
//   all_to_all       n-1 messages: to the k-th next, from the k-th before
//   source           Patarasuk and Yuan 2009
//
// The cost is latency: the number of rounds grows with n. Each block is summed starting
// at another member, so the order of a sum depends on the block's index. That order is
// fixed, but it is not the one of pairs.h, so tt_coll_choose does not take rings for
// sums. (Hierarchical has them between hosts.)

#include "comm/coll/coll.h"

static int32_t wrap(const tt_group *g, int32_t i)
{
    return (i % g->n + g->n) % g->n;
}

static tt_block block(const tt_coll_call *call, int32_t i)
{
    const tt_group *g = &call->group;
    return tt_coll_block(call, wrap(g, i));
}

// The first half: n-1 rounds of send and add. Member m ends with the fold of block
// m + shift in `to`. `to` has room for all blocks; those that passed through are left
// there half folded. The first block that is sent is this member's input as it is.
static tt_status fold_around(tt_comm *comm, const tt_coll_call *call, void *to,
                             int32_t shift)
{
    const tt_group *g = &call->group;
    for (int32_t s = 0; s < g->n - 1; s++) {
        const tt_block b = block(call, g->me + shift - 1 - s);
        const tt_block a = block(call, g->me + shift - 2 - s);
        const void *from = s == 0 ? tt_coll_from(call, b.first)
                                  : tt_coll_at(call, to, b.first);
        void *at = tt_coll_at(call, to, a.first);
        tt_coll_copy(call, at, tt_coll_from(call, a.first), a.n);
        tt_msg out = tt_coll_out(call, wrap(g, g->me + 1), from, b.n);
        tt_msg in = tt_coll_add(call, wrap(g, g->me - 1), at, a.n);
        TT_TRY(tt_comm_swap(comm, &out, &in));
    }
    return TT_OK;
}

// The second half: complete blocks go round. Member m begins with block m + shift in
// out and in each round passes on what it got in the one before.
static tt_status pass_around(tt_comm *comm, const tt_coll_call *call,
                             int32_t shift)
{
    const tt_group *g = &call->group;
    for (int32_t s = 0; s < g->n - 1; s++) {
        const tt_block b = block(call, g->me + shift - s);
        const tt_block a = block(call, g->me + shift - 1 - s);
        tt_msg out = tt_coll_out(call, wrap(g, g->me + 1),
                                 tt_coll_to(call, b.first), b.n);
        tt_msg in = tt_coll_in(call, wrap(g, g->me - 1),
                               tt_coll_to(call, a.first), a.n);
        TT_TRY(tt_comm_swap(comm, &out, &in));
    }
    return TT_OK;
}

static tt_status all_reduce(tt_comm *comm, const tt_coll_call *call)
{
    if (call->group.n == 1)
        tt_coll_copy(call, call->out, call->in, call->count);
    TT_TRY(fold_around(comm, call, call->out, 1));
    return pass_around(comm, call, 1);
}

static tt_status reduce_scatter(tt_comm *comm, const tt_coll_call *call)
{
    const tt_block mine = block(call, call->group.me);
    const void *from = call->in;
    TT_TRY(fold_around(comm, call, call->scratch, 0));
    if (call->group.n > 1)
        from = tt_coll_at(call, call->scratch, mine.first);
    tt_coll_copy(call, call->out, from, mine.n);
    return TT_OK;
}

static tt_status all_gather(tt_comm *comm, const tt_coll_call *call)
{
    const tt_block mine = block(call, call->group.me);
    tt_coll_copy(call, tt_coll_to(call, mine.first), call->in, mine.n);
    return pass_around(comm, call, 0);
}

static tt_status all_to_all(tt_comm *comm, const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    const tt_block mine = block(call, g->me);
    tt_coll_copy(call, tt_coll_to(call, g->me * mine.n),
                 tt_coll_from(call, mine.first), mine.n);
    for (int32_t s = 1; s < g->n; s++) {
        const int32_t to = wrap(g, g->me + s), from = wrap(g, g->me - s);
        const tt_block b = block(call, to);
        tt_msg out = tt_coll_out(call, to, tt_coll_from(call, b.first), b.n);
        tt_msg in =
            tt_coll_in(call, from, tt_coll_to(call, from * mine.n), mine.n);
        TT_TRY(tt_comm_swap(comm, &out, &in));
    }
    return TT_OK;
}

// ---- cost: all blocks but one, each time ---------------------------------

// Blocks may differ in size, so it matters which one a member does not send.

static tt_coll_cost around(const tt_coll_call *call, int32_t but)
{
    const int32_t n = call->group.n;
    return (tt_coll_cost){
        n - 1,
        tt_coll_bytes(call, n == 1 ? 0 : call->count - block(call, but).n)};
}

static tt_coll_cost cost_reduce_scatter(const tt_coll_call *call)
{
    return around(call, call->group.me);
}

static tt_coll_cost cost_all_gather(const tt_coll_call *call)
{
    return around(call, call->group.me + 1);
}

static tt_coll_cost cost_all_reduce(const tt_coll_call *call)
{
    const tt_coll_cost a = around(call, call->group.me + 1);
    const tt_coll_cost b = around(call, call->group.me + 2);
    return (tt_coll_cost){a.messages + b.messages, a.bytes + b.bytes};
}

static tt_coll_path path_all_reduce(const tt_coll_call *call)
{
    const int64_t others = call->group.n - 1;
    return tt_coll_path_of(call, 2 * others, 2 * others, others);
}

static tt_coll_path path_reduce_scatter(const tt_coll_call *call)
{
    const int64_t others = call->group.n - 1;
    return tt_coll_path_of(call, others, others, others);
}

static tt_coll_path path_move(const tt_coll_call *call)
{
    const int64_t others = call->group.n - 1;
    return tt_coll_path_of(call, others, others, 0);
}

const tt_coll_def tt_coll_ring = {
    .name = "ring",
    .doc = "In a circle, in blocks: the fewest bytes, many messages.",
    .way = {[TT_ALL_REDUCE] = {all_reduce, cost_all_reduce, 0, path_all_reduce},
            [TT_REDUCE_SCATTER] = {reduce_scatter, cost_reduce_scatter, 1,
                                   path_reduce_scatter},
            [TT_ALL_GATHER] = {all_gather, cost_all_gather, 0, path_move},
            [TT_ALL_TO_ALL] = {all_to_all, cost_reduce_scatter, 0, path_move}},
};
