// embedding - forward is a gather of rows. Backward adds rows to the table, and several
// ids may be the same. So each thread adds all rows, in order, but only in its own
// columns: no two threads write the same element, and the order is always the same.

#include "backend/cpu/simd/embedding.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

extern const tt_simd_embedding TT_SYMBOL(tt_simd_embedding);

enum { COLS = 64 };

TT_INLINE bool is_inside(const tt_simd_embedding_args *a, int64_t id)
{
    return id >= 0 && id < a->vocab;
}

TT_INLINE void gather_row(tt_simd_type from, tt_simd_type to,
                          const tt_simd_embedding_args *a, int64_t i)
{
    const int64_t id = a->ids[i], n = a->cols;
    void *y = at_mut(to, a->y, i * n);
    if (!is_inside(a, id)) {
        for (int64_t j = 0; j < n; j++)
            store(to, y, j, NAN);
        return;
    }
    const void *row = at(from, a->table, id * n);
    if (a->positions == NULL) {
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            store(to, y, j, load(from, row, j));
        return;
    }
    const int64_t position = a->first_position + i % a->length;
    const void *shift = at(from, a->positions, position * n);
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        store(to, y, j, load(from, row, j) + load(from, shift, j));
}

static void forward(const tt_simd_embedding_args *a)
{
    const bool forks = a->n_ids * a->cols >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t i = 0; i < a->n_ids; i++) {
        if (a->table_type == TT_SIMD_F32 && a->type == TT_SIMD_F32)
            gather_row(TT_SIMD_F32, TT_SIMD_F32, a, i);
        else if (a->table_type == TT_SIMD_F32)
            gather_row(TT_SIMD_F32, TT_SIMD_BF16, a, i);
        else if (a->type == TT_SIMD_F32)
            gather_row(TT_SIMD_BF16, TT_SIMD_F32, a, i);
        else
            gather_row(TT_SIMD_BF16, TT_SIMD_BF16, a, i);
    }
}

TT_INLINE void scatter_columns(tt_simd_type type,
                               const tt_simd_embedding_args *a, int64_t col)
{
    const int64_t n = min_i64(COLS, a->cols - col);
    for (int64_t i = 0; i < a->n_ids; i++) {
        if (!is_inside(a, a->ids[i]))
            continue;
        const void *d = at(type, a->d_y, i * a->cols + col);
        float *row = a->d_table + a->ids[i] * a->cols + col;
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            row[j] += load(type, d, j);
    }
}

static void backward(const tt_simd_embedding_args *a)
{
    const int64_t size = a->vocab * a->cols;
    const int64_t blocks = tt__simd_blocks(a->cols, COLS);
    const bool forks = a->n_ids * a->cols >= TT_FORK_ELEMENTS;
    if (!a->accumulates) {
#pragma omp parallel for schedule(static) if (size >= TT_FORK_ELEMENTS)
        for (int64_t i = 0; i < size; i += TT_BLOCK)
            memset(a->d_table + i, 0,
                   (size_t)min_i64(TT_BLOCK, size - i) * sizeof(float));
    }
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t block = 0; block < blocks; block++) {
        if (a->type == TT_SIMD_BF16)
            scatter_columns(TT_SIMD_BF16, a, block * COLS);
        else
            scatter_columns(TT_SIMD_F32, a, block * COLS);
    }
}

const tt_simd_embedding TT_SYMBOL(tt_simd_embedding) = {
    .forward = forward,
    .backward = backward,
};
