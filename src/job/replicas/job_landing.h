// job_landing - agreements whose messages travel while steps run. Files of this folder only.

#ifndef TT_JOB_LANDING_H
#define TT_JOB_LANDING_H

#include "job/job.h"

// Room for what is on its way; after the plan was made.
tt_status tt__job_landing_start(tt_job *job);

// Agreement `number` was begun after this step. Nothing to do where it is over then.
void tt__job_landing_begun(tt_job *job, int number);

// What is on its way of agreement `number`, or of all before it, is waited for and used.
tt_status tt__job_land_one(tt_job *job, int number);
tt_status tt__job_land_before(tt_job *job, int number);

#endif
