// move - operators that move, view or convert elements without arithmetic.

#ifndef TT_OPS_SHAPE_MOVE_H
#define TT_OPS_SHAPE_MOVE_H

#include "graph/build.h"

typedef struct tt_cast_params {
    int to; // tt_dtype
} tt_cast_params;

typedef struct tt_fill_params {
    double value;
} tt_fill_params;

typedef struct tt_reshape_params {
    tt_i64s dims; // number of factors of each new dim
} tt_reshape_params;

typedef struct tt_transpose_params {
    tt_i64s perm; // dim d of the output is dim perm[d] of the input
} tt_transpose_params;

// join puts the factor at position `pos` inside dim `dim` of the output; with
// `new_dim` it is that dim by itself.
typedef struct tt_join_params {
    const char *factor;
    int64_t dim, pos;
    bool new_dim;
} tt_join_params;

typedef struct tt_split_params {
    const char *factor;
} tt_split_params;

typedef struct tt_slice_params {
    int64_t dim, start, size; // slice_grad takes the size from its input
} tt_slice_params;

typedef struct tt_concat_params {
    int64_t dim;
} tt_concat_params;

typedef struct tt_stripe_params {
    int64_t dim, part, parts;
} tt_stripe_params;

typedef struct tt_weave_params {
    int64_t dim;
} tt_weave_params;

// x itself when it has this dtype already.
tt_val tt_cast(tt_builder *b, tt_val x, tt_dtype to);
tt_val tt_fill(tt_builder *b, tt_val like, double value);

// The factors regrouped: n_dims numbers of factors.
tt_val tt_reshape(tt_builder *b, tt_val x, const int64_t *n_factors,
                  int n_dims);
tt_val tt_transpose(tt_builder *b, tt_val x, const int64_t *perm, int n_dims);
tt_val tt_slice(tt_builder *b, tt_val x, int dim, int64_t start, int64_t size);

// The parts of x along a factor of size n: x1 .. xn without it. `out` has room
// for TT_MAX_OUT.
void tt_split_factor(tt_builder *b, tt_val x, const char *factor, tt_val *out);
tt_val tt_join(tt_builder *b, const tt_val *x, int n,
               const tt_join_params *params);

#endif
