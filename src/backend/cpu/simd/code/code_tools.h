// code_tools - what the codecs in blocks share: sums in chains, the largest number, digits
// in bytes.

#ifndef TT_BACKEND_CPU_SIMD_CODE_TOOLS_H
#define TT_BACKEND_CPU_SIMD_CODE_TOOLS_H

#include "backend/cpu/simd/scalar.h"
#include "ops/codec/codes.h"

#include <stdbool.h>

enum { CHAINS = TT_CODE_CHAINS };

typedef float v8 __attribute__((vector_size(32)));
typedef float v8u __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i8x __attribute__((vector_size(32)));

// ---- digits in bytes -----------------------------------------------------

TT_INLINE void pack(int per, int base, const uint8_t *digit, int64_t n,
                    unsigned char *to)
{
    const int64_t m = (n + per - 1) / per;
    if (n == per * m) {
#pragma omp simd
        for (int64_t j = 0; j < m; j++) {
            uint32_t byte = 0;
#pragma GCC unroll 8
            for (int k = per - 1; k >= 0; k--)
                byte = byte * (uint32_t)base + digit[j + k * m];
            to[j] = (unsigned char)byte;
        }
        return;
    }
    memcpy(to, digit, (size_t)m);
    uint32_t weight = 1;
    for (int k = 1; k < per; k++) {
        weight *= (uint32_t)base;
        for (int64_t j = 0; j < min_i64(m, n - k * m); j++)
            to[j] = (unsigned char)(to[j] + digit[k * m + j] * weight);
    }
}

TT_INLINE void unpack(int per, int base, const unsigned char *from, int64_t n,
                      uint8_t *digit)
{
    const int64_t m = (n + per - 1) / per;
    uint32_t weight = 1;
#pragma GCC unroll 8
    for (int k = 0; k < per; k++) {
        const int64_t end = min_i64(m, n - k * m);
        for (int64_t j = 0; j < end; j++) {
            const uint16_t rest = (uint16_t)(from[j] / (uint16_t)weight);
            digit[k * m + j] = (uint8_t)(rest % (uint16_t)base);
        }
        weight *= (uint32_t)base;
    }
}

// ---- sums ----------------------------------------------------------------

TT_INLINE float join_chains(float *chain)
{
#pragma GCC unroll 4
    for (int half = CHAINS / 2; half > 0; half /= 2)
        for (int c = 0; c < half; c++)
            chain[c] += chain[c + half];
    return chain[0];
}

// What the sums are of.
typedef enum term { SIZE, SQUARE, ABOVE, BELOW } term;

// Adds the terms of eight numbers. They are made by bits, so that what a NaN or -0 gives
// is the same everywhere.
TT_INLINE void add_terms(term what, const float *from, v8 *sum)
{
    const v8 x = *(const v8u *)from;
    switch (what) {
    case SIZE:
        *sum += (v8)((i8x)x & 0x7fffffff);
        break;
    case SQUARE:
        *sum += x * x;
        break;
    case ABOVE:
        *sum += (v8)((i8x)x & (x >= 0));
        break;
    default:
        *sum += (v8)((i8x)x & ~(x >= 0));
    }
}

// Two vectors of chains: one of 16 is no vector of AVX2, and gcc splits it badly. After
// the last number come zeros, which change no sum: none is -0, since it began with 0.
TT_INLINE float sum_of(term what, const float *x, int64_t n)
{
    float chain[CHAINS], last[CHAINS] = {0};
    int64_t i = 0;
    v8 low = {0}, high = {0};
    for (; i + CHAINS <= n; i += CHAINS) {
        add_terms(what, x + i, &low);
        add_terms(what, x + i + CHAINS / 2, &high);
    }
    if (i < n) {
        memcpy(last, x + i, (size_t)(n - i) * sizeof *x);
        add_terms(what, last, &low);
        add_terms(what, last + CHAINS / 2, &high);
    }
    memcpy(chain, &low, sizeof low);
    memcpy(chain + CHAINS / 2, &high, sizeof high);
    return join_chains(chain);
}

TT_INLINE float largest(const float *x, int64_t n)
{
    int32_t most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        const int32_t bits = (int32_t)(bits_of(x[i]) & 0x7fffffffu);
        most = bits > most ? bits : most;
    }
    return float_of((uint32_t)most);
}

TT_INLINE bool is_finite(float x)
{
    return (bits_of(x) & 0x7f800000u) != 0x7f800000u;
}

TT_INLINE float inverse(float by, float scale)
{
    const float inv = by / scale;
    return scale > 0 && is_finite(inv) && is_finite(scale) ? inv : 0;
}

// floorf of a number that an int32_t can have.
#ifdef __SSE4_1__
TT_INLINE int32_t floor_of(float x)
{
    return (int32_t)floorf(x);
}
#else
// SSE2 cannot round down.
TT_INLINE int32_t floor_of(float x)
{
    const int32_t whole = (int32_t)x;
    return (float)whole > x ? whole - 1 : whole;
}
#endif

#endif
