// What operators mean, by hand: laws compare an operator with itself, so a
// convention (which key is masked, which way a pair turns) is stated here.

#include "interp/interp.h"
#include "ops/gradops.h"
#include "ops/nn/attention.h"
#include "ops/nn/embed.h"
#include "ops/nn/loss.h"
#include "ops/nn/norm.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

// A graph on one rank, its inputs filled as they are made.
typedef struct bench {
    tt_builder b;
    tt_interp *it;
    int n;
    struct {
        tt_val val;
        const double *data;
    } input[4];
} bench;

static void start(bench *k)
{
    *k = (bench){0};
    CHECK_OK(tt_builder_init(&k->b, &tt_grad_ops_default));
    k->b.origin = "test";
}

static tt_val input(bench *k, tt_dtype dtype, const char *shape,
                    const double *data)
{
    const char name[2] = {(char)('a' + k->n), '\0'};
    const tt_val v = tt_input(&k->b, name, dtype, shape);
    CHECK_OK(k->b.status);
    k->input[k->n].val = v;
    k->input[k->n++].data = data;
    return v;
}

static void run(bench *k)
{
    CHECK_OK(tt_graph_verify(k->b.graph));
    CHECK_OK(tt_interp_create(k->b.graph, &k->it));
    for (int i = 0; i < k->n; i++)
        tt_interp_write(k->it, k->input[i].val, k->input[i].data);
    CHECK_OK(tt_interp_run(k->it));
}

static double at(bench *k, tt_val v, int64_t i)
{
    const double *data = tt_interp_data(k->it, 0, v);
    return data[i];
}

static void finish(bench *k)
{
    tt_interp_destroy(k->it);
    tt_builder_fini(&k->b);
}

TEST(causal_attention_sees_itself_and_what_came_before)
{
    bench k;
    start(&k);
    const double q[] = {2, 0}, key[] = {0.5, 1}, v[] = {3, 7};
    const tt_val in[3] = {input(&k, TT_F64, "b:1 s:2 h:1 d:1", q),
                          input(&k, TT_F64, "b:1 s:2 h:1 d:1", key),
                          input(&k, TT_F64, "b:1 s:2 h:1 d:1", v)};
    tt_val lse;
    const tt_val o =
        tt_attention(&k.b, in, &(tt_attention_params){.causal = true}, &lse);
    run(&k);
    CHECK_CLOSE(at(&k, o, 0), 3, 1e-15);
    CHECK_CLOSE(at(&k, o, 1), 5, 1e-15); // equal scores: the mean
    CHECK_CLOSE(at(&k, lse, 0), 1, 1e-15);
    CHECK_CLOSE(at(&k, lse, 1), log(2), 1e-15);
    finish(&k);
}

TEST(query_heads_share_key_value_heads_in_blocks)
{
    bench k;
    start(&k);
    const double q[] = {1, 1, 1, 1}, key[] = {1, 1}, v[] = {3, 7};
    const tt_val in[3] = {input(&k, TT_F64, "b:1 s:1 h:4 d:1", q),
                          input(&k, TT_F64, "b:1 s:1 kv:2 d:1", key),
                          input(&k, TT_F64, "b:1 s:1 kv:2 d:1", v)};
    const tt_val o = tt_attention(&k.b, in, &(tt_attention_params){0}, NULL);
    run(&k);
    CHECK(at(&k, o, 0) == 3 && at(&k, o, 1) == 3);
    CHECK(at(&k, o, 2) == 7 && at(&k, o, 3) == 7);
    finish(&k);
}

// Angles of pair 0 .. 3 at position 1, of heads of 8 and theta 100, whose plain
// frequencies are 1, 10^-0.5, 0.1, 10^-1.5; the amplitude of all.
static void check_turns(const char *options, const double angle[4],
                        double amplitude)
{
    bench k;
    start(&k);
    const double x[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1};
    const tt_val in = input(&k, TT_F64, "s:2 h:1 d:8", x);
    const tt_val y =
        tt_callf(&k.b, &tt_op_rotary, &in, 1, "theta=100 %s", options);
    run(&k);
    for (int i = 0; i < 4; i++) {
        CHECK_CLOSE(at(&k, y, 8 + i), amplitude * cos(angle[i]), 1e-14);
        CHECK_CLOSE(at(&k, y, 12 + i), amplitude * sin(angle[i]), 1e-14);
    }
    finish(&k);
}

TEST(rotary_frequencies_are_scaled_as_models_do)
{
    const double tau = 6.283185307179586;
    const double f[4] = {1, sqrt(0.1), 0.1, 0.1 * sqrt(0.1)};
    check_turns("scaling=linear factor=4 amplitude=2",
                (const double[]){f[0] / 4, f[1] / 4, f[2] / 4, f[3] / 4}, 2);
    // 40 tokens are 40 f / tau turns: 6.4, 2.0, 0.64, 0.2. More than 4: as it is;
    // less than 1: a fourth; between them in proportion.
    const double part = (40 * f[1] / tau - 1) / (4 - 1);
    CHECK(part > 0.33 && part < 0.34);
    check_turns("scaling=llama3 factor=4 low=1 high=4 context=40",
                (const double[]){f[0], (1 - part) * f[1] / 4 + part * f[1],
                                 f[2] / 4, f[3] / 4},
                1);
    // Pairs that turn 4 times and once: 8 log(40 / (4 tau)) / (2 log 100) = 0.404,
    // rounded down 0, and 1.61, rounded up 2. So pair 1 is half way.
    check_turns(
        "scaling=yarn factor=4 low=1 high=4 context=40 amplitude=1.25",
        (const double[]){f[0], (f[1] + f[1] / 4) / 2, f[2] / 4, f[3] / 4},
        1.25);
}

TEST(rotary_turns_halves_against_each_other)
{
    bench k;
    start(&k);
    const double x[] = {1, 0, 0, 0, 1, 0, 0, 0};
    const tt_val in = input(&k, TT_F64, "s:2 h:1 d:4", x);
    const tt_val y = tt_callf(&k.b, &tt_op_rotary, &in, 1, "theta=10000");
    run(&k);
    CHECK(at(&k, y, 0) == 1 && at(&k, y, 2) == 0); // position 0 stays
    CHECK_CLOSE(at(&k, y, 4), cos(1), 1e-15);
    CHECK_CLOSE(at(&k, y, 6), sin(1), 1e-15);
    finish(&k);
}

TEST(layer_norm_uses_the_biased_variance)
{
    bench k;
    start(&k);
    const double x[] = {1, 3}, gamma[] = {1, 2}, beta[] = {0, 5};
    const tt_val y = tt_layer_norm(&k.b, input(&k, TT_F64, "r:1 e:2", x),
                                   input(&k, TT_F64, "e:2", gamma),
                                   input(&k, TT_F64, "e:2", beta), 0);
    run(&k);
    CHECK_CLOSE(at(&k, y, 0), -1, 1e-15);
    CHECK_CLOSE(at(&k, y, 1), 7, 1e-15);
    finish(&k);
}

TEST(cross_entropy_counts_rows_that_are_not_ignored)
{
    bench k;
    start(&k);
    const double x[] = {0, 0, 5, 5}, labels[] = {1, -100};
    const tt_loss loss = tt_cross_entropy(
        &k.b, input(&k, TT_F64, "r:2 v:2", x), input(&k, TT_I32, "r:2", labels),
        &(tt_cross_entropy_params){.ignore = -100});
    run(&k);
    CHECK_CLOSE(at(&k, loss.sum, 0), log(2), 1e-15);
    CHECK(at(&k, loss.count, 0) == 1);
    finish(&k);
}

TEST(smoothing_spreads_the_target_over_the_whole_vocabulary)
{
    bench k;
    start(&k);
    const double x[] = {2, 0}, labels[] = {0};
    const tt_loss loss = tt_cross_entropy(
        &k.b, input(&k, TT_F64, "r:1 v:2", x), input(&k, TT_I32, "r:1", labels),
        &(tt_cross_entropy_params){.smoothing = 0.5, .ignore = -100});
    run(&k);
    // Targets 0.75 and 0.25.
    CHECK_CLOSE(at(&k, loss.sum, 0), log(exp(2) + 1) - 0.75 * 2, 1e-15);
    finish(&k);
}

TEST(a_label_outside_the_vocabulary_is_an_error)
{
    bench k;
    start(&k);
    const double x[] = {2, 0}, labels[] = {2};
    (void)tt_cross_entropy(&k.b, input(&k, TT_F64, "r:1 v:2", x),
                           input(&k, TT_I32, "r:1", labels),
                           &(tt_cross_entropy_params){.ignore = -100});
    CHECK_OK(tt_interp_create(k.b.graph, &k.it));
    for (int i = 0; i < k.n; i++)
        tt_interp_write(k.it, k.input[i].val, k.input[i].data);
    CHECK(tt_interp_run(k.it) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "label 2") != NULL);
    finish(&k);
}

TEST(correct_takes_the_first_of_equal_entries)
{
    bench k;
    start(&k);
    const double x[] = {1, 1, 0, 2}, labels[] = {1, 1};
    const tt_val n = tt_correct(&k.b, input(&k, TT_F64, "r:2 v:2", x),
                                input(&k, TT_I32, "r:2", labels));
    run(&k);
    CHECK(at(&k, n, 0) == 1);
    finish(&k);
}

TEST(mse_counts_elements_by_weight)
{
    bench k;
    start(&k);
    const double x[] = {1, 2, 3, 4}, target[] = {0, 0, 0, 0}, weight[] = {1, 0};
    const tt_loss loss = tt_mse(&k.b, input(&k, TT_F64, "r:2 e:2", x),
                                input(&k, TT_F64, "r:2 e:2", target),
                                input(&k, TT_F64, "r:2", weight));
    run(&k);
    CHECK(at(&k, loss.sum, 0) == 5);
    CHECK(at(&k, loss.count, 0) == 2);
    finish(&k);
}

TEST(errors_name_the_operator_and_the_extents)
{
    bench k;
    start(&k);
    const tt_val q = tt_input(&k.b, "q", TT_F64, "b:1 s:2 h:3 d:4");
    const tt_val kv = tt_input(&k.b, "k", TT_F64, "b:1 s:2 h:2 d:4");
    CHECK(!tt_is(tt_attention(&k.b, (tt_val[]){q, kv, kv},
                              &(tt_attention_params){0}, NULL)));
    CHECK(strstr(tt_error_message(), "attention: 3 heads") != NULL);
    finish(&k);
    start(&k);
    const tt_val x = tt_input(&k.b, "x", TT_F64, "b:1 s:2 e:3");
    const tt_val w = tt_input(&k.b, "w", TT_F64, "p:4 e:5");
    CHECK(!tt_is(tt_position_embedding(&k.b, x, w, TT_NONE)));
    CHECK(strstr(tt_error_message(), "position_embedding: rows") != NULL);
    finish(&k);
}
