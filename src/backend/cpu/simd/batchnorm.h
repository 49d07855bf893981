// batchnorm - in four steps, so that a group of ranks can add its sums between
// them (synchronised batch norm):
//
//   statistics     mean, variance (biased)
//   normalise      y = (x - mean) rstd gamma + beta
//   gradient_sums  sum d_y, sum d_y xhat: d_beta and d_gamma
//   backward       d_x = gamma rstd (d_y - sum_dy / count - xhat sum_dy_xhat / count)
//
// x is [outer, channels, inner]: inner is H*W for NCHW, 1 for channels last.

#ifndef TT_BACKEND_CPU_SIMD_BATCHNORM_H
#define TT_BACKEND_CPU_SIMD_BATCHNORM_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

typedef struct tt_simd_batchnorm_args {
    tt_simd_type type; // of x, y, d_y, d_x
    int64_t outer, channels, inner;
    const void *x;
    float *mean;        // [channels]: statistics writes, the others read
    float *variance;    // [channels]: statistics writes
    const float *rstd;  // [channels]: 1 / sqrt(variance + epsilon)
    const float *gamma; // [channels]
    const float *beta;  // [channels]
    void *y;            // may be x
    const void *d_y;
    void *d_x;                   // may be d_y
    float *sum_dy, *sum_dy_xhat; // [channels]: gradient_sums writes
    int64_t count;               // elements of a channel, over all ranks
    void *scratch;               // for the two that sum; 8-byte aligned
} tt_simd_batchnorm_args;

typedef void tt_simd_batchnorm_fn(const tt_simd_batchnorm_args *args);

typedef struct tt_simd_batchnorm {
    int64_t (*scratch_bytes)(const tt_simd_batchnorm_args *args);
    tt_simd_batchnorm_fn *statistics;
    tt_simd_batchnorm_fn *normalise;
    tt_simd_batchnorm_fn *gradient_sums;
    tt_simd_batchnorm_fn *backward;
} tt_simd_batchnorm;

#endif
