// test_simd_flat - element-wise kernels: functions, activations, sums, casts,
// copies, dropout.

#include "backend/simd_check.h"
#include "base/rng.h"
#include "test.h"

#include <string.h>

// Kernels work in blocks of 4096: one element more than whole blocks is the hard
// case.
static const int64_t sizes[] = {0, 1, 15, 17, 1000, 40961};

#define ONE_MORE(name) +1
enum { N_SIZES = 6, N_ACTS = 0 TT_SIMD_ACTS(ONE_MORE) };
#undef ONE_MORE

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double act(tt_simd_act kind, double x)
{
    switch (kind) {
    case TT_SIMD_ACT_GELU_TANH:
        return 0.5 * x *
               (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case TT_SIMD_ACT_GELU_ERF:
        return 0.5 * x * (1 + erf(x / sqrt(2)));
    case TT_SIMD_ACT_RELU:
        return x > 0 ? x : 0;
    case TT_SIMD_ACT_SILU:
        return x * sigmoid(x);
    case TT_SIMD_ACT_TANH:
        return tanh(x);
    case TT_SIMD_ACT_SIGMOID:
        return sigmoid(x);
    case TT_SIMD_ACT_EXP:
        return exp(x);
    case TT_SIMD_ACT_LOG:
        return log(x);
    case TT_SIMD_ACT_ERF:
        return erf(x);
    }
    return 0;
}

static double slope(tt_simd_act kind, double x)
{
    if (kind == TT_SIMD_ACT_RELU)
        return x > 0;
    const double h = 1e-5 * (fabs(x) < 0.01 ? fabs(x) : 1);
    return h == 0 ? 0 : (act(kind, x + h) - act(kind, x - h)) / (2 * h);
}

static void activation_check(const tt_simd *simd, tt_simd_type type, int64_t n,
                             tt_simd_act kind)
{
    const buf x = buf_random(type, n, 6.0), d_y = buf_random(type, n, 2.0);
    const buf y = buf_filled(type, n, 0), d_x = buf_filled(type, n, 0);
    double *want = doubles(n + 1), *d_want = doubles(n + 1);
    const tt_simd_act_args a = {type,   kind,     n,       x.data,
                                y.data, d_y.data, d_x.data};
    for (int64_t i = 0; i < n; i++) {
        if (kind == TT_SIMD_ACT_LOG)
            buf_set(&x, i, fabs(buf_get(&x, i)) + 0.1);
        want[i] = act(kind, buf_get(&x, i));
        d_want[i] = buf_get(&d_y, i) * slope(kind, buf_get(&x, i));
    }
    use_threads(3);
    simd->activation->forward(&a);
    simd->activation->backward(&a);
    buf_check(&y, want, "activation");
    buf_check(&d_x, d_want, "gradient of activation");
}

static void activation_case(const tt_simd *simd, tt_simd_type type)
{
    for (int kind = 0; kind < N_ACTS; kind++)
        for (int i = 0; i < N_SIZES; i++)
            activation_check(simd, type, sizes[i], (tt_simd_act)kind);
}

TEST(activations_equal_libm)
{
    simd_each(activation_case);
}

// The largest relative error of a function over [low, high].
static double worst(const tt_simd *simd, tt_simd_act kind, double low,
                    double high)
{
    enum { N = 20000 };
    const buf x = buf_filled(TT_SIMD_F32, N, 0);
    const buf y = buf_filled(TT_SIMD_F32, N, 0);
    double error = 0;
    for (int i = 0; i < N; i++)
        buf_set(&x, i, low + (high - low) * (i + 0.5) / N);
    const tt_simd_act_args a = {
        .type = TT_SIMD_F32, .act = kind, .n = N, .x = x.data, .y = y.data};
    simd->activation->forward(&a);
    for (int i = 0; i < N; i++) {
        const double want = act(kind, buf_get(&x, i));
        error = fmax(error, fabs(buf_get(&y, i) - want) / fabs(want));
    }
    return error;
}

static void accuracy_case(const tt_simd *simd, tt_simd_type type)
{
    if (type == TT_SIMD_BF16)
        return;
    CHECK(worst(simd, TT_SIMD_ACT_EXP, -87, 88) < 2e-7);
    CHECK(worst(simd, TT_SIMD_ACT_EXP, -1, 1) < 2e-7);
    CHECK(worst(simd, TT_SIMD_ACT_LOG, 1e-30, 0.5) < 2e-7);
    CHECK(worst(simd, TT_SIMD_ACT_LOG, 0.5, 2) < 2e-7);
    CHECK(worst(simd, TT_SIMD_ACT_LOG, 2, 1e30) < 2e-7);
    CHECK(worst(simd, TT_SIMD_ACT_TANH, -9, 9) < 2e-7);
    CHECK(worst(simd, TT_SIMD_ACT_TANH, -0.7, 0.7) < 2e-7);
    CHECK(worst(simd, TT_SIMD_ACT_ERF, -4, 4) < 2e-7);
    CHECK(worst(simd, TT_SIMD_ACT_ERF, -1, 1) < 2e-7);
    CHECK(worst(simd, TT_SIMD_ACT_SIGMOID, -80, 80) < 3e-7);
}

TEST(functions_are_within_2e_7)
{
    simd_each(accuracy_case);
}

static float one(const tt_simd *simd, tt_simd_act kind, float x)
{
    float y = 0;
    const tt_simd_act_args a = {
        .type = TT_SIMD_F32, .act = kind, .n = 1, .x = &x, .y = &y};
    simd->activation->forward(&a);
    return y;
}

static void limits_case(const tt_simd *simd, tt_simd_type type)
{
    for (int kind = 0; kind < N_ACTS; kind++)
        CHECK(isnan(one(simd, (tt_simd_act)kind, NAN)));
    CHECK(one(simd, TT_SIMD_ACT_EXP, -INFINITY) == 0);
    CHECK(one(simd, TT_SIMD_ACT_EXP, INFINITY) == INFINITY);
    CHECK(one(simd, TT_SIMD_ACT_EXP, 0) == 1);
    CHECK(one(simd, TT_SIMD_ACT_EXP, 100) == INFINITY);
    CHECK(one(simd, TT_SIMD_ACT_EXP, -200) == 0);
    CHECK(one(simd, TT_SIMD_ACT_LOG, 0) == -INFINITY);
    CHECK(one(simd, TT_SIMD_ACT_LOG, INFINITY) == INFINITY);
    CHECK(isnan(one(simd, TT_SIMD_ACT_LOG, -1)));
    CHECK(one(simd, TT_SIMD_ACT_LOG, 1) == 0);
    CHECK(one(simd, TT_SIMD_ACT_TANH, INFINITY) == 1);
    CHECK(one(simd, TT_SIMD_ACT_TANH, -INFINITY) == -1);
    CHECK(one(simd, TT_SIMD_ACT_ERF, -INFINITY) == -1);
    CHECK(one(simd, TT_SIMD_ACT_SIGMOID, -INFINITY) == 0);
    CHECK(one(simd, TT_SIMD_ACT_SIGMOID, INFINITY) == 1);
    CHECK(one(simd, TT_SIMD_ACT_RELU, -INFINITY) == 0);
    (void)type;
}

TEST(functions_keep_nan_and_reach_their_limits)
{
    simd_each(limits_case);
}

static void swiglu_case(const tt_simd *simd, tt_simd_type type)
{
    enum { N = 20481 };
    const buf a = buf_random(type, N, 4.0), b = buf_random(type, N, 2.0);
    const buf d_y = buf_random(type, N, 1.0), y = buf_filled(type, N, 0);
    const buf d_a = buf_filled(type, N, 0), d_b = buf_filled(type, N, 0);
    const tt_simd_glu_args g = {type,   N,        a.data,   b.data,
                                y.data, d_y.data, d_a.data, d_b.data};
    double *want = doubles(N), *wa = doubles(N), *wb = doubles(N);
    for (int64_t i = 0; i < N; i++) {
        const double x = buf_get(&a, i), d = buf_get(&d_y, i);
        const double s = sigmoid(x);
        want[i] = x * s * buf_get(&b, i);
        wa[i] = d * buf_get(&b, i) * (s + x * s * (1 - s));
        wb[i] = d * x * s;
    }
    simd->activation->swiglu(&g);
    simd->activation->swiglu_backward(&g);
    buf_check(&y, want, "swiglu");
    buf_check(&d_a, wa, "d_a");
    buf_check(&d_b, wb, "d_b");
}

TEST(swiglu_equals_the_naive_one)
{
    simd_each(swiglu_case);
}

static double combine(int op, double a, double b)
{
    const double results[] = {a + b, a - b, a * b, a / b};
    return results[op];
}

static void binary_check(const tt_simd *simd, tt_simd_type type, int64_t rows,
                         int64_t cols, const int64_t a_stride[2],
                         const int64_t b_stride[2])
{
    const buf a = buf_random(type, rows * cols, 2.0);
    const buf b = buf_random(TT_SIMD_F32, rows * cols, 1.0);
    double *want = doubles(rows * cols + 1);
    for (int64_t i = 0; i < b.n; i++)
        buf_set(&b, i, buf_get(&b, i) + 2.0);
    for (int op = TT_SIMD_ADD; op <= TT_SIMD_DIV; op++) {
        const buf y = buf_filled(type, rows * cols, 0);
        const tt_simd_binary_args x = {
            .op = (tt_simd_binary_op)op,
            .type = type,
            .rows = rows,
            .cols = cols,
            .a = {a.data, type, a_stride[0], a_stride[1]},
            .b = {b.data, TT_SIMD_F32, b_stride[0], b_stride[1]},
            .y = y.data};
        simd->elementwise->binary(&x);
        for (int64_t i = 0; i < rows * cols; i++)
            want[i] = combine(
                op,
                buf_get(&a, i / cols * a_stride[0] + i % cols * a_stride[1]),
                buf_get(&b, i / cols * b_stride[0] + i % cols * b_stride[1]));
        buf_check(&y, want, "binary");
    }
}

static void binary_case(const tt_simd *simd, tt_simd_type type)
{
    static const int64_t shapes[][2] = {{1, 1}, {3, 7}, {70, 300}, {2, 8193}};
    use_threads(3);
    for (int i = 0; i < 4; i++) {
        const int64_t rows = shapes[i][0], cols = shapes[i][1];
        const int64_t strides[][2] = {{cols, 1}, {0, 1}, {1, 0}, {0, 0}};
        for (int k = 0; k < 4; k++)
            binary_check(simd, type, rows, cols, strides[0], strides[k]);
        binary_check(simd, type, rows, cols, strides[1], strides[2]);
    }
}

TEST(binary_operations_broadcast)
{
    simd_each(binary_case);
}

static void axpby_case(const tt_simd *simd, tt_simd_type type)
{
    for (int i = 0; i < N_SIZES; i++) {
        const buf x = buf_random(type, sizes[i], 1.0);
        const buf y = buf_random(type, sizes[i], 1.0);
        const buf z = buf_filled(type, sizes[i], (double)NAN);
        double *want = doubles(sizes[i] + 1), *twice = doubles(sizes[i] + 1);
        tt_simd_axpby_args a = {type, sizes[i], 0.5f, -1.5f, x.data, y.data};
        for (int64_t j = 0; j < sizes[i]; j++) {
            want[j] = 0.5 * buf_get(&x, j) - 1.5 * buf_get(&y, j);
            twice[j] = 2 * buf_get(&x, j);
        }
        simd->elementwise->axpby(&a);
        buf_check(&y, want, "axpby");
        a.alpha = 2, a.beta = 0, a.y = z.data;
        simd->elementwise->axpby(&a);
        buf_check(&z, twice, "scale");
        simd->elementwise->fill(type, z.data, z.n, 3.0f);
        CHECK(z.n == 0 || buf_get(&z, z.n - 1) == 3);
    }
}

TEST(axpby_does_not_read_y_when_beta_is_zero)
{
    simd_each(axpby_case);
}

static uint16_t to_bf16(const tt_simd *simd, uint32_t bits)
{
    float x;
    uint16_t y = 0;
    memcpy(&x, &bits, sizeof(x));
    simd->elementwise->cast(TT_SIMD_F32, &x, TT_SIMD_BF16, &y, 1);
    return y;
}

static void cast_case(const tt_simd *simd, tt_simd_type type)
{
    CHECK(to_bf16(simd, 0x3f808000) == 0x3f80); // a tie goes to even
    CHECK(to_bf16(simd, 0x3f818000) == 0x3f82);
    CHECK(to_bf16(simd, 0x3f808001) == 0x3f81);
    CHECK(to_bf16(simd, 0x7f7fffff) == 0x7f80); // past the largest: infinity
    CHECK(to_bf16(simd, 0xff800000) == 0xff80);
    CHECK((to_bf16(simd, 0x7f800001) & 0x7fff) > 0x7f80); // stays NaN
    const buf x = buf_random(type, 20481, 3.0);
    const buf wide = buf_filled(TT_SIMD_F32, x.n, 0);
    const buf back = buf_filled(type, x.n, 0);
    simd->elementwise->cast(type, x.data, TT_SIMD_F32, wide.data, x.n);
    simd->elementwise->cast(TT_SIMD_F32, wide.data, type, back.data, x.n);
    buf_check_same(&x, &back, "cast there and back");
}

TEST(casts_round_to_nearest_even)
{
    simd_each(cast_case);
}

// y is the permutation of a dense x of shape dims; order[i] is x's dimension.
static void permute_check(const tt_simd *simd, tt_simd_type type,
                          const int64_t dims[4], const int order[4])
{
    int64_t strides[4] = {0}, n = 1;
    for (int i = 3; i >= 0; i--) {
        strides[i] = n;
        n *= dims[i];
    }
    const buf x = buf_random(type, n, 1.0), y = buf_filled(type, n, 9);
    tt_simd_permute_args a = {.type = type, .x = x.data, .y = y.data};
    int64_t dense = 1;
    for (int i = 3; i >= 0; i--) {
        a.dims[i] = dims[order[i]];
        a.x_stride[i] = strides[order[i]];
        a.y_stride[i] = dense;
        dense *= a.dims[i];
    }
    simd->permute->copy(&a);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, from = 0;
        for (int k = 3; k >= 0; k--) {
            from += rest % a.dims[k] * a.x_stride[k];
            rest /= a.dims[k];
        }
        CHECK(buf_get(&y, i) == buf_get(&x, from));
    }
}

static void permute_case(const tt_simd *simd, tt_simd_type type)
{
    static const int64_t shapes[][4] = {
        {1, 1, 1, 1},   {2, 3, 4, 5},   {1, 1, 67, 130},
        {3, 17, 5, 64}, {1, 50, 33, 1}, {0, 3, 4, 5},
    };
    use_threads(3);
    for (int i = 0; i < 6; i++)
        for (int code = 0; code < 256; code++) {
            const int order[4] = {code & 3, code >> 2 & 3, code >> 4 & 3,
                                  code >> 6 & 3};
            int seen = 0;
            for (int k = 0; k < 4; k++)
                seen |= 1 << order[k];
            if (seen == 15)
                permute_check(simd, type, shapes[i], order);
        }
}

TEST(permutations_of_four_dimensions)
{
    simd_each(permute_case);
}

static void dropout_check(const tt_simd *simd, tt_simd_type type, double p)
{
    enum { ROWS = 3, COLS = 8193 };
    const uint64_t key = 0x123456789abcdef0u, start = 4294967290u, step = 10007;
    const buf x = buf_random(type, (int64_t)ROWS * COLS, 1.0);
    const buf y = buf_filled(type, x.n, 9);
    const tt_simd_dropout_args a = {type, ROWS, COLS,   key,   start,
                                    step, p,    x.data, y.data};
    double *want = doubles(x.n);
    for (int64_t i = 0; i < x.n; i++) {
        const uint64_t e =
            start + (uint64_t)(i / COLS) * step + (uint64_t)(i % COLS);
        uint32_t words[4];
        tt_rng_philox(key, e / 4, words);
        const bool keeps = (double)words[e % 4] >= p * 4294967296.0;
        want[i] = keeps ? buf_get(&x, i) / (1 - p) : 0;
    }
    use_threads(3);
    simd->dropout->apply(&a);
    buf_check(&y, want, "dropout");
}

static void dropout_case(const tt_simd *simd, tt_simd_type type)
{
    dropout_check(simd, type, 0.0);
    dropout_check(simd, type, 0.1);
    dropout_check(simd, type, 0.5);
    dropout_check(simd, type, 1.0);
}

TEST(dropout_masks_are_those_of_the_generator)
{
    simd_each(dropout_case);
}
