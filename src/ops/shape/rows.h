// rows - what operators over rows (the last dimension) share: checks of inputs
// and signatures by dimension.

#ifndef TT_OPS_SHAPE_ROWS_H
#define TT_OPS_SHAPE_ROWS_H

#include "graph/build.h"

// Input i is of type `dtype`.
tt_status tt__want_dtype(const tt_op_io *io, int i, tt_dtype dtype,
                         const char *name);
// Input i has the extents of input 0 without its last dim.
tt_status tt__want_rows(const tt_op_io *io, int i, const char *name);
// Input i is one-dimensional, with the extent of input 0's last dim.
tt_status tt__want_columns(const tt_op_io *io, int i, const char *name);

int64_t tt__last(const tt_shape *shape);     // extent of the last dim
tt_shape tt__lead_of(const tt_shape *shape); // without the last dim
tt_shape tt__last_of(const tt_shape *shape); // the last dim alone

// How a split of one dim of one input places all operands. A character each, so that a
// signature of an operator is one short string:
//   =     split along the same dim        0..5  along this dim
//   z     along its last dim              .     replicated
//   +     partial sum
typedef struct tt__split {
    int anchor; // the input whose dim is split
    const char *in, *out;
    tt_op_expand_fn *expand; // or NULL
} tt__split;

// A signature for each factor of dim `dim` (of the anchor) that can be split.
void tt__shard_dim(const tt_op_io *io, int axis_size, int dim,
                   const tt__split *split, tt_sigs *sigs);
// The same for all dims of the anchor except the last; for the last.
void tt__shard_lead(const tt_op_io *io, int axis_size, const tt__split *split,
                    tt_sigs *sigs);
void tt__shard_last(const tt_op_io *io, int axis_size, const tt__split *split,
                    tt_sigs *sigs);

#endif
