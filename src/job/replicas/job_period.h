// job_period - agreements whose distance depends on the loss (exchange.adaptive).
//
// What is decided must not depend on how many ranks there are, nor on when they meet for
// other reasons, nor on whether a run was stopped in between. So each replica's numbers
// are a state (exchange.period), which lies in checkpoints. After a step each rank adds the
// losses of its replicas; when an agreement is due, all ranks hear all sums, add them in
// the order of replicas, and find the next period.

#ifndef TT_JOB_REPLICAS_JOB_PERIOD_H
#define TT_JOB_REPLICAS_JOB_PERIOD_H

#include "job/job.h"
#include "pass/replicas.h"

// After a step: adds what this rank's replicas computed, and says whether the level's
// agreement is due.
tt_status tt__job_period_follow(tt_job *job, const tt_replicas_level *level,
                                const double *loss, const double *count,
                                bool *is_due_out);

#endif
