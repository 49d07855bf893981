// Optimisers through the executor: four steps against PyTorch's numbers (1.13, in
// double; Yogi, LARS and LAMB against their papers' formulas), clipping, skipped steps,
// copies in low precision, which weights decay.

#include "base/alloc.h"
#include "exec/world.h"
#include "interp/interp.h"
#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "ops/optim/optim.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { N = 6 };

static const double w_before[N] = {0.5, -1.25, 2.0, 0.125, -0.75, 1.5};

// The loss is sum(w * x), so that x is the gradient of w.
static void build(world *w, const char *optim, const char *options,
                  tt_optim_use use)
{
    tt_builder *b = &w->b;
    const tt_val x = tt_input(b, "x", b->dtype, "a:2 b:3");
    const tt_val weight = tt_param(b, "w", (tt_init){0}, "a:2 b:3");
    const tt_val bias = tt_param(b, "bias", (tt_init){.a = 1}, "b:3");
    const tt_val y = tt_mul(b, tt_add(b, weight, bias), x);
    const tt_val loss = tt_reduce_dims(b, y, TT_REDUCE_SUM, NULL, 0);
    tt_output(b, "loss", loss);
    CHECK_OK(tt_builder_status(b));
    CHECK_OK(tt_grad(b, loss, NULL, NULL));
    use.def = tt_optim_find(optim);
    CHECK(use.def != NULL);
    use.count = tt_scalar(b, "count", b->master);
    const tt_opt *table = use.def->op->options;
    CHECK_OK(tt_opt_defaults(table, &use.params, b->graph->arena));
    CHECK_OK(tt_opt_parse(table, &use.params, options, b->graph->arena));
    CHECK_OK(tt_optim_apply(b, &use));
}

static void open_world(world *w)
{
    world_open(w, NULL, NULL);
    if (w->b.dtype == TT_F64)
        CHECK_OK(tt_exec_write(w->exec, world_find(w, "w"), w_before));
    CHECK_OK(tt_exec_set_scalar(w->exec, "lr", 0.1));
    CHECK_OK(tt_exec_set_scalar(w->exec, "count", 2));
    CHECK_OK(tt_exec_set_scalar(w->exec, "skip", 0));
}

static void step(world *w, int t)
{
    double x[N]; // room for any dtype
    const tt_dtype dtype = w->b.dtype;
    for (int i = 0; i < N; i++)
        tt_dtype_store(dtype, x, i, sin(7.0 * t + 3 * (i / 3) + i % 3 + 1));
    CHECK_OK(tt_exec_set_scalar(w->exec, "step", t + 1));
    CHECK_OK(tt_exec_write(w->exec, world_find(w, "x"), x));
    CHECK_OK(tt_exec_run(w->exec, NULL, NULL));
}

static const struct {
    const char *optim, *options;
    double after[N];
} cases[] = {
    {"sgd",
     "weight_decay=0.1",
     {0.35924389874655827, -1.2084931636831695, 2.033873438352479,
      0.24958671276184322, -0.6931769328166166, 1.340849971953414}},
    {"momentum",
     "weight_decay=0.1 dampening=0.25",
     {0.17507790307718216, -1.2981639798250346, 1.982061512278995,
      0.4019586027661808, -0.5169793931366672, 1.2909157483464517}},
    {"momentum",
     "momentum=0.8 nesterov=true",
     {0.13399778100884563, -1.3523793589136406, 2.255370611602471,
      0.5033340195131846, -0.5965411253397999, 1.2874943481564876}},
    {"adagrad",
     "lr_decay=0.5 weight_decay=0.1 initial=0.25",
     {0.3697005066238058, -1.2670470322941918, 1.9983190108164834,
      0.24741358812754333, -0.6634209850719441, 1.4006716283561251}},
    {"rmsprop",
     "alpha=0.9 weight_decay=0.1",
     {-0.18405459253066486, -1.1338500635885032, 2.2139301508510503,
      0.8380792453710251, -0.46828608586456183, 0.3812646192474436}},
    {"adam",
     "weight_decay=0.1",
     {0.12086288373219704, -1.394903791497148, 1.9285800575475722,
      0.5062805885814317, -0.45629807596619687, 1.1478758869777732}},
    {"adamw",
     "beta1=0.8 beta2=0.95 eps=1e-4 weight_decay=0.1",
     {0.1141113431496414, -1.411716841036618, 2.053965398957168,
      0.49544831361686853, -0.4762621960965947, 1.3521412405840585}},
    {"yogi",
     "beta1=0.8 beta2=0.95 eps=1e-4 weight_decay=0.1",
     {0.13411661863158242, -1.37425299519129, 1.9502612884344332,
      0.4947354361672281, -0.47898995038795644, 1.1400365575488136}},
    {"lars",
     "weight_decay=0.1 trust=0.02",
     {0.4804643640262374, -1.2513835022922153, 2.0003842258362803,
      0.1418665446856273, -0.737270284071521, 1.4857222634009633}},
    {"lamb",
     "weight_decay=0.1",
     {-0.07931821002574518, -1.4876207933129404, 2.1207424372387056,
      0.6802101912404679, -0.34202698677192356, 1.245533309146149}},
};

TEST(four_steps_of_every_optimiser_are_pytorchs)
{
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        world w;
        double after[N];
        world_init(&w);
        build(&w, cases[k].optim, cases[k].options, (tt_optim_use){0});
        open_world(&w);
        for (int t = 0; t < 4; t++)
            step(&w, t);
        world_read(&w, "w", after);
        for (int i = 0; i < N; i++)
            CHECK_MSG(fabs(after[i] - cases[k].after[i]) < 1e-13,
                      "%s %s: w[%d] is %.17g, not %.17g", cases[k].optim,
                      cases[k].options, i, after[i], cases[k].after[i]);
        world_fini(&w);
    }
}

TEST(every_optimiser_is_in_a_case)
{
    int n = 0;
    const tt_optim_def *all = tt_optim_all(&n);
    CHECK(n == 9);
    for (int i = 0; i < n; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++)
            found |= strcmp(cases[k].optim, all[i].name) == 0;
        CHECK_MSG(found, "%s has no case", all[i].name);
        CHECK(tt_optim_find(all[i].name) == &all[i]);
    }
    CHECK(tt_optim_find("adamax") == NULL);
}

static bool is_never(const char *name, const tt_shape *shape, void *user)
{
    (void)shape;
    int *n_asked = user;
    ++*n_asked;
    return strcmp(name, "w") != 0;
}

TEST(the_norm_is_over_all_weights_and_limits_the_step)
{
    world w;
    double x[N], after[N], bias[3], norm = 0;
    world_init(&w);
    build(&w, "sgd", "", (tt_optim_use){.clip = 0.5});
    open_world(&w);
    step(&w, 0);
    for (int i = 0; i < N; i++)
        x[i] = sin(3 * (i / 3) + i % 3 + 1) / 2;
    for (int i = 0; i < 3; i++)
        norm += (x[i] + x[i + 3]) * (x[i] + x[i + 3]);
    for (int i = 0; i < N; i++)
        norm += x[i] * x[i];
    norm = sqrt(norm);
    CHECK(norm > 0.5);
    CHECK_CLOSE(world_scalar(&w, "norm"), norm, 1e-14);
    world_read(&w, "w", after);
    world_read(&w, "bias", bias);
    for (int i = 0; i < N; i++)
        CHECK_CLOSE(after[i], w_before[i] - 0.1 * x[i] * 0.5 / (norm + 1e-6),
                    1e-14);
    CHECK_CLOSE(bias[1], 1 - 0.1 * (x[1] + x[4]) * 0.5 / (norm + 1e-6), 1e-14);
    world_fini(&w);
}

TEST(a_norm_below_the_limit_changes_nothing)
{
    double limited[N], plain[N];
    for (int i = 0; i < 2; i++) {
        world w;
        world_init(&w);
        build(&w, "adamw", "",
              (tt_optim_use){.clip = i == 0 ? 100 : 0, .wants_norm = true});
        open_world(&w);
        step(&w, 0);
        CHECK(world_scalar(&w, "norm") > 0);
        world_read(&w, "w", i == 0 ? limited : plain);
        world_fini(&w);
    }
    CHECK(memcmp(limited, plain, sizeof(plain)) == 0);
}

TEST(nothing_is_normed_when_nobody_asks)
{
    world w;
    world_init(&w);
    build(&w, "adamw", "", (tt_optim_use){0});
    open_world(&w);
    CHECK(world_count(&w, "sum_squares") == 0);
    CHECK(world_count(&w, "clip") == 1);
    CHECK(!tt_is(tt_graph_output_find(w.graph, "norm")));
    world_fini(&w);
}

TEST(a_skipped_step_changes_no_bit)
{
    int n = 0;
    const tt_optim_def *all = tt_optim_all(&n);
    for (int k = 0; k < n; k++) {
        world w;
        double before[N], after[N], bias[3], bias_after[3];
        world_init(&w);
        build(&w, all[k].name, "weight_decay=0.1", (tt_optim_use){0});
        open_world(&w);
        step(&w, 0);
        world_read(&w, "w", before);
        world_read(&w, "bias", bias);
        CHECK(before[0] != w_before[0]);
        CHECK_OK(tt_exec_set_scalar(w.exec, "skip", 1));
        step(&w, 1);
        world_read(&w, "w", after);
        world_read(&w, "bias", bias_after);
        CHECK(memcmp(before, after, sizeof(after)) == 0);
        CHECK(memcmp(bias, bias_after, sizeof(bias)) == 0);
        world_fini(&w);
    }
}

TEST(no_sample_counted_changes_no_weight)
{
    world w;
    double after[N];
    world_init(&w);
    build(&w, "sgd", "", (tt_optim_use){.clip = 1});
    open_world(&w);
    CHECK_OK(tt_exec_set_scalar(w.exec, "count", 0));
    step(&w, 0);
    world_read(&w, "w", after);
    CHECK(memcmp(after, w_before, sizeof(after)) == 0);
    CHECK(world_scalar(&w, "norm") == 0);
    world_fini(&w);
}

TEST(only_matrices_decay_unless_told_otherwise)
{
    for (int told = 0; told < 2; told++) {
        world w;
        int n_asked = 0;
        double plain[N], decayed[N], bias[3], bias_decayed[3];
        for (int decay = 0; decay < 2; decay++) {
            world_init(&w);
            build(&w, "sgd", decay ? "weight_decay=0.5" : "",
                  (tt_optim_use){.is_decayed = told ? is_never : NULL,
                                 .user = &n_asked});
            open_world(&w);
            step(&w, 0);
            world_read(&w, "w", decay ? decayed : plain);
            world_read(&w, "bias", decay ? bias_decayed : bias);
            world_fini(&w);
        }
        CHECK((plain[0] == decayed[0]) == (told == 1));
        CHECK((bias[0] == bias_decayed[0]) == (told == 0));
        CHECK(n_asked == (told ? 4 : 0));
    }
}

TEST(the_copy_that_kernels_read_follows_the_weight)
{
    int n = 0;
    const tt_optim_def *all = tt_optim_all(&n);
    for (int k = 0; k < n; k++) {
        world w;
        float weight[N];
        uint16_t copy[N];
        world_init(&w);
        w.b.dtype = TT_BF16;
        w.b.master = TT_F32;
        build(&w, all[k].name, "", (tt_optim_use){0});
        open_world(&w);
        for (int t = 0; t < 2; t++)
            step(&w, t);
        CHECK_OK(tt_exec_read(w.exec, world_find(&w, "w"), weight));
        CHECK_OK(tt_exec_read(w.exec, world_find(&w, "w.work"), copy));
        for (int i = 0; i < N; i++) {
            uint16_t rounded[1];
            tt_dtype_store(TT_BF16, rounded, 0, (double)weight[i]);
            CHECK(copy[i] == rounded[0]);
        }
        world_fini(&w);
    }
}

// One step of SGD on weights of 1 in bf16, whose neighbours below are 1/256 apart: of
// many each goes one way or the other, as often as it is near.
TEST(weights_without_masters_are_right_on_average)
{
    enum { MANY = 4096 };
    for (int is_random = 0; is_random < 2; is_random++) {
        tt_builder b;
        tt_interp *it = NULL;
        static double w[MANY], after[MANY];
        const tt_optim_params p = {.is_random = is_random == 1, .seed = 3};
        CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
        const tt_val in[TT_OPTIM_STATE] = {
            [TT_OPTIM_W] = tt_input(&b, "w", TT_BF16, "a:4096"),
            [TT_OPTIM_G] = tt_input(&b, "g", TT_F32, "a:4096"),
            [TT_OPTIM_LR] = tt_scalar(&b, "lr", TT_F32),
            [TT_OPTIM_SCALE] = tt_scalar(&b, "scale", TT_F32),
            [TT_OPTIM_STEP] = tt_scalar(&b, "step", TT_I64),
            [TT_OPTIM_SKIP] = tt_scalar(&b, "skip", TT_U8)};
        b.origin = "w";
        const tt_val out =
            tt_call(&b, &tt_op_sgd, &p, in, TT_OPTIM_STATE, NULL);
        CHECK_OK(tt_builder_status(&b));
        CHECK_OK(tt_interp_create(b.graph, &it));
        for (int i = 0; i < MANY; i++)
            w[i] = 1;
        tt_interp_write(it, in[TT_OPTIM_W], w);
        tt_interp_write(it, in[TT_OPTIM_G], w);
        tt_interp_write(it, in[TT_OPTIM_LR], &(double){0.25 / 256});
        tt_interp_write(it, in[TT_OPTIM_SCALE], &(double){1});
        tt_interp_write(it, in[TT_OPTIM_STEP], &(double){5});
        tt_interp_write(it, in[TT_OPTIM_SKIP], &(double){0});
        CHECK_OK(tt_interp_run(it));
        CHECK(tt_interp_read(it, out, after));
        double sum = 0;
        for (int i = 0; i < MANY; i++) {
            CHECK(after[i] == 1 || after[i] == 1 - 1.0 / 256);
            sum += (1 - after[i]) * 256 / MANY;
        }
        CHECK_MSG(is_random ? fabs(sum - 0.25) < 0.04 : sum == 0,
                  "%g of them went down", sum);
        tt_interp_destroy(it);
        tt_builder_fini(&b);
    }
}

// The weight and its update are of stage 1, what all weights share is of stage 0.
TEST(a_weight_is_updated_in_the_stage_of_its_gradient)
{
    world w;
    world_init(&w);
    tt_builder *b = &w.b;
    b->stage = 1;
    const tt_val weight = tt_param(b, "w", (tt_init){0}, "a:2 b:3");
    const tt_val loss =
        tt_reduce_dims(b, tt_tanh(b, weight), TT_REDUCE_SUM, NULL, 0);
    CHECK_OK(tt_grad(b, loss, NULL, NULL));
    b->stage = 0;
    tt_optim_use use = {.def = tt_optim_find("sgd"), .clip = 1};
    use.count = tt_scalar(b, "count", b->master);
    CHECK_OK(
        tt_opt_defaults(use.def->op->options, &use.params, b->graph->arena));
    CHECK_OK(tt_optim_apply(b, &use));
    CHECK(b->stage == 0);
    int n = 0;
    for (int32_t i = 0; i < b->graph->n_nodes; i++) {
        const tt_node *node = &b->graph->node[i];
        const char *op = node->op->name;
        const bool is_own =
            strcmp(op, "sum_squares") == 0 || strcmp(op, "sgd") == 0;
        const bool is_shared =
            strcmp(op, "total") == 0 || strcmp(op, "clip") == 0;
        CHECK(!is_own || node->stage == 1);
        CHECK(!is_shared || node->stage == 0);
        n += is_own + is_shared;
    }
    CHECK(n == 4);
    world_fini(&w);
}

TEST(states_are_named_after_their_weight)
{
    world w;
    world_init(&w);
    build(&w, "adam", "", (tt_optim_use){0});
    open_world(&w);
    CHECK(tt_is(world_find(&w, "w.exp_avg")));
    CHECK(tt_is(world_find(&w, "w.exp_avg_sq")));
    CHECK(tt_is(world_find(&w, "bias.exp_avg")));
    world_fini(&w);
}

TEST(an_optimiser_without_gradients_or_count_is_refused)
{
    world w;
    world_init(&w);
    tt_optim_use use = {.def = tt_optim_find("sgd"), .count = TT_NONE};
    CHECK(tt_optim_apply(&w.b, &use) == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(), "sgd: the loss has no count") == 0);
    use.count = tt_scalar(&w.b, "count", TT_F64);
    CHECK(tt_optim_apply(&w.b, &use) == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(), "sgd: no parameter has a gradient") == 0);
    use.params.low = TT_LOW_BF16;
    CHECK(tt_optim_apply(&w.b, &use) == TT_ERR_ARG);
    tt_builder_fini(&w.b);
}

// Builds a model with an optimiser; every step may run out of memory.
static tt_status try_build(const char *optim)
{
    tt_builder b;
    tt_graph *graph = NULL;
    TT_TRY(tt_builder_init(&b, &tt_grad_ops_default));
    b.dtype = TT_BF16;
    const tt_val x = tt_input(&b, "x", TT_BF16, "a:2 b:3");
    const tt_val w = tt_param(&b, "w", (tt_init){0}, "a:2 b:3");
    const tt_val y = tt_dropout(&b, tt_mul(&b, w, x), 0.5);
    const tt_val loss = tt_reduce_dims(&b, y, TT_REDUCE_MEAN, NULL, 0);
    tt_status status = tt_builder_status(&b);
    if (status == TT_OK)
        status = tt_grad(&b, loss, NULL, NULL);
    if (status == TT_OK) {
        const tt_optim_use use = {.def = tt_optim_find(optim),
                                  .params.adapt = true,
                                  .clip = 1,
                                  .count = tt_scalar(&b, "count", TT_F32)};
        status = tt_builder_status(&b);
        if (status == TT_OK)
            status = tt_optim_apply(&b, &use);
    }
    if (status == TT_OK)
        status = tt_builder_take(&b, &graph);
    tt_graph_destroy(graph);
    tt_builder_fini(&b);
    return status;
}

TEST(memory_that_runs_out_anywhere_is_an_error_and_leaks_nothing)
{
    int n = 0;
    const tt_optim_def *all = tt_optim_all(&n);
    for (int i = 0; i < n; i++) {
        int64_t k = 1;
        for (tt_status status = TT_ERR_NOMEM; status != TT_OK; k++) {
            tt_alloc_fail_at(k);
            status = try_build(all[i].name);
            CHECK(status == TT_OK || status == TT_ERR_NOMEM);
            CHECK(tt_alloc_live() == 0);
        }
        tt_alloc_fail_at(0);
        CHECK(k > 5);
    }
}
