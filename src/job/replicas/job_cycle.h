// job_cycle - after how many steps the agreements of replicas begin anew.

#ifndef TT_JOB_REPLICAS_JOB_CYCLE_H
#define TT_JOB_REPLICAS_JOB_CYCLE_H

#include "job/job.h"

// Steps after which everything is due that was due before, once the first steps are over; 1
// where there is nothing to agree about.
int64_t tt__job_cycle(const tt_job *job);
// How often agreement `number` (a segment of the plan) runs in so many steps. Where that
// depends on the loss, as if it stayed.
int64_t tt__job_cycle_runs(const tt_job *job, int64_t steps, int32_t number);

#endif
