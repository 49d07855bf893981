// elementwise - sums and products with broadcasting. The usual types and kinds of
// broadcast have a loop each, with everything constant. The rare ones (mixed types)
// share a loop that brings blocks of each operand into fp32 first.

#include "backend/cpu/simd/elementwise.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

#include <stdbool.h>

extern const tt_simd_elementwise TT_SYMBOL(tt_simd_elementwise);

enum { COLS = 256 }; // of an operand brought into fp32 at a time

TT_INLINE float combine(tt_simd_binary_op op, float a, float b)
{
    switch (op) {
    case TT_SIMD_ADD:
        return a + b;
    case TT_SIMD_SUB:
        return a - b;
    case TT_SIMD_MUL:
        return a * b;
    default:
        return a / b;
    }
}

TT_INLINE void widen(tt_simd_type type, const tt_simd_operand *x, int64_t first,
                     int64_t n, float *out)
{
    const void *from = at(type, x->data, first);
    if (x->col == 0) {
        const float v = load(type, from, 0);
        for (int64_t j = 0; j < n; j++)
            out[j] = v;
        return;
    }
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        out[j] = load(type, from, j);
}

// n elements of an operand from (i, j) as fp32: in place if they lie so.
TT_INLINE const float *operand(const tt_simd_operand *x, int64_t i, int64_t j,
                               int64_t n, float *space)
{
    const int64_t first = i * x->row + j * x->col;
    if (x->type == TT_SIMD_F32 && x->col == 1)
        return (const float *)x->data + first;
    if (x->type == TT_SIMD_BF16)
        widen(TT_SIMD_BF16, x, first, n, space);
    else
        widen(TT_SIMD_F32, x, first, n, space);
    return space;
}

TT_INLINE void combine_loop(tt_simd_binary_op op, const float *a,
                            const float *b, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        y[j] = combine(op, a[j], b[j]);
}

TT_INLINE void combine_any(tt_simd_binary_op op, const float *a, const float *b,
                           float *y, int64_t n)
{
    switch (op) {
    case TT_SIMD_ADD:
        combine_loop(TT_SIMD_ADD, a, b, y, n);
        break;
    case TT_SIMD_SUB:
        combine_loop(TT_SIMD_SUB, a, b, y, n);
        break;
    case TT_SIMD_MUL:
        combine_loop(TT_SIMD_MUL, a, b, y, n);
        break;
    case TT_SIMD_DIV:
        combine_loop(TT_SIMD_DIV, a, b, y, n);
        break;
    }
}

// n columns from (i, j): operands of any kind meet as fp32 in the first-level
// cache, which costs nothing next to memory.
static void combine_block(const tt_simd_binary_args *x, int64_t i, int64_t j,
                          int64_t n)
{
    float a_space[COLS], b_space[COLS], y_space[COLS];
    const float *a = operand(&x->a, i, j, n, a_space);
    const float *b = operand(&x->b, i, j, n, b_space);
    if (x->type == TT_SIMD_F32) {
        combine_any(x->op, a, b, (float *)x->y + i * x->cols + j, n);
        return;
    }
    uint16_t *y = (uint16_t *)x->y + i * x->cols + j;
    combine_any(x->op, a, b, y_space, n);
#pragma omp simd
    for (int64_t k = 0; k < n; k++)
        y[k] = f32_to_bf16(y_space[k]);
}

// Whether rows follow each other as columns do, so that all are one long row.
static bool is_flat(const tt_simd_operand *x, int64_t cols)
{
    return x->row == x->col * cols;
}

static void binary(const tt_simd_binary_args *args)
{
    tt_simd_binary_args flat = *args;
    const tt_simd_binary_args *x = &flat;
    if (is_flat(&flat.a, flat.cols) && is_flat(&flat.b, flat.cols)) {
        flat.cols *= flat.rows;
        flat.rows = 1;
    }
    const int64_t step = tt__rows_per_block(x->cols);
    const int64_t row_blocks = tt__simd_blocks(x->rows, step);
    const int64_t col_blocks = tt__simd_blocks(x->cols, TT_BLOCK);
    const bool forks = x->rows * x->cols >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t task = 0; task < row_blocks * col_blocks; task++) {
        const int64_t first = task / col_blocks * step;
        const int64_t last = min_i64(x->rows, first + step);
        const int64_t col = task % col_blocks * TT_BLOCK;
        const int64_t end = min_i64(x->cols, col + TT_BLOCK);
        for (int64_t i = first; i < last; i++)
            for (int64_t j = col; j < end; j += COLS)
                combine_block(x, i, j, min_i64(COLS, end - j));
    }
}

TT_INLINE void axpby_block(tt_simd_type type, const tt_simd_axpby_args *a,
                           int64_t first, int64_t n)
{
    const void *x = at(type, a->x, first);
    void *y = at_mut(type, a->y, first);
    const float alpha = a->alpha, beta = a->beta;
    if (beta == 0.0f)
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            store(type, y, i, alpha * load(type, x, i));
    else
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            store(type, y, i,
                  alpha * load(type, x, i) + beta * load(type, y, i));
}

static void axpby(const tt_simd_axpby_args *a)
{
#pragma omp parallel for schedule(static) if (a->n >= TT_FORK_ELEMENTS)
    for (int64_t i = 0; i < a->n; i += TT_BLOCK) {
        if (a->type == TT_SIMD_BF16)
            axpby_block(TT_SIMD_BF16, a, i, min_i64(TT_BLOCK, a->n - i));
        else
            axpby_block(TT_SIMD_F32, a, i, min_i64(TT_BLOCK, a->n - i));
    }
}

static void fill(tt_simd_type type, void *y, int64_t n, float value)
{
#pragma omp parallel for schedule(static) if (n >= TT_FORK_ELEMENTS)
    for (int64_t i = 0; i < n; i += TT_BLOCK) {
        const int64_t end = min_i64(n, i + TT_BLOCK);
        if (type == TT_SIMD_BF16)
#pragma omp simd
            for (int64_t j = i; j < end; j++)
                store(TT_SIMD_BF16, y, j, value);
        else
#pragma omp simd
            for (int64_t j = i; j < end; j++)
                store(TT_SIMD_F32, y, j, value);
    }
}

TT_INLINE void cast_block(tt_simd_type from, const void *x, tt_simd_type to,
                          void *y, const int64_t range[2])
{
#pragma omp simd
    for (int64_t i = range[0]; i < range[1]; i++)
        store(to, y, i, load(from, x, i));
}

static void cast(tt_simd_type from, const void *x, tt_simd_type to, void *y,
                 int64_t n)
{
#pragma omp parallel for schedule(static) if (n >= TT_FORK_ELEMENTS)
    for (int64_t i = 0; i < n; i += TT_BLOCK) {
        const int64_t range[2] = {i, min_i64(n, i + TT_BLOCK)};
        if (from == to)
            memmove(at_mut(to, y, i), at(from, x, i),
                    (size_t)((range[1] - i) * tt_simd_type_bytes(to)));
        else if (from == TT_SIMD_F32)
            cast_block(TT_SIMD_F32, x, TT_SIMD_BF16, y, range);
        else
            cast_block(TT_SIMD_BF16, x, TT_SIMD_F32, y, range);
    }
}

const tt_simd_elementwise TT_SYMBOL(tt_simd_elementwise) = {
    .binary = binary,
    .axpby = axpby,
    .fill = fill,
    .cast = cast,
};
