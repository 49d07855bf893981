// channels - batch norm with everything fused: statistics, normalisation, residual and
// ReLU; and the gradients of that. For images in any of the layouts
//
//   [samples, channels / block, points, block]
//
// which is NCHW (block 1), channels last (block = channels) and a library's blocks of
// 8 or 16. Bound by memory: with enough channels per thread, a thread does one
// vector of channels from the sums to the result, while it is in cache.

#ifndef TT_BACKEND_CPU_SIMD_CHANNELS_H
#define TT_BACKEND_CPU_SIMD_CHANNELS_H

#include "backend/cpu/simd/type.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_simd_channels_args {
    tt_simd_type type; // of images
    int64_t samples, channels, points, block;
    const void *x;
    const void *residual; // forward; may be NULL
    void *y;              // forward
    const void *d_y;
    const void *mask; // backward: y when ReLU followed, else NULL
    void *d_x;
    void *d_residual; // may be NULL
    bool has_relu;    // forward
    const float *gamma, *beta;
    const float *shift; // moments are those of x - shift
    float *mean, *rstd; // train writes them, the others read
    double epsilon;
    double count;   // values per channel, over all ranks
    bool is_frozen; // backward: mean and rstd do not depend on x
    double *sums;   // [2, channels]: moments, or d_gamma and d_beta
    void *scratch;
} tt_simd_channels_args;

typedef void tt_simd_channels_fn(const tt_simd_channels_args *args);

typedef struct tt_simd_channels {
    int64_t (*scratch_bytes)(const tt_simd_channels_args *args);
    // sums: of x - shift, and of its square.
    tt_simd_channels_fn *moments;
    // y = (x - mean) rstd gamma + beta + residual, and ReLU.
    tt_simd_channels_fn *apply;
    // Both, with mean and rstd from the moments and count.
    tt_simd_channels_fn *train;
    // sums: of dz xhat, and of dz, which is d_y where the mask is positive.
    tt_simd_channels_fn *grad_sums;
    // d_x = gamma rstd (dz - (sums[1] + xhat sums[0]) / count), d_residual = dz.
    tt_simd_channels_fn *grad_apply;
    tt_simd_channels_fn *grad; // both
} tt_simd_channels;

#endif
