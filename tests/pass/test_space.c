// Parts of convolutional networks on meshes that split space: one value under several
// windows, statistics in groups of samples.

#include "base/alloc.h"
#include "base/rng.h"
#include "check/sample.h"
#include "interp/interp.h"
#include "ops/arith.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"
#include "test.h"

static tt_val conv(tt_builder *b, tt_val x, tt_val w, int pad)
{
    return tt_callf(b, &tt_op_conv, (tt_val[]){x, w}, 2, "pad=%d", pad);
}

typedef tt_graph *build_fn(void);

// Every window needs a halo from the value itself, not from another's halo.
static tt_graph *several_windows(void)
{
    tt_builder b;
    tt_graph *g = NULL;
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    b.dtype = b.master = TT_F64;
    const tt_init init = {.kind = TT_INIT_NORMAL, .a = 1};
    const tt_val image =
        tt_input(&b, "image", TT_F64, "batch:2 channels:2 height:9 width:6");
    const tt_val w0 =
        tt_param(&b, "w0", init, "filters:3 channels:2 kernel_h:3 kernel_w:3");
    const tt_val w1 =
        tt_param(&b, "w1", init, "filters:2 channels:3 kernel_h:3 kernel_w:3");
    const tt_val w2 =
        tt_param(&b, "w2", init, "filters:2 channels:3 kernel_h:5 kernel_w:5");
    const tt_val w3 =
        tt_param(&b, "w3", init, "filters:2 channels:3 kernel_h:1 kernel_w:1");
    const tt_val x = conv(&b, image, w0, 1);
    const tt_val main = conv(&b, x, w1, 1);
    const tt_val wide = conv(&b, x, w2, 2);
    const tt_val point = conv(&b, x, w3, 0);
    tt_val y = tt_add(&b, tt_add(&b, main, wide), point);
    y = tt_callf(&b, &tt_op_max_pool, &y, 1, "kernel=3 stride=2 pad=1");
    y = tt_callf(&b, &tt_op_adaptive_avg_pool, &y, 1, "out=1");
    const tt_val target =
        tt_input(&b, "target", TT_F64, "batch:2 channels:2 height:1 width:1");
    const tt_val loss =
        tt_call(&b, &tt_op_mse, NULL, (tt_val[]){y, target}, 2, NULL);
    tt_output(&b, "loss", loss);
    CHECK_OK(tt_grad(&b, loss, NULL, NULL));
    CHECK_OK(tt_builder_take(&b, &g));
    return g;
}

static tt_graph *norm_in_groups(void)
{
    tt_builder b;
    tt_graph *g = NULL;
    tt_val out[TT_MAX_OUT];
    tt_shape channels = {0};
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    b.dtype = b.master = TT_F64;
    CHECK_OK(tt_shape_push(&channels, "channels", 3));
    const tt_init init = {.kind = TT_INIT_NORMAL, .a = 1};
    const char *shape = "batch:8 channels:3 height:5";
    const tt_val x = tt_input(&b, "x", TT_F64, shape);
    const tt_val w = tt_param(&b, "w", init, "filters:3 channels:3 kernel:3");
    const tt_val in[] = {
        conv(&b, x, w, 1),
        tt_param(&b, "gamma", init, "channels:3"),
        tt_param(&b, "beta", init, "channels:3"),
        tt_state(&b, TT_ROLE_BUFFER, "mean", TT_F64, &channels, init),
        tt_state(&b, TT_ROLE_BUFFER, "var", TT_F64, &channels, init),
        x,
    };
    const tt_val y =
        tt_callf(&b, &tt_op_batch_norm, in, 6, "group=2 activation=relu");
    tt_outputs_of(&b, y, out);
    tt_update(&b, in[3], out[3]);
    tt_update(&b, in[4], out[4]);
    tt_output(&b, "new_mean", out[3]);
    tt_output(&b, "new_var", out[4]);
    const tt_val target = tt_input(&b, "target", TT_F64, shape);
    const tt_val loss =
        tt_call(&b, &tt_op_mse, NULL, (tt_val[]){out[0], target}, 2, NULL);
    tt_output(&b, "loss", loss);
    CHECK_OK(tt_grad(&b, loss, NULL, NULL));
    CHECK_OK(tt_builder_take(&b, &g));
    return g;
}

// More inputs than a signature has places for: the rest are as the last.
static tt_graph *many_inputs(void)
{
    enum { MANY = 20 };
    tt_builder b;
    tt_graph *g = NULL;
    tt_val in[MANY];
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    b.dtype = b.master = TT_F64;
    for (int i = 0; i < MANY; i++) {
        const char *name = tt_arena_printf(b.graph->arena, "x%d", i);
        in[i] = tt_input(&b, name, TT_F64, "batch:4 width:3");
    }
    tt_output(&b, "squares",
              tt_call(&b, &tt_op_sum_squares, NULL, in, MANY, NULL));
    tt_output(&b, "all", tt_callf(&b, &tt_op_concat, in, MANY, "dim=1"));
    CHECK_OK(tt_builder_take(&b, &g));
    return g;
}

static tt_interp *run(const tt_graph *g)
{
    tt_interp *it = NULL;
    CHECK_OK(tt_interp_create(g, &it));
    for (int32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].node >= 0)
            continue;
        const int64_t n = tt_shape_count(&g->value[v].type.shape);
        double *data = tt_alloc(n * 8);
        CHECK(data != NULL);
        tt_sample_fill("f", tt_rng_key(5, g->value[v].name, 0), n, data);
        tt_interp_write(it, (tt_val){v}, data);
        tt_free(data);
    }
    CHECK_OK(tt_interp_run(it));
    return it;
}

static void check_same(tt_interp *many, tt_val a, tt_interp *one, tt_val b,
                       int64_t n)
{
    double *x = tt_alloc(n * 8), *y = tt_alloc(n * 8);
    CHECK(x != NULL && y != NULL);
    CHECK(tt_interp_read(many, a, x));
    CHECK(tt_interp_read(one, b, y));
    for (int64_t i = 0; i < n; i++)
        CHECK_CLOSE(x[i], y[i], 1e-11);
    tt_free(x);
    tt_free(y);
}

static void check_partition(build_fn *build, const char *mesh,
                            const char *layout)
{
    const tt_partition_params params = {mesh, layout};
    tt_graph *g = build(), *cut = NULL;
    CHECK_OK(tt_pass_apply(tt_pass_find("partition"), &params, g, &cut));
    tt_interp *one = run(g), *many = run(cut);
    for (int32_t i = 0; i < g->n_outputs; i++) {
        const tt_val v = g->output[i].val;
        check_same(many, tt_graph_output_find(cut, g->output[i].name), one, v,
                   tt_shape_count(&g->value[v.id].type.shape));
    }
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        if (!tt_is(value->grad))
            continue;
        const tt_val there = tt_graph_find(cut, value->name);
        check_same(many, cut->value[there.id].grad, one, value->grad,
                   tt_shape_count(&value->type.shape));
    }
    tt_interp_destroy(one);
    tt_interp_destroy(many);
    tt_graph_destroy(g);
    tt_graph_destroy(cut);
}

TEST(windows_on_one_value_have_a_halo_each)
{
    check_partition(several_windows, "space:2", "height:space");
    check_partition(several_windows, "space:3", "height:space");
    check_partition(several_windows, "space:2", "width:space");
    check_partition(several_windows, "data:2 space:2",
                    "batch:data height:space");
}

// A collective along one axis moves the value itself, not another's halo of it.
TEST(windows_and_filters_of_some_layers)
{
    check_partition(several_windows, "data:2 space:2",
                    "batch:data height:space w2/filters:data");
    check_partition(several_windows, "data:2 space:3",
                    "batch:data height:space w?/filters:data");
    check_partition(several_windows, "space:2 data:2",
                    "batch:data height:space w3/filters:data w1/batch:none");
}

TEST(space_in_both_directions)
{
    check_partition(several_windows, "space:2 wide:2",
                    "height:space width:wide");
}

TEST(groups_of_samples_on_any_mesh)
{
    check_partition(norm_in_groups, "data:2", "batch:data");
    check_partition(norm_in_groups, "data:4", "batch:data");
    check_partition(norm_in_groups, "data:3", "batch:data"); // cuts a group
    check_partition(norm_in_groups, "space:2", "height:space");
    check_partition(norm_in_groups, "tensor:3", "channels:tensor");
    check_partition(norm_in_groups, "data:2 space:2",
                    "batch:data height:space");
    check_partition(norm_in_groups, "space:2 data:2",
                    "batch:data height:space");
    check_partition(norm_in_groups, "data:2 tensor:3",
                    "batch:data channels:tensor");
}

TEST(operators_with_many_inputs_on_a_mesh)
{
    check_partition(many_inputs, "data:2", "batch:data");
    // Nothing is moved but the results.
    const tt_partition_params params = {"data:2", "batch:data"};
    tt_graph *g = many_inputs(), *cut = NULL;
    CHECK_OK(tt_pass_apply(tt_pass_find("partition"), &params, g, &cut));
    CHECK_MSG(cut->n_nodes <= g->n_nodes + g->n_outputs, "%d nodes",
              cut->n_nodes);
    tt_graph_destroy(g);
    tt_graph_destroy(cut);
}

TEST(every_pass_is_found_by_its_name)
{
    int n = 0;
    const tt_pass_def *const *all = tt_pass_all(&n);
    CHECK(n >= 2);
    for (int i = 0; i < n; i++)
        CHECK(tt_pass_find(all[i]->name) == all[i]);
}
