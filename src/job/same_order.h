// same_order - whether all ranks of a job begin the same collectives in the same order.
//
// Ranks whose parts have other shapes may have other steps, since kernels want them in
// other forms. Then buckets and their order may differ, and all ranks must do one
// collective after another (tt_lower_options.in_order). Internal to job/.

#ifndef TT_JOB_SAME_ORDER_H
#define TT_JOB_SAME_ORDER_H

#include "job/variant.h"

// All ranks call it together, a rank whose plan failed (NULL) too. Where nobody is
// there, plans of the other ranks are made to look at. Stages of a pipeline have other
// collectives, so ranks are compared with those of their own stage.
tt_status tt__plans_alike(const tt_job *job, const tt__planned *p,
                          bool *alike_out);

// Equal for ranks whose parts have the same extents: their plans are the same.
uint64_t tt__extents_hash(const tt_graph *g, int rank);

// Ranks that together have the smallest and largest parts of all values: blocks grow
// from the first to the last, and those in between have halos on two sides.
bool tt__is_corner(const tt_mesh *mesh, int rank);

#endif
