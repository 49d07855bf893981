// Many arrays folded at once: in the order of pairs; sums of 16-bit floats rounded once,
// or after every two if that is asked for; into any of the arrays or elsewhere.

#include "comm/fold_pairs.h"
#include "graph/dtype.h"
#include "test.h"

#include <string.h>

enum { MOST = 9, N = TT_FOLD_PIECE / 2 + 77, WIDEST = 8 };

// In the order of tt_num.
static const tt_dtype dtypes[TT_N_NUMS] = {TT_F64, TT_F32, TT_BF16, TT_F16,
                                           TT_I64, TT_I32, TT_U8};

static char array[MOST][N * WIDEST], result[N * WIDEST];

static double round_to(tt_dtype dtype, double x)
{
    char at[WIDEST];
    tt_dtype_store(dtype, at, 0, x);
    return tt_dtype_load(dtype, at, 0);
}

// Fractions for floats: nearly every sum is rounded.
static double value(tt_num type, int32_t m, int64_t i)
{
    const bool is_float = type <= TT_NUM_F16;
    return is_float ? 1.0 / (double)(3 + 7 * m + i % 101) + (m % 3 == 0)
                    : (double)((m * 5 + i) % 23);
}

static void fill(tt_num type, int32_t n)
{
    for (int32_t m = 0; m < n; m++)
        for (int64_t i = 0; i < N; i++)
            tt_dtype_store(dtypes[type], array[m], i, value(type, m, i));
}

// The fold of members [first, first + n) by the definition, rounded to `dtype` after
// every two.
static double expected(const tt_fold_set *set, tt_dtype dtype, int32_t first,
                       int32_t n, int64_t i)
{
    if (n == 1)
        return round_to(dtypes[set->fold.type],
                        value(set->fold.type, first, i));
    int32_t half = 1;
    while (2 * half < n)
        half *= 2;
    const double a = expected(set, dtype, first, half, i);
    const double b = expected(set, dtype, first + half, n - half, i);
    return set->fold.op == TT_FOLD_MAX ? (a > b ? a : b)
                                       : round_to(dtype, a + b);
}

static void check(const tt_fold_set *set, char *to, int64_t at, int64_t n)
{
    const tt_dtype dtype = dtypes[set->fold.type];
    const int64_t bytes = tt_num_bytes(set->fold.type);
    const bool is_short = bytes == 2;
    const bool is_wide = is_short && !set->each && set->fold.op == TT_FOLD_SUM;
    CHECK(tt_fold_is_wide(set) == (is_wide && set->n > 2));
    fill(set->fold.type, set->n);
    memset(result, 0x5a, sizeof result);
    tt_fold_pairs(set, to + (to == result ? 0 : at * bytes), at * bytes,
                  n * bytes);
    for (int64_t i = 0; i < n; i += i % 7 == 0 ? 1 : 3) {
        const double sum =
            expected(set, is_wide ? TT_F32 : dtype, 0, set->n, at + i);
        CHECK(tt_dtype_load(dtype, to, i + (to == result ? 0 : at)) ==
              round_to(dtype, sum));
    }
    if (to == result)
        CHECK(to[n * bytes] == 0x5a);
}

TEST(folds_of_many_arrays_are_rounded_once_or_after_every_two)
{
    const char *src[MOST];
    for (int32_t m = 0; m < MOST; m++)
        src[m] = array[m];
    for (int type = 0; type < TT_N_NUMS; type++)
        for (int32_t n = 1; n <= MOST; n++)
            for (int each = 0; each < 2; each++) {
                tt_fold_set set = {
                    {TT_FOLD_SUM, (tt_num)type}, each == 1, n, src};
                check(&set, result, 0, n % 3 == 0 ? N - 1 : 5);
                check(&set, result, 3, 0);
                check(&set, array[n - 1], 3, 1);
                check(&set, array[n / 2], 0, n == 4 ? N - 1 : 40);
                check(&set, array[0], 2, 7);
                set.fold.op = TT_FOLD_MAX;
                check(&set, result, 1, 9);
            }
}
