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

// What a micro-batch of the step reads.
tt_status tt__feed_now(const tt__feeding *feeding, int32_t micro);

// What the next step will read first, where it can be on its way already and
// job->feeds_ahead allows to ask. A failure is the next step's.
void tt__feed_ahead(const tt__feeding *feeding);

#endif
