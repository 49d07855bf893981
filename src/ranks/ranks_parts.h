// ranks_parts - what the files about ranks share. Internal.

#ifndef TT_RANKS_RANKS_PARTS_H
#define TT_RANKS_RANKS_PARTS_H

#include "config/distribution.h"
#include "ranks/ranks.h"

// What a forked rank tells the process that forked it (ranks.c).
typedef struct tt__notice tt__notice;

// Everything that the start of a rank needs, on every way to get one.
typedef struct tt__starting {
    const tt_ranks_request *request;
    tt_ranks_fn *fn;
    void *user;
    const tt_distribution *distribution;
    tt__notice *notice; // only of ranks that are forked here; else NULL
    int32_t n_cores;    // cores of the machine that this process may use
} tt__starting;

// From an open transport to the end of the work. `peers->comm` may be wrapped (slowed
// down, with faults), so the caller closes the one that is there afterwards. `host`
// gives each rank's host; NULL: all are on one.
tt_status tt__ranks_work(const tt__starting *s, const int32_t *host,
                         tt_peers *peers, int *exit_out);

// Two pieces of the line that describes the ranks: " slowed down", " with faults" or
// nothing; "1 core each".
const char *tt__ranks_spoilt(const tt_distribution *distribution);
const char *tt__ranks_cores(tt_arena *arena, int32_t all, int32_t on_host,
                            int32_t each);

#endif
