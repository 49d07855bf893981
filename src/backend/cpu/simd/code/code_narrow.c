// code_narrow - numbers in 16 bits. Conversions are integer arithmetic that every
// instruction set vectorises; fp16 has instructions of its own on some, but not on all.

#include "backend/cpu/simd/code/code.h"
#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

extern const tt_simd_code_narrow TT_SYMBOL(tt_simd_code_narrow);

TT_INLINE uint32_t to_half(float x)
{
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000u;
    const uint32_t size = bits & 0x7fffffffu;
    // Adding 1/2 leaves units of 2^-24 at the end of the sum, rounded to even.
    const uint32_t small = bits_of(float_of(size) + 0.5f) - 0x3f000000u;
    const uint32_t large =
        (size + 0xfffu + (size >> 13 & 1u) - (112u << 23)) >> 13;
    uint32_t half = (int32_t)size < (113 << 23) ? small : large;
    half = (int32_t)size >= 0x477ff000 ? 0x7c00u : half; // 65520 and more
    half = (int32_t)size > 0x7f800000 ? 0x7e00u : half;
    return sign | half;
}

// As tt_dtype_store: a NaN keeps its upper bits.
TT_INLINE uint32_t to_bf16(float x)
{
    const uint32_t bits = bits_of(x);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const bool is_nan = (int32_t)(bits & 0x7fffffffu) > 0x7f800000;
    return is_nan ? bits >> 16 | 0x40u : rounded;
}

TT_INLINE float from_half(uint32_t h)
{
    const uint32_t sign = (h & 0x8000u) << 16;
    const uint32_t size = (h & 0x7fffu) << 13;
    const uint32_t moved = bits_of(float_of(size) * 0x1p112f);
    const uint32_t whole =
        (h & 0x7c00u) == 0x7c00u ? size | 0x7f800000u : moved;
    return float_of(sign | whole);
}

TT_INLINE void narrow_run(bool is_half, const tt_simd_narrow_args *a,
                          int64_t from, int64_t n)
{
    const float *x = a->x + from;
    const float *r = a->residual != NULL ? a->residual + from : NULL;
    float *left = r != NULL ? a->left + from : NULL;
    uint16_t code[TT_BLOCK] = {0};
    const float scale = a->scale, back = 1 / a->scale, limit = a->limit;
    float e[TT_BLOCK];
    for (int64_t i = 0; i < n; i++)
        e[i] = r != NULL ? x[i] + r[i] : x[i];
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float v = e[i] * scale;
        v = v > limit ? limit : v;
        v = v < -limit ? -limit : v;
        v = (bits_of(e[i]) & 0x7fffffffu) == 0x7f800000u ? e[i] : v;
        code[i] = (uint16_t)(is_half ? to_half(v) : to_bf16(v));
    }
    memcpy(a->code + from, code, (size_t)n * sizeof code[0]);
    if (left == NULL)
        return;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float sent = is_half ? from_half(code[i]) : bf16_to_f32(code[i]);
        const float rest = e[i] - sent * back;
        const bool is_finite = (bits_of(rest) & 0x7f800000u) != 0x7f800000u;
        left[i] = is_finite ? rest : 0;
    }
}

static void narrow(const tt_simd_narrow_args *a)
{
    const int64_t blocks = tt__simd_blocks(a->n, TT_BLOCK);
#pragma omp parallel for schedule(static) if (a->n >= TT_FORK_ELEMENTS)
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t n = min_i64(TT_BLOCK, a->n - b * TT_BLOCK);
        if (a->is_half)
            narrow_run(true, a, b * TT_BLOCK, n);
        else
            narrow_run(false, a, b * TT_BLOCK, n);
    }
}

TT_INLINE void widen_run(bool is_half, const uint16_t *code, float back,
                         float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = (is_half ? from_half(code[i]) : bf16_to_f32(code[i])) * back;
}

static void widen(bool is_half, const uint16_t *code, float back, float *y,
                  int64_t n)
{
    const int64_t blocks = tt__simd_blocks(n, TT_BLOCK);
#pragma omp parallel for schedule(static) if (n >= TT_FORK_ELEMENTS)
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t from = b * TT_BLOCK, m = min_i64(TT_BLOCK, n - from);
        if (is_half)
            widen_run(true, code + from, back, y + from, m);
        else
            widen_run(false, code + from, back, y + from, m);
    }
}

const tt_simd_code_narrow TT_SYMBOL(tt_simd_code_narrow) = {
    .narrow = narrow,
    .widen = widen,
};
