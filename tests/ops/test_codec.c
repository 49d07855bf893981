// Codecs lose no more than they say, and what they lose is not lost for good.

#include "base/alloc.h"
#include "base/rng.h"
#include "interp/interp.h"
#include "ops/arith.h"
#include "ops/codec/codec.h"
#include "ops/gradops.h"
#include "ops/matmul.h"
#include "ops/ops.h"
#include "ops/shape/relabel.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 301 };

typedef tt_val build_fn(tt_builder *b, tt_val x);

// y = build(x) by the reference; numbers of any dtype are doubles outside.
static void run_in(tt_dtype dtype, build_fn *build, const char *shape,
                   const double *x, double *y)
{
    tt_builder b;
    tt_graph *g = NULL;
    tt_interp *it = NULL;
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    const tt_val in = tt_input(&b, "x", dtype, shape);
    tt_output(&b, "y", build(&b, in));
    CHECK_OK(tt_builder_take(&b, &g));
    tt_builder_fini(&b);
    CHECK_OK(tt_interp_create(g, &it));
    tt_interp_write(it, tt_graph_find(g, "x"), x);
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].role == TT_ROLE_SCALAR)
            tt_interp_write(it, (tt_val){v}, &(double){7});
    CHECK_OK(tt_interp_run(it));
    CHECK(tt_interp_read(it, tt_graph_output_find(g, "y"), y));
    tt_interp_destroy(it);
    tt_graph_destroy(g);
}

static void run(build_fn *build, const char *shape, const double *x, double *y)
{
    run_in(TT_F64, build, shape, x, y);
}

static void fill(double *x, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = tt_rng_normal(seed, (uint64_t)i) * (i % 50 == 3 ? 8 : 1);
}

static double norm2(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}

static tt_val back(tt_builder *b, const tt_op_def *encode,
                   const tt_op_def *decode, const char *options, tt_val x)
{
    tt_val code[TT_MAX_OUT];
    tt_outputs_of(b, tt_callf(b, encode, &x, 1, "%s", options), code);
    return tt_callf(b, decode, (tt_val[]){code[0], code[1], x}, 3, "%s",
                    decode == &tt_op_topk_decode ? "" : options);
}

static tt_val eight(tt_builder *b, tt_val x)
{
    return back(b, &tt_op_quantize, &tt_op_dequantize, "bits=8 block=32", x);
}

static tt_val four(tt_builder *b, tt_val x)
{
    return back(b, &tt_op_quantize, &tt_op_dequantize, "bits=4 block=32", x);
}

static tt_val signs(tt_builder *b, tt_val x)
{
    return back(b, &tt_op_onebit, &tt_op_onebit_decode, "block=32", x);
}

static tt_val tenth(tt_builder *b, tt_val x)
{
    return back(b, &tt_op_topk, &tt_op_topk_decode, "ratio=0.1", x);
}

// ---- how much is lost ----------------------------------------------------

static void check_quantized(build_fn *build, double levels)
{
    double x[N], y[N];
    fill(x, N, 1);
    run(build, "a:301", x, y);
    for (int64_t b = 0; b < N; b += 32) {
        double scale = 0;
        for (int64_t i = b; i < b + 32 && i < N; i++)
            scale = fmax(scale, fabs(x[i]));
        for (int64_t i = b; i < b + 32 && i < N; i++) {
            CHECK(fabs(x[i] - y[i]) <= scale / levels / 2 * (1 + 1e-12));
            CHECK(fabs(x[i]) < scale || fabs(x[i] - y[i]) < 1e-12);
        }
    }
}

TEST(codes_are_half_a_level_off_at_most)
{
    check_quantized(eight, 127);
    check_quantized(four, 7);
}

// 127 is the largest, so that levels are whole numbers.
TEST(codes_of_floats_are_rounded_to_the_nearest)
{
    static const double x[] = {127, 3.4, 3.6, -3.4, -3.6, 0, 0.4, -0.6};
    static const double want[] = {127, 3, 4, -3, -4, 0, 0, -1};
    double y[8];
    run_in(TT_F32, eight, "n:8", x, y);
    for (int i = 0; i < 8; i++)
        CHECK_MSG(fabs(y[i] - want[i]) < 1e-5, "%g became %g", x[i], y[i]);
}

static tt_val at_random(tt_builder *b, tt_val x)
{
    tt_val code[TT_MAX_OUT];
    const tt_val in[] = {x, tt_scalar(b, "seed", TT_I64),
                         tt_scalar(b, "step", TT_I64)};
    tt_outputs_of(b, tt_callf(b, &tt_op_quantize, in, 3, "bits=4 block=4000"),
                  code);
    return tt_callf(b, &tt_op_dequantize, (tt_val[]){code[0], code[1], x}, 3,
                    "bits=4 block=4000");
}

// 4000 times the same number, which is between two levels: their mean is it.
TEST(rounding_at_random_has_the_right_mean)
{
    enum { MANY = 4000 };
    double *x = tt_alloc(2 * MANY * (int64_t)sizeof *x), *y = x + MANY;
    double mean = 0;
    for (int i = 0; i < MANY; i++)
        x[i] = i == 0 ? 7 : 2.3;
    run(at_random, "a:4000", x, y);
    for (int i = 1; i < MANY; i++) {
        CHECK(fabs(y[i] - 2) < 1e-9 || fabs(y[i] - 3) < 1e-9);
        mean += y[i] / (MANY - 1);
    }
    CHECK_MSG(fabs(mean - 2.3) < 0.03, "the mean is %g", mean);
    tt_free(x);
}

TEST(a_number_that_is_not_finite_is_not_hidden)
{
    double x[N], y[N];
    fill(x, N, 1);
    x[40] = (double)INFINITY;
    x[100] = (double)NAN;
    run(eight, "a:301", x, y);
    CHECK(isnan(y[40]) && isnan(y[32]) && isnan(y[63]));
    CHECK(isnan(y[100]) && isnan(y[96]) && isnan(y[127]));
    CHECK(isfinite(y[31]) && isfinite(y[64]) && isfinite(y[128]));
}

TEST(means_keep_the_sum_of_a_block_and_the_sign_of_each)
{
    double x[N], y[N];
    fill(x, N, 2);
    run(signs, "a:7 b:43", x, y);
    for (int64_t b = 0; b < N; b += 32) {
        double before = 0, after = 0;
        for (int64_t i = b; i < b + 32 && i < N; i++) {
            before += x[i];
            after += y[i];
            CHECK((x[i] >= 0) == (y[i] >= 0));
        }
        CHECK(fabs(before - after) < 1e-9);
    }
    double lost[N];
    for (int i = 0; i < N; i++)
        lost[i] = x[i] - y[i];
    CHECK(norm2(lost, N) < norm2(x, N));
}

TEST(the_largest_are_kept_as_they_are)
{
    double x[N], y[N], least = 1e9, most = 0;
    int n_kept = 0;
    fill(x, N, 3);
    x[5] = x[6] = x[200] = 0;
    run(tenth, "a:7 b:43", x, y);
    for (int i = 0; i < N; i++) {
        CHECK(y[i] == 0 || y[i] == x[i]);
        n_kept += y[i] != 0;
        if (y[i] != 0)
            least = fmin(least, fabs(x[i]));
        else
            most = fmax(most, fabs(x[i]));
    }
    CHECK(n_kept == 31 && least >= most);
    for (int i = 0; i < N; i++)
        x[i] = i % 2 == 0 ? 1 : -1;
    run(tenth, "a:301", x, y);
    for (int i = 0; i < N; i++) // of equals the first
        CHECK(y[i] == (i < 31 ? x[i] : 0));
}

// ---- error feedback ------------------------------------------------------

// What arrives over many rounds is what was sent, but for what is still owed.
static void check_feedback(build_fn *build)
{
    double sent[N] = {0}, arrived[N] = {0}, owed[N] = {0}, x[N], y[N];
    for (uint64_t round = 0; round < 12; round++) {
        fill(x, N, 10 + round);
        for (int i = 0; i < N; i++) {
            sent[i] += x[i];
            x[i] += owed[i];
        }
        run(build, "a:301", x, y);
        for (int i = 0; i < N; i++) {
            arrived[i] += y[i];
            owed[i] = x[i] - y[i];
        }
    }
    for (int i = 0; i < N; i++)
        CHECK(fabs(sent[i] - arrived[i] - owed[i]) < 1e-9);
    CHECK(norm2(owed, N) < 12 * 12 * norm2(x, N));
}

TEST(what_is_owed_is_paid_later)
{
    check_feedback(eight);
    check_feedback(four);
    check_feedback(signs);
    check_feedback(tenth);
}

// ---- PowerSGD ------------------------------------------------------------

static tt_val orthogonal(tt_builder *b, tt_val x)
{
    const tt_val q = tt_call(b, &tt_op_orthogonalize, NULL, &x, 1, NULL);
    return tt_matmul(b, q, tt_relabel(b, q, 1, "others"), TT_NONE,
                     &(tt_matmul_params){.transpose_a = true});
}

TEST(columns_are_orthonormal)
{
    double x[20 * 5], y[5 * 5];
    fill(x, 100, 4);
    for (int i = 0; i < 20; i++) // the last column is that of others
        x[i * 5 + 4] = 2 * x[i * 5] - x[i * 5 + 2];
    run(orthogonal, "rows:20 cols:5", x, y);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++)
            CHECK(fabs(y[i * 5 + j] - (i == j && i < 4 ? 1 : 0)) < 1e-9);
}

static tt_val columns(tt_builder *b, tt_val x)
{
    return tt_callf(b, &tt_op_orthogonalize, &x, 1, "%s", "");
}

// Of the second nothing is left but what rounding might have left.
TEST(a_column_that_hardly_differs_from_others_is_zero)
{
    static const double x[] = {0, 0, 0, 1e-7, 1, 1};
    double y[6];
    run(columns, "rows:3 cols:2", x, y);
    for (int i = 0; i < 3; i++)
        CHECK(y[2 * i + 1] == 0);
    CHECK(y[4] == 1);
}

static tt_val two_ranks(tt_builder *b, tt_val m)
{
    // A factor to begin with: the first two rows of m, as columns.
    tt_val q = tt_callf(b, &tt_op_slice, &m, 1, "dim=0 size=2");
    q = tt_callf(b, &tt_op_transpose, &q, 1, "perm=1,0");
    q = tt_relabel(b, q, 1, "rank");
    return tt_powersgd(b, m, q).approx;
}

TEST(a_matrix_of_low_rank_travels_whole)
{
    double m[12 * 9], y[12 * 9], u[24], v[18];
    fill(u, 24, 5);
    fill(v, 18, 6);
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < 9; j++)
            m[i * 9 + j] = u[2 * i] * v[2 * j] + u[2 * i + 1] * v[2 * j + 1];
    run(two_ranks, "rows:12 cols:9", m, y);
    for (int i = 0; i < 12 * 9; i++)
        CHECK(fabs(m[i] - y[i]) < 1e-9);
    // Of any other, no more is lost than there was.
    fill(m, 12 * 9, 7);
    run(two_ranks, "rows:12 cols:9", m, y);
    double lost[12 * 9];
    for (int i = 0; i < 12 * 9; i++)
        lost[i] = m[i] - y[i];
    CHECK(norm2(lost, 12 * 9) < norm2(m, 12 * 9));
}

// ---- refusals ------------------------------------------------------------

TEST(codes_that_do_not_fit_are_refused)
{
    static const struct {
        const tt_op_def *op;
        const char *options, *code, *says;
    } bad[] = {
        {&tt_op_dequantize, "block=4", "codes:8", "not the codes of 9"},
        {&tt_op_dequantize, "bits=5 block=4", "codes:9", "8 or 4"},
        {&tt_op_dequantize, "block=3", "codes:9", "even"},
        {&tt_op_onebit_decode, "block=8", "codes:9", "not the signs of 9"},
        {&tt_op_onebit_decode, "block=12", "codes:2", "multiple of 8"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        tt_builder b;
        CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
        const tt_val in[] = {tt_input(&b, "s", TT_F32, "blocks:3"),
                             tt_input(&b, "c", TT_U8, bad[i].code),
                             tt_input(&b, "x", TT_F32, "a:9")};
        (void)tt_callf(&b, bad[i].op, in, 3, "%s", bad[i].options);
        CHECK_MSG(tt_builder_status(&b) == TT_ERR_ARG &&
                      strstr(tt_error_message(), bad[i].says) != NULL,
                  "%s: %s", bad[i].options, tt_error_message());
        tt_builder_fini(&b);
    }
}
