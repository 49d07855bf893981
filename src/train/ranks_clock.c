#include "train/ranks_clock.h"

#include "base/clock.h"
#include "comm/clock_sync.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 20 };
static const double again_after = 5; // seconds
const char tt__ranks_call[] = "measuring";

static tt_status call_wire(void *user, const tt_coll_call *call)
{
    const tt_ranks_clock *c = user;
    return tt_comm_wire_call(c->wire, tt__ranks_call, call);
}

static double now(void *user)
{
    (void)user;
    return tt_clock_seconds();
}

static tt_status compare(tt_ranks_clock *c, int rounds)
{
    const tt_clock_peers peers = {tt_comm_wire_rank(c->wire), c->size,
                                  call_wire, now, c};
    double when = 0;
    TT_TRY(tt_clock_sync(&peers, rounds, c->bound, &when));
    if (when == 0)
        return TT_OK;
    memcpy(c->before, c->offset, (size_t)c->size * sizeof *c->before);
    c->when_before = c->when;
    c->when = when;
    c->error = 0;
    for (int32_t r = 0; r < c->size; r++) {
        c->offset[r] = tt_clock_bound_offset(&c->bound[r]);
        if (c->offset[r] == 0)
            continue;
        c->is_apart = true;
        c->error = fmax(c->error, (c->bound[r].high - c->bound[r].low) / 2);
    }
    return TT_OK;
}

tt_status tt__ranks_report_clock_open(tt_ranks_clock *c, tt_comm_wire *wire,
                                      tt_arena *arena)
{
    const int64_t n = tt_comm_wire_size(wire);
    *c = (tt_ranks_clock){.wire = wire, .size = (int32_t)n};
    c->bound = tt_arena_alloc(arena, n * (int64_t)sizeof *c->bound);
    c->offset = tt_arena_alloc(arena, n * (int64_t)sizeof(double));
    c->before = tt_arena_alloc(arena, n * (int64_t)sizeof(double));
    if (c->bound == NULL || c->offset == NULL || c->before == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(compare(c, ROUNDS));
    c->zero = c->when;
    return TT_OK;
}

// Rank 0's clock decides when to compare again. The others take part in the call,
// whose first message tells them whether there is anything to do.
tt_status tt__ranks_report_clock_again(tt_ranks_clock *c, bool at_once)
{
    const bool is_due = at_once || tt_clock_seconds() - c->when > again_after;
    return c->is_apart ? compare(c, is_due ? ROUNDS : 0) : TT_OK;
}

// The offset is interpolated between the last two comparisons, since clocks drift.
double tt__ranks_report_clock_common(const tt_ranks_clock *c, int32_t r,
                                     double t)
{
    const double to = c->offset[r], from = c->before[r];
    if (c->when_before == 0)
        return t - to;
    const double along = (t - to - c->when_before) / (c->when - c->when_before);
    return t - (from + (to - from) * fmin(fmax(along, 0), 1));
}
