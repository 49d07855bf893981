// ranks_report - measures the ranks of a run while it goes on.
//
// All ranks call the same functions at the same steps; rank 0 gets the numbers. What
// it costs: one small gather per point. With one rank nothing is sent.

#ifndef TT_TRAIN_RANKS_REPORT_H
#define TT_TRAIN_RANKS_REPORT_H

#include "base/arena.h"
#include "exec/wire/wire.h"
#include "train/ranks.h"

typedef struct tt_ranks_report tt_ranks_report;

typedef struct tt_ranks_options {
    tt_comm_wire *wire; // opened with `trace`; NULL: one rank
    const tt_exec
        *exec; // of the training step, with `trace` where one is wanted
    const tt_exec *worker; // of gradients: tt_ranks_report_worker
    const char *host;      // this rank's; NULL: the machine's name
    bool wants_trace;      // tt_ranks_report_trace will be called
    // The schedule of the stages; NULL: there are none. With stages ranks have
    // collectives of their own, which cannot be compared: nobody is the last to arrive.
    // Rows of the schedule say who waits for whom instead (ranks_pipe.h).
    const struct tt_pipe *pipe;
    bool is_paced; // by trial.pace
} tt_ranks_options;

tt_status tt_ranks_report_open(const tt_ranks_options *options,
                               tt_ranks_report **report_out);
void tt_ranks_report_close(tt_ranks_report *report); // NULL is fine

// After every step of training, which began at `started` (tt_clock_seconds).
tt_status tt_ranks_report_step(tt_ranks_report *report, int64_t step,
                               double started);

// Something that the trace shows beside steps, and that has just ended: an
// evaluation, a checkpoint. `what` lives on.
void tt_ranks_report_mark(tt_ranks_report *report, const char *what,
                          int64_t step, double started);

// Around what is no step (evaluations, checkpoints): points leave it out.
void tt_ranks_report_pause(tt_ranks_report *report, bool is_over);

// At a logged step; `steps` since the last one. Filled in on rank 0 of several,
// where it returns true through `has_out`.
tt_status tt_ranks_report_point(tt_ranks_report *report, int64_t steps,
                                bool *has_out, tt_ranks_point *point_out);

// Where this rank's time went until now; the last exchange tells rank 0.
void tt_ranks_report_time(tt_ranks_report *report, const tt_report_time *time);

// The sum of squares of this rank's residuals; the next exchange tells rank 0.
void tt_ranks_report_residual(tt_ranks_report *report, double squares);

// The last exchange, when all ranks end well. NULL where there is one rank, and on
// all but rank 0; lies in the arena.
tt_status tt_ranks_report_end(tt_ranks_report *report, tt_arena *arena,
                              const tt_ranks **ranks_out);

// What computes gradients beside the step's executor, for the trace; NULL: nothing does.
void tt_ranks_report_worker(tt_ranks_report *report, const tt_exec *worker);

// One trace of all ranks by rank 0's clock, which writes the file, whole or not at
// all. All ranks call it. A disk that is full fails on rank 0 alone.
tt_status tt_ranks_report_trace(tt_ranks_report *report, const char *path);

#endif
