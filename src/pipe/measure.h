// measure - when each row of a table runs, from seconds per phase and chunk.
//
// A row begins when its rank is free and what it needs has arrived; transfers run beside
// the rows. So a table is a graph, and the times are its longest paths: one walk over
// the rows, no simulation of anything else. Room for messages is not limited here.
//
//   bubble of a rank = time from its first row to the end of its last - its rows' time
//
// The worst rank's bubble is what the papers' formulas say (tt_pipe_bubble): without a
// barrier between steps, each step takes that much longer than the rows.

#ifndef TT_PIPE_MEASURE_H
#define TT_PIPE_MEASURE_H

#include "pipe/pipe.h"

typedef struct tt_pipe_seconds {
    // Per phase: seconds per chunk. NULL: no time; backward: the sum of the two
    // gradients.
    const double *row[TT_N_PIPE_PHASES];
    // Per chunk: seconds to send its output to the next chunk, and as many to send the
    // gradient back, if that is on another rank. NULL: no time.
    const double *move;
} tt_pipe_seconds;

typedef struct tt_pipe_rank_times {
    double *start, *finish; // per row
    double first, last;     // start of the first row, end of the last
    double busy;            // sum of the rows
    double bubble;          // last - first - busy
    double *waits;          // the bubble by the rank that was waited for
    int32_t n_live;         // most slots in use at once, all chunks together
    int32_t n_slots;        // slots of its chunks
} tt_pipe_rank_times;

typedef struct tt_pipe_times {
    tt_arena *arena;
    double makespan; // end of the last row of all
    double bubble;   // of the rank with most
    tt_pipe_rank_times *rank;
} tt_pipe_times;

// Fails with TT_ERR_ARG for a table with a deadlock, and for times that are not finite
// or negative.
tt_status tt_pipe_measure(const tt_pipe *p, const tt_pipe_seconds *seconds,
                          tt_pipe_times **times_out);
void tt_pipe_times_destroy(tt_pipe_times *times); // NULL is fine

// The same with the same seconds for every chunk, no transfers and no updates.
tt_status tt_pipe_measure_even(const tt_pipe *p, const tt_pipe_even *seconds,
                               tt_pipe_times **times_out);

#endif
