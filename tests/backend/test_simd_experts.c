// Rows of tokens to slots of experts and back, and routing: every instruction set
// against naive loops, and any number of threads to the bit.

#include "backend/simd_check.h"
#include "base/alloc.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { TOKENS = 300, ROWS = 500 };

typedef struct trial {
    int64_t choices, cols;
    bool has_gate;
    bool repeats; // rows that several pairs have
} trial;

static const trial trials[] = {
    {2, 137, true, false}, {2, 64, false, false}, {1, 33, true, false},
    {3, 130, true, false}, {2, 70, true, true},   {3, 1, false, true},
};
enum { N_TRIALS = sizeof(trials) / sizeof(trials[0]) };

// A third of the pairs has no row.
static void fill_rows(const trial *t, int32_t *row)
{
    const int64_t n = TOKENS * t->choices;
    for (int64_t i = 0; i < n; i++) {
        const int64_t r = t->repeats ? i * 7 % 40 : i;
        row[i] = i % 3 == 1 || r >= ROWS ? -1 : (int32_t)r;
    }
    for (int64_t i = 0; i + 5 < n && !t->repeats; i += 10) { // not in order
        const int32_t other = row[i];
        row[i] = row[i + 5];
        row[i + 5] = other;
    }
    row[t->choices - 1] = row[0] = -1; // a token without any
    for (int64_t i = 6 * t->choices; i < 7 * t->choices; i++)
        row[i] = -1; // another, after one that has some
    CHECK(row[6 * t->choices - 1] >= 0);
}

static double gate_at(const trial *t, const buf *gate, int64_t i)
{
    return t->has_gate ? buf_get(gate, i) : 1;
}

static void move_case(const tt_simd *simd, tt_simd_type type, const trial *t)
{
    const int64_t n = TOKENS * t->choices, c = t->cols;
    const buf x = buf_random(type, TOKENS * c, 1),
              z = buf_random(type, ROWS * c, 1);
    const buf gate = buf_random(TT_SIMD_F32, n, 1);
    const buf out[] = {buf_filled(type, ROWS * c, 9),
                       buf_filled(type, TOKENS * c, 9),
                       buf_filled(TT_SIMD_F32, n, 9)};
    const buf again[] = {buf_copy(&out[0]), buf_copy(&out[1]),
                         buf_copy(&out[2])};
    double *want[] = {doubles(ROWS * c), doubles(TOKENS * c), doubles(n)};
    int32_t row[TOKENS * 3], pair[ROWS];
    fill_rows(t, row);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < c && row[i] >= 0; j++) {
            const int64_t from = i / t->choices * c + j, to = row[i] * c + j;
            want[0][to] += gate_at(t, &gate, i) * buf_get(&x, from);
            want[1][from] += gate_at(t, &gate, i) * buf_get(&z, to);
            want[2][i] += buf_get(&x, from) * buf_get(&z, to);
        }
    for (int threads = 1; threads <= 3; threads += 2) {
        const buf *to = threads == 1 ? out : again;
        tt_simd_experts_args a = {.type = type,
                                  .tokens = TOKENS,
                                  .choices = t->choices,
                                  .cols = c,
                                  .rows = ROWS,
                                  .row = row,
                                  .gate = t->has_gate ? gate.data : NULL,
                                  .x = x.data,
                                  .z = z.data,
                                  .y = to[0].data,
                                  .dgate = to[2].data,
                                  .pair = pair};
        use_threads(threads);
        simd->experts->dispatch(&a);
        a.y = to[1].data;
        simd->experts->combine(&a);
        simd->experts->gate_grad(&a);
    }
    static const char *const name[] = {"dispatch", "combine", "gate_grad"};
    for (int k = 0; k < 3; k++) {
        buf_check(&out[k], want[k], name[k]);
        buf_check_same(&out[k], &again[k], name[k]);
    }
}

static void each_move(const tt_simd *simd, tt_simd_type type)
{
    for (int i = 0; i < N_TRIALS; i++)
        move_case(simd, type, &trials[i]);
}

TEST(simd_rows_go_to_experts_and_back)
{
    simd_each(each_move);
}

// ---- routing -------------------------------------------------------------

enum { GROUPS = 5, LENGTH = 40, EXPERTS = 11, CHOICES = 3, SLOTS = 9 };
enum { ALL = GROUPS * LENGTH };

static void softmax(const buf *x, int64_t token, double *p)
{
    double sum = 0;
    for (int e = 0; e < EXPERTS; e++)
        sum += p[e] = exp(buf_get(x, token * EXPERTS + e));
    for (int e = 0; e < EXPERTS; e++)
        p[e] /= sum;
}

// Which experts, by logits; of equals the first.
static void largest(const buf *x, int64_t token, int *chosen)
{
    for (int c = 0; c < CHOICES; c++) {
        chosen[c] = -1;
        for (int e = 0; e < EXPERTS; e++) {
            bool is_free = true;
            for (int k = 0; k < c; k++)
                is_free = is_free && chosen[k] != e;
            if (is_free &&
                (chosen[c] < 0 || buf_get(x, token * EXPERTS + e) >
                                      buf_get(x, token * EXPERTS + chosen[c])))
                chosen[c] = e;
        }
    }
}

static void want_group(const buf *x, int64_t group, double *gate,
                       int32_t *place, double *balance)
{
    int chosen[LENGTH][CHOICES];
    int64_t first[EXPERTS] = {0}, used[EXPERTS] = {0};
    double p[LENGTH][EXPERTS];
    *balance = 0;
    for (int t = 0; t < LENGTH; t++) {
        double sum = 0;
        softmax(x, group * LENGTH + t, p[t]);
        largest(x, group * LENGTH + t, chosen[t]);
        for (int c = 0; c < CHOICES; c++)
            sum += p[t][chosen[t][c]];
        for (int c = 0; c < CHOICES; c++)
            gate[(group * LENGTH + t) * CHOICES + c] = p[t][chosen[t][c]] / sum;
        first[chosen[t][0]]++;
    }
    for (int c = 0; c < CHOICES; c++)
        for (int t = 0; t < LENGTH; t++) {
            const int e = chosen[t][c];
            place[(group * LENGTH + t) * CHOICES + c] =
                used[e] < SLOTS ? (int32_t)(e * SLOTS + used[e]++) : -1 - e;
        }
    for (int t = 0; t < LENGTH; t++)
        for (int e = 0; e < EXPERTS; e++)
            *balance += (double)first[e] * p[t][e] * EXPERTS / LENGTH;
}

// The gradient of sum(d gate) + d_balance balance, in double.
static void want_gradient(const buf *x, const buf *d, double d_balance,
                          const int32_t *place, double *want)
{
    for (int64_t g = 0; g < GROUPS; g++) {
        double first[EXPERTS] = {0};
        for (int64_t t = g * LENGTH; t < (g + 1) * LENGTH; t++) {
            const int32_t at = place[t * CHOICES];
            first[at < 0 ? -1 - at : at / SLOTS]++;
        }
        for (int64_t t = g * LENGTH; t < (g + 1) * LENGTH; t++) {
            double p[EXPERTS], dp[EXPERTS], sum = 0, mean = 0, dot = 0;
            softmax(x, t, p);
            for (int e = 0; e < EXPERTS; e++)
                dp[e] = d_balance * first[e];
            for (int c = 0; c < CHOICES; c++) {
                const int32_t at = place[t * CHOICES + c];
                sum += p[at < 0 ? -1 - at : at / SLOTS];
            }
            for (int c = 0; c < CHOICES; c++) {
                const int32_t at = place[t * CHOICES + c];
                mean += buf_get(d, t * CHOICES + c) *
                        p[at < 0 ? -1 - at : at / SLOTS] / sum;
            }
            for (int c = 0; c < CHOICES; c++) {
                const int32_t at = place[t * CHOICES + c];
                dp[at < 0 ? -1 - at : at / SLOTS] +=
                    (buf_get(d, t * CHOICES + c) - mean) / sum;
            }
            for (int e = 0; e < EXPERTS; e++)
                dot += p[e] * dp[e];
            for (int e = 0; e < EXPERTS; e++)
                want[t * EXPERTS + e] = p[e] * (dp[e] - dot);
        }
    }
}

static void route_case(const tt_simd *simd, tt_simd_type type)
{
    const buf x = buf_random(type, ALL * EXPERTS, 2);
    const buf gate = buf_filled(TT_SIMD_F32, ALL * CHOICES, 9);
    const buf d = buf_random(TT_SIMD_F32, ALL * CHOICES, 1);
    const buf dx = buf_filled(type, ALL * EXPERTS, 9);
    double *want = doubles(gate.n), *d_want = doubles(dx.n);
    int32_t place[ALL * CHOICES], places[ALL * CHOICES];
    double balance[GROUPS], balances[GROUPS];
    buf_set(&x, 4, 3); // equal ones: the first is taken
    buf_set(&x, 7, 3);
    char *scratch = tt_alloc_aligned(
        GROUPS * simd->experts->route_scratch_bytes(EXPERTS), 64);
    tt_simd_route_args a = {.type = type,
                            .groups = GROUPS,
                            .tokens = LENGTH,
                            .experts = EXPERTS,
                            .choices = CHOICES,
                            .slots = SLOTS,
                            .logits = x.data,
                            .gate = gate.data,
                            .place = place,
                            .balance = balance,
                            .scratch = scratch};
    use_threads(3);
    simd->experts->route(&a);
    for (int64_t g = 0; g < GROUPS; g++)
        want_group(&x, g, want, places, &balances[g]);
    CHECK(memcmp(place, places, sizeof place) == 0);
    buf_check(&gate, want, "gate");
    for (int g = 0; g < GROUPS; g++)
        CHECK_CLOSE(balance[g], balances[g], 1e-5);
    a.gate = d.data;
    a.d_balance = 0.01f;
    a.d_logits = dx.data;
    simd->experts->route_grad(&a);
    want_gradient(&x, &d, 0.01, place, d_want);
    buf_check(&dx, d_want, "route_grad");
    tt_free_aligned(scratch);
}

TEST(simd_routes_tokens_to_experts)
{
    simd_each(route_case);
}
