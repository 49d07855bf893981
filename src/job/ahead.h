// ahead - the inputs of micro-batches, and those of the next step's first one before
// this step is over: a device computes while they are read and copied.

#ifndef TT_JOB_AHEAD_H
#define TT_JOB_AHEAD_H

#include "job/job.h"

typedef struct tt__feeding {
    tt_job *job;
    tt_job_feed_fn *feed;
    void *user;
} tt__feeding;

// Gives micro-batch `micro` of the current step its inputs.
tt_status tt__feed_now(const tt__feeding *feeding, int32_t micro);

// Requests the first micro-batch of the next step. Does nothing without a device or
// where job->feeds_ahead is false. A failure is kept for the next step.
void tt__feed_ahead(const tt__feeding *feeding);

#endif
