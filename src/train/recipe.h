// recipe - internal to train/: what the files that make graphs share.

#ifndef TT_TRAIN_RECIPE_H
#define TT_TRAIN_RECIPE_H

#include "train/graph.h"
#include "train/job.h"

// Element types of a precision.
void tt__recipe_precision(int precision, tt_train_recipe *recipe);

// Fails when a pattern of the job's settings matches no weight of the graph.
tt_status tt__job_check_globs(const tt_job *job, const tt_graph *graph);

#endif
