// args_elements - arguments of launchers: elementwise functions, copies, reductions,
// and the scalars of a step (norm, clipping, loss scale).
//
// Scalars stay on the device. They change from step to step, and a recorded CUDA graph
// could not pass them as arguments; nor does the host have to wait for them.

#ifndef TT_BACKEND_CUDA_API_ARGS_ELEMENTS_H
#define TT_BACKEND_CUDA_API_ARGS_ELEMENTS_H

#include "graph/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_CUDA_DIMS = 8, TT_CUDA_SUM = 8, TT_CUDA_TOTAL = 256 };

// to[i] = from[i] for all i of an index space, converted where the types differ.
typedef struct tt_cuda_copy_args {
    int ndim;
    int64_t dim[TT_CUDA_DIMS];
    int64_t to_stride[TT_CUDA_DIMS], from_stride[TT_CUDA_DIMS];
    tt_dtype to_type, from_type;
    void *to;
    const void *from;
} tt_cuda_copy_args;

typedef enum tt_cuda_fn {
    TT_CUDA_GELU_TANH, // y = f(a)
    TT_CUDA_GELU_ERF,
    TT_CUDA_RELU,
    TT_CUDA_SILU,
    TT_CUDA_TANH,
    TT_CUDA_SIGMOID,
    TT_CUDA_SCALE,          // a * by
    TT_CUDA_GELU_TANH_GRAD, // y = f'(a) * b; a is what the operator's grad takes
    TT_CUDA_GELU_ERF_GRAD,
    TT_CUDA_RELU_GRAD,
    TT_CUDA_SILU_GRAD,
    TT_CUDA_TANH_GRAD,
    TT_CUDA_SIGMOID_GRAD,
    TT_CUDA_ADD,
    TT_CUDA_MUL,
    TT_CUDA_SWIGLU,
    TT_CUDA_SWIGLU_GRAD, // y, y2 = gradients of a, b from c
    TT_CUDA_N_FNS,
} tt_cuda_fn;

typedef struct tt_cuda_map_args {
    tt_cuda_fn fn;
    tt_dtype type;
    int64_t n;
    float by;
    const void *a, *b, *c;
    void *y, *y2;
} tt_cuda_map_args;

// y = a fn b, where b is broadcast: dims of a, strides of b (0 along repeated dims).
typedef struct tt_cuda_broadcast_args {
    tt_cuda_fn fn; // ADD, MUL
    tt_dtype type;
    int ndim;
    int64_t dim[TT_CUDA_DIMS], b_stride[TT_CUDA_DIMS];
    const void *a, *b;
    void *y;
} tt_cuda_broadcast_args;

// y = (y +) the sum of n_in vectors.
typedef struct tt_cuda_sum_args {
    int n_in;
    int64_t n;
    tt_dtype in_type, y_type;
    bool accumulate;
    const void *in[TT_CUDA_SUM];
    void *y;
} tt_cuda_sum_args;

typedef struct tt_cuda_fill_args {
    tt_dtype type;
    int64_t n;
    double value;
    void *y;
} tt_cuda_fill_args;

// x [outer, length, inner] reduced over length, times `by`: y [outer, inner].
typedef struct tt_cuda_reduce_args {
    int64_t outer, length, inner;
    bool is_max, accumulate;
    double by;
    tt_dtype x_type, y_type;
    const void *x;
    void *y;
    void *scratch; // reduce_scratch bytes
} tt_cuda_reduce_args;

// The total of many scalars, in several calls of at most TT_CUDA_TOTAL each.
typedef struct tt_cuda_total_args {
    int n; // of this call; `first`: the sum begins, `last`: y is written
    bool first, last;
    tt_dtype in_type[TT_CUDA_TOTAL], y_type;
    const void *in[TT_CUDA_TOTAL];
    void *y;
    void *scratch; // 8 bytes, kept from call to call
} tt_cuda_total_args;

enum { TT_CUDA_SQUARES_BLOCKS = 1024 };
typedef struct tt_cuda_squares_args { // y = (scratch[0] +) sum of x * x
    tt_dtype type, y_type;
    int64_t n;
    bool first;
    bool is_only; // the whole sum: needs no scratch and may wait for others
    const void *x;
    void *y;
    void *scratch; // 8 (1 + TT_CUDA_SQUARES_BLOCKS) bytes
} tt_cuda_squares_args;

typedef struct tt_cuda_clip_args {
    double max_norm;
    tt_dtype type[4]; // of what follows
    const void *sumsq, *count;
    void *scale, *norm; // norm NULL: no sumsq
} tt_cuda_clip_args;

typedef struct tt_cuda_guard_args { // the order of TT_GUARD_*
    tt_dtype type[6];
    const void *in[5];
    void *y;
} tt_cuda_guard_args;

// x [rows, cols] / unit in e4m3 or e5m2, as it lies and transposed, since cuBLASLt
// wants the inner dimension contiguous. *peak is the largest |x| / `largest`: the unit
// that would just avoid saturation.
typedef struct tt_cuda_fp8_pack_args {
    tt_dtype type, to;
    int64_t rows, cols;
    double largest;  // of the type `to`
    bool is_gelu;    // of gelu_tanh(x)
    bool accumulate; // sums
    const void *x;
    const void *z; // NULL, or: of x times the gradient of gelu_tanh at z
    const float *unit;
    void *straight, *turned;
    float *peak;
    float *sums;   // over rows; NULL: not wanted
    void *scratch; // fp8_pack_scratch bytes, for sums
} tt_cuda_fp8_pack_args;

typedef struct tt_cuda_largest_args { // y = max(y, x), or x
    int64_t n;
    bool accumulate;
    const float *x;
    float *y;
} tt_cuda_largest_args;

typedef struct tt_cuda_units_args { // see ops/codec/fp8_units.c
    int64_t steps, sites, apart;    // entries of a site in units
    const float *history, *units, *peaks;
    const uint8_t *skip;
    float *history_out, *units_out;
} tt_cuda_units_args;

typedef struct tt_cuda_loss_scale_args { // the order of TT_LS_*
    int64_t growth;
    double least, most;
    tt_dtype type[6];
    const void *in[4];
    void *scale, *good;
} tt_cuda_loss_scale_args;

#endif
