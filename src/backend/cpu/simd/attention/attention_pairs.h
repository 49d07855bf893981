// attention_pairs - attention on bf16.
//
// Weights and gradients of scores are rounded to bf16 before the next product, on every
// CPU and for every shape. So all CPUs compute the same except for the order of sums.
// Where the CPU has an instruction that multiplies pairs of bf16, rows are stored as
// such pairs for tile.h, at twice the rate of fp32. Elsewhere the products take the
// rounded numbers as fp32.

#ifndef TT_BACKEND_CPU_SIMD_ATTENTION_ATTENTION_PAIRS_H
#define TT_BACKEND_CPU_SIMD_ATTENTION_ATTENTION_PAIRS_H

#include "backend/cpu/simd/attention/attention_block.h"

#include <stdbool.h>
#include <stdint.h>

// Whether a view's rows can be read as pairs of bf16.
TT_INLINE bool is_paired(const tt_simd_heads *view)
{
    return (uintptr_t)view->data % 4 == 0 && view->batch % 2 == 0 &&
           view->head % 2 == 0 && view->row % 2 == 0;
}

// Whether products are of pairs of bf16, without going through fp32.
TT_INLINE bool uses_pairs(const tt_simd_attention_args *x)
{
    return TT_HAS_DOT && x->type == TT_SIMD_BF16 && x->scale > 0.0f &&
           x->head_dim % (2 * TT_LANES) == 0 && is_paired(&x->q) &&
           is_paired(&x->k) && is_paired(&x->v);
}

// out (head_dim / 2 x TT_K_BLOCK) = the transpose of n rows of pairs.
TT_INLINE void pack_pair_columns(const tt_simd_attention_args *x,
                                 const void *src, int64_t src_row, int64_t n,
                                 float *out)
{
    const int64_t pairs = x->head_dim / 2, row = src_row / 2;
    const tt__bf16_pair *from = src;
    tt__bf16_pair *to = (tt__bf16_pair *)out;
    const int64_t whole = n & ~(int64_t)3;
    for (int64_t i = 0; i < whole; i += 4)
        for (int64_t j = 0; j < pairs; j += 4)
            tile_transpose4((const float *)src + i * row + j, row,
                            out + j * TT_K_BLOCK + i, TT_K_BLOCK);
    for (int64_t i = whole; i < n; i++)
        for (int64_t j = 0; j < pairs; j++)
            to[j * TT_K_BLOCK + i] = from[i * row + j];
}

// out (ceil(n / 2) x head_dim): pairs of neighbouring rows, the last with 0.
TT_INLINE void pack_row_pairs(const tt_simd_attention_args *x, const void *src,
                              int64_t src_row, int64_t n, float *out)
{
    const uint16_t *low = src;
    tt__bf16_pair *to = (tt__bf16_pair *)out;
    for (int64_t i = 0; i < n; i += 2, low += 2 * src_row, to += x->head_dim) {
        const uint16_t *high = i + 1 < n ? low + src_row : low;
        const uint32_t mask = i + 1 < n ? 0xffffffffu : 0xffffu;
#pragma omp simd
        for (int64_t j = 0; j < x->head_dim; j++)
            to[j] = (low[j] | (uint32_t)high[j] << 16) & mask;
    }
}

// n floats, a multiple of TT_LANES, as bf16.
TT_INLINE void round_row(const float *x, int64_t n, uint16_t *y)
{
    for (int64_t j = 0; j < n; j += TT_LANES)
        *(tt__vec_u16 *)(y + j) = vec_to_bf16(*(const tt__vec *)(x + j));
}

// The same, as floats again; any n.
TT_INLINE void round_in_place(float *x, int64_t n)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        x[j] = bf16_to_f32(f32_to_bf16(x[j]));
}

#endif
