// ranks_clock - the times of all ranks by rank 0's clock. Internal to the report.
//
// Two comparisons of clocks and a straight line between them: clocks of different
// hosts run apart by up to 0.1 ms in every second.

#ifndef TT_TRAIN_RANKS_CLOCK_H
#define TT_TRAIN_RANKS_CLOCK_H

#include "base/arena.h"
#include "exec/wire/wire.h"

typedef struct tt_ranks_clock {
    tt_comm_wire *wire;
    int32_t size;
    struct tt_clock_bound *bound;
    double *offset, *before; // per rank: newest, and the one before
    double zero;             // rank 0's time when it was opened
    double when, when_before;
    double error;  // seconds by which a common time may be wrong
    bool is_apart; // some rank has another clock than rank 0
} tt_ranks_clock;

extern const char tt__ranks_call[]; // what collectives of the report are called

// All ranks together, all of them.
tt_status tt__ranks_report_clock_open(tt_ranks_clock *clock, tt_comm_wire *wire,
                                      tt_arena *arena);
// Compares again where clocks differ, now and then or at once.
tt_status tt__ranks_report_clock_again(tt_ranks_clock *clock, bool at_once);

// What rank `r` calls `t`, by rank 0's clock.
double tt__ranks_report_clock_common(const tt_ranks_clock *clock, int32_t r,
                                     double t);

#endif
