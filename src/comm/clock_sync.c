// clock_sync - see clock_sync.h.

#include "comm/clock_sync.h"

#include "base/alloc.h"

#include <math.h>

void tt_clock_bound_add(tt_clock_bound *bound, double asked, double shown,
                        double answered)
{
    bound->low = fmax(bound->low, shown - answered);
    bound->high = fmin(bound->high, shown - asked);
}

double tt_clock_bound_offset(const tt_clock_bound *bound)
{
    const double middle = (bound->low + bound->high) / 2;
    const bool is_one_clock = bound->low <= 0 && bound->high >= 0;
    return is_one_clock || !isfinite(middle) ? 0 : middle;
}

static tt_status broadcast(const tt_clock_peers *peers, double *data, int64_t n)
{
    const tt_coll_call call = {.kind = TT_BROADCAST,
                               .fold = {TT_FOLD_COPY, TT_NUM_F64},
                               .count = n,
                               .in = data,
                               .out = data};
    return peers->call(peers->user, &call);
}

// Every rank's time, in `all` on rank 0.
static tt_status gather_times(const tt_clock_peers *peers, double *all)
{
    const double mine = peers->now(peers->user);
    const tt_coll_call call = {.kind = TT_GATHER,
                               .fold = {TT_FOLD_COPY, TT_NUM_F64},
                               .count = peers->size,
                               .in = &mine,
                               .out = all};
    return peers->call(peers->user, &call);
}

static tt_status ask(const tt_clock_peers *peers, int rounds, double *shown,
                     tt_clock_bound *bound)
{
    double more = 1;
    for (int32_t r = 0; r < peers->size; r++)
        bound[r] = TT_CLOCK_UNKNOWN;
    for (int i = 0; i < rounds; i++) {
        const double asked = peers->now(peers->user);
        TT_TRY(broadcast(peers, &more, 1));
        TT_TRY(gather_times(peers, shown));
        const double answered = peers->now(peers->user);
        for (int32_t r = 0; r < peers->size; r++)
            tt_clock_bound_add(&bound[r], asked, shown[r], answered);
    }
    bound[0] = (tt_clock_bound){0, 0};
    more = 0;
    return broadcast(peers, &more, 1);
}

static tt_status answer(const tt_clock_peers *peers, double *shown,
                        int *rounds_out)
{
    double more = 1;
    int rounds = 0;
    for (;; rounds++) {
        TT_TRY(broadcast(peers, &more, 1));
        if (more == 0)
            break;
        TT_TRY(gather_times(peers, shown));
    }
    *rounds_out = rounds;
    return TT_OK;
}

// `room` holds a time and two bounds for every rank, and one number more.
static tt_status sync_in(const tt_clock_peers *peers, int rounds, double *room,
                         tt_clock_bound *bound_out, double *when_out)
{
    const int32_t n = peers->size;
    double *const told = room + n; // when, then low and high of every rank
    tt_clock_bound *const bound = (tt_clock_bound *)(told + 1);
    TT_TRY(peers->rank == 0 ? ask(peers, rounds, room, bound)
                            : answer(peers, room, &rounds));
    if (rounds == 0)
        return TT_OK;
    told[0] = peers->now(peers->user);
    TT_TRY(broadcast(peers, told, 1 + 2 * (int64_t)n));
    for (int32_t r = 0; r < n; r++)
        bound_out[r] = bound[r];
    *when_out = told[0];
    return TT_OK;
}

tt_status tt_clock_sync(const tt_clock_peers *peers, int rounds,
                        tt_clock_bound *bound_out, double *when_out)
{
    double *room =
        tt_alloc((1 + 3 * (int64_t)peers->size) * (int64_t)sizeof *room);
    if (room == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to compare clocks");
    const tt_status status = sync_in(peers, rounds, room, bound_out, when_out);
    tt_free(room);
    return status;
}
