// activation - element-wise nonlinearities and their gradients. y may be x and
// d_x may be d_y. NaN propagates (ReLU too).

#ifndef TT_BACKEND_CPU_SIMD_ACTIVATION_H
#define TT_BACKEND_CPU_SIMD_ACTIVATION_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

// The functions. A new one is a name here and a case in `apply` and in `slope`
// (activation.c); the compiler warns of a switch that lacks it.
//
//   GELU_TANH   0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//   GELU_ERF    0.5 x (1 + erf(x / sqrt 2))
//   SILU        x sigmoid(x)
#define TT_SIMD_ACTS(each)                                                     \
    each(GELU_TANH) each(GELU_ERF) each(RELU) each(SILU) each(TANH)            \
        each(SIGMOID) each(EXP) each(LOG) each(ERF)

typedef enum tt_simd_act {
#define TT_SIMD_ACT(name) TT_SIMD_ACT_##name,
    TT_SIMD_ACTS(TT_SIMD_ACT)
#undef TT_SIMD_ACT
} tt_simd_act;

typedef struct tt_simd_act_args {
    tt_simd_type type;
    tt_simd_act act;
    int64_t n;
    const void *x; // backward of ReLU may be given y instead
    void *y;
    const void *d_y;
    void *d_x;
} tt_simd_act_args;

typedef struct tt_simd_glu_args {
    tt_simd_type type;
    int64_t n;
    const void *a, *b;
    void *y;         // silu(a) * b
    const void *d_y; // backward
    void *d_a, *d_b;
} tt_simd_glu_args;

typedef struct tt_simd_activation {
    void (*forward)(const tt_simd_act_args *args);
    void (*backward)(const tt_simd_act_args *args); // d_x from x and d_y
    void (*swiglu)(const tt_simd_glu_args *args);
    void (*swiglu_backward)(const tt_simd_glu_args *args); // d_a may be d_y
} tt_simd_activation;

#endif
