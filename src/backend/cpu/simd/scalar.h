// scalar - one element of an array of activations: load, store, round.

#ifndef TT_BACKEND_CPU_SIMD_SCALAR_H
#define TT_BACKEND_CPU_SIMD_SCALAR_H

#include "backend/cpu/simd/isa.h"
#include "backend/cpu/simd/type.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

TT_INLINE uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    return u;
}

TT_INLINE float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof(x));
    return x;
}

TT_INLINE float bf16_to_f32(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

// Round to nearest even; every NaN becomes the same quiet one.
TT_INLINE uint16_t f32_to_bf16(float x)
{
    const uint32_t u = bits_of(x);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    return (uint16_t)(x != x ? 0x7fc0u : rounded);
}

TT_INLINE float load(tt_simd_type type, const void *p, int64_t i)
{
    if (type == TT_SIMD_BF16)
        return bf16_to_f32(((const uint16_t *)p)[i]);
    return ((const float *)p)[i];
}

TT_INLINE void store(tt_simd_type type, void *p, int64_t i, float x)
{
    if (type == TT_SIMD_BF16)
        ((uint16_t *)p)[i] = f32_to_bf16(x);
    else
        ((float *)p)[i] = x;
}

// The element i of an array of activations.
TT_INLINE const void *at(tt_simd_type type, const void *p, int64_t i)
{
    return (const char *)p + i * tt_simd_type_bytes(type);
}

TT_INLINE void *at_mut(tt_simd_type type, void *p, int64_t i)
{
    return (char *)p + i * tt_simd_type_bytes(type);
}

TT_INLINE int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

TT_INLINE int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

#endif
