// tile - products of small matrices held in cache, the inner loops of attention:
//
//   C (m x n) = or += A (m x k) B (k x n)
//
// A is read one number at a time (any strides, so a transpose is free), B and C
// in vectors along n (contiguous, n a multiple of TT_LANES). TT_MR x 2 vectors of
// C stay in registers: bound by multiply-adds as long as B is in cache.
//
// With is_pairs, the elements of A and B are pairs of bf16 along k (the first in
// the low half), and C sums the products of both: twice the rate where the CPU
// has the instruction. Sizes and strides then count pairs.

#ifndef TT_BACKEND_CPU_SIMD_TILE_H
#define TT_BACKEND_CPU_SIMD_TILE_H

#include "backend/cpu/simd/vec.h"

#include <stdbool.h>
#include <stdint.h>

typedef float tt__vec4 __attribute__((vector_size(16), aligned(4), may_alias));

// Rows of C that stay in registers: as many as there are, less what B needs.
#if defined(__AVX512F__)
enum { TT_MR = 8 };
#else
enum { TT_MR = 6 };
#endif

typedef struct tt__product {
    const float *a;
    int64_t a_row, a_step; // A(i,p) = a[i*a_row + p*a_step]
    const float *b;
    int64_t b_row; // B(p,j) = b[p*b_row + j]
    float *c;
    int64_t c_row; // C(i,j) = c[i*c_row + j]
    int64_t m, n, k;
    bool adds; // C += instead of C =
    bool is_pairs;
} tt__product;

// Where a piece of C starts, and the p that it sums over.
typedef struct tt__tile_piece {
    int64_t i, j, from, to;
} tt__tile_piece;

// A piece of mr rows and nv vectors, constants after inlining, as is `pairs`.
TT_INLINE void tile_micro(const tt__product *x, tt__tile_piece at, const int mr,
                          const int nv, const bool pairs)
{
    const float *a = x->a + at.i * x->a_row + at.from * x->a_step;
    const float *b = x->b + at.from * x->b_row + at.j;
    float *c = x->c + at.i * x->c_row + at.j;
    const int64_t a_row = x->a_row, a_step = x->a_step;
    const int64_t b_row = x->b_row, c_row = x->c_row;
    tt__vec acc[TT_MR][2];
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            acc[r][v] = (tt__vec){0};
    for (int64_t p = at.from; p < at.to; p++, a += a_step, b += b_row) {
        tt__vec row[2];
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++)
            row[v] = *(const tt__vec *)(b + v * TT_LANES);
#pragma GCC unroll 8
        for (int r = 0; r < mr; r++)
#pragma GCC unroll 2
            for (int v = 0; v < nv; v++)
                if (pairs)
                    acc[r][v] = vec_dot(acc[r][v], a + r * a_row, row[v]);
                else
                    acc[r][v] += a[r * a_row] * row[v];
    }
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 2
        for (int v = 0; v < nv; v++) {
            tt__vec *out = (tt__vec *)(c + r * c_row + v * TT_LANES);
            if (x->adds)
                acc[r][v] += *out;
            *out = acc[r][v];
        }
}

TT_INLINE void tile_rows(const tt__product *x, tt__tile_piece at, int64_t rows,
                         const int nv, const bool pairs)
{
    if (rows == TT_MR) {
        tile_micro(x, at, TT_MR, nv, pairs);
        return;
    }
    if (rows & 4) {
        tile_micro(x, at, 4, nv, pairs);
        at.i += 4;
    }
    if (rows & 2) {
        tile_micro(x, at, 2, nv, pairs);
        at.i += 2;
    }
    if (rows & 1)
        tile_micro(x, at, 1, nv, pairs);
}

// At most TT_MR rows of C from at.i and, from at.j, the vectors of a slab that
// `cols` columns need.
TT_INLINE void tile_panel(const tt__product *x, tt__tile_piece at, int64_t cols,
                          const bool pairs)
{
    const int64_t rows = min_i64(TT_MR, x->m - at.i);
    if (cols > TT_LANES)
        tile_rows(x, at, rows, 2, pairs);
    else
        tile_rows(x, at, rows, 1, pairs);
}

// The three products of a causal block, where i sees j iff j <= i + shift (a
// shift of at least the block's width: everything). What is outside the band
// is skipped panel by panel.
typedef enum tt__band {
    // C(i,j): entries with i seeing j; the others are left undefined.
    TT_BAND_SCORES,
    // C(i,.) sums A(i,p) B(p,.) over the p that i sees; A is 0 elsewhere.
    TT_BAND_GATHER,
    // C(j,.) sums A(j,p) B(p,.) over the p that see j; A is 0 elsewhere.
    TT_BAND_SCATTER
} tt__band;

TT_INLINE void tile_walk(const tt__product *x, tt__band band, int64_t shift,
                         const bool pairs)
{
    const int64_t unit = pairs ? 2 : 1;
    for (int64_t j = 0; j < x->n; j += 2 * TT_LANES)
        for (int64_t i = 0; i < x->m; i += TT_MR) {
            tt__tile_piece at = {i, j, 0, x->k};
            const int64_t end = i + TT_MR + shift; // past what the panel sees
            const int64_t cols =
                min_i64(x->n, band == TT_BAND_SCORES ? end : x->n) - j;
            if (cols <= 0)
                continue;
            if (band == TT_BAND_GATHER)
                at.to = min_i64(x->k, (end + unit - 1) / unit);
            if (band == TT_BAND_SCATTER)
                at.from = max_i64(0, i - shift) / unit;
            tile_panel(x, at, cols, pairs);
        }
}

__attribute__((unused)) static void tile_multiply(const tt__product *x,
                                                  tt__band band, int64_t shift)
{
    if (x->is_pairs)
        tile_walk(x, band, shift, true);
    else
        tile_walk(x, band, shift, false);
}

TT_INLINE void tile_transpose4(const float *x, int64_t x_row, float *y,
                               int64_t y_row)
{
    const tt__vec4 a = *(const tt__vec4 *)x;
    const tt__vec4 b = *(const tt__vec4 *)(x + x_row);
    const tt__vec4 c = *(const tt__vec4 *)(x + 2 * x_row);
    const tt__vec4 d = *(const tt__vec4 *)(x + 3 * x_row);
    const tt__vec4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const tt__vec4 ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const tt__vec4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const tt__vec4 cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(tt__vec4 *)y = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
    *(tt__vec4 *)(y + y_row) = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
    *(tt__vec4 *)(y + 2 * y_row) =
        __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
    *(tt__vec4 *)(y + 3 * y_row) =
        __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
}

// y (cols x rows) = the transpose of x (rows x cols).
TT_INLINE void tile_transpose(const float *x, int64_t x_row, float *y,
                              int64_t y_row, int64_t rows, int64_t cols)
{
    const int64_t rows4 = rows & ~(int64_t)3, cols4 = cols & ~(int64_t)3;
    for (int64_t i = 0; i < rows4; i += 4)
        for (int64_t j = 0; j < cols4; j += 4)
            tile_transpose4(x + i * x_row + j, x_row, y + j * y_row + i, y_row);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = i < rows4 ? cols4 : 0; j < cols; j++)
            y[j * y_row + i] = x[i * x_row + j];
}

#endif
