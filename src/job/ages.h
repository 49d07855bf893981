// ages - exchange.staleness where stages do not empty the pipe before an update. Internal to
// job/. The rules, and what they do to workers: policy/stale.h.
//
// The table of the pipe says how old each gradient is: the updates of its chunk between the
// weights that its forward row read and the update that it goes into.
//
//   lr         the rate of an update, a scalar that is set before its row
//   momentum   that of a stage's optimiser, by the age when the pipe is full
//
// The others are refused. To compensate, an update would have to read the weights that its
// gradients were computed at; their place is where those that it replaces are kept.

#ifndef TT_JOB_AGES_H
#define TT_JOB_AGES_H

#include "job/job.h"
#include "policy/stale.h"

// What the settings say about stages; of policies that say nothing about them: none.
tt_stale tt__ages_rule(const tt_job *job);

// Refuses what has no meaning, in a sentence: of the schedule by its name, then of its table.
tt_status tt__ages_check(const tt_job *job);
tt_status tt__ages_check_table(const tt_job *job, const tt_pipe *pipe);

// The momentum of each chunk's optimiser, in the job's arena; NULL: the optimiser's own.
tt_status tt__ages_momentum(const tt_job *job, const tt_pipe *pipe,
                            const double **momentum_out);

// Fills in the rates of updates.
tt_status tt__ages_rows(const tt_job *job, const tt_pipe *pipe,
                        tt_lower_row *row, int32_t n);

#endif
