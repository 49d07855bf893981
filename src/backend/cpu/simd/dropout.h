// dropout - y = keep ? x / (1 - p) : 0, the mask computed where it is needed.
//
// The element with global index e is kept iff word e % 4 of Philox 4x32-10 with
// key `key` and counter (e / 4, 0) is at least p * 2^32: the same function as
// tt_rng_u32(key, e). So the mask depends neither on threads nor on how the
// tensor is cut, and the gradient is the same call on d_y.

#ifndef TT_BACKEND_CPU_SIMD_DROPOUT_H
#define TT_BACKEND_CPU_SIMD_DROPOUT_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

// Element (r, c) of the dense x has the global index start + r*row_step + c.
typedef struct tt_simd_dropout_args {
    tt_simd_type type;
    int64_t rows, cols;
    uint64_t key, start, row_step;
    double p; // in [0, 1]; 1 drops everything
    const void *x;
    void *y; // may be x
} tt_simd_dropout_args;

typedef struct tt_simd_dropout {
    void (*apply)(const tt_simd_dropout_args *args);
} tt_simd_dropout;

#endif
