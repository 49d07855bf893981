// internal - internal to train/: what the files that make graphs share.

#ifndef TT_JOB_INTERNAL_H
#define TT_JOB_INTERNAL_H

#include "job/job.h"
#include "job/train_graph.h"
#include "pass/chain.h"

// Element types of a precision.
void tt__recipe_precision(int precision, tt_train_recipe *recipe);

// Makes the job's graph of a model's: adds to the chain what its ranks need, and applies
// it. *graph is replaced; on failure it is as far as the passes came.
tt_status tt__job_rewrite(const tt_job *job, tt_chain *chain, int64_t zero,
                          tt_graph **graph);

// The loss in so many chunks, if there is more than one. Before the rest of the chain, so
// that they can be counted.
tt_status tt__job_chunk(const tt_job *job, int64_t chunks, tt_graph **graph);
int64_t tt__chunks_in(const tt_graph *graph); // how many there are

// The plan of one rank of the job's settings.
tt_status tt__job_lower(const tt_job *job, const tt_graph *graph, int32_t rank,
                        tt_plan **plan_out);

// Fails when a pattern of the job's settings matches no weight of the graph.
tt_status tt__job_check_globs(const tt_job *job, const tt_graph *graph);

#endif
