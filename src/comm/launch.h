// launch - starts ranks as processes on this machine and watches them until the last
// ends.
//
// The ranks are forked before the caller has touched threads. They die with the
// launcher, whatever kills it; one that dies takes the others along within a
// second; one that no longer runs (stopped, swapped out) is given up after the
// deadline. What went wrong first is told in one sentence.

#ifndef TT_COMM_LAUNCH_H
#define TT_COMM_LAUNCH_H

#include "base/str.h"
#include "comm/transport/shm.h"

typedef struct tt_launch_options {
    int32_t n_ranks;
    double deadline;    // seconds without a heartbeat; 0: 30
    int64_t rank_bytes; // of shared memory per rank
    bool pin;           // cores divided between the ranks
    bool *
        interrupted; // set when a second SIGINT ended all ranks; NULL: who cares
} tt_launch_options;

typedef struct tt_launch_rank {
    tt_shm_world *world;
    int32_t rank, n_ranks;
    int32_t cores;   // that this rank has for itself, at least 1
    double deadline; // of waits in which no rank works
} tt_launch_rank;

// What a rank does, in its own process. A failure's message is kept for the report.
typedef tt_status tt_launch_fn(const tt_launch_rank *rank, void *user);

// Runs all ranks to their end. SIGTERM, SIGINT, SIGUSR1 and SIGHUP are passed on to
// them: they get those that a terminal sends to all once more. A second SIGINT kills
// them, and is no failure. Two within TT_LAUNCH_ONE_KEY seconds are one: programs like
// timeout send theirs to the process and to its group.
#define TT_LAUNCH_ONE_KEY 0.3
// On failure the message names the first rank that failed, where and why.
tt_status tt_launch(const tt_launch_options *options, tt_launch_fn *fn,
                    void *user);

#endif
