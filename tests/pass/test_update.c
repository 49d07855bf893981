// The update over a mesh: every optimiser, with clipping, on split weights gives the
// weights and states of one rank.

#include "base/alloc.h"
#include "base/rng.h"
#include "check/sample.h"
#include "interp/interp.h"
#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/comm/exchange_points.h"
#include "ops/gradops.h"
#include "ops/matmul.h"
#include "ops/ops.h"
#include "ops/optim/optim.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"
#include "test.h"

#include <string.h>

static tt_graph *build(const tt_optim_def *def)
{
    tt_builder b;
    tt_graph *g = NULL;
    const tt_matmul_params plain = {0};
    const tt_init init = {.kind = TT_INIT_NORMAL, .a = 1};
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    b.dtype = b.master = TT_F64;
    tt_val h = tt_input(&b, "x", TT_F64, "batch:5 in:3");
    const tt_val count = tt_scalar(&b, "count", TT_F64);
    const tt_val w1 = tt_param(&b, "w1", init, "in:3 ff:7");
    const tt_val b1 = tt_param(&b, "b1", init, "ff:7");
    const tt_val w2 = tt_param(&b, "w2", init, "ff:7 out:4");
    const tt_val b2 = tt_param(&b, "b2", init, "out:4");
    h = tt_tanh(&b, tt_matmul(&b, h, w1, b1, &plain));
    h = tt_add(&b, tt_matmul(&b, h, w2, TT_NONE, &plain), b2);
    // More weights than a signature has entries.
    for (char name[] = "e0"; name[1] < '0' + TT_SIG_IN; name[1]++)
        h = tt_add(&b, h, tt_param(&b, name, init, "out:4"));
    const tt_val loss =
        tt_reduce_dims(&b, tt_mul(&b, h, h), TT_REDUCE_SUM, NULL, 0);
    tt_output(&b, "loss", tt_tally(&b, loss));
    CHECK_OK(tt_grad(&b, loss, NULL, NULL));
    tt_optim_use use = {.def = def, .clip = 0.5, .count = count};
    CHECK_OK(tt_opt_defaults(def->op->options, &use.params, b.graph->arena));
    use.params.weight_decay = 0.1;
    CHECK_OK(tt_optim_apply(&b, &use));
    CHECK_OK(tt_builder_take(&b, &g));
    return g;
}

// Positive numbers for the leaves, the same in both graphs.
static void fill(tt_interp *it, const tt_graph *g)
{
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        double data[64];
        if (value->node >= 0)
            continue;
        const char *kind = strcmp(value->name, "step") == 0   ? "I=3"
                           : strcmp(value->name, "skip") == 0 ? "u=0"
                                                              : "f+";
        tt_sample_fill(kind, tt_rng_key(5, value->name, 0),
                       tt_shape_count(&value->type.shape), data);
        tt_interp_write(it, (tt_val){v}, data);
    }
}

// The new version of the state with this name.
static tt_val updated(const tt_graph *g, const char *name)
{
    const tt_val state = tt_graph_find(g, name);
    for (int32_t v = 0; v < g->n_values; v++)
        if (tt_is(state) && g->value[v].updates.id == state.id)
            return (tt_val){v};
    CHECK_MSG(false, "nothing updates %s", name);
    return TT_NONE;
}

static void check_value(tt_interp *many, tt_val a, tt_interp *one, tt_val b,
                        int64_t n, const char *name)
{
    double got[64], want[64];
    CHECK_MSG(tt_interp_read(many, a, got), "replicas of %s differ", name);
    CHECK(tt_interp_read(one, b, want));
    for (int64_t i = 0; i < n; i++)
        CHECK_MSG(fabs(got[i] - want[i]) <= 1e-12 * fmax(1, fabs(want[i])),
                  "%s[%d] is %.17g, not %.17g", name, (int)i, got[i], want[i]);
}

static int n_scalar_sums(const tt_graph *g)
{
    int n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        n += g->node[i].op == &tt_op_all_reduce &&
             g->value[g->node[i].out[0].id].type.shape.ndim == 0;
    return n;
}

static int check_mesh(const tt_graph *g, const char *mesh, const char *layout)
{
    const tt_partition_params params = {mesh, layout};
    tt_graph *cut = NULL;
    tt_interp *one = NULL, *many = NULL;
    CHECK_OK(tt_pass_apply(tt_pass_find("partition"), &params, g, &cut));
    CHECK_OK(tt_interp_create(g, &one));
    CHECK_OK(tt_interp_create(cut, &many));
    fill(one, g);
    fill(many, cut);
    CHECK_OK(tt_interp_run(one));
    CHECK_OK(tt_interp_run(many));
    check_value(many, tt_graph_output_find(cut, "norm"), one,
                tt_graph_output_find(g, "norm"), 1, "norm");
    int n_states = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        if (!tt_role_is_state(value->role))
            continue;
        check_value(many, updated(cut, value->name), one,
                    updated(g, value->name), tt_shape_count(&value->type.shape),
                    value->name);
        n_states++;
    }
    CHECK(n_states >= 4);
    const int n = n_scalar_sums(cut);
    tt_interp_destroy(one);
    tt_interp_destroy(many);
    tt_graph_destroy(cut);
    return n;
}

TEST(every_optimiser_on_split_weights_gives_the_whole_update)
{
    int n = 0;
    const tt_optim_def *all = tt_optim_all(&n);
    for (int i = 0; i < n; i++) {
        tt_graph *g = build(&all[i]);
        (void)check_mesh(g, "data:2", "batch:data");
        (void)check_mesh(g, "tensor:3", "ff:tensor");
        (void)check_mesh(g, "tensor:2 space:2", "ff:tensor out:space");
        (void)check_mesh(g, "data:2 tensor:2", "batch:data ff:tensor");
        tt_graph_destroy(g);
    }
}

TEST(the_norm_of_split_gradients_is_one_sum_over_ranks)
{
    tt_graph *g = build(tt_optim_find("adamw"));
    CHECK(check_mesh(g, "tensor:3", "ff:tensor") == 2); // and the loss is one
    tt_graph_destroy(g);
}
