// test_simd_parts - folds, rotary positions, merged attention, scores, slopes from
// results and the steps of a recurrence, against naive loops.

#include "backend/simd_check.h"
#include "test.h"

#include <stdbool.h>

// ---- fold ----------------------------------------------------------------

static void fold_check(const tt_simd *simd, tt_simd_type type,
                       const int64_t dims[3], bool is_max)
{
    const int64_t n = dims[0] * dims[2];
    const buf x = buf_random(type, n * dims[1], 0.5);
    const buf y = buf_filled(TT_SIMD_F32, n, 7);
    double *want = doubles(n + 1);
    simd->fold->run(&(tt_simd_fold_args){type, is_max, dims[0], dims[1],
                                         dims[2], x.data, y.data});
    for (int64_t o = 0; o < dims[0]; o++)
        for (int64_t i = 0; i < dims[2]; i++) {
            double *w = &want[o * dims[2] + i];
            *w = is_max ? -HUGE_VAL : 0;
            for (int64_t c = 0; c < dims[1]; c++) {
                const double v = buf_get(&x, (o * dims[1] + c) * dims[2] + i);
                *w = is_max ? fmax(*w, v) : *w + v;
            }
        }
    buf_check_loose(&y, want, 1, is_max ? "maxima" : "sums");
}

static void fold_case(const tt_simd *simd, tt_simd_type type)
{
    static const int64_t dims[][3] = {{1, 1, 1},     {3, 5, 7},  {1, 300, 600},
                                      {50, 4099, 1}, {7, 1, 33}, {2, 600, 257}};
    for (int i = 0; i < 6; i++) {
        fold_check(simd, type, dims[i], false);
        fold_check(simd, type, dims[i], true);
    }
}

TEST(simd_folds_are_sums_and_maxima)
{
    simd_each(fold_case);
}

static void fold_nan_case(const tt_simd *simd, tt_simd_type type)
{
    const buf x = buf_random(type, 60, 1.0);
    const buf y = buf_filled(TT_SIMD_F32, 3, 0);
    buf_set(&x, 31, (double)NAN);
    simd->fold->run(&(tt_simd_fold_args){type, true, 3, 20, 1, x.data, y.data});
    CHECK(!isnan(buf_get(&y, 0)) && isnan(buf_get(&y, 1)));
    CHECK(!isnan(buf_get(&y, 2)));
}

TEST(simd_maxima_show_nan)
{
    simd_each(fold_nan_case);
}

// ---- rotary --------------------------------------------------------------

enum { B = 2, T = 5, HEADS = 3, HALF = 11, ROW = 80 }; // rows with a gap

static void rotary_case(const tt_simd *simd, tt_simd_type type)
{
    const buf x = buf_random(type, B * T * ROW, 1.0), y = buf_copy(&x);
    const buf back = buf_copy(&x);
    const buf cosine = buf_filled(TT_SIMD_F32, T * HALF, 0);
    const buf sine = buf_filled(TT_SIMD_F32, T * HALF, 0);
    double *want = doubles(B * T * ROW);
    for (int i = 0; i < T * HALF; i++) {
        buf_set(&cosine, i, cos(0.3 * i));
        buf_set(&sine, i, sin(0.3 * i));
    }
    for (int64_t i = 0; i < B * T * ROW; i++)
        want[i] = buf_get(&x, i);
    for (int r = 0; r < B * T; r++)
        for (int h = 0; h < HEADS; h++)
            for (int i = 0; i < HALF; i++) {
                const int64_t lo = r * ROW + h * 2 * HALF + i, hi = lo + HALF;
                const double c = buf_get(&cosine, r % T * HALF + i);
                const double s = buf_get(&sine, r % T * HALF + i);
                want[lo] = buf_get(&x, lo) * c - buf_get(&x, hi) * s;
                want[hi] = buf_get(&x, hi) * c + buf_get(&x, lo) * s;
            }
    tt_simd_rotary_args a = {
        .type = type,
        .n_batch = B,
        .length = T,
        .heads = HEADS,
        .half = HALF,
        .cosine = cosine.data,
        .sine = sine.data,
        .x = {x.data, T * ROW, 2 * HALF, ROW},
        .y = {y.data, T * ROW, 2 * HALF, ROW},
    };
    simd->rotary->turn(&a);
    buf_check(&y, want, "turned");
    a.is_inverse = true;
    a.x.data = y.data;
    a.y.data = back.data;
    simd->rotary->turn(&a);
    for (int64_t i = 0; i < B * T * ROW; i++)
        want[i] = buf_get(&x, i);
    buf_check_loose(&back, want, 4, "turned back");
}

TEST(simd_rotary_turns_and_turns_back)
{
    simd_each(rotary_case);
}

// ---- merge ---------------------------------------------------------------

static void merge_case(const tt_simd *simd, tt_simd_type type)
{
    enum { D = 19, ROWS = B * T * HEADS };
    const buf o1 = buf_random(type, ROWS * D, 1.0);
    const buf o2 = buf_random(type, ROWS * D, 1.0);
    const buf o = buf_filled(type, ROWS * D, 0);
    const buf lse1 = buf_random(TT_SIMD_F32, ROWS, 5.0);
    const buf lse2 = buf_random(TT_SIMD_F32, ROWS, 5.0);
    const buf lse = buf_filled(TT_SIMD_F32, ROWS, 0);
    double *want = doubles(ROWS * D), *want_lse = doubles(ROWS);
    buf_set(&lse1, 4, -(double)INFINITY); // one side is empty
    for (int64_t k = 0; k < ROWS; k++)
        want_lse[k] = log(exp(buf_get(&lse1, k)) + exp(buf_get(&lse2, k)));
    for (int64_t r = 0; r < ROWS; r++) {
        const int64_t h = r % HEADS, row = r / HEADS;
        const int64_t k = (row / T * HEADS + h) * T + row % T;
        for (int64_t i = r * D; i < (r + 1) * D; i++)
            want[i] = buf_get(&o1, i) * exp(buf_get(&lse1, k) - want_lse[k]) +
                      buf_get(&o2, i) * exp(buf_get(&lse2, k) - want_lse[k]);
    }
    tt_simd_merge_args a = {type,      B,       T,       HEADS,
                            D,         o1.data, o2.data, lse1.data,
                            lse2.data, o.data,  lse.data};
    simd->merge->run(&a);
    buf_check(&o, want, "merged");
    buf_check(&lse, want_lse, "log-sum-exp");
    for (int64_t k = 0; k < ROWS; k++) { // both are empty
        buf_set(&lse1, k, -(double)INFINITY);
        buf_set(&lse2, k, -(double)INFINITY);
    }
    simd->merge->run(&a);
    CHECK(buf_get(&o, 3) == 0 && buf_get(&lse, 3) == -HUGE_VAL);
}

TEST(simd_merged_attention_weighs_by_sums)
{
    simd_each(merge_case);
}

// ---- scores --------------------------------------------------------------

static void hits_case(const tt_simd *simd, tt_simd_type type)
{
    enum { ROWS = 7, COLS = 37 };
    const buf x = buf_random(type, ROWS * COLS, 1.0);
    static const int32_t labels[ROWS] = {0, 36, 20, 20, 20, -100, 37};
    static const uint8_t want[ROWS] = {1, 1, 1, 0, 1, 0, 0};
    uint8_t is_hit[ROWS];
    buf_set(&x, 0, 2);
    buf_set(&x, COLS + 36, 2);
    buf_set(&x, 2 * COLS + 20, 2);
    buf_set(&x, 3 * COLS + 20, 2); // an equal one before it
    buf_set(&x, 3 * COLS + 3, 2);
    buf_set(&x, 4 * COLS + 20, 2); // and after it
    buf_set(&x, 4 * COLS + 30, 2);
    simd->score->hits(
        &(tt_simd_hits_args){type, ROWS, COLS, x.data, labels, is_hit});
    for (int r = 0; r < ROWS; r++)
        CHECK_MSG(is_hit[r] == want[r], "row %d", r);
}

TEST(simd_hits_are_first_maxima)
{
    simd_each(hits_case);
}

static void squares_case(const tt_simd *simd, tt_simd_type type)
{
    enum { ROWS = 5, COLS = 4097 };
    const buf x = buf_random(type, ROWS * COLS, 1.0);
    const buf target = buf_random(type, ROWS * COLS, 1.0);
    const buf weight = buf_random(TT_SIMD_F32, ROWS, 2.0);
    const buf d_x = buf_filled(type, ROWS * COLS, 0);
    double sums[ROWS], *want = doubles(ROWS * COLS);
    const tt_simd_squares_args a = {type,   ROWS,        COLS,
                                    x.data, target.data, weight.data,
                                    sums,   0.25f,       d_x.data};
    simd->score->squares(&a);
    simd->score->squares_grad(&a);
    for (int64_t r = 0; r < ROWS; r++) {
        double sum = 0;
        for (int64_t i = r * COLS; i < (r + 1) * COLS; i++) {
            const double d = buf_get(&x, i) - buf_get(&target, i);
            sum += d * d;
            want[i] = 0.5 * d * buf_get(&weight, r);
        }
        CHECK_CLOSE(sums[r], sum * buf_get(&weight, r), 1e-5);
    }
    buf_check(&d_x, want, "gradient");
}

TEST(simd_squares_are_weighted)
{
    simd_each(squares_case);
}

// ---- slopes from results -------------------------------------------------

static void slope_case(const tt_simd *simd, tt_simd_type type)
{
    enum { N = 40961 }; // one more than whole blocks
    const buf y = buf_random(type, N, 1.0), d_y = buf_random(type, N, 3.0);
    const buf d_x = buf_filled(type, N, 0);
    double *want = doubles(N);
    const tt_simd_from_result_args a = {type, N, y.data, d_y.data, d_x.data};
    simd->pointwise->tanh_grad(&a);
    for (int64_t i = 0; i < N; i++)
        want[i] = buf_get(&d_y, i) * (1 - buf_get(&y, i) * buf_get(&y, i));
    buf_check(&d_x, want, "tanh");
    simd->pointwise->sigmoid_grad(&a);
    for (int64_t i = 0; i < N; i++)
        want[i] = buf_get(&d_y, i) * buf_get(&y, i) * (1 - buf_get(&y, i));
    buf_check(&d_x, want, "sigmoid");
}

TEST(simd_slopes_follow_from_results)
{
    simd_each(slope_case);
}

// ---- recurrence ----------------------------------------------------------

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

enum { ROWS = 5, H = 21, N = ROWS * H };

// Gate k of unit e.
static int64_t gate_at(int64_t e, int k)
{
    return e / H * 4 * H + k * H + e % H;
}

static void forward_case(const tt_simd *simd, tt_simd_type type)
{
    const buf sum = buf_random(TT_SIMD_F32, 4 * N, 2.0);
    const buf x = buf_random(type, 4 * N, 2.0);
    const buf bias = buf_random(TT_SIMD_F32, 4 * H, 1.0);
    const buf c_prev = buf_random(TT_SIMD_F32, N, 2.0);
    const buf c = buf_filled(TT_SIMD_F32, N, 0), h = buf_filled(type, N, 0);
    const buf gates = buf_filled(type, 4 * N, 0);
    double *want_c = doubles(N), *want_h = doubles(N);
    double *want_gates = doubles(4 * N);
    simd->recurrence->forward(&(tt_simd_recurrence_args){
        .type = type,
        .rows = ROWS,
        .hidden = H,
        .sum = sum.data,
        .x = x.data,
        .bias = bias.data,
        .c_prev = c_prev.data,
        .c = c.data,
        .h = h.data,
        .gates = gates.data,
    });
    for (int64_t e = 0; e < N; e++) {
        double g[4];
        for (int k = 0; k < 4; k++) {
            const int64_t at = gate_at(e, k);
            const double s = buf_get(&sum, at) + buf_get(&x, at) +
                             buf_get(&bias, k * H + e % H);
            g[k] = want_gates[at] = k == 2 ? tanh(s) : sigmoid(s);
        }
        want_c[e] = g[1] * buf_get(&c_prev, e) + g[0] * g[2];
        want_h[e] = g[3] * tanh(want_c[e]);
    }
    buf_check(&gates, want_gates, "gates");
    buf_check(&c, want_c, "c");
    buf_check(&h, want_h, "h");
}

static void backward_case(const tt_simd *simd, tt_simd_type type)
{
    const buf gates = buf_random(type, 4 * N, 1.0);
    const buf c = buf_random(TT_SIMD_F32, N, 2.0);
    const buf c_prev = buf_random(TT_SIMD_F32, N, 2.0);
    const buf d_h = buf_random(type, N, 1.0);
    const buf d_c = buf_random(TT_SIMD_F32, N, 1.0);
    const buf carry_h = buf_random(TT_SIMD_F32, N, 1.0);
    const buf carry_c = buf_random(TT_SIMD_F32, N, 1.0);
    const buf before = buf_copy(&carry_c);
    const buf d_gates = buf_filled(type, 4 * N, 0);
    double *want = doubles(4 * N), *want_carry = doubles(N);
    simd->recurrence->backward(&(tt_simd_recurrence_args){
        .type = type,
        .rows = ROWS,
        .hidden = H,
        .c_prev = c_prev.data,
        .c = c.data,
        .gates = gates.data,
        .d_h = d_h.data,
        .d_c = d_c.data,
        .carry_h = carry_h.data,
        .carry_c = carry_c.data,
        .d_gates = d_gates.data,
    });
    for (int64_t e = 0; e < N; e++) {
        const double i = buf_get(&gates, gate_at(e, 0));
        const double f = buf_get(&gates, gate_at(e, 1));
        const double g = buf_get(&gates, gate_at(e, 2));
        const double o = buf_get(&gates, gate_at(e, 3));
        const double t = tanh(buf_get(&c, e));
        const double dh = buf_get(&d_h, e) + buf_get(&carry_h, e);
        const double dc =
            buf_get(&d_c, e) + buf_get(&before, e) + dh * o * (1 - t * t);
        want[gate_at(e, 0)] = dc * g * i * (1 - i);
        want[gate_at(e, 1)] = dc * buf_get(&c_prev, e) * f * (1 - f);
        want[gate_at(e, 2)] = dc * i * (1 - g * g);
        want[gate_at(e, 3)] = dh * t * o * (1 - o);
        want_carry[e] = dc * f;
    }
    buf_check(&d_gates, want, "gates");
    buf_check(&carry_c, want_carry, "c_prev");
}

TEST(simd_recurrence_is_an_lstm)
{
    simd_each(forward_case);
    simd_each(backward_case);
}
