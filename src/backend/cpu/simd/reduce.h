// reduce - sums, means, maxima. The order of additions depends on the shape
// alone.

#ifndef TT_BACKEND_CPU_SIMD_REDUCE_H
#define TT_BACKEND_CPU_SIMD_REDUCE_H

#include "backend/cpu/simd/type.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_simd_reduction {
    TT_SIMD_SUM,
    TT_SIMD_MEAN,
    TT_SIMD_MAX // NaN if any element is
} tt_simd_reduction;

typedef struct tt_simd_column_args {
    tt_simd_type type; // of x
    int64_t rows, cols;
    const void *x;    // [rows, cols]
    float *y;         // [cols]
    bool accumulates; // y += instead of y =
    void *scratch;
} tt_simd_column_args;

typedef struct tt_simd_reduce {
    // y(j) = sum over i of x(i,j): the gradient of a bias.
    void (*column_sum)(const tt_simd_column_args *args);
    int64_t (*column_sum_scratch_bytes)(int64_t rows, int64_t cols);
    // y(i) = the reduction of row i; y has x's type. A row of no elements has
    // sum 0, mean NaN and maximum -inf.
    void (*rows)(tt_simd_reduction kind, tt_simd_type type, const void *x,
                 int64_t rows, int64_t cols, void *y);
    double (*sum)(tt_simd_type type, const void *x, int64_t n);
    double (*sum_squares)(tt_simd_type type, const void *x, int64_t n);
    // y(i) = x(i)^2, without rounding; the largest, NaN if any is.
    double (*squares)(tt_simd_type type, const void *x, int64_t n, double *y);
    // The sum of the whole parts of scale * y(i), below 2^28; y keeps what is left of
    // each, and *left their sum.
    double (*digits)(double *y, int64_t n, double scale, double *left);
} tt_simd_reduce;

#endif
