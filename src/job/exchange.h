// exchange - what exchange.codec and layout.codec ask of a job. Files of this folder only.

#ifndef TT_JOB_EXCHANGE_H
#define TT_JOB_EXCHANGE_H

#include "job/job.h"
#include "pass/chain.h"

// Resolves exchange.replicas and refuses what codes cannot do.
tt_status tt__job_codes_check(tt_job *job);

// Replicas that send codes of their gradients; 1: nobody does.
int64_t tt__job_codes_replicas(const tt_job *job);

// Adds the pass that does it.
void tt__job_codes_add(const tt_job *job, tt_chain *chain);

// Factors of gradients (exchange.codec=factors): whether kernels make them.
tt_status tt__job_factors_check(const tt_job *job);

// Adds the pass that sends them.
void tt__job_factors_add(const tt_job *job, int64_t micro_batches,
                         tt_chain *chain);

// Adds the pass that lets a worker read them, to be pushed to a server.
void tt__job_rows_add(const tt_job *job, int64_t micro_batches,
                      tt_chain *chain);

// For layout.codec: codes of what ranks that share layers send.
tt_status tt__job_layer_codes_check(const tt_job *job);
void tt__job_layer_codes_add(const tt_job *job, tt_chain *chain);

#endif
