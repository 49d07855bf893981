// clock_sync - how far every rank's clock is from rank 0's.
//
// Rank 0 asks, every rank answers with its time, rank 0 looks at its own again: what
// the other clock showed, it showed in between. Each round bounds the offset from
// both sides, and all rounds together leave at most the quickest way there and the
// quickest way back of doubt. Where 0 is possible it is believed: ranks of one host
// have one clock, and clocks that count from two hosts' starts never meet so closely.

#ifndef TT_COMM_CLOCK_SYNC_H
#define TT_COMM_CLOCK_SYNC_H

#include "comm/coll/coll.h"

#include <math.h>

typedef struct tt_clock_bound { // the offset lies between: theirs - rank 0's
    double low, high;
} tt_clock_bound;

#define TT_CLOCK_UNKNOWN ((tt_clock_bound){-HUGE_VAL, HUGE_VAL})

// One round: asked and answered by rank 0's clock, `shown` by the other.
void tt_clock_bound_add(tt_clock_bound *bound, double asked, double shown,
                        double answered);
double tt_clock_bound_offset(const tt_clock_bound *bound);

typedef struct tt_clock_peers {
    int32_t rank, size;
    // Carries a collective over all ranks out; group and tag are its business.
    tt_status (*call)(void *user, const tt_coll_call *call);
    double (*now)(void *user);
    void *user;
} tt_clock_peers;

// All ranks together. `rounds` counts on rank 0 only: the others go on until it is
// content, so that it may as well ask for none. `bound_out` has `size` entries, the
// same on every rank; `when_out` is rank 0's time of it. After no round nothing is
// written.
tt_status tt_clock_sync(const tt_clock_peers *peers, int rounds,
                        tt_clock_bound *bound_out, double *when_out);

#endif
