// loss - softmax over the last dimension, alone and fused with cross-entropy.

#ifndef TT_BACKEND_CPU_SIMD_LOSS_H
#define TT_BACKEND_CPU_SIMD_LOSS_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

typedef struct tt_simd_softmax_args {
    tt_simd_type type;
    int64_t rows, cols;
    const void *x;
    void *y;         // forward writes, may be x; backward reads
    const void *d_y; // backward
    void *d_x;       // may be d_y
} tt_simd_softmax_args;

// loss(r) = lse(r) - (1 - smoothing) x(r, label) - smoothing mean(x(r, .))
// A negative label gives the row weight 0: no loss, no count, no gradient. A
// label past the last column gives NaN.
typedef struct tt_simd_cross_entropy_args {
    tt_simd_type type; // of logits and d_logits
    int64_t rows, cols;
    float smoothing;
    const void *logits;
    const int32_t *labels; // [rows]
    float *loss;           // [rows]: forward writes
    float *lse;            // [rows]: forward writes, backward reads
    float scale;           // backward: gradient of the loss of every row
    void *d_logits;        // may be logits
    // Backward over a slice of the vocabulary: columns of the whole, and a label
    // of `cols` or more is in another slice. 0: the slice is the whole.
    int64_t vocab;
} tt_simd_cross_entropy_args;

// Of a slice of the vocabulary: what its rows add to the loss of the whole.
//   tops      the largest entry (slice_top writes, slice_terms reads that of
//             the whole)
//   sums      sum of exp(x - top)
//   targets   (1 - smoothing) x(label) + smoothing / vocab sum(x)
typedef struct tt_simd_slice_args {
    tt_simd_type type;
    int64_t rows, cols, vocab; // vocab: columns of the whole
    float smoothing;
    const void *logits;
    const int32_t *labels; // outside 0 .. cols - 1: in another slice
    float *tops, *sums, *targets;
} tt_simd_slice_args;

typedef struct tt_simd_loss {
    void (*softmax)(const tt_simd_softmax_args *args);
    void (*softmax_backward)(const tt_simd_softmax_args *args);
    void (*cross_entropy)(const tt_simd_cross_entropy_args *args);
    void (*cross_entropy_backward)(const tt_simd_cross_entropy_args *args);
    // Sum of the losses, in row order, and the number of rows that count.
    void (*total)(const tt_simd_cross_entropy_args *args, double *sum_out,
                  int64_t *count_out);
    void (*slice_top)(const tt_simd_slice_args *args);
    void (*slice_terms)(const tt_simd_slice_args *args);
} tt_simd_loss;

#endif
