// reduce - column sums and sums of whole arrays, cut into parts that depend on the size
// alone. Parts of rows are summed in fp32 by groups, parts of arrays in fp64; the
// parts are then added in order.

#include "backend/cpu/simd/reduce.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/vec.h"

extern const tt_simd_reduce TT_SYMBOL(tt_simd_reduce);

enum { COLS = 512, ARRAY_PARTS = 64 };

TT_INLINE void add_rows(tt_simd_type type, const tt_simd_column_args *a,
                        const int64_t rows[2], int64_t col, float *sums)
{
    const int64_t n = min_i64(COLS, a->cols - col);
    float group[COLS] = {0};
    for (int64_t r = rows[0]; r < rows[1]; r++) {
        const void *x = at(type, a->x, r * a->cols + col);
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            group[j] += load(type, x, j);
    }
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        sums[col + j] += group[j];
}

// Sums a part in groups of rows, so that rounding grows with their number only.
TT_INLINE void sum_part(tt_simd_type type, const tt_simd_column_args *a,
                        const int64_t part[2], int64_t col, float *sums)
{
    const int64_t n = min_i64(COLS, a->cols - col);
    memset(sums + col, 0, (size_t)n * sizeof(float));
    for (int64_t r = part[0]; r < part[1]; r += TT_GROUP_ROWS) {
        const int64_t rows[2] = {r, min_i64(part[1], r + TT_GROUP_ROWS)};
        add_rows(type, a, rows, col, sums);
    }
}

static int64_t column_sum_scratch_bytes(int64_t rows, int64_t cols)
{
    return tt__parts(rows) * cols * 4;
}

static void add_parts(const tt_simd_column_args *a, int64_t parts, int64_t col)
{
    const int64_t n = min_i64(COLS, a->cols - col);
    const float *from = (const float *)a->scratch + col;
    float *y = a->y + col;
    if (!a->accumulates)
        memset(y, 0, (size_t)n * sizeof(float));
    for (int64_t p = 0; p < parts; p++, from += a->cols)
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            y[j] += from[j];
}

static void column_sum(const tt_simd_column_args *a)
{
    const int64_t parts = tt__parts(a->rows);
    const int64_t length = tt__simd_blocks(a->rows, parts);
    const int64_t blocks = tt__simd_blocks(a->cols, COLS);
    const bool forks = a->rows * a->cols >= TT_FORK_ELEMENTS;
#pragma omp parallel if (forks)
    {
#pragma omp for schedule(static)
        for (int64_t task = 0; task < parts * blocks; task++) {
            const int64_t p = task / blocks, col = task % blocks * COLS;
            const int64_t part[2] = {min_i64(a->rows, p * length),
                                     min_i64(a->rows, (p + 1) * length)};
            float *sums = (float *)a->scratch + p * a->cols;
            if (a->type == TT_SIMD_BF16)
                sum_part(TT_SIMD_BF16, a, part, col, sums);
            else
                sum_part(TT_SIMD_F32, a, part, col, sums);
        }
#pragma omp for schedule(static)
        for (int64_t block = 0; block < blocks; block++)
            add_parts(a, parts, block * COLS);
    }
}

// Long rows are summed in blocks, so that rounding does not grow with the row.
TT_INLINE float row_sum(tt_simd_type type, const void *x, int64_t n)
{
    float total = 0.0f;
    for (int64_t first = 0; first < n; first += TT_BLOCK) {
        const int64_t end = min_i64(n, first + TT_BLOCK);
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = first; j < end; j++)
            sum += load(type, x, j);
        total += sum;
    }
    return total;
}

TT_INLINE float row_max(tt_simd_type type, const void *x, int64_t n)
{
    int any_nan = 0;
#pragma omp simd reduction(| : any_nan)
    for (int64_t j = 0; j < n; j++) {
        const float v = load(type, x, j);
        any_nan |= v != v;
    }
    return any_nan ? NAN : max_of(type, x, n);
}

TT_INLINE void reduce_row(tt_simd_reduction kind, tt_simd_type type,
                          const void *x, int64_t cols, void *y, int64_t r)
{
    const void *row = at(type, x, r * cols);
    if (kind == TT_SIMD_MAX)
        store(type, y, r, row_max(type, row, cols));
    else
        store(type, y, r,
              row_sum(type, row, cols) /
                  (kind == TT_SIMD_MEAN ? (float)cols : 1.0f));
}

static void reduce_rows(tt_simd_reduction kind, tt_simd_type type,
                        const void *x, int64_t rows, int64_t cols, void *y)
{
    const bool forks = rows * cols >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t r = 0; r < rows; r++) {
        if (type == TT_SIMD_BF16)
            reduce_row(kind, TT_SIMD_BF16, x, cols, y, r);
        else
            reduce_row(kind, TT_SIMD_F32, x, cols, y, r);
    }
}

TT_INLINE double part_sum(bool squares, tt_simd_type type, const void *x,
                          int64_t n)
{
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)load(type, x, i);
        sum += squares ? v * v : v;
    }
    return sum;
}

static double part_sum_any(bool squares, tt_simd_type type, const void *x,
                           int64_t n)
{
    if (type == TT_SIMD_BF16)
        return part_sum(squares, TT_SIMD_BF16, x, n);
    return part_sum(squares, TT_SIMD_F32, x, n);
}

static double array_sum(bool squares, tt_simd_type type, const void *x,
                        int64_t n)
{
    double sums[ARRAY_PARTS];
    const int64_t blocks = tt__simd_blocks(n, TT_BLOCK);
    const int64_t length = tt__simd_blocks(blocks, ARRAY_PARTS) * TT_BLOCK;
#pragma omp parallel for schedule(static) if (n >= TT_FORK_ELEMENTS)
    for (int64_t p = 0; p < ARRAY_PARTS; p++) {
        const int64_t first = min_i64(n, p * length);
        sums[p] = part_sum_any(squares, type, at(type, x, first),
                               min_i64(length, n - first));
    }
    double sum = 0.0;
    for (int p = 0; p < ARRAY_PARTS; p++)
        sum += sums[p];
    return sum;
}

static double sum_all(tt_simd_type type, const void *x, int64_t n)
{
    return array_sum(false, type, x, n);
}

static double sum_squares(tt_simd_type type, const void *x, int64_t n)
{
    return array_sum(true, type, x, n);
}

TT_INLINE double squares_of(tt_simd_type type, const void *x, int64_t n,
                            double *y)
{
    double top = 0, check = 0;
#pragma omp simd reduction(max : top) reduction(+ : check)
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)load(type, x, i);
        y[i] = v * v;
        top = y[i] > top ? y[i] : top;
        check += y[i];
    }
    return check <= (double)INFINITY ? top : check; // a NaN is no maximum
}

static double squares(tt_simd_type type, const void *x, int64_t n, double *y)
{
    return type == TT_SIMD_BF16 ? squares_of(TT_SIMD_BF16, x, n, y)
                                : squares_of(TT_SIMD_F32, x, n, y);
}

// Adding and taking off 1.5 * 2^52 rounds to a whole number; the next lower one is
// taken where that is above.
static double digits(double *y, int64_t n, double scale, double *left)
{
    const double big = 0x1.8p52;
    double sum = 0, rest = 0;
#pragma omp simd reduction(+ : sum, rest)
    for (int64_t i = 0; i < n; i++) {
        const double v = y[i] * scale;
        const double near = (v + big) - big;
        const double whole = near > v ? near - 1 : near;
        sum += whole;
        y[i] = v - whole;
        rest += y[i];
    }
    *left = rest;
    return sum;
}

const tt_simd_reduce TT_SYMBOL(tt_simd_reduce) = {
    .column_sum = column_sum,
    .column_sum_scratch_bytes = column_sum_scratch_bytes,
    .rows = reduce_rows,
    .sum = sum_all,
    .sum_squares = sum_squares,
    .squares = squares,
    .digits = digits,
};
