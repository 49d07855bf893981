// internal - what the files of job/ that make graphs share.

#ifndef TT_JOB_INTERNAL_H
#define TT_JOB_INTERNAL_H

#include "job/job.h"
#include "job/train_graph.h"
#include "pass/chain.h"

// Element types of a precision.
void tt__recipe_precision(int precision, tt_train_recipe *recipe);

// Rewrites a model's graph for the job: adds the partition over ranks to the chain
// and applies the whole chain. *graph is replaced; on failure it is as far as the
// passes came.
tt_status tt__job_rewrite(const tt_job *job, tt_chain *chain, int64_t zero,
                          tt_graph **graph);

// Computes the loss in `chunks` pieces, if that is more than one. Applied before
// the rest of the chain, so that the chunks can still be counted in the graph.
tt_status tt__job_chunk(const tt_job *job, int64_t chunks, tt_graph **graph);
int64_t tt__chunks_in(const tt_graph *graph); // how many there are

// Fails when a pattern of the job's settings matches no weight of the graph.
tt_status tt__job_check_globs(const tt_job *job, const tt_graph *graph);

#endif
