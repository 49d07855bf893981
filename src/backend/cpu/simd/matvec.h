// matvec - a few rows times a large matrix, which is read once and as it lies.
//
//   y (m x n) = x (m x k) w + bias     w is k x n, or n x k when transposed
//
//   bits      do not depend on the number of threads: each sum runs over k in order
//   scratch   m x n floats

#ifndef TT_BACKEND_CPU_SIMD_MATVEC_H
#define TT_BACKEND_CPU_SIMD_MATVEC_H

#include "backend/cpu/simd/type.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_simd_matvec_args {
    tt_simd_type type; // of x, w and y
    bool is_transposed;
    int64_t m, n, k;
    const void *x, *w;
    tt_simd_type bias_type;
    const void *bias; // or NULL
    void *y;
    float *scratch; // 64-byte aligned
    int threads;
} tt_simd_matvec_args;

typedef struct tt_simd_matvec {
    int64_t (*scratch_bytes)(const tt_simd_matvec_args *args);
    void (*run)(const tt_simd_matvec_args *args);
} tt_simd_matvec;

#endif
