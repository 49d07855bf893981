// matmul - products of matrices, with bias and activation.

#ifndef TT_OPS_MATMUL_H
#define TT_OPS_MATMUL_H

#include "graph/build.h"

typedef enum tt_activation {
    TT_ACT_NONE,
    TT_ACT_RELU,
    TT_ACT_GELU_TANH,
    TT_ACT_GELU_ERF,
    TT_ACT_SILU,
    TT_ACT_TANH,
    TT_ACT_SIGMOID,
} tt_activation;

typedef struct tt_matmul_params {
    bool transpose_a, transpose_b;
    int activation; // tt_activation
    bool wide;      // y is f32 where a and b are of 16 bits: a term of a sum
} tt_matmul_params;

typedef struct tt_matmul_grad_w_params {
    bool transposed; // dw is [n, k]
} tt_matmul_grad_w_params;

// The product as one or more plain ones: y[m, n] = a[m, k] * b[k, n], `batch`
// times. Leading dimensions of a are part of m when b is shared.
typedef struct tt_matmul_dims {
    int64_t batch, m, n, k;
} tt_matmul_dims;
tt_matmul_dims tt_matmul_dims_of(const tt_matmul_params *p, const tt_shape *a,
                                 const tt_shape *b);

// y = activation(a * b + bias). bias: [n] or TT_NONE.
tt_val tt_matmul(tt_builder *b, tt_val x, tt_val w, tt_val bias,
                 const tt_matmul_params *params);

// The params' activation of z, by its own operator.
tt_val tt_matmul_activate(tt_builder *b, const tt_matmul_params *params,
                          tt_val z);

#endif
