// loss - softmax and cross-entropy, row by row. Each row is read twice: for the
// maximum, then for the sum of exponentials. Between the two even the row of a large
// vocabulary stays in the second-level cache.

#include "backend/cpu/simd/loss.h"

#include "backend/cpu/simd/elementary.h"
#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/vec.h"

#include <stdbool.h>

extern const tt_simd_loss TT_SYMBOL(tt_simd_loss);

// Long rows are summed in blocks, so that rounding does not grow with the row.
TT_INLINE float exp_sum(tt_simd_type type, const void *x, int64_t n, float top)
{
    float total = 0.0f;
    for (int64_t first = 0; first < n; first += TT_BLOCK) {
        const int64_t end = min_i64(n, first + TT_BLOCK);
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = first; j < end; j++)
            sum += v_exp_below(load(type, x, j) - top);
        total += sum;
    }
    return total;
}

TT_INLINE void softmax_row(tt_simd_type type, const tt_simd_softmax_args *a,
                           int64_t r)
{
    const void *x = at(type, a->x, r * a->cols);
    void *y = at_mut(type, a->y, r * a->cols);
    // NaN is not found by the maximum, but turns the sum into NaN.
    const float top = max_of(type, x, a->cols);
    const float factor = 1.0f / exp_sum(type, x, a->cols, top);
#pragma omp simd
    for (int64_t j = 0; j < a->cols; j++)
        store(type, y, j, factor * v_exp_below(load(type, x, j) - top));
}

TT_INLINE void softmax_backward_row(tt_simd_type type,
                                    const tt_simd_softmax_args *a, int64_t r)
{
    const void *y = at(type, a->y, r * a->cols);
    const void *dy = at(type, a->d_y, r * a->cols);
    void *dx = at_mut(type, a->d_x, r * a->cols);
    float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
    for (int64_t j = 0; j < a->cols; j++)
        dot += load(type, y, j) * load(type, dy, j);
#pragma omp simd
    for (int64_t j = 0; j < a->cols; j++)
        store(type, dx, j, load(type, y, j) * (load(type, dy, j) - dot));
}

static void softmax(const tt_simd_softmax_args *a)
{
    TT_EACH_ROW(a, a->rows * a->cols >= TT_FORK_ELEMENTS, softmax_row);
}

static void softmax_backward(const tt_simd_softmax_args *a)
{
    TT_EACH_ROW(a, a->rows * a->cols >= TT_FORK_ELEMENTS, softmax_backward_row);
}

TT_INLINE float mean_of(tt_simd_type type, const void *x, int64_t n)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += (double)load(type, x, j);
    return (float)(sum / (double)n);
}

TT_INLINE void loss_row(tt_simd_type type, const tt_simd_cross_entropy_args *a,
                        int64_t r)
{
    const void *x = at(type, a->logits, r * a->cols);
    const int64_t label = a->labels[r];
    const float top = max_of(type, x, a->cols);
    const float lse = top + v_log(exp_sum(type, x, a->cols, top));
    a->lse[r] = lse;
    if (label < 0 || label >= a->cols) {
        a->loss[r] = label < 0 ? 0.0f : NAN;
        return;
    }
    float target = load(type, x, label);
    if (a->smoothing != 0.0f)
        target = (1.0f - a->smoothing) * target +
                 a->smoothing * mean_of(type, x, a->cols);
    a->loss[r] = lse - target;
}

TT_INLINE void loss_backward_row(tt_simd_type type,
                                 const tt_simd_cross_entropy_args *a, int64_t r)
{
    const void *x = at(type, a->logits, r * a->cols);
    void *d = at_mut(type, a->d_logits, r * a->cols);
    const int64_t label = a->labels[r];
    if (label < 0) {
        memset(d, 0, (size_t)(a->cols * tt_simd_type_bytes(type)));
        return;
    }
    const bool is_known = label < a->cols || a->vocab > a->cols;
    const float lse = is_known ? a->lse[r] : NAN;
    const int64_t vocab = a->vocab > a->cols ? a->vocab : a->cols;
    const float shared = a->smoothing / (float)vocab, scale = a->scale;
    const float x_label = label < a->cols ? load(type, x, label) : NAN;
#pragma omp simd
    for (int64_t j = 0; j < a->cols; j++)
        store(type, d, j,
              (v_exp_below(load(type, x, j) - lse) - shared) * scale);
    if (label < a->cols)
        store(type, d, label,
              (v_exp_below(x_label - lse) - shared - (1.0f - a->smoothing)) *
                  scale);
}

static void cross_entropy(const tt_simd_cross_entropy_args *a)
{
    TT_EACH_ROW(a, a->rows * a->cols >= TT_FORK_ELEMENTS, loss_row);
}

static void cross_entropy_backward(const tt_simd_cross_entropy_args *a)
{
    TT_EACH_ROW(a, a->rows * a->cols >= TT_FORK_ELEMENTS, loss_backward_row);
}

static void total(const tt_simd_cross_entropy_args *a, double *sum_out,
                  int64_t *count_out)
{
    double sum = 0.0;
    int64_t count = 0;
    for (int64_t r = 0; r < a->rows; r++) {
        sum += (double)a->loss[r];
        count += a->labels[r] >= 0;
    }
    *sum_out = sum;
    *count_out = count;
}

static void slice_top(const tt_simd_slice_args *a)
{
    const bool forks = a->rows * a->cols >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t r = 0; r < a->rows; r++) {
        const void *x = at(a->type, a->logits, r * a->cols);
        a->tops[r] = a->type == TT_SIMD_BF16 ? max_of(TT_SIMD_BF16, x, a->cols)
                                             : max_of(TT_SIMD_F32, x, a->cols);
    }
}

TT_INLINE void slice_row(tt_simd_type type, const tt_simd_slice_args *a,
                         int64_t r)
{
    const void *x = at(type, a->logits, r * a->cols);
    const int64_t label = a->labels[r];
    float target = 0.0f;
    if (label >= 0 && label < a->cols)
        target = (1.0f - a->smoothing) * load(type, x, label);
    if (a->smoothing != 0.0f)
        target += a->smoothing * mean_of(type, x, a->cols) * (float)a->cols /
                  (float)a->vocab;
    a->sums[r] = exp_sum(type, x, a->cols, a->tops[r]);
    a->targets[r] = target;
}

static void slice_terms(const tt_simd_slice_args *a)
{
    TT_EACH_ROW(a, a->rows * a->cols >= TT_FORK_ELEMENTS, slice_row);
}

const tt_simd_loss TT_SYMBOL(tt_simd_loss) = {
    .softmax = softmax,
    .softmax_backward = softmax_backward,
    .cross_entropy = cross_entropy,
    .cross_entropy_backward = cross_entropy_backward,
    .total = total,
    .slice_top = slice_top,
    .slice_terms = slice_terms,
};
