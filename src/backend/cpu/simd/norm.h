// norm - layer norm and RMS norm over the last dimension.
//
//   xhat = (x - mean) * rstd     rstd = 1 / sqrt(variance + epsilon)
//   y    = xhat * gamma + beta   (RMS norm: mean is 0 and there is no beta)
//
// Bound by memory: every pass reads and writes each row once.

#ifndef TT_BACKEND_CPU_SIMD_NORM_H
#define TT_BACKEND_CPU_SIMD_NORM_H

#include "backend/cpu/simd/type.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_simd_norm_args {
    tt_simd_type type; // of x, y, d_y, d_x
    bool is_rms;
    int64_t rows, cols;
    float epsilon;
    const void *x;
    const float *gamma; // [cols]
    const float *beta;  // [cols], or null for 0
    void *y;
    float *mean; // [rows]; not used by RMS norm
    float *rstd; // [rows]
    const void *d_y;
    void *d_x;
    float *d_gamma;   // [cols], or null
    float *d_beta;    // [cols], or null
    bool accumulates; // d_gamma and d_beta are added to
    void *scratch;    // for backward_params
} tt_simd_norm_args;

typedef void tt_simd_norm_fn(const tt_simd_norm_args *args);

typedef struct tt_simd_norm {
    tt_simd_norm_fn *forward;         // y, mean, rstd
    tt_simd_norm_fn *backward_input;  // d_x from x, mean, rstd, gamma, d_y
    tt_simd_norm_fn *backward_params; // d_gamma, d_beta from x, mean, rstd, d_y
    int64_t (*params_scratch_bytes)(int64_t rows, int64_t cols);
} tt_simd_norm;

#endif
