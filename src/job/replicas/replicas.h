// replicas - a job whose replicas have weights of their own (exchange.policy). Files of
// this folder only.

#ifndef TT_JOB_REPLICAS_H
#define TT_JOB_REPLICAS_H

#include "job/job.h"
#include "pass/chain.h"
#include "pass/partition/partition.h"

// Resolves exchange.replicas and refuses what such replicas cannot do.
tt_status tt__job_replicas_check(tt_job *job);

// Whether they are there, and how many; 1: weights are equal everywhere.
int64_t tt__job_replicas_count(const tt_job *job);

// Dims of the inputs before the samples' own.
int tt__job_replicas_dims(const tt_job *job);

// The partition of one replica's graph, and the pass after it.
tt_status tt__job_replicas_partition(const tt_job *job,
                                     tt_partition_params *params,
                                     tt_chain *chain);

// After the executor was made: room for tallies; the replicas become what the model is.
tt_status tt__job_replicas_start(tt_job *job);

// Where each replica's samples of a micro-batch begin.
tt_status tt__job_replicas_feed(tt_job *job, int32_t micro);

// Whether a state is what the replicas have of a buffer of the model.
bool tt__job_replicas_is_buffer(const tt_job *job, const tt_tensor *t);

// After a run of the plan: adds up what the replicas of this rank have done, lets them
// agree where that is due, and meets the other ranks if that was asked for.
tt_status tt__job_replicas_follow(tt_job *job, tt_step_result *result_out);

#endif
