// permute - copies between two strided arrays of the same shape: transposes,
// slices, concatenation, BTHD <-> BHTD.

#ifndef TT_BACKEND_CPU_SIMD_PERMUTE_H
#define TT_BACKEND_CPU_SIMD_PERMUTE_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

enum { TT_SIMD_PERMUTE_DIMS = 4 };

// y[i.y_stride] = x[i.x_stride] for all i in dims (unused dims are 1). Strides
// are in elements. x and y do not overlap.
typedef struct tt_simd_permute_args {
    tt_simd_type type;
    int64_t dims[TT_SIMD_PERMUTE_DIMS];
    int64_t x_stride[TT_SIMD_PERMUTE_DIMS];
    int64_t y_stride[TT_SIMD_PERMUTE_DIMS];
    const void *x;
    void *y;
} tt_simd_permute_args;

typedef struct tt_simd_permute {
    void (*copy)(const tt_simd_permute_args *args);
} tt_simd_permute;

#endif
