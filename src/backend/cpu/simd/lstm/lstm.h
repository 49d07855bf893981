// lstm - the pointwise part of an LSTM cell. Gates lie as i, f, g, o in a row of
// 4 hidden, as in PyTorch:
//
//   c = sigmoid(f) c_prev + sigmoid(i) tanh(g)      h = sigmoid(o) tanh(c)
//
// Backward computes the gates again from the pre-activations: nothing but these
// and c_prev need be kept.

#ifndef TT_BACKEND_CPU_SIMD_LSTM_LSTM_H
#define TT_BACKEND_CPU_SIMD_LSTM_LSTM_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

typedef struct tt_simd_lstm_args {
    tt_simd_type type; // of gates, h, d_h, d_gates; cells are fp32
    int64_t rows, hidden;
    const void *gates;   // [rows, 4 hidden], before activation
    const float *c_prev; // [rows, hidden]
    float *c;            // forward; may be c_prev
    void *h;             // forward
    const void *d_h;
    const float *d_c; // or null for 0
    void *d_gates;    // may be gates
    float *d_c_prev;  // may be d_c
} tt_simd_lstm_args;

typedef struct tt_simd_lstm {
    void (*forward)(const tt_simd_lstm_args *args);
    void (*backward)(const tt_simd_lstm_args *args);
} tt_simd_lstm;

#endif
