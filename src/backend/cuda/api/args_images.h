// args_images - arguments of launchers for images. Channels lie last: [batch, space...,
// channels] (NHWC). Weights lie alike: [filters, kernel..., channels]. Tensor cores
// want it so: the channels are the inner dimension of a convolution's products.

#ifndef TT_BACKEND_CUDA_API_ARGS_IMAGES_H
#define TT_BACKEND_CUDA_API_ARGS_IMAGES_H

#include "graph/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_CUDA_SPACE = 3 };

// One dimension of a sliding window, as tt_slide has it. There are always three;
// missing ones are the first, with extent 1. `origin` and `whole_in` say where the
// local input lies in the whole, where ranks share an image.
typedef struct tt_cuda_slide {
    int64_t in, out, kernel, stride, dilation, pad;
    int64_t origin, whole_in;
} tt_cuda_slide;

typedef enum tt_cuda_way {
    TT_CUDA_FORWARD,
    TT_CUDA_GRAD_X,
    TT_CUDA_GRAD_W,
} tt_cuda_way;

// x [n, in..., groups c], w [groups o, kernel..., c], y [n, out..., groups o]. `way`
// says which of the three is the result. A weight's gradient is f32.
typedef struct tt_cuda_conv_desc {
    tt_cuda_way way;
    tt_dtype type;
    tt_dtype bias_type; // forward; TT_N_DTYPES: none
    bool has_relu;      // forward, after the bias
    bool adds;          // GRAD_X: to what is there
    int64_t n, groups, c, o;
    tt_cuda_slide slide[TT_CUDA_SPACE];
} tt_cuda_conv_desc;

typedef struct tt_cuda_conv_args {
    void *x, *w, *y;
    const void *bias;
    bool accumulate; // GRAD_W; GRAD_X always where the description adds
    void *scratch;
} tt_cuda_conv_args;

typedef struct tt_cuda_pool_args {
    tt_dtype type, where_type; // where: i32 or u8
    int64_t n, channels;
    tt_cuda_slide slide[TT_CUDA_SPACE]; // adaptive: in, out, origin, whole_in
    bool count_pad;
    const void *x; // or dy
    void *y;       // or dx
    void *where;
} tt_cuda_pool_args;

// Batch norm: as tt_batch_norm_geometry has it. `pair` is [2, rows, channels].
typedef struct tt_cuda_bn_args {
    tt_dtype type, gamma_type, beta_type;
    int64_t n, channels, points;
    int64_t groups, samples, before, rows, first_row;
    double count, whole_groups, eps, momentum;
    bool has_relu, is_frozen;
    const void *x, *dy, *gamma, *beta, *residual, *mask;
    const float *mean_in, *rstd_in; // frozen: the running mean and variance
    const float *shift, *pair_in, *running_mean, *running_var;
    float *mean, *rstd, *new_mean, *new_var;
    float *pair, *dgamma, *dbeta;
    void *y, *d_residual; // y: or dx
    void *scratch;        // bn_scratch bytes
    bool has_marks;  // in it, of an activation's mask, for one gradient alone
    uint32_t *marks; // the launcher's, with the tiles of a group
    int64_t tiles;
} tt_cuda_bn_args;

// y [batch, cols, rows] of x [batch, rows, cols].
typedef struct tt_cuda_turn_args {
    int bytes; // of an element
    int64_t batch, rows, cols;
    const void *x;
    void *y;
} tt_cuda_turn_args;

#endif
