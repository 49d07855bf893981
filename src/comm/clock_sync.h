// clock_sync - how far every rank's clock is from rank 0's.
//
// Rank 0 reads its clock and asks; the other rank answers with its time; rank 0 reads
// its clock again. The answer lies between the two readings, so each round bounds the
// offset from both sides. After all rounds the uncertainty is at most the quickest way
// there plus the quickest way back. Where an offset of 0 is possible it is taken to be
// 0: ranks of one host have one clock, and two hosts' clocks, which count from their
// starts, are never that close.

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
    // Runs a collective over all ranks; it sets group and tag.
    tt_status (*call)(void *user, const tt_coll_call *call);
    double (*now)(void *user);
    void *user;
} tt_clock_peers;

// All ranks together. Only rank 0's `rounds` counts, and it may be 0; the others answer
// until rank 0 ends. `bound_out` has `size` entries, the same on every rank; `when_out`
// is the time of it by rank 0's clock. Without a round nothing is written.
tt_status tt_clock_sync(const tt_clock_peers *peers, int rounds,
                        tt_clock_bound *bound_out, double *when_out);

#endif
