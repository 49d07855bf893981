// type - how activations are stored. Arithmetic is fp32 in either case; results
// are rounded to nearest even when stored as bf16.

#ifndef TT_BACKEND_CPU_SIMD_TYPE_H
#define TT_BACKEND_CPU_SIMD_TYPE_H

#include <stdint.h>

typedef enum tt_simd_type {
    TT_SIMD_F32 = 0, // float
    TT_SIMD_BF16 = 1 // uint16_t: the upper half of a float
} tt_simd_type;

static inline int64_t tt_simd_type_bytes(tt_simd_type type)
{
    return type == TT_SIMD_BF16 ? 2 : 4;
}

#endif
