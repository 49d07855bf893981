// matvec - every thread has a range of columns of the result. Bound by memory: a
// plain matrix is streamed row by row, the sums wait in the first cache; of a
// transposed one each row is a scalar product.

#include "backend/cpu/simd/matvec.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

#include <omp.h>

extern const tt_simd_matvec TT_SYMBOL(tt_simd_matvec);

enum {
    ROWS = 8,   // rows of the matrix that are read together
    UNIT = 16,  // columns: ranges start at multiples
    WIDE = 2048 // columns whose sums stay in the first cache
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

// Adds `rows` (1 or ROWS, a constant) rows of w from row i on.
TT_INLINE void add_rows(tt_simd_type type, const tt_simd_matvec_args *a,
                        int64_t i, int rows, range r)
{
    const void *w = at(type, a->w, i * a->n);
    for (int64_t row = 0; row < a->m; row++) {
        float x[ROWS], *sum = a->scratch + row * a->n;
        for (int c = 0; c < rows; c++)
            x[c] = load(type, a->x, row * a->k + i + c);
#pragma omp simd
        for (int64_t j = r.from; j < r.to; j++) {
            float s = sum[j];
            for (int c = 0; c < rows; c++)
                s += x[c] * load(type, w, c * a->n + j);
            sum[j] = s;
        }
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
        for (; i + ROWS <= a->k; i += ROWS)
            add_rows(type, a, i, ROWS, r);
        for (; i < a->k; i++)
            add_rows(type, a, i, 1, r);
    }
}

TT_INLINE float dot(tt_simd_type type, const float *x, const void *w, int64_t n)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * load(type, w, i);
    return sum;
}

// x as floats lies behind the sums.
TT_INLINE void multiply_transposed(tt_simd_type type,
                                   const tt_simd_matvec_args *a, range r)
{
    const float *x = a->scratch + a->m * a->n;
    for (int64_t row = 0; row < a->m; row++)
        start(a, a->scratch + row * a->n, r);
    for (int64_t j = r.from; j < r.to; j++) {
        const void *w = at(type, a->w, j * a->k);
        for (int64_t row = 0; row < a->m; row++)
            a->scratch[row * a->n + j] += dot(type, x + row * a->k, w, a->k);
    }
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
