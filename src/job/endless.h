// endless - jobs whose pipe is not emptied before each update: pipedream, 2bw, predict.
// Internal to job/.
//
// A step is an update, as everywhere: `accumulate` micro-batches of all ranks. Steps are run
// in *stretches*: within one the pipe stays full, so that a step of a rank ends with its own
// update while micro-batches of later steps are on their way. At the end of a stretch
// nothing is: ranks meet there, and only there are weights evaluated and saved.
//
//   step        0   1   2   3   4 | 5   6   7   8   9 | 10 ...        pipe.steps=5
//               <--- stretch ---> | <--- stretch ---> |
//                                 ^ evaluate, save, stop
//
// Stretches end at multiples of pipe.steps, and at the last step. So a run that is resumed
// has the same stretches as one that was left alone, and the same bits.

#ifndef TT_JOB_ENDLESS_H
#define TT_JOB_ENDLESS_H

#include "job/job.h"

static inline bool tt__is_endless(const tt_pipe *pipe)
{
    return pipe != NULL && pipe->rule != TT_PIPE_FLUSH;
}

// exchange.chunks: one stage, whose updates come where the next forward pass needs them
// (pipe/late.c). What is refused of it, in a sentence.
tt_status tt__late_check(const tt_job *job);

// Whether pipe.schedule is one that does not empty the pipe, even if there is one stage.
bool tt__endless_has(const tt_job *job);

// How many stages the job's table has; 1: none. One rank may carry out the table of
// several (job->fold).
int32_t tt__endless_stages(const tt_job *job);

// pipe.steps, or what it is if nobody said so.
int32_t tt__endless_steps(const tt_job *job);

// Refuses what a table without flush cannot be trained with, in a sentence.
tt_status tt__endless_check(const tt_job *job, const tt_pipe *pipe);
// The same of the model: no weight is read by two stages.
tt_status tt__endless_check_graph(const tt_job *job, const tt_pipe *pipe,
                                  const tt_graph *graph);

// The rows of all ranks as those of one, in an order in which they may run. The array is
// the caller's, who frees it.
tt_status tt__endless_fold(const tt_pipe *pipe, tt_pipe_row **row_out,
                           int32_t *n_out);

// Before the first step of a stretch: how long it is.
tt_status tt__endless_begin(tt_job *job);
// The scalars that differ from row to row; for tt_exec_before_rows.
tt_status tt__endless_row(void *user, tt_exec *exec, const tt_order *row);

#endif
