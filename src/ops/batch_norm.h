// batch_norm - normalisation of channels over batch and space.

#ifndef TT_OPS_BATCH_NORM_H
#define TT_OPS_BATCH_NORM_H

#include "graph/build.h"

typedef enum tt_batch_norm_activation {
    TT_BATCH_NORM_NONE,
    TT_BATCH_NORM_RELU,
} tt_batch_norm_activation;

// Of all batch_norm operators; each has the options it needs.
typedef struct tt_batch_norm_params {
    double eps, momentum;
    bool training;     // statistics of the batch; else the running ones
    int activation;    // tt_batch_norm_activation
    bool has_residual; // gradients: give the residual's too
    int64_t group;     // samples whose statistics are taken together; 0: all
} tt_batch_norm_params;

// What is normalised together, on one rank: `groups` times `samples` samples
// times `points` per channel; `count` values in the whole group over all ranks.
typedef struct tt_batch_norm_geometry {
    int64_t groups, samples, channels, points;
    double count;        // values per channel and group, over all ranks
    double whole_groups; // over all ranks
} tt_batch_norm_geometry;

tt_batch_norm_geometry tt_batch_norm_geometry_of(const tt_batch_norm_params *p,
                                                 const tt_local *x);

#endif
