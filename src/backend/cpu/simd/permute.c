// permute - a copy between two arrays of the same shape with different strides.
//
// First the dims are sorted by y's strides and neighbours are merged. Two cases are
// left:
//
//   runs    the innermost dim is contiguous on both sides: memcpy of pieces
//   tiles   x runs along another dim. That dim becomes the rows, and the copy is a
//           batch of 2-d transposes in tiles of 32 x 32
//
// A tile of both sides fits the first-level cache. Without tiles each element of one
// side would fetch a cache line of its own.

#include "backend/cpu/simd/permute.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/tile.h"

#include <stdbool.h>

extern const tt_simd_permute TT_SYMBOL(tt_simd_permute);

enum { DIMS = TT_SIMD_PERMUTE_DIMS, TILE = 32, RUN = 4096 };

// The normal form: batches of a 2-d copy, cut into pieces of rows x cols.
typedef struct shape {
    int64_t dims[DIMS], x[DIMS], y[DIMS];
    int64_t piece_rows, piece_cols;
} shape;

static void swap(shape *s, int i, int j)
{
    int64_t *const lists[3] = {s->dims, s->x, s->y};
    for (int k = 0; k < 3; k++) {
        const int64_t t = lists[k][i];
        lists[k][i] = lists[k][j];
        lists[k][j] = t;
    }
}

static void sort_dims(shape *s)
{
    for (int i = 1; i < DIMS; i++)
        for (int j = i; j > 0 && s->y[j] > s->y[j - 1]; j--)
            swap(s, j, j - 1);
}

static void merge_dims(shape *s)
{
    for (int i = DIMS - 1; i > 0; i--) {
        const bool joins = s->dims[i - 1] > 1 &&
                           s->x[i - 1] == s->dims[i] * s->x[i] &&
                           s->y[i - 1] == s->dims[i] * s->y[i];
        if (!joins)
            continue;
        s->dims[i] *= s->dims[i - 1];
        for (int j = i - 1; j > 0; j--) {
            s->dims[j] = s->dims[j - 1];
            s->x[j] = s->x[j - 1];
            s->y[j] = s->y[j - 1];
        }
        s->dims[0] = 1;
        i++; // the merged dim may join the next one too
    }
}

static shape normal_form(const tt_simd_permute_args *a)
{
    shape s = {.piece_rows = 1, .piece_cols = RUN};
    for (int i = 0; i < DIMS; i++) {
        s.dims[i] = a->dims[i];
        s.x[i] = a->x_stride[i];
        // Nobody steps along a dim of extent 1: it goes to the front.
        s.y[i] = a->dims[i] > 1 ? a->y_stride[i] : INT64_MAX;
    }
    sort_dims(&s);
    merge_dims(&s);
    if (s.x[DIMS - 1] == 1 && s.y[DIMS - 1] == 1)
        return s;
    // x runs along another dimension: bring it next to the innermost.
    for (int i = 0; i < DIMS - 2; i++)
        if (s.dims[i] > 1 && s.x[i] == 1)
            swap(&s, i, DIMS - 2);
    s.piece_rows = TILE;
    s.piece_cols = TILE;
    return s;
}

TT_INLINE void copy_tile(tt_simd_type type, const shape *s, const void *x,
                         void *y, int64_t rows, int64_t cols)
{
    const int64_t xr = s->x[DIMS - 2], xc = s->x[DIMS - 1];
    const int64_t yr = s->y[DIMS - 2], yc = s->y[DIMS - 1];
    if (type == TT_SIMD_F32 && xr == 1 && yc == 1) {
        tile_transpose(x, xc, y, yr, cols, rows);
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            if (type == TT_SIMD_BF16)
                ((uint16_t *)y)[i * yr + j * yc] =
                    ((const uint16_t *)x)[i * xr + j * xc];
            else
                ((float *)y)[i * yr + j * yc] =
                    ((const float *)x)[i * xr + j * xc];
        }
}

static void copy_piece(tt_simd_type type, const shape *s, const void *x,
                       void *y, const int64_t size[2])
{
    if (s->piece_rows == 1)
        memcpy(y, x, (size_t)(size[1] * tt_simd_type_bytes(type)));
    else if (type == TT_SIMD_BF16)
        copy_tile(TT_SIMD_BF16, s, x, y, size[0], size[1]);
    else
        copy_tile(TT_SIMD_F32, s, x, y, size[0], size[1]);
}

static void copy(const tt_simd_permute_args *a)
{
    const shape s = normal_form(a);
    const int64_t rows = s.dims[DIMS - 2], cols = s.dims[DIMS - 1];
    const int64_t row_pieces = tt__simd_blocks(rows, s.piece_rows);
    const int64_t col_pieces = tt__simd_blocks(cols, s.piece_cols);
    const int64_t batches = s.dims[0] * s.dims[1];
    const bool forks = batches * rows * cols >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t task = 0; task < batches * row_pieces; task++) {
        const int64_t batch = task / row_pieces;
        const int64_t i0 = batch / s.dims[1], i1 = batch % s.dims[1];
        const int64_t r = task % row_pieces * s.piece_rows;
        const int64_t x = i0 * s.x[0] + i1 * s.x[1] + r * s.x[2];
        const int64_t y = i0 * s.y[0] + i1 * s.y[1] + r * s.y[2];
        for (int64_t p = 0; p < col_pieces; p++) {
            const int64_t c = p * s.piece_cols;
            const int64_t size[2] = {min_i64(s.piece_rows, rows - r),
                                     min_i64(s.piece_cols, cols - c)};
            copy_piece(a->type, &s, at(a->type, a->x, x + c * s.x[3]),
                       at_mut(a->type, a->y, y + c * s.y[3]), size);
        }
    }
}

const tt_simd_permute TT_SYMBOL(tt_simd_permute) = {
    .copy = copy,
};
