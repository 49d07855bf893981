// batchnorm - sums in fp64 over fixed parts: of the outer dimension if channels
// are last, else one channel is one task.

#include "backend/cpu/simd/batchnorm.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

#include <stdbool.h>

extern const tt_simd_batchnorm TT_SYMBOL(tt_simd_batchnorm);

typedef tt_simd_batchnorm_args args;

// What is summed per channel: x and x^2, or d_y and d_y xhat.
typedef enum what { MOMENTS, GRADIENTS } what;

static int64_t n_parts(const args *a)
{
    return a->inner == 1 ? tt__parts(a->outer) : 1;
}

static int64_t scratch_bytes(const args *a)
{
    return n_parts(a) * 2 * a->channels * 8;
}

static bool forks(const args *a)
{
    return a->outer * a->channels * a->inner >= TT_FORK_ELEMENTS;
}

// Adds rows of channels to two rows of sums.
TT_INLINE void add_row(what kind, tt_simd_type type, const args *a, int64_t r,
                       double *sums)
{
    const int64_t n = a->channels;
    const void *x = at(type, a->x, r * n);
    const void *dy = kind == MOMENTS ? x : at(type, a->d_y, r * n);
#pragma omp simd
    for (int64_t c = 0; c < n; c++) {
        const float v = load(type, x, c), d = load(type, dy, c);
        const float other = kind == MOMENTS ? v : (v - a->mean[c]) * a->rstd[c];
        sums[c] += (double)d;
        sums[n + c] += (double)d * (double)other;
    }
}

// Sums of one channel, which lies in `outer` runs of `inner` elements.
TT_INLINE void sum_channel(what kind, tt_simd_type type, const args *a,
                           int64_t c, double *sums)
{
    const float mean = kind == MOMENTS ? 0.0f : a->mean[c];
    const float rstd = kind == MOMENTS ? 1.0f : a->rstd[c];
    double first = 0.0, second = 0.0;
    for (int64_t i = 0; i < a->outer; i++) {
        const int64_t start = (i * a->channels + c) * a->inner;
        const void *x = at(type, a->x, start);
        const void *dy = kind == MOMENTS ? x : at(type, a->d_y, start);
#pragma omp simd reduction(+ : first, second)
        for (int64_t j = 0; j < a->inner; j++) {
            const float v = load(type, x, j), d = load(type, dy, j);
            first += (double)d;
            second += (double)d * (double)((v - mean) * rstd);
        }
    }
    sums[c] = first;
    sums[a->channels + c] = second;
}

TT_INLINE void sum_part(what kind, tt_simd_type type, const args *a, int64_t p,
                        double *sums)
{
    const int64_t length = tt__blocks(a->outer, n_parts(a));
    const int64_t last = min_i64(a->outer, (p + 1) * length);
    memset(sums, 0, (size_t)(2 * a->channels) * sizeof(double));
    for (int64_t r = p * length; r < last; r++)
        add_row(kind, type, a, r, sums);
}

// Part p, or channel p: the kind and type are constants from here on.
static void sum_task(what kind, const args *a, int64_t p)
{
    double *sums = a->scratch;
    const bool is_bf16 = a->type == TT_SIMD_BF16;
    if (a->inner == 1) {
        sums += p * 2 * a->channels;
        if (kind == MOMENTS)
            is_bf16 ? sum_part(MOMENTS, TT_SIMD_BF16, a, p, sums)
                    : sum_part(MOMENTS, TT_SIMD_F32, a, p, sums);
        else
            is_bf16 ? sum_part(GRADIENTS, TT_SIMD_BF16, a, p, sums)
                    : sum_part(GRADIENTS, TT_SIMD_F32, a, p, sums);
        return;
    }
    if (kind == MOMENTS)
        is_bf16 ? sum_channel(MOMENTS, TT_SIMD_BF16, a, p, sums)
                : sum_channel(MOMENTS, TT_SIMD_F32, a, p, sums);
    else
        is_bf16 ? sum_channel(GRADIENTS, TT_SIMD_BF16, a, p, sums)
                : sum_channel(GRADIENTS, TT_SIMD_F32, a, p, sums);
}

// The two sums of every channel, at the front of the scratch.
static void sum_all(what kind, const args *a)
{
    const int64_t parts = n_parts(a), row = 2 * a->channels;
    const int64_t tasks = a->inner == 1 ? parts : a->channels;
    double *sums = a->scratch;
#pragma omp parallel for schedule(static) if (forks(a))
    for (int64_t p = 0; p < tasks; p++)
        sum_task(kind, a, p);
    for (int64_t p = 1; p < parts; p++)
        for (int64_t c = 0; c < row; c++)
            sums[c] += sums[p * row + c];
}

static void statistics(const args *a)
{
    const double n = (double)(a->outer * a->inner);
    const double *sums = a->scratch;
    sum_all(MOMENTS, a);
    for (int64_t c = 0; c < a->channels; c++) {
        const double mean = sums[c] / n;
        const double variance = sums[a->channels + c] / n - mean * mean;
        a->mean[c] = (float)mean;
        a->variance[c] = (float)(variance < 0.0 ? 0.0 : variance);
    }
}

static void gradient_sums(const args *a)
{
    const double *sums = a->scratch;
    sum_all(GRADIENTS, a);
    for (int64_t c = 0; c < a->channels; c++) {
        a->sum_dy[c] = (float)sums[c];
        a->sum_dy_xhat[c] = (float)sums[a->channels + c];
    }
}

// The run of `inner` elements of channel c, and the row of all channels.
TT_INLINE void normalise_run(tt_simd_type type, const args *a, int64_t start,
                             int64_t c)
{
    const void *x = at(type, a->x, start);
    void *y = at_mut(type, a->y, start);
    const float mean = a->mean[c], scale = a->rstd[c] * a->gamma[c];
    const float beta = a->beta[c];
#pragma omp simd
    for (int64_t j = 0; j < a->inner; j++)
        store(type, y, j, (load(type, x, j) - mean) * scale + beta);
}

TT_INLINE void normalise_row(tt_simd_type type, const args *a, int64_t r)
{
    const void *x = at(type, a->x, r * a->channels);
    void *y = at_mut(type, a->y, r * a->channels);
    const float *mean = a->mean, *rstd = a->rstd;
    const float *gamma = a->gamma, *beta = a->beta;
#pragma omp simd
    for (int64_t c = 0; c < a->channels; c++)
        store(type, y, c,
              (load(type, x, c) - mean[c]) * (rstd[c] * gamma[c]) + beta[c]);
}

TT_INLINE float slope(float d, float xhat, float mean_dy, float mean_dy_xhat)
{
    return d - mean_dy - xhat * mean_dy_xhat;
}

TT_INLINE void backward_run(tt_simd_type type, const args *a, int64_t start,
                            int64_t c)
{
    const void *x = at(type, a->x, start), *dy = at(type, a->d_y, start);
    void *dx = at_mut(type, a->d_x, start);
    const float mean = a->mean[c], rstd = a->rstd[c],
                inv = 1.0f / (float)a->count;
    const float m1 = a->sum_dy[c] * inv, m2 = a->sum_dy_xhat[c] * inv;
    const float scale = rstd * a->gamma[c];
#pragma omp simd
    for (int64_t j = 0; j < a->inner; j++) {
        const float xhat = (load(type, x, j) - mean) * rstd;
        store(type, dx, j, scale * slope(load(type, dy, j), xhat, m1, m2));
    }
}

TT_INLINE void backward_row(tt_simd_type type, const args *a, int64_t r)
{
    const void *x = at(type, a->x, r * a->channels);
    const void *dy = at(type, a->d_y, r * a->channels);
    void *dx = at_mut(type, a->d_x, r * a->channels);
    const float *mean = a->mean, *rstd = a->rstd, *gamma = a->gamma;
    const float *s1 = a->sum_dy, *s2 = a->sum_dy_xhat;
    const float inv = 1.0f / (float)a->count;
#pragma omp simd
    for (int64_t c = 0; c < a->channels; c++) {
        const float xhat = (load(type, x, c) - mean[c]) * rstd[c];
        const float d =
            slope(load(type, dy, c), xhat, s1[c] * inv, s2[c] * inv);
        store(type, dx, c, rstd[c] * gamma[c] * d);
    }
}

TT_INLINE void normalise_any(tt_simd_type type, const args *a, int64_t i)
{
    if (a->inner == 1)
        normalise_row(type, a, i);
    else
        normalise_run(type, a, i * a->inner, i % a->channels);
}

TT_INLINE void backward_any(tt_simd_type type, const args *a, int64_t i)
{
    if (a->inner == 1)
        backward_row(type, a, i);
    else
        backward_run(type, a, i * a->inner, i % a->channels);
}

static int64_t n_runs(const args *a)
{
    return a->inner == 1 ? a->outer : a->outer * a->channels;
}

static void normalise(const args *a)
{
#pragma omp parallel for schedule(static) if (forks(a))
    for (int64_t i = 0; i < n_runs(a); i++) {
        if (a->type == TT_SIMD_BF16)
            normalise_any(TT_SIMD_BF16, a, i);
        else
            normalise_any(TT_SIMD_F32, a, i);
    }
}

static void backward(const args *a)
{
#pragma omp parallel for schedule(static) if (forks(a))
    for (int64_t i = 0; i < n_runs(a); i++) {
        if (a->type == TT_SIMD_BF16)
            backward_any(TT_SIMD_BF16, a, i);
        else
            backward_any(TT_SIMD_F32, a, i);
    }
}

const tt_simd_batchnorm TT_SYMBOL(tt_simd_batchnorm) = {
    .scratch_bytes = scratch_bytes,
    .statistics = statistics,
    .normalise = normalise,
    .gradient_sums = gradient_sums,
    .backward = backward,
};
