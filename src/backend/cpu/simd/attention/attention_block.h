// attention_block - what the two directions of attention share: the sizes of
// blocks and the copies that bring rows of a view into the form tile.h wants.

#ifndef TT_BACKEND_CPU_SIMD_ATTENTION_ATTENTION_BLOCK_H
#define TT_BACKEND_CPU_SIMD_ATTENTION_ATTENTION_BLOCK_H

#include "backend/cpu/simd/attention/attention.h"
#include "backend/cpu/simd/tile.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    TT_Q_BLOCK = 8 * TT_MR, // queries of a tile of scores
    TT_K_BLOCK = 64         // keys of a tile of scores
};

#define TT_LOG2_E 1.44269504f
#define TT_LN_2 0.693147181f

TT_INLINE int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

// The width of a row of head_dim in scratch.
TT_INLINE int64_t padded_dim(const tt_simd_attention_args *x)
{
    return round_up(x->head_dim, TT_LANES);
}

// Rows of a view as fp32: a place and a stride.
typedef struct tt__rows {
    const float *data;
    int64_t row;
} tt__rows;

TT_INLINE void *head_row(const tt_simd_attention_args *x,
                         const tt_simd_heads *view, int64_t b, int64_t h,
                         int64_t t)
{
    return at_mut(x->type, view->data,
                  b * view->batch + h * view->head + t * view->row);
}

// Copies n rows of head_dim, times factor, into fp32 rows padded with zeros.
TT_INLINE void pack_rows(const tt_simd_attention_args *x, const void *src,
                         int64_t src_row, int64_t n, float factor, float *out)
{
    const int64_t d = x->head_dim, width = padded_dim(x);
    for (int64_t i = 0; i < n; i++) {
        const void *from = at(x->type, src, i * src_row);
        float *to = out + i * width;
        if (x->type == TT_SIMD_BF16)
#pragma omp simd
            for (int64_t j = 0; j < d; j++)
                to[j] = factor * load(TT_SIMD_BF16, from, j);
        else
#pragma omp simd
            for (int64_t j = 0; j < d; j++)
                to[j] = factor * load(TT_SIMD_F32, from, j);
        for (int64_t j = d; j < width; j++)
            to[j] = 0.0f;
    }
}

// n rows as fp32 that may be read in whole vectors: where they lie if they can
// be, else copied into `space`.
TT_INLINE tt__rows rows_of(const tt_simd_attention_args *x, const void *src,
                           int64_t src_row, int64_t n, float *space)
{
    if (x->type == TT_SIMD_F32 && x->head_dim % TT_LANES == 0)
        return (tt__rows){(const float *)src, src_row};
    pack_rows(x, src, src_row, n, 1.0f, space);
    return (tt__rows){space, padded_dim(x)};
}

// out (head_dim x TT_K_BLOCK) = the transpose of n rows; products with what is
// beyond them are never used.
TT_INLINE void pack_columns(const tt_simd_attention_args *x, tt__rows rows,
                            int64_t n, float *out)
{
    tile_transpose(rows.data, rows.row, out, TT_K_BLOCK, n, x->head_dim);
}

// Stores n fp32 rows, times factor, into a view.
TT_INLINE void unpack_rows(const tt_simd_attention_args *x, const float *src,
                           float factor, int64_t n, void *out, int64_t out_row)
{
    const int64_t d = x->head_dim, width = padded_dim(x);
    for (int64_t i = 0; i < n; i++) {
        const float *from = src + i * width;
        void *to = at_mut(x->type, out, i * out_row);
        if (x->type == TT_SIMD_BF16)
#pragma omp simd
            for (int64_t j = 0; j < d; j++)
                store(TT_SIMD_BF16, to, j, factor * from[j]);
        else
#pragma omp simd
            for (int64_t j = 0; j < d; j++)
                store(TT_SIMD_F32, to, j, factor * from[j]);
    }
}

// How far a block of queries from q0 sees into a block of keys from k0: query i
// of the block sees key j of the block iff j <= i + shift.
TT_INLINE int64_t shift_of(const tt_simd_attention_args *x, int64_t q0,
                           int64_t k0)
{
    if (!x->is_causal)
        return INT32_MAX;
    return x->q_offset + q0 + (q0 >= x->q_turn ? x->q_gap : 0) - x->k_offset -
           k0 - (k0 >= x->k_turn ? x->k_gap : 0);
}

// At most `n` entries from `at` on, of one run.
TT_INLINE int64_t in_run(int64_t at, int64_t n, int64_t turn, int64_t gap)
{
    return gap != 0 && at < turn ? min_i64(n, turn - at) : n;
}

// How many of n keys of a block a query sees.
TT_INLINE int64_t visible(int64_t i, int64_t shift, int64_t n)
{
    return max_i64(0, min_i64(n, i + shift + 1));
}

// Scratch is cut from the front in whole cache lines; without a base the cutting
// only counts.
typedef struct tt__scratch {
    float *base;
    int64_t used; // floats
} tt__scratch;

TT_INLINE float *take(tt__scratch *s, int64_t n)
{
    float *piece = s->base == NULL ? NULL : s->base + s->used;
    s->used += round_up(n, 16);
    return piece;
}

tt_simd_attention_bytes_fn TT_SYMBOL(tt__attention_forward_bytes);
tt_simd_attention_fn TT_SYMBOL(tt__attention_forward);
tt_simd_attention_bytes_fn TT_SYMBOL(tt__attention_decode_bytes);
tt_simd_attention_fn TT_SYMBOL(tt__attention_decode);
tt_simd_attention_bytes_fn TT_SYMBOL(tt__attention_backward_bytes);
tt_simd_attention_fn TT_SYMBOL(tt__attention_backward);

#endif
