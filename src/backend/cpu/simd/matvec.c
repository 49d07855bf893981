// matvec - every thread computes a range of the result's columns.
//
// Bound by memory, so what counts is that each element of w is read once and in order:
//
//   plain w        streamed row by row; ROWS rows at a time are added to the sums,
// which
//                  stay in the first-level cache
//   transposed w   each row is a scalar product with x; several rows of x share each
//                  load of w

#include "backend/cpu/simd/matvec.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"
#include "backend/cpu/simd/vec.h"

#include <omp.h>

extern const tt_simd_matvec TT_SYMBOL(tt_simd_matvec);

enum {
    ROWS = 8,    // rows of the matrix that are read together
    UNIT = 16,   // columns: ranges start at multiples
    WIDE = 2048, // columns whose sums stay in the first cache
    TOGETHER =
        4, // rows of x, of a transposed w: for each load several products
    AHEAD = 1024, // elements: readers of the next page wait less
};

// Columns [from, to) of the result.
typedef struct range {
    int64_t from, to;
} range;

static range range_of(const tt_simd_matvec_args *a, int64_t thread,
                      int64_t threads)
{
    const int64_t units = (a->n + UNIT - 1) / UNIT;
    return (range){thread * units / threads * UNIT,
                   min_i64((thread + 1) * units / threads * UNIT, a->n)};
}

TT_INLINE void start(const tt_simd_matvec_args *a, float *sum, range r)
{
    if (a->bias == NULL)
        memset(sum + r.from, 0, (size_t)(r.to - r.from) * sizeof(float));
    else if (a->bias_type == TT_SIMD_BF16)
        for (int64_t j = r.from; j < r.to; j++)
            sum[j] = load(TT_SIMD_BF16, a->bias, j);
    else
        for (int64_t j = r.from; j < r.to; j++)
            sum[j] = load(TT_SIMD_F32, a->bias, j);
}

// Adds rows [i, i + ROWS) of w, times x, to n rows of sums from `row` on. n is a
// constant after inlining.
TT_INLINE void add_rows(tt_simd_type type, const tt_simd_matvec_args *a,
                        int64_t i, int64_t row, int n, range r)
{
    const void *w = at(type, a->w, i * a->n);
    float x[TOGETHER][ROWS], *sum = a->scratch + row * a->n;
    for (int g = 0; g < n; g++)
        for (int c = 0; c < ROWS; c++)
            x[g][c] = load(type, a->x, (row + g) * a->k + i + c);
    int64_t j = r.from;
    for (; j + TT_LANES <= r.to; j += TT_LANES) {
        tt__vec v[ROWS];
        for (int c = 0; c < ROWS; c++)
            v[c] = vec_load(type, w, c * a->n + j);
        for (int g = 0; g < n; g++) {
            tt__vec *to = (tt__vec *)(sum + g * a->n + j), s = *to;
            for (int c = 0; c < ROWS; c++)
                s += x[g][c] * v[c];
            *to = s;
        }
    }
    for (; j < r.to; j++)
        for (int g = 0; g < n; g++)
            for (int c = 0; c < ROWS; c++)
                sum[g * a->n + j] += x[g][c] * load(type, w, c * a->n + j);
}

TT_INLINE void add_row(tt_simd_type type, const tt_simd_matvec_args *a,
                       int64_t i, range r)
{
    const void *w = at(type, a->w, i * a->n);
    for (int64_t row = 0; row < a->m; row++) {
        const float x = load(type, a->x, row * a->k + i);
        float *sum = a->scratch + row * a->n;
#pragma omp simd
        for (int64_t j = r.from; j < r.to; j++)
            sum[j] += x * load(type, w, j);
    }
}

TT_INLINE void multiply(tt_simd_type type, const tt_simd_matvec_args *a,
                        range all)
{
    for (int64_t row = 0; row < a->m; row++)
        start(a, a->scratch + row * a->n, all);
    for (int64_t j = all.from; j < all.to; j += WIDE) {
        const range r = {j, min_i64(j + WIDE, all.to)};
        int64_t i = 0;
        for (; i + ROWS <= a->k; i += ROWS) {
            int64_t row = 0;
            for (; row + TOGETHER <= a->m; row += TOGETHER)
                add_rows(type, a, i, row, TOGETHER, r);
            for (; row < a->m; row++)
                add_rows(type, a, i, row, 1, r);
        }
        for (; i < a->k; i++)
            add_row(type, a, i, r);
    }
}

TT_INLINE float sum_lanes(tt__vec v)
{
    float sum = 0;
    for (int l = 0; l < TT_LANES; l++)
        sum += v[l];
    return sum;
}

// Scalar products of `rows` rows of x with `cols` rows of w (constants), added to
// the sums. Each is computed alike, however many go together.
TT_INLINE void add_dots(tt_simd_type type, const tt_simd_matvec_args *a,
                        int64_t row, int rows, int64_t col, int cols)
{
    const int64_t k = a->k;
    const float *x = a->scratch + a->m * a->n + row * k;
    const void *w = at(type, a->w, col * k);
    tt__vec sum[TOGETHER][TOGETHER] = {{{0}}};
    int64_t i = 0;
    for (; i + TT_LANES <= k; i += TT_LANES) {
        tt__vec v[TOGETHER];
        for (int c = 0; c < cols; c++) {
            v[c] = vec_load(type, w, c * k + i);
            __builtin_prefetch(at(type, w, c * k + i + AHEAD));
        }
        for (int g = 0; g < rows; g++) {
            const tt__vec u = vec_load(TT_SIMD_F32, x, g * k + i);
            for (int c = 0; c < cols; c++)
                sum[g][c] += u * v[c];
        }
    }
    for (int g = 0; g < rows; g++)
        for (int c = 0; c < cols; c++) {
            float s = sum_lanes(sum[g][c]);
            for (int64_t t = i; t < k; t++)
                s += x[g * k + t] * load(type, w, c * k + t);
            a->scratch[(row + g) * a->n + col + c] += s;
        }
}

// x as floats, in scratch memory after the sums.
TT_INLINE void multiply_transposed(tt_simd_type type,
                                   const tt_simd_matvec_args *a, range r)
{
    for (int64_t row = 0; row < a->m; row++)
        start(a, a->scratch + row * a->n, r);
    int64_t j = r.from;
    for (; j + TOGETHER <= r.to; j += TOGETHER) {
        int64_t row = 0;
        for (; row + TOGETHER <= a->m; row += TOGETHER)
            add_dots(type, a, row, TOGETHER, j, TOGETHER);
        for (; row < a->m; row++)
            add_dots(type, a, row, 1, j, TOGETHER);
    }
    for (; j < r.to; j++)
        for (int64_t row = 0; row < a->m; row++)
            add_dots(type, a, row, 1, j, 1);
}

TT_INLINE void finish(tt_simd_type type, const tt_simd_matvec_args *a, range r)
{
    for (int64_t row = 0; row < a->m; row++) {
        const float *sum = a->scratch + row * a->n;
        void *y = at_mut(type, a->y, row * a->n);
#pragma omp simd
        for (int64_t j = r.from; j < r.to; j++)
            store(type, y, j, sum[j]);
    }
}

TT_INLINE void run_range(tt_simd_type type, const tt_simd_matvec_args *a,
                         range r)
{
    if (a->is_transposed)
        multiply_transposed(type, a, r);
    else
        multiply(type, a, r);
    finish(type, a, r);
}

static void widen(const tt_simd_matvec_args *a)
{
    float *x = a->scratch + a->m * a->n;
    for (int64_t i = 0; i < a->m * a->k; i++)
        x[i] = load(a->type, a->x, i);
}

static void run(const tt_simd_matvec_args *a)
{
    const bool forks = a->n * a->k >= TT_FORK_ELEMENTS;
    if (a->is_transposed)
        widen(a);
#pragma omp parallel num_threads(a->threads) if (forks)
    {
        const range r =
            range_of(a, omp_get_thread_num(), omp_get_num_threads());
        if (a->type == TT_SIMD_BF16)
            run_range(TT_SIMD_BF16, a, r);
        else
            run_range(TT_SIMD_F32, a, r);
    }
}

static int64_t scratch_bytes(const tt_simd_matvec_args *a)
{
    return (a->m * a->n + (a->is_transposed ? a->m * a->k : 0)) *
           (int64_t)sizeof(float);
}

const tt_simd_matvec TT_SYMBOL(tt_simd_matvec) = {
    .scratch_bytes = scratch_bytes,
    .run = run,
};
