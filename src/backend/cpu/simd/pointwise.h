// pointwise - gradients of functions whose slope follows from their result.
// d_x may be y or d_y.

#ifndef TT_BACKEND_CPU_SIMD_POINTWISE_H
#define TT_BACKEND_CPU_SIMD_POINTWISE_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

typedef struct tt_simd_from_result_args {
    tt_simd_type type;
    int64_t n;
    const void *y, *d_y;
    void *d_x;
} tt_simd_from_result_args;

typedef struct tt_simd_pointwise {
    void (*tanh_grad)(const tt_simd_from_result_args *args);
    void (*sigmoid_grad)(const tt_simd_from_result_args *args);
} tt_simd_pointwise;

#endif
