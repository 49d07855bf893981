// score - how many predictions are correct, and squared errors. Whether a label's entry
// is the first of the largest needs no maximum: no entry before it may be as large,
// and none after it larger.

#include "backend/cpu/simd/attention/score.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

#include <stdbool.h>

extern const tt_simd_score TT_SYMBOL(tt_simd_score);

enum { PART = 256 }; // squares added up in fp32 before double takes over

TT_INLINE bool is_hit(tt_simd_type type, const tt_simd_hits_args *a, int64_t r)
{
    const void *x = at(type, a->x, r * a->cols);
    const int64_t label = a->labels[r];
    if (label < 0 || label >= a->cols)
        return false;
    const float mine = load(type, x, label);
    int32_t above = 0;
#pragma omp simd reduction(| : above)
    for (int64_t j = 0; j < label; j++)
        above |= load(type, x, j) >= mine;
#pragma omp simd reduction(| : above)
    for (int64_t j = label + 1; j < a->cols; j++)
        above |= load(type, x, j) > mine;
    return above == 0;
}

static void hits(const tt_simd_hits_args *a)
{
    const bool forks = a->rows * a->cols >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t r = 0; r < a->rows; r++)
        a->is_hit[r] = a->type == TT_SIMD_BF16 ? is_hit(TT_SIMD_BF16, a, r)
                                               : is_hit(TT_SIMD_F32, a, r);
}

TT_INLINE float mark_of(tt_simd_type type, const tt_simd_marks_args *a,
                        int64_t r)
{
    const void *x = at(type, a->x, r * a->cols);
    const int64_t label = a->labels[r] - a->first;
    const int64_t before = max_i64(0, min_i64(label, a->cols));
    const float top = a->tops[r];
    int32_t is_there = 0;
#pragma omp simd reduction(| : is_there)
    for (int64_t j = 0; j < before; j++)
        is_there |= load(type, x, j) == top;
    if (is_there != 0)
        return 2.0f;
    return label >= 0 && label < a->cols && load(type, x, label) == top ? 1.0f
                                                                        : 0.0f;
}

static void marks(const tt_simd_marks_args *a)
{
    const bool forks = a->rows * a->cols >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t r = 0; r < a->rows; r++)
        a->marks[r] = a->type == TT_SIMD_BF16 ? mark_of(TT_SIMD_BF16, a, r)
                                              : mark_of(TT_SIMD_F32, a, r);
}

TT_INLINE double squares_row(tt_simd_type type, const tt_simd_squares_args *a,
                             int64_t r)
{
    double total = 0.0;
    for (int64_t first = 0; first < a->cols; first += PART) {
        const int64_t n = min_i64(PART, a->cols - first);
        const void *x = at(type, a->x, r * a->cols + first);
        const void *target = at(type, a->target, r * a->cols + first);
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++) {
            const float d = load(type, x, j) - load(type, target, j);
            sum += d * d;
        }
        total += (double)sum;
    }
    return a->weight == NULL ? total : total * (double)a->weight[r];
}

static void squares(const tt_simd_squares_args *a)
{
    const bool forks = a->rows * a->cols >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t r = 0; r < a->rows; r++)
        a->sums[r] = a->type == TT_SIMD_BF16 ? squares_row(TT_SIMD_BF16, a, r)
                                             : squares_row(TT_SIMD_F32, a, r);
}

TT_INLINE void squares_grad_row(tt_simd_type type,
                                const tt_simd_squares_args *a, int64_t r)
{
    const void *x = at(type, a->x, r * a->cols);
    const void *target = at(type, a->target, r * a->cols);
    void *d_x = at_mut(type, a->d_x, r * a->cols);
    const float factor =
        2.0f * a->scale * (a->weight == NULL ? 1.0f : a->weight[r]);
#pragma omp simd
    for (int64_t j = 0; j < a->cols; j++)
        store(type, d_x, j,
              factor * (load(type, x, j) - load(type, target, j)));
}

static void squares_grad(const tt_simd_squares_args *a)
{
    TT_EACH_ROW(a, a->rows * a->cols >= TT_FORK_ELEMENTS, squares_grad_row);
}

const tt_simd_score TT_SYMBOL(tt_simd_score) = {
    .hits = hits,
    .marks = marks,
    .squares = squares,
    .squares_grad = squares_grad,
};
