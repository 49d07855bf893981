// batch_norm - normalisation of channels over batch and space.

#ifndef TT_OPS_NN_BATCH_NORM_H
#define TT_OPS_NN_BATCH_NORM_H

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

// The groups of samples that are normalised together, as one rank sees them. It may
// have only a part of its first and of its last group. Statistics have a row per group,
// either of all groups or of this rank's.
//
//   group = 4     | 0 1 2 3 | 4 5 6 7 | 8 9 10 11 |
//   this rank             [ 3 4 5 6 7 8 ]           groups 3, before 3, first_row 0
typedef struct tt_batch_norm_geometry {
    int64_t n, channels, points; // samples of this rank, ...
    int64_t groups;              // that these samples belong to
    int64_t samples;             // of a group; all of the rank's without groups
    int64_t before;              // samples of the first group on other ranks
    int64_t rows, first_row;     // of statistics; of the first group
    double count;                // values per channel and group, over all ranks
    double whole_groups;         // over all ranks
} tt_batch_norm_geometry;

// `stats` are statistics, or a pair of them; NULL: running ones.
tt_batch_norm_geometry tt_batch_norm_geometry_of(const tt_batch_norm_params *p,
                                                 const tt_local *x,
                                                 const tt_local *stats);

// The rank's samples [first, first + n) that belong to its group g.
static inline int64_t tt_batch_norm_span(const tt_batch_norm_geometry *geometry,
                                         int64_t g, int64_t *first_out)
{
    const int64_t lo = g * geometry->samples - geometry->before;
    const int64_t hi = lo + geometry->samples;
    *first_out = lo > 0 ? lo : 0;
    return (hi < geometry->n ? hi : geometry->n) - *first_out;
}

#endif
