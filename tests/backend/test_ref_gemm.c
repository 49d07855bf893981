// The product that the reference is made of = three naive loops, at sizes around its
// blocks, in every type and however the matrices lie. The numbers are whole, so that
// sums are exact.

#include "backend/ref/gemm.h"
#include "base/alloc.h"
#include "test.h"

typedef struct matrix {
    tt__matrix m; // a line is a row of a, a column of b
    void *data;
} matrix;

static double entry(int64_t seed, int64_t line, int64_t l)
{
    return (double)((seed + line * 5 + l * 3 + line * l) % 7 - 3);
}

static matrix matrix_of(tt_dtype dtype, int64_t lines, int64_t entries,
                        bool is_turned)
{
    matrix x = {.m = {.dtype = dtype,
                      .line_stride = is_turned ? 1 : entries,
                      .entry_stride = is_turned ? lines : 1}};
    x.data = tt_alloc(lines * entries * tt_dtype_bytes(dtype));
    CHECK(x.data != NULL);
    x.m.base = x.data;
    for (int64_t i = 0; i < lines; i++)
        for (int64_t l = 0; l < entries; l++)
            tt_dtype_store(dtype, x.data,
                           i * x.m.line_stride + l * x.m.entry_stride,
                           entry(lines, i, l));
    return x;
}

static double product(int64_t m, int64_t n, int64_t k, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t l = 0; l < k; l++)
        sum += entry(m, i, l) * entry(n, j, l);
    return sum;
}

// Rows of c lie one element further apart than they are long.
static void check_product(const int64_t size[3], tt_dtype dtype, bool is_turned)
{
    const int64_t m = size[0], n = size[1], k = size[2], row = n + 1;
    const matrix a = matrix_of(dtype, m, k, is_turned);
    const matrix b = matrix_of(dtype, n, k, !is_turned);
    double *c = tt_alloc(m * row * 8), *scratch = tt_alloc(TT__GEMM_SCRATCH);
    CHECK(c != NULL && scratch != NULL);
    for (int64_t i = 0; i < m * row; i++)
        c[i] = 1e6;
    tt__sum to = {.dtype = TT_F64, .base = c, .row = row};
    const tt__gemm g = {.m = m,
                        .n = n,
                        .k = k,
                        .a = &a.m,
                        .b = &b.m,
                        .to = &to,
                        .read_a = tt__matrix_read,
                        .read_b = tt__matrix_read,
                        .write = tt__sum_write};
    tt__gemm_run(&g, scratch);
    to.accumulate = true;
    tt__gemm_run(&g, scratch);
    for (int64_t i = 0; i < m * row; i++) {
        const double want =
            i % row == n ? 1e6 : 2 * product(m, n, k, i / row, i % row);
        CHECK_MSG(c[i] == want, "%lld x %lld x %lld: [%lld, %lld]",
                  (long long)m, (long long)n, (long long)k,
                  (long long)(i / row), (long long)(i % row));
    }
    tt_free(scratch);
    tt_free(c);
    tt_free(b.data);
    tt_free(a.data);
}

TEST(the_product_of_ref_equals_naive_loops)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1},      {5, 3, 2},     {64, 64, 256},   {64, 64, 257},
        {65, 63, 255},  {64, 65, 513}, {129, 128, 512}, {128, 129, 512},
        {67, 130, 600}, {4, 64, 512},  {64, 4, 513},
    };
    static const tt_dtype dtypes[] = {TT_F64, TT_F32, TT_BF16, TT_F16};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int t = 0; t < 4; t++)
            check_product(sizes[i], dtypes[t], (i + (size_t)t) % 2 == 0);
}
