// ranks_parts - what the files of the report about ranks share. Internal.

#ifndef TT_TRAIN_RANKS_PARTS_H
#define TT_TRAIN_RANKS_PARTS_H

#include "base/arena.h"
#include "exec/trace_merge.h"
#include "train/arrivals.h"
#include "train/ranks_clock.h"
#include "train/ranks_report.h"

enum { TT__HOST_BYTES = 64, TT__MARKS = 1024, TT__PIECE_BYTES = 1 << 20 };

enum { // places in a rank's block, before its arrivals
    TT__SUM_MESSAGES,
    TT__SUM_BYTES,
    TT__SUM_BUSY,
    TT__SUM_EXPOSED,
    TT__SUM_KERNELS,
    TT__SUM_FEED,
    TT__SUM_CODING, // seconds
    TT__SUM_RAW,    // bytes before coding, and after
    TT__SUM_CODED,
    TT__SUM_RESIDUAL,    // not a sum over time: of squares, as it is now
    TT__SUM_ASIDE_BYTES, // of those above: in evaluations and checkpoints
    TT__SUM_ASIDE_BUSY,
    TT__SUM_ASIDE_EXPOSED,
    TT__SUM_TIME, // as many as tt_report_time has
    TT__SUM_TIME_LAST = TT__SUM_TIME + 7,
    TT__N_SUMS,
};

struct tt_ranks_report {
    tt_ranks_options options;
    tt_arena *arena;
    int32_t rank, size;
    char my_host[TT__HOST_BYTES];
    double opened;
    tt_report_time time; // this rank's, as it was said
    double residual;     // likewise: squares
    tt_trace_mark *mark; // oldest first
    int64_t n_marks;
    char *piece; // of another rank's trace
    int64_t *length, *bound;
    // With several ranks.
    tt_ranks_clock clock;
    int64_t gathered;            // collectives that were
    tt_wire_stats aside, paused; // in all pauses; at the beginning of this one
    double *mine, *all;
    const char **name;    // of the collectives in them
    int64_t capacity;     // collectives of a block
    double *now, *before; // sums of every rank: newest, at the last point
    char *host;           // TT__HOST_BYTES per rank
    tt_arrival *arrival;  // of every rank, at one collective
    tt_arrivals *arrivals;
};

// One block of every rank, `n` elements each, to rank 0.
tt_status tt__ranks_report_gather(const tt_ranks_report *report, tt_num type,
                                  const void *mine, void *all, int64_t n);

// What the stages did, on rank 0; NULL elsewhere, and where there are none.
tt_status tt__ranks_report_pipe(const tt_ranks_report *report, tt_arena *arena,
                                const tt_ranks_pipe **pipe_out);

#endif
