// fold - sums over the middle of [outer, count, inner]. A task is one entry of outer
// and a piece of the columns, so that no two tasks write the same result. Rows (inner
// 1) are summed in fp32 by blocks of PART, and the blocks in double: as fast as fp32,
// with a rounding error that does not grow with the row.

#include "backend/cpu/simd/fold.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

extern const tt_simd_fold TT_SYMBOL(tt_simd_fold);

// Columns of a task; elements that are added up in fp32 before double takes over.
enum { COLS = 256, PART = 256 };

// The larger of both; a NaN wins.
TT_INLINE float larger(float a, float b)
{
    return b != b || b > a ? b : a;
}

TT_INLINE float fold_row(tt_simd_type type, bool is_max, const void *x,
                         int64_t n)
{
    double total = 0.0;
    float top = -INFINITY;
    for (int64_t first = 0; first < n; first += PART) {
        const int64_t end = min_i64(n, first + PART);
        float sum = 0.0f;
        if (is_max) {
            for (int64_t j = first; j < end; j++)
                top = larger(top, load(type, x, j));
            continue;
        }
#pragma omp simd reduction(+ : sum)
        for (int64_t j = first; j < end; j++)
            sum += load(type, x, j);
        total += (double)sum;
    }
    return is_max ? top : (float)total;
}

TT_INLINE void fold_columns(tt_simd_type type, const tt_simd_fold_args *a,
                            int64_t o, int64_t col)
{
    const int64_t n = min_i64(COLS, a->inner - col);
    const void *x = at(type, a->x, o * a->count * a->inner + col);
    float *y = a->y + o * a->inner + col;
    float part[COLS];
    for (int64_t j = 0; j < n; j++)
        y[j] = a->is_max ? -INFINITY : 0.0f;
    for (int64_t first = 0; first < a->count; first += PART) {
        const int64_t end = min_i64(a->count, first + PART);
        for (int64_t j = 0; j < n; j++)
            part[j] = a->is_max ? -INFINITY : 0.0f;
        for (int64_t c = first; c < end; c++) {
            const void *row = at(type, x, c * a->inner);
            if (a->is_max)
#pragma omp simd
                for (int64_t j = 0; j < n; j++)
                    part[j] = larger(part[j], load(type, row, j));
            else
#pragma omp simd
                for (int64_t j = 0; j < n; j++)
                    part[j] += load(type, row, j);
        }
        for (int64_t j = 0; j < n; j++)
            y[j] = a->is_max ? larger(y[j], part[j]) : y[j] + part[j];
    }
}

TT_INLINE void task(tt_simd_type type, const tt_simd_fold_args *a, int64_t o,
                    int64_t col)
{
    if (a->inner > 1)
        fold_columns(type, a, o, col);
    else
        a->y[o] =
            fold_row(type, a->is_max, at(type, a->x, o * a->count), a->count);
}

static void run(const tt_simd_fold_args *a)
{
    const int64_t pieces = tt__simd_blocks(a->inner, COLS);
    const bool forks = a->outer * a->count * a->inner >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t t = 0; t < a->outer * pieces; t++) {
        const int64_t o = t / pieces, col = t % pieces * COLS;
        if (a->type == TT_SIMD_BF16)
            task(TT_SIMD_BF16, a, o, col);
        else
            task(TT_SIMD_F32, a, o, col);
    }
}

const tt_simd_fold TT_SYMBOL(tt_simd_fold) = {
    .run = run,
};
