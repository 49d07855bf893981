// recurrence - the pointwise part of one step of an LSTM over a sequence, with the
// gates kept after their functions (i, f, g, o, as in PyTorch):
//
//   gates = functions of (sum + x + bias)
//   c = f c_prev + i g        h = o tanh(c)

#ifndef TT_BACKEND_CPU_SIMD_LSTM_RECURRENCE_H
#define TT_BACKEND_CPU_SIMD_LSTM_RECURRENCE_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

typedef struct tt_simd_recurrence_args {
    tt_simd_type type; // of x, gates, h, d_h, d_gates
    int64_t rows, hidden;
    const float *sum;    // [rows, 4 hidden]: h_prev times the weights
    const void *x;       // [rows, 4 hidden]
    const float *bias;   // [4 hidden], or null for 0
    const float *c_prev; // [rows, hidden]
    float *c;            // forward writes, backward reads
    void *h;
    void *gates; // [rows, 4 hidden]: forward writes, backward reads
    // Backward: gradients from outside, each may be null for 0, and those from
    // the next step. carry_c becomes the gradient of c_prev.
    const void *d_h;
    const float *d_c;
    const float *carry_h;
    float *carry_c;
    void *d_gates; // [rows, 4 hidden], before the functions
} tt_simd_recurrence_args;

typedef struct tt_simd_recurrence {
    void (*forward)(const tt_simd_recurrence_args *args);
    void (*backward)(const tt_simd_recurrence_args *args);
} tt_simd_recurrence;

#endif
