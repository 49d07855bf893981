// rotary - turns the pairs (i, i + half) of each head by the angle of its
// position, which tables of cosines and sines give.

#ifndef TT_BACKEND_CPU_SIMD_ROTARY_H
#define TT_BACKEND_CPU_SIMD_ROTARY_H

#include "backend/cpu/simd/attention/attention.h"
#include "backend/cpu/simd/type.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_simd_rotary_args {
    tt_simd_type type;
    int64_t n_batch, length, heads, half;
    const float *cosine, *sine; // [length, half]
    bool is_inverse;            // turn back
    tt_simd_heads x, y;         // y may be x
} tt_simd_rotary_args;

typedef struct tt_simd_rotary {
    void (*turn)(const tt_simd_rotary_args *args);
} tt_simd_rotary;

#endif
