// infer_common - checks that the infer functions of operators share. Each fails
// with a sentence that starts with the operator's name.

#ifndef TT_OPS_INFER_COMMON_H
#define TT_OPS_INFER_COMMON_H

#include "graph/op.h"

// Between `min` and `max` inputs; the first `min` are there.
tt_status tt_infer_inputs(const tt_op_io *io, const char *op, int min, int max);

// Input i is of a floating dtype; is a scalar of this dtype.
tt_status tt_infer_float(const tt_op_io *io, const char *op, int i);
tt_status tt_infer_scalar(const tt_op_io *io, const char *op, int i,
                          tt_dtype dtype);
tt_status tt_infer_float_scalar(const tt_op_io *io, const char *op, int i);

// Inputs i and j have the same extents.
tt_status tt_infer_same_dims(const tt_op_io *io, const char *op, int i, int j);

// Exactly n floating inputs with the same extents; one output like input 0.
tt_status tt_infer_elementwise(tt_op_io *io, const char *op, int n);

// The infer functions of operators of which that is all, with one and two inputs.
tt_op_infer_fn tt_infer_unary, tt_infer_binary;

// `what` is a sentence; both shapes are appended to it.
tt_status tt_infer_fail_shapes(const char *op, const char *what,
                               const tt_shape *a, const tt_shape *b);

// Whether a dim is there and one factor, so that it can be cut and joined.
tt_status tt_infer_one_factor(const char *op, const tt_shape *x, int64_t dim);

// Whether input i can be joined with input 0 along a dim: it is made of the same
// factors elsewhere.
tt_status tt_infer_joins(const tt_op_io *io, const char *op, int i,
                         int64_t dim);

// Adds output `*n_out` with this dtype and shape.
void tt_infer_add(tt_op_io *io, tt_dtype dtype, const tt_shape *shape);

// The dtype of statistics, losses, gradients of weights: f64 for f64, else f32.
static inline tt_dtype tt_dtype_master(tt_dtype dtype)
{
    return dtype == TT_F64 ? TT_F64 : TT_F32;
}

// Whether `small` broadcasts to `big`: aligned at the last dim, each of its
// extents is 1 or that of `big`.
bool tt_shape_broadcasts(const tt_shape *small, const tt_shape *big);

#endif
