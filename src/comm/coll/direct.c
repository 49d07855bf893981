// direct - everybody with everybody at once: the fewest rounds, folds in pairs of
// neighbours.
//
// On a network whose links do not disturb each other, or in shared memory, n-1
// messages at once take little longer than one. So each member sends block i directly
// to member i, who folds all n versions of its block. Then each member sends its
// complete block to all.
//
//   all_reduce       up to 4 KiB: one round of everything to everybody, each folds all
//                    of it. Above: block i to member i, who folds it and sends it to
//                    all: two rounds, as few bytes as a ring
//   reduce_scatter   one round, (n-1)/n of the data; all_gather, all_to_all as well
//   barrier          one round of nothing
//
// One member sees all versions of its block, so it can fold them in any order. It takes
// that of pairs.h, which does not depend on how many members there are (`is_ordered`).
// Exact mode uses such algorithms only.
//
// All sends are posted before the first receive, so nobody waits in a circle. Versions
// are received in the order of members. A late one holds up those after it, but only
// log2 n versions need scratch memory at a time instead of n. (16-bit floats whose sum
// is rounded once need all n.)

#include "comm/coll/pairs.h"

enum { SMALL_BYTES = 4096 };

// The messages of one round to all others, and room for as many from them.
typedef struct crowd {
    tt_msg *msg;   // member i's: [i] out, [n + i] in
    tt_msg **list; // those that are awaited
    int n;
} crowd;

static tt_status gather_crowd(crowd *c, tt_comm *comm, const tt_coll_call *call)
{
    const int64_t n = 2 * (int64_t)call->group.n;
    const int64_t each = (int64_t)(sizeof *c->msg + sizeof *c->list);
    c->msg = tt_comm_room(comm, TT_ROOM_MESSAGES, n * each);
    if (c->msg == NULL)
        return tt_fail(TT_ERR_NOMEM, "direct: no memory for %lld messages",
                       (long long)n);
    c->list = (tt_msg **)(c->msg + n);
    c->n = 0;
    return TT_OK;
}

static tt_status send_to(tt_comm *comm, const tt_coll_call *call, crowd *c,
                         int32_t i, tt_block b)
{
    tt_msg *msg = &c->msg[i];
    *msg = tt_coll_out(call, i, tt_coll_from(call, b.first), b.n);
    c->list[c->n++] = msg;
    return tt_comm_send(comm, msg);
}

static tt_status take_from(tt_comm *comm, const tt_coll_call *call, crowd *c,
                           int32_t i, tt_block b)
{
    tt_msg *msg = &c->msg[call->group.n + i];
    *msg = tt_coll_in(call, i, tt_coll_to(call, b.first), b.n);
    c->list[c->n++] = msg;
    return tt_comm_receive(comm, msg);
}

static tt_status wait_all(tt_comm *comm, crowd *c)
{
    const int n = c->n;
    c->n = 0;
    return tt_comm_wait(comm, c->list, n);
}

// Members count from the next one, so that not all begin with the same.
static int32_t turned(const tt_group *g, int32_t k)
{
    return (g->me + k) % g->n;
}

// Others' data one after another, `own` where it belongs among them.
static tt_status take_all(tt_comm *comm, const tt_coll_call *call,
                          tt__coll_pairs *pairs, const void *own, int64_t n)
{
    for (int32_t i = 0; i < call->group.n; i++) {
        bool adds = false;
        char *to = tt__pairs_next(pairs, &adds);
        tt_msg in =
            adds ? tt_coll_add(call, i, to, n) : tt_coll_in(call, i, to, n);
        if (i != call->group.me)
            TT_TRY(tt_comm_swap(comm, NULL, &in));
        else if (adds)
            tt_fold_into(call->fold, to, own, in.bytes);
        else
            tt_coll_copy(call, to, own, n);
        tt__pairs_took(pairs);
    }
    tt__pairs_finish(pairs);
    return TT_OK;
}

// Data that wait for their neighbours lie after the fold in scratch memory.
static tt_status fold_in_pairs(tt_comm *comm, const tt_coll_call *call,
                               const void *own, int64_t n, void *to)
{
    tt__coll_pairs pairs;
    char few[TT__PAIRS_BYTES];
    const int64_t used = to == call->scratch ? n : 0;
    const int64_t left = tt_coll_bytes(call, call->count - used);
    tt__pairs_room room = {comm, few, sizeof few};
    if (call->scratch != NULL && left >= room.bytes) {
        room.data = tt_coll_at(call, call->scratch, used);
        room.bytes = left;
    }
    TT_TRY(tt__pairs_begin(&pairs, call, n, to, room));
    return take_all(comm, call, &pairs, own, n);
}

static bool is_small(const tt_coll_call *call)
{
    return tt_coll_bytes(call, call->count) <= SMALL_BYTES;
}

static tt_status whole_to_all(tt_comm *comm, const tt_coll_call *call, crowd *c)
{
    const tt_block whole = {0, call->count};
    for (int32_t k = 1; k < call->group.n; k++)
        TT_TRY(send_to(comm, call, c, turned(&call->group, k), whole));
    TT_TRY(fold_in_pairs(comm, call, call->in, call->count, call->scratch));
    TT_TRY(wait_all(comm, c));
    tt_coll_copy(call, call->out, call->scratch, call->count);
    return TT_OK;
}

static tt_status blocks_to_all(tt_comm *comm, const tt_coll_call *call,
                               crowd *c)
{
    for (int32_t k = 1; k < call->group.n; k++) {
        const int32_t i = turned(&call->group, k);
        TT_TRY(send_to(comm, call, c, i, tt_coll_block(call, i)));
    }
    return TT_OK;
}

// This member's block in out to everybody, and theirs into out.
static tt_status share(tt_comm *comm, const tt_coll_call *call, crowd *c)
{
    tt_coll_call from_out = *call;
    from_out.in = call->out;
    const tt_block mine = tt_coll_block(call, call->group.me);
    for (int32_t k = 1; k < call->group.n; k++) {
        const int32_t i = turned(&call->group, k);
        TT_TRY(take_from(comm, call, c, i, tt_coll_block(call, i)));
    }
    for (int32_t k = 1; k < call->group.n; k++)
        TT_TRY(send_to(comm, &from_out, c, turned(&call->group, k), mine));
    return wait_all(comm, c);
}

static tt_status blocks_and_back(tt_comm *comm, const tt_coll_call *call,
                                 crowd *c)
{
    const tt_block mine = tt_coll_block(call, call->group.me);
    void *to = tt_coll_to(call, mine.first);
    void *sum = call->group.me == 0 ? to : call->scratch;
    TT_TRY(blocks_to_all(comm, call, c));
    TT_TRY(
        fold_in_pairs(comm, call, tt_coll_from(call, mine.first), mine.n, sum));
    tt_coll_copy(call, to, sum, mine.n);
    // The second round uses the same message structs, so the sends of the first must be
    // over.
    TT_TRY(wait_all(comm, c));
    return share(comm, call, c);
}

static tt_status all_reduce(tt_comm *comm, const tt_coll_call *call)
{
    crowd c;
    TT_TRY(gather_crowd(&c, comm, call));
    return is_small(call) ? whole_to_all(comm, call, &c)
                          : blocks_and_back(comm, call, &c);
}

static tt_status reduce_scatter(tt_comm *comm, const tt_coll_call *call)
{
    crowd c;
    const tt_block mine = tt_coll_block(call, call->group.me);
    TT_TRY(gather_crowd(&c, comm, call));
    TT_TRY(blocks_to_all(comm, call, &c));
    TT_TRY(fold_in_pairs(comm, call, tt_coll_from(call, mine.first), mine.n,
                         call->out));
    return wait_all(comm, &c);
}

static tt_status all_gather(tt_comm *comm, const tt_coll_call *call)
{
    crowd c;
    const tt_block mine = tt_coll_block(call, call->group.me);
    TT_TRY(gather_crowd(&c, comm, call));
    tt_coll_copy(call, tt_coll_to(call, mine.first), call->in, mine.n);
    return share(comm, call, &c);
}

static tt_status all_to_all(tt_comm *comm, const tt_coll_call *call)
{
    crowd c;
    const tt_group *g = &call->group;
    const tt_block mine = tt_coll_block(call, g->me);
    TT_TRY(gather_crowd(&c, comm, call));
    tt_coll_copy(call, tt_coll_to(call, g->me * mine.n),
                 tt_coll_from(call, mine.first), mine.n);
    for (int32_t k = 1; k < g->n; k++) {
        const int32_t i = turned(g, k);
        TT_TRY(take_from(comm, call, &c, i, (tt_block){i * mine.n, mine.n}));
    }
    TT_TRY(blocks_to_all(comm, call, &c));
    return wait_all(comm, &c);
}

static tt_status barrier(tt_comm *comm, const tt_coll_call *call)
{
    tt_coll_call nothing = *call;
    nothing.count = 0;
    nothing.bound = NULL;
    return all_to_all(comm, &nothing);
}

// ---- cost ----------------------------------------------------------------

static tt_coll_cost cost_of_blocks(const tt_coll_call *call)
{
    const int64_t mine = tt_coll_block(call, call->group.me).n;
    return (tt_coll_cost){call->group.n - 1,
                          tt_coll_bytes(call, call->count - mine)};
}

static tt_coll_cost cost_of_own(const tt_coll_call *call, int64_t n)
{
    const int64_t others = call->group.n - 1;
    return (tt_coll_cost){others, others * tt_coll_bytes(call, n)};
}

static tt_coll_cost cost_all_gather(const tt_coll_call *call)
{
    return cost_of_own(call, tt_coll_block(call, call->group.me).n);
}

static tt_coll_cost cost_all_reduce(const tt_coll_call *call)
{
    if (is_small(call))
        return cost_of_own(call, call->count);
    const tt_coll_cost a = cost_of_blocks(call), b = cost_all_gather(call);
    return (tt_coll_cost){a.messages + b.messages, a.bytes + b.bytes};
}

static tt_coll_cost cost_barrier(const tt_coll_call *call)
{
    return cost_of_own(call, 0);
}

// Messages that are posted together cost less latency than one after another.
static tt_coll_path path(const tt_coll_call *call, int rounds, bool is_fold)
{
    const int64_t n = call->group.n;
    const int64_t bytes =
        tt_coll_bytes(call, call->count - call->count / call->group.n);
    return (tt_coll_path){.rounds = rounds * (1 + (n - 2) / 4),
                          .bytes = rounds * bytes,
                          .folds = is_fold ? bytes : 0};
}

static tt_coll_path path_all_reduce(const tt_coll_call *call)
{
    tt_coll_path p = path(call, is_small(call) ? 1 : 2, true);
    if (is_small(call))
        p.bytes = p.folds =
            (call->group.n - 1) * tt_coll_bytes(call, call->count);
    return p;
}

static tt_coll_path path_reduce_scatter(const tt_coll_call *call)
{
    return path(call, 1, true);
}

static tt_coll_path path_move(const tt_coll_call *call)
{
    return path(call, 1, false);
}

const tt_coll_def tt_coll_direct = {
    .name = "direct",
    .doc = "Everybody with everybody at once: the fewest rounds.",
    .is_ordered = true,
    .way = {[TT_ALL_REDUCE] = {all_reduce, cost_all_reduce, 1, path_all_reduce},
            [TT_REDUCE_SCATTER] = {reduce_scatter, cost_of_blocks, 1,
                                   path_reduce_scatter},
            [TT_ALL_GATHER] = {all_gather, cost_all_gather, 0, path_move},
            [TT_ALL_TO_ALL] = {all_to_all, cost_of_blocks, 0, path_move},
            [TT_BARRIER] = {barrier, cost_barrier, 0, path_move}},
};
