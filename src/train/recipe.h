// recipe - internal to train/: what the files that make graphs share.

#ifndef TT_TRAIN_RECIPE_H
#define TT_TRAIN_RECIPE_H

#include "train/graph.h"
#include "train/job.h"

// Element types of a precision.
void tt__recipe_precision(int precision, tt_train_recipe *recipe);

// Splits a graph over the job's ranks; alone it stays as it is.
tt_status tt__job_partition(const tt_job *job, int64_t zero, tt_graph **graph);

// Computes the loss in so many chunks, if there is more than one. Before partition.
tt_status tt__job_chunk(const tt_job *job, int64_t chunks, tt_graph **graph);
int64_t tt__chunks_in(const tt_graph *graph); // how many there are

// The plan of one rank of the job's settings.
tt_status tt__job_lower(const tt_job *job, const tt_graph *graph, int32_t rank,
                        tt_plan **plan_out);

int64_t tt__job_memory(const tt_job *job); // that this rank may use; 0: unknown

// Fails when a pattern of the job's settings matches no weight of the graph.
tt_status tt__job_check_globs(const tt_job *job, const tt_graph *graph);

#endif
