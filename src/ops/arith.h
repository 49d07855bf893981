// arith - arithmetic on elements, and sums over dims.

#ifndef TT_OPS_ARITH_H
#define TT_OPS_ARITH_H

#include "graph/build.h"

typedef struct tt_scale_params {
    double by;
} tt_scale_params;

typedef enum tt_reduce_op {
    TT_REDUCE_SUM,
    TT_REDUCE_MEAN,
    TT_REDUCE_MAX,
} tt_reduce_op;

typedef struct tt_reduce_params {
    int op;       // tt_reduce_op
    tt_i64s dims; // empty: all
    bool keep;    // reduced dims stay, with extent 1
} tt_reduce_params;

// Of broadcast and sum_to: dims of the larger operand that the smaller one
// lacks. Empty: aligned at the last dim.
typedef struct tt_broadcast_params {
    tt_i64s dims;
} tt_broadcast_params;

// b broadcasts to a: aligned at the last dim, extents equal or 1.
tt_val tt_add(tt_builder *b, tt_val x, tt_val y);
tt_val tt_mul(tt_builder *b, tt_val x, tt_val y);
tt_val tt_scale(tt_builder *b, tt_val x, double by);

// dims: n of them; n = 0: all dims.
tt_val tt_reduce_dims(tt_builder *b, tt_val x, tt_reduce_op op,
                      const int64_t *dims, int n);

// x as large as `like`, and the adjoint: x summed to the shape of `like`. Both
// have the dtype of `like`.
tt_val tt_broadcast(tt_builder *b, tt_val x, tt_val like);
tt_val tt_sum_to(tt_builder *b, tt_val x, tt_val like);

// x itself when it has the extents and dtype of `like`.
tt_val tt_sum_to_like(tt_builder *b, tt_val x, tt_val like);

// Which dim of `small` corresponds to each dim of `big`, -1: none. False when
// `small` does not broadcast to `big` so.
bool tt_broadcast_map(const tt_i64s *lacking, const tt_shape *small,
                      const tt_shape *big, int map_out[TT_MAX_DIMS]);

// Whether reduce reduces dim d.
bool tt_reduce_has(const tt_reduce_params *params, int d);

#endif
