// norm - one row at a time: a row stays in the first-level cache between the passes
// over it. Gradients of the parameters are column sums; they are cut into parts of the
// rows that depend on the size alone (parallel.h).

#include "backend/cpu/simd/norm.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

extern const tt_simd_norm TT_SYMBOL(tt_simd_norm);

enum { COLS = 256 }; // columns of a block of parameter gradients

// The sum of x - mean, or of its square. The row is summed in four quarters at the same
// time: in a single chain each addition would wait for the one before.
TT_INLINE float sum_of(tt_simd_type type, const void *x, int64_t n, float mean,
                       const bool squares)
{
    const int64_t q = n / 4;
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
#pragma omp simd reduction(+ : a, b, c, d)
    for (int64_t j = 0; j < q; j++) {
        const float xa = load(type, x, j) - mean;
        const float xb = load(type, x, q + j) - mean;
        const float xc = load(type, x, 2 * q + j) - mean;
        const float xd = load(type, x, 3 * q + j) - mean;
        a += squares ? xa * xa : xa;
        b += squares ? xb * xb : xb;
        c += squares ? xc * xc : xc;
        d += squares ? xd * xd : xd;
    }
    for (int64_t j = 4 * q; j < n; j++) {
        const float v = load(type, x, j) - mean;
        a += squares ? v * v : v;
    }
    return (a + b) + (c + d);
}

TT_INLINE void scale_row(tt_simd_type type, const tt_simd_norm_args *a,
                         const void *x, void *y, float mean, float rstd)
{
    const float *g = a->gamma, *b = a->beta;
    if (b != NULL)
#pragma omp simd
        for (int64_t j = 0; j < a->cols; j++)
            store(type, y, j, (load(type, x, j) - mean) * rstd * g[j] + b[j]);
    else
#pragma omp simd
        for (int64_t j = 0; j < a->cols; j++)
            store(type, y, j, (load(type, x, j) - mean) * rstd * g[j]);
}

TT_INLINE void forward_row(tt_simd_type type, const tt_simd_norm_args *a,
                           int64_t r)
{
    const void *x = at(type, a->x, r * a->cols);
    const int64_t n = a->cols;
    const float mean =
        a->is_rms ? 0.0f : sum_of(type, x, n, 0.0f, false) / (float)n;
    const float variance = sum_of(type, x, n, mean, true) / (float)n;
    const float rstd = 1.0f / sqrtf(variance + a->epsilon);
    scale_row(type, a, x, at_mut(type, a->y, r * a->cols), mean, rstd);
    if (!a->is_rms)
        a->mean[r] = mean;
    a->rstd[r] = rstd;
}

static void forward(const tt_simd_norm_args *a)
{
    TT_EACH_ROW(a, a->rows * a->cols >= TT_FORK_ELEMENTS, forward_row);
}

// d_x = rstd (g - mean(g) - xhat mean(g xhat)) with g = d_y gamma.
TT_INLINE void backward_row(tt_simd_type type, const tt_simd_norm_args *a,
                            int64_t r)
{
    const int64_t n = a->cols;
    const float *gamma = a->gamma;
    const void *x = at(type, a->x, r * n), *dy = at(type, a->d_y, r * n);
    void *dx = at_mut(type, a->d_x, r * n);
    const float mean = a->is_rms ? 0.0f : a->mean[r], rstd = a->rstd[r];
    float sum = 0.0f, dot = 0.0f;
#pragma omp simd reduction(+ : sum, dot)
    for (int64_t j = 0; j < n; j++) {
        const float g = load(type, dy, j) * gamma[j];
        sum += g;
        dot += g * ((load(type, x, j) - mean) * rstd);
    }
    sum = a->is_rms ? 0.0f : sum / (float)n;
    dot /= (float)n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float g = load(type, dy, j) * gamma[j];
        const float xhat = (load(type, x, j) - mean) * rstd;
        store(type, dx, j, rstd * (g - sum - xhat * dot));
    }
}

static void backward_input(const tt_simd_norm_args *a)
{
    TT_EACH_ROW(a, a->rows * a->cols >= TT_FORK_ELEMENTS, backward_row);
}

// Adds rows [first, last) of columns [col, col + n) to two sums.
TT_INLINE void add_rows(tt_simd_type type, const tt_simd_norm_args *a,
                        const int64_t rows[2], int64_t col, float *sums)
{
    const int64_t n = min_i64(COLS, a->cols - col);
    float gamma[COLS] = {0}, beta[COLS] = {0};
    for (int64_t r = rows[0]; r < rows[1]; r++) {
        const void *x = at(type, a->x, r * a->cols + col);
        const void *dy = at(type, a->d_y, r * a->cols + col);
        const float mean = a->is_rms ? 0.0f : a->mean[r], rstd = a->rstd[r];
#pragma omp simd
        for (int64_t j = 0; j < n; j++) {
            const float g = load(type, dy, j);
            gamma[j] += g * ((load(type, x, j) - mean) * rstd);
            beta[j] += g;
        }
    }
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        sums[col + j] += gamma[j];
        sums[a->cols + col + j] += beta[j];
    }
}

// Sums a part in groups of rows, so that rounding grows with their number only.
TT_INLINE void sum_part(tt_simd_type type, const tt_simd_norm_args *a,
                        const int64_t part[2], int64_t col, float *sums)
{
    const int64_t n = min_i64(COLS, a->cols - col);
    memset(sums + col, 0, (size_t)n * sizeof(float));
    memset(sums + a->cols + col, 0, (size_t)n * sizeof(float));
    for (int64_t r = part[0]; r < part[1]; r += TT_GROUP_ROWS) {
        const int64_t rows[2] = {r, min_i64(part[1], r + TT_GROUP_ROWS)};
        add_rows(type, a, rows, col, sums);
    }
}

static void add_parts(const tt_simd_norm_args *a, const float *partials,
                      int64_t parts, float *out)
{
    if (out == NULL)
        return;
    for (int64_t p = 0; p < parts; p++) {
        const float *from = partials + p * 2 * a->cols;
        if (p == 0 && !a->accumulates)
            memcpy(out, from, (size_t)a->cols * sizeof(float));
        else
#pragma omp simd
            for (int64_t j = 0; j < a->cols; j++)
                out[j] += from[j];
    }
}

static int64_t params_scratch_bytes(int64_t rows, int64_t cols)
{
    return tt__parts(rows) * 2 * cols * 4;
}

static void backward_params(const tt_simd_norm_args *a)
{
    const int64_t parts = tt__parts(a->rows);
    const int64_t length = tt__simd_blocks(a->rows, parts);
    const int64_t blocks = tt__simd_blocks(a->cols, COLS);
    const bool forks = a->rows * a->cols >= TT_FORK_ELEMENTS;
    float *partials = a->scratch;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t task = 0; task < parts * blocks; task++) {
        const int64_t p = task / blocks, col = task % blocks * COLS;
        const int64_t rows[2] = {min_i64(a->rows, p * length),
                                 min_i64(a->rows, (p + 1) * length)};
        float *partial = partials + p * 2 * a->cols;
        if (a->type == TT_SIMD_BF16)
            sum_part(TT_SIMD_BF16, a, rows, col, partial);
        else
            sum_part(TT_SIMD_F32, a, rows, col, partial);
    }
    add_parts(a, partials, parts, a->d_gamma);
    add_parts(a, partials + a->cols, parts, a->d_beta);
}

const tt_simd_norm TT_SYMBOL(tt_simd_norm) = {
    .forward = forward,
    .backward_input = backward_input,
    .backward_params = backward_params,
    .params_scratch_bytes = params_scratch_bytes,
};
