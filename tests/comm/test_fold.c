// Folds of every type = what doubles give, rounded as the type is; for 16-bit floats
// with every bit pattern there is.

#include "comm/fold.h"
#include "graph/dtype.h"
#include "test.h"

#include <string.h>

enum { N = 67, WIDEST = 8, ALL = 1 << 16 };

// In the order of tt_num.
static const tt_dtype dtypes[TT_N_NUMS] = {TT_F64, TT_F32, TT_BF16, TT_F16,
                                           TT_I64, TT_I32, TT_U8};

// a op b as two numbers of the type give it: sums of 16-bit floats are rounded to
// 32 bits first.
static double folded(tt_fold fold, double a, double b)
{
    if (fold.op == TT_FOLD_COPY)
        return b;
    if (fold.op == TT_FOLD_MAX)
        return a > b ? a : b;
    const bool is_short = fold.type == TT_NUM_BF16 || fold.type == TT_NUM_F16;
    return is_short ? (double)(float)(a + b) : a + b;
}

static void expect(tt_fold fold, const void *a, const void *b, int64_t i,
                   void *at)
{
    const tt_dtype dtype = dtypes[fold.type];
    tt_dtype_store(
        dtype, at, 0,
        folded(fold, tt_dtype_load(dtype, a, i), tt_dtype_load(dtype, b, i)));
}

static void fill(tt_num type, void *to, int seed)
{
    const bool is_signed = type != TT_NUM_U8;
    for (int i = 0; i < N; i++)
        tt_dtype_store(dtypes[type], to, i,
                       (seed * 37 + i * 29) % 101 - (is_signed ? 50 : 0));
}

// The first n of N elements; `to` may be a or b, or neither.
static void check_fold(tt_fold fold, const char *a, const char *b, char *to,
                       int64_t n)
{
    char want[N * WIDEST];
    const int64_t bytes = tt_num_bytes(fold.type);
    memcpy(want, to, sizeof want);
    for (int64_t i = 0; i < n; i++)
        expect(fold, a, b, i, want + i * bytes);
    tt_fold_two(fold, to, a, b, n * bytes);
    CHECK_MSG(memcmp(to, want, sizeof want) == 0, "fold %d of %lld %s",
              (int)fold.op, (long long)n, tt_num_name(fold.type));
}

TEST(folds_are_sums_and_maxima_of_every_type)
{
    char a[N * WIDEST] = {0}, b[N * WIDEST] = {0}, to[N * WIDEST];
    for (int type = 0; type < TT_N_NUMS; type++) {
        CHECK(tt_num_bytes((tt_num)type) == tt_dtype_bytes(dtypes[type]));
        CHECK(strcmp(tt_num_name((tt_num)type), tt_dtype_name(dtypes[type])) ==
              0);
        for (int op = TT_FOLD_COPY; op <= TT_FOLD_MAX; op++)
            for (int64_t n = 0; n < N; n++) {
                const tt_fold fold = {(tt_fold_op)op, (tt_num)type};
                fill(fold.type, a, 1);
                fill(fold.type, b, 2);
                memset(to, 0x5a, sizeof to);
                check_fold(fold, a, b, to, n);
                check_fold(fold, a, b, b, n);
                fill(fold.type, b, 3);
                check_fold(fold, a, b, a, n);
                memcpy(to, a, sizeof to);
                for (int64_t i = 0; i < n; i++)
                    expect(fold, a, b, i, to + i * tt_num_bytes(fold.type));
                tt_fold_into(fold, a, b, n * tt_num_bytes(fold.type));
                CHECK(memcmp(a, to, sizeof a) == 0);
            }
    }
}

static void check_pattern(tt_fold fold, uint16_t a, uint16_t b)
{
    const tt_dtype dtype = dtypes[fold.type];
    uint16_t want = 0, got = a;
    expect(fold, &a, &b, 0, &want);
    tt_fold_into(fold, &got, &b, 2);
    const bool are_nan = isnan(tt_dtype_load(dtype, &want, 0)) &&
                         isnan(tt_dtype_load(dtype, &got, 0));
    CHECK_MSG(are_nan || got == want,
              "fold %d of %s: %04x, %04x: %04x, not %04x", (int)fold.op,
              tt_num_name(fold.type), a, b, got, want);
}

// Zero, the smallest, the largest below normal, one and its neighbours, the
// largest, infinity, NaN: for both types.
TEST(folds_of_short_floats_round_every_pattern_to_nearest_even)
{
    static const uint16_t others[] = {
        0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x007f, 0x3f80, 0xbf80, 0x3f81,
        0x3c00, 0xbc01, 0x7bff, 0x7f7f, 0xff7f, 0x7c00, 0x7f80, 0xff80, 0x7fff};
    for (int type = TT_NUM_BF16; type <= TT_NUM_F16; type++)
        for (int op = TT_FOLD_SUM; op <= TT_FOLD_MAX; op++)
            for (uint32_t a = 0; a < ALL; a++) {
                const tt_fold fold = {(tt_fold_op)op, (tt_num)type};
                for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
                    check_pattern(fold, (uint16_t)a, others[k]);
                check_pattern(fold, (uint16_t)a, (uint16_t)(a * 40503u >> 3));
            }
}
