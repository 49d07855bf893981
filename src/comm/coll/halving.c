// halving - recursive halving, then doubling: few rounds and few bytes.
//
// A ring sends the least bytes in n-1 rounds. A butterfly has log2 n rounds but sends
// everything in each. This has both advantages: in each round a member keeps one half
// of what it still has, gives the other half to its partner and adds the partner's
// half. The distance halves too, n/2, n/4, ..., so each round has half the data of the
// one before. The all-gather is the same backwards.
//
//   4 members, blocks a b c d
//              distance 2          distance 1      has at the end
//   member 0   keep ab, give cd    keep a          a
//   member 1   keep ab, give cd    keep b          b
//   member 2   keep cd, give ab    keep c          c
//   member 3   keep cd, give ab    keep d          d
//
//   reduce_scatter   log2 n rounds, half of what is left each time
//   all_gather       the same backwards
//   all_reduce       both (Rabenseifner)
//   source           Thakur, Rabenseifner and Gropp 2005
//
// When n is no power of two, let p be the largest power below it and r = n - p. Of the
// first 2r members the odd ones hand their data to the even member before them and get
// their result at the end. The even ones and all other members are *active*: p of them.
// Active member v stands for its own block and, where it has a partner, for the
// partner's block too. This costs two more rounds, one of them with all the data.

#include "comm/coll/coll.h"

typedef struct crowd {
    int32_t p, r; // actives; pairs at the beginning
} crowd;

static crowd crowd_of(int32_t n)
{
    int32_t p = 1;
    while (2 * p <= n)
        p *= 2;
    return (crowd){p, n - p};
}

static bool is_active(crowd c, int32_t m)
{
    return m >= 2 * c.r || m % 2 == 0;
}

static bool has_partner(crowd c, int32_t m)
{
    return m < 2 * c.r && m % 2 == 0;
}

static int32_t active_of(crowd c, int32_t m)
{
    return m < 2 * c.r ? m / 2 : m - c.r;
}

// Active v's member, which is also its first block; v = p: one past the last.
static int32_t member_of(crowd c, int32_t v)
{
    return v < c.r ? 2 * v : v + c.r;
}

// Elements of the blocks that actives [v, v + k) stand for.
static tt_block held(const tt_coll_call *call, crowd c, int32_t v, int32_t k)
{
    const int32_t first = member_of(c, v);
    return tt_coll_blocks(call, first, member_of(c, v + k) - first);
}

// From whole data to this active's blocks, folded.
static tt_status halve(tt_comm *comm, const tt_coll_call *call, crowd c,
                       void *data)
{
    const int32_t v = active_of(c, call->group.me);
    for (int32_t m = c.p / 2; m > 0; m /= 2) {
        const int32_t base = v / (2 * m) * (2 * m);
        const bool is_low = v < base + m;
        const tt_block low = held(call, c, base, m);
        const tt_block high = held(call, c, base + m, m);
        const tt_block keep = is_low ? low : high;
        const tt_block give = is_low ? high : low;
        const int32_t with = member_of(c, v ^ m);
        tt_msg out =
            tt_coll_out(call, with, tt_coll_at(call, data, give.first), give.n);
        tt_msg in =
            tt_coll_add(call, with, tt_coll_at(call, data, keep.first), keep.n);
        TT_TRY(tt_comm_swap(comm, &out, &in));
    }
    return TT_OK;
}

// And back: from this active's blocks in out to all of them.
static tt_status redouble(tt_comm *comm, const tt_coll_call *call, crowd c)
{
    const int32_t v = active_of(c, call->group.me);
    for (int32_t m = 1; m < c.p; m *= 2) {
        const int32_t base = v / m * m;
        const tt_block have = held(call, c, base, m);
        const tt_block want = held(call, c, base ^ m, m);
        const int32_t with = member_of(c, v ^ m);
        tt_msg out =
            tt_coll_out(call, with, tt_coll_to(call, have.first), have.n);
        tt_msg in =
            tt_coll_in(call, with, tt_coll_to(call, want.first), want.n);
        TT_TRY(tt_comm_swap(comm, &out, &in));
    }
    return TT_OK;
}

// The partner's data are folded into `data` of the active one.
static tt_status join(tt_comm *comm, const tt_coll_call *call, crowd c,
                      void *data)
{
    const int32_t me = call->group.me;
    if (!is_active(c, me)) {
        tt_msg out = tt_coll_out(call, me - 1, call->in, call->count);
        return tt_comm_swap(comm, &out, NULL);
    }
    tt_coll_copy(call, data, call->in, call->count);
    if (!has_partner(c, me))
        return TT_OK;
    tt_msg in = tt_coll_add(call, me + 1, data, call->count);
    return tt_comm_swap(comm, NULL, &in);
}

// The partner gets the result from its active member.
static tt_status hand_over(tt_comm *comm, const tt_coll_call *call, crowd c,
                           const void *data, int64_t n)
{
    const int32_t me = call->group.me;
    if (!is_active(c, me)) {
        tt_msg in = tt_coll_in(call, me - 1, call->out, n);
        return tt_comm_swap(comm, NULL, &in);
    }
    if (!has_partner(c, me))
        return TT_OK;
    tt_msg out = tt_coll_out(call, me + 1, data, n);
    return tt_comm_swap(comm, &out, NULL);
}

static tt_status all_reduce(tt_comm *comm, const tt_coll_call *call)
{
    const crowd c = crowd_of(call->group.n);
    TT_TRY(join(comm, call, c, call->out));
    if (is_active(c, call->group.me)) {
        TT_TRY(halve(comm, call, c, call->out));
        TT_TRY(redouble(comm, call, c));
    }
    return hand_over(comm, call, c, call->out, call->count);
}

static tt_status reduce_scatter(tt_comm *comm, const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    const crowd c = crowd_of(g->n);
    const tt_block mine = tt_coll_block(call, g->me);
    TT_TRY(join(comm, call, c, call->scratch));
    if (!is_active(c, g->me))
        return hand_over(comm, call, c, NULL, mine.n);
    TT_TRY(halve(comm, call, c, call->scratch));
    tt_coll_copy(call, call->out, tt_coll_at(call, call->scratch, mine.first),
                 mine.n);
    if (!has_partner(c, g->me))
        return TT_OK;
    const tt_block next = tt_coll_block(call, g->me + 1);
    return hand_over(comm, call, c, tt_coll_at(call, call->scratch, next.first),
                     next.n);
}

static tt_status all_gather(tt_comm *comm, const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    const crowd c = crowd_of(g->n);
    const tt_block mine = tt_coll_block(call, g->me);
    if (!is_active(c, g->me)) {
        tt_msg out = tt_coll_out(call, g->me - 1, call->in, mine.n);
        TT_TRY(tt_comm_swap(comm, &out, NULL));
        return hand_over(comm, call, c, NULL, call->count);
    }
    tt_coll_copy(call, tt_coll_to(call, mine.first), call->in, mine.n);
    if (has_partner(c, g->me)) {
        const tt_block next = tt_coll_block(call, g->me + 1);
        tt_msg in =
            tt_coll_in(call, g->me + 1, tt_coll_to(call, next.first), next.n);
        TT_TRY(tt_comm_swap(comm, NULL, &in));
    }
    TT_TRY(redouble(comm, call, c));
    return hand_over(comm, call, c, call->out, call->count);
}

// ---- cost ----------------------------------------------------------------

static tt_coll_cost add(tt_coll_cost a, int64_t messages, int64_t bytes)
{
    return (tt_coll_cost){a.messages + messages, a.bytes + bytes};
}

// Halving gives away everything but the own blocks.
static tt_coll_cost cost_halve(const tt_coll_call *call, crowd c)
{
    const int32_t v = active_of(c, call->group.me);
    int64_t rounds = 0;
    for (int32_t m = 1; m < c.p; m *= 2)
        rounds++;
    return (tt_coll_cost){
        rounds, tt_coll_bytes(call, call->count - held(call, c, v, 1).n)};
}

// Doubling sends the own blocks, then twice as many, ...
static tt_coll_cost cost_redouble(const tt_coll_call *call, crowd c)
{
    const int32_t v = active_of(c, call->group.me);
    tt_coll_cost cost = {0};
    for (int32_t m = 1; m < c.p; m *= 2)
        cost = add(cost, 1, tt_coll_bytes(call, held(call, c, v / m * m, m).n));
    return cost;
}

static tt_coll_cost cost_all_reduce(const tt_coll_call *call)
{
    const crowd c = crowd_of(call->group.n);
    const int64_t whole = tt_coll_bytes(call, call->count);
    if (!is_active(c, call->group.me))
        return (tt_coll_cost){1, whole};
    const bool pair = has_partner(c, call->group.me);
    const tt_coll_cost a = cost_halve(call, c);
    const tt_coll_cost b = cost_redouble(call, c);
    return add(add(a, b.messages, b.bytes), pair, pair * whole);
}

static tt_coll_cost cost_reduce_scatter(const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    const crowd c = crowd_of(g->n);
    if (!is_active(c, g->me))
        return (tt_coll_cost){1, tt_coll_bytes(call, call->count)};
    if (!has_partner(c, g->me))
        return cost_halve(call, c);
    const int64_t next = tt_coll_block(call, g->me + 1).n;
    return add(cost_halve(call, c), 1, tt_coll_bytes(call, next));
}

static tt_coll_cost cost_all_gather(const tt_coll_call *call)
{
    const tt_group *g = &call->group;
    const crowd c = crowd_of(g->n);
    const int64_t mine = tt_coll_block(call, g->me).n;
    if (!is_active(c, g->me))
        return (tt_coll_cost){1, tt_coll_bytes(call, mine)};
    const bool pair = has_partner(c, g->me);
    return add(cost_redouble(call, c), pair,
               pair * tt_coll_bytes(call, call->count));
}

// Pairs at the beginning cost two more rounds: all the data, and what is heard back.
static tt_coll_path path(const tt_coll_call *call, int64_t times, bool is_fold,
                         int64_t back_n)
{
    const crowd c = crowd_of(call->group.n);
    const int64_t n = call->group.n, rounds = times * tt_coll_log2(c.p);
    const int64_t in_n = is_fold ? n : 1;
    const int64_t more = c.r > 0 ? in_n + back_n : 0;
    const int64_t folds = is_fold ? n - 1 + (c.r > 0 ? n : 0) : 0;
    return tt_coll_path_of(call, rounds + (c.r > 0 ? 2 : 0),
                           times * (n - 1) + more, folds);
}

static tt_coll_path path_all_reduce(const tt_coll_call *call)
{
    return path(call, 2, true, call->group.n);
}

static tt_coll_path path_reduce_scatter(const tt_coll_call *call)
{
    return path(call, 1, true, 1);
}

static tt_coll_path path_all_gather(const tt_coll_call *call)
{
    return path(call, 1, false, call->group.n);
}

const tt_coll_def tt_coll_halving = {
    .name = "halving",
    .doc = "Recursive halving and doubling: few rounds, few bytes.",
    .way = {[TT_ALL_REDUCE] = {all_reduce, cost_all_reduce, 0, path_all_reduce},
            [TT_REDUCE_SCATTER] = {reduce_scatter, cost_reduce_scatter, 1,
                                   path_reduce_scatter},
            [TT_ALL_GATHER] = {all_gather, cost_all_gather, 0,
                               path_all_gather}},
};
