// fold - sums and maxima over the middle dimension, into fp32:
//
//   y(o, i) = sum or maximum over c of x(o, c, i)
//
// The order of additions depends on the shape alone. Bound by memory.

#ifndef TT_BACKEND_CPU_SIMD_FOLD_H
#define TT_BACKEND_CPU_SIMD_FOLD_H

#include "backend/cpu/simd/type.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_simd_fold_args {
    tt_simd_type type; // of x
    bool is_max;       // NaN if any element is
    int64_t outer, count, inner;
    const void *x; // [outer, count, inner]
    float *y;      // [outer, inner]
} tt_simd_fold_args;

typedef struct tt_simd_fold {
    void (*run)(const tt_simd_fold_args *args);
} tt_simd_fold;

#endif
