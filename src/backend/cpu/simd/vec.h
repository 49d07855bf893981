// vec - one vector register of floats, for the few loops that compilers do not
// vectorise by themselves: sums that must stay in registers (tile.h), maxima, and
// products of bf16 pairs. Everything else is a plain loop with `omp simd`.

#ifndef TT_BACKEND_CPU_SIMD_VEC_H
#define TT_BACKEND_CPU_SIMD_VEC_H

#include "backend/cpu/simd/scalar.h"

#include <stdint.h>
#ifdef __SSE2__
#    include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { TT_LANES = 16 };
#elif defined(__AVX__)
enum { TT_LANES = 8 };
#else
enum { TT_LANES = 4 };
#endif

typedef float tt__vec
    __attribute__((vector_size(TT_LANES * 4), aligned(4), may_alias));
typedef uint32_t tt__vec_u32
    __attribute__((vector_size(TT_LANES * 4), aligned(4), may_alias));
typedef uint16_t tt__vec_u16
    __attribute__((vector_size(TT_LANES * 2), aligned(2), may_alias));

// TT_LANES elements from i.
TT_INLINE tt__vec vec_load(tt_simd_type type, const void *x, int64_t i)
{
    if (type == TT_SIMD_F32)
        return *(const tt__vec *)((const float *)x + i);
    const tt__vec_u16 h = *(const tt__vec_u16 *)((const uint16_t *)x + i);
    return (tt__vec)(__builtin_convertvector(h, tt__vec_u32) << 16);
}

// The larger of each pair; b where either is NaN.
#if defined(__AVX512F__)
TT_INLINE tt__vec vec_max(tt__vec a, tt__vec b)
{
    return _mm512_max_ps(a, b);
}
#elif defined(__AVX__)
TT_INLINE tt__vec vec_max(tt__vec a, tt__vec b)
{
    return _mm256_max_ps(a, b);
}
#elif defined(__SSE2__)
TT_INLINE tt__vec vec_max(tt__vec a, tt__vec b)
{
    return _mm_max_ps(a, b);
}
#else
TT_INLINE tt__vec vec_max(tt__vec a, tt__vec b)
{
    for (int l = 0; l < TT_LANES; l++)
        b[l] = a[l] > b[l] ? a[l] : b[l];
    return b;
}
#endif

// The largest of n elements, -inf of none; NaN is passed over.
TT_INLINE float max_of(tt_simd_type type, const void *x, int64_t n)
{
    tt__vec top = -INFINITY + (tt__vec){0}, other = top;
    int64_t i = 0;
    for (; i + 2 * TT_LANES <= n; i += 2 * TT_LANES) {
        top = vec_max(vec_load(type, x, i), top);
        other = vec_max(vec_load(type, x, i + TT_LANES), other);
    }
    top = vec_max(top, other);
    for (; i + TT_LANES <= n; i += TT_LANES)
        top = vec_max(vec_load(type, x, i), top);
    float result = top[0];
    for (int l = 1; l < TT_LANES; l++)
        result = top[l] > result ? top[l] : result;
    for (; i < n; i++) {
        const float v = load(type, x, i);
        result = v > result ? v : result;
    }
    return result;
}

// Pairs of bf16 in a word, the first in the low half.
typedef uint32_t tt__bf16_pair __attribute__((may_alias));

// acc + lo(a) lo(b) + hi(a) hi(b), the one pair *a against every lane of b.
// Worth calling only where TT_HAS_DOT says that it is one instruction.
#ifdef __AVX512BF16__
enum { TT_HAS_DOT = 1 };

TT_INLINE tt__vec vec_dot(tt__vec acc, const void *a, tt__vec b)
{
    const tt__vec_u32 pair = *(const tt__bf16_pair *)a + (tt__vec_u32){0};
    return _mm512_dpbf16_ps(acc, (__m512bh)pair, (__m512bh)b);
}

TT_INLINE tt__vec_u16 vec_to_bf16(tt__vec x)
{
    return (tt__vec_u16)_mm512_cvtneps_pbh(x);
}
#else
enum { TT_HAS_DOT = 0 };

TT_INLINE tt__vec vec_dot(tt__vec acc, const void *a, tt__vec b)
{
    const uint32_t pair = *(const tt__bf16_pair *)a;
    const tt__vec_u32 bits = (tt__vec_u32)b;
    return acc + float_of(pair << 16) * (tt__vec)(bits << 16) +
           float_of(pair & 0xffff0000u) * (tt__vec)(bits & 0xffff0000u);
}

TT_INLINE tt__vec_u16 vec_to_bf16(tt__vec x)
{
    tt__vec_u16 y = {0};
    for (int l = 0; l < TT_LANES; l++)
        y[l] = f32_to_bf16(x[l]);
    return y;
}
#endif

#endif
