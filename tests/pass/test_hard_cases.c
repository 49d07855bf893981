// Eight hard cases of sharding, forward and backward, in fp64 on simulated ranks:
// the partitioned graph gives the loss and every gradient of the whole one.

#include "../test.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "check/sample.h"
#include "interp/interp.h"
#include "model/nn.h"
#include "ops/arith.h"
#include "ops/gradops.h"
#include "ops/matmul.h"
#include "ops/ops.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"

#include <stdio.h>
#include <string.h>

static void begin(tt_builder *b)
{
    CHECK(tt_builder_init(b, &tt_grad_ops_default) == TT_OK);
    b->dtype = TT_F64;
    b->master = TT_F64;
}

// Differentiates `loss` and ends building.
static tt_graph *finish(tt_builder *b, tt_val loss)
{
    tt_graph *g = NULL;
    tt_output(b, "loss", loss);
    tt_grad(b, loss, NULL, NULL);
    const tt_status status = tt_builder_take(b, &g);
    CHECK_MSG(status == TT_OK, "%s", tt_error_message());
    return g;
}

static double below(const tt_value *value)
{
    return strstr(value->name, "tokens") != NULL ? 11 : 4;
}

// The same numbers for a leaf of any graph, by its name.
static void fill(tt_interp *it, const tt_graph *g)
{
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        if (value->node >= 0)
            continue;
        const int64_t n = tt_shape_count(&value->type.shape);
        double *data = tt_alloc(n * 8);
        char kind[16] = "f";
        if (!tt_dtype_is_float(value->type.dtype))
            snprintf(kind, sizeof kind, "i<%g", below(value));
        tt_sample_fill(kind, tt_rng_key(3, value->name, 0), n, data);
        tt_interp_write(it, (tt_val){v}, data);
        tt_free(data);
    }
}

static double *whole_of(tt_interp *it, const tt_graph *g, tt_val v)
{
    double *data = tt_alloc(8 * tt_shape_count(&g->value[v.id].type.shape));
    CHECK_MSG(tt_interp_read(it, v, data), "replicas of %s differ",
              g->value[v.id].name);
    return data;
}

// |a-b| / max(|b|, 0.01 |all| sqrt(n/N)): a gradient that is zero by mathematics
// has no relative error of its own.
static void check_equal(const char *name, const double *a, const double *b,
                        int64_t n, double floor)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    size = fmax(sqrt(size), floor * sqrt((double)n));
    CHECK_MSG(sqrt(error) <= 1e-9 * size, "%s is off by %.3g of %.3g", name,
              sqrt(error), size);
}

// 0.01 |all| / sqrt(N) over all gradients.
static double floor_of(tt_interp *it, const tt_graph *g)
{
    double sum = 0, count = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        if (!tt_is(g->value[v].grad))
            continue;
        double *b = whole_of(it, g, g->value[v].grad);
        const int64_t n = tt_shape_count(&g->value[v].type.shape);
        for (int64_t i = 0; i < n; i++)
            sum += b[i] * b[i];
        count += (double)n;
        tt_free(b);
    }
    CHECK(count > 0);
    return 0.01 * sqrt(sum / count);
}

static void compare(tt_interp *many, const tt_graph *cut, tt_interp *one,
                    const tt_graph *g)
{
    double *a = whole_of(many, cut, tt_graph_output_find(cut, "loss"));
    double *b = whole_of(one, g, tt_graph_output_find(g, "loss"));
    check_equal("loss", a, b, 1, 0);
    tt_free(a);
    tt_free(b);
    const double floor = floor_of(one, g);
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        if (!tt_is(value->grad))
            continue;
        const tt_val there = tt_graph_find(cut, value->name);
        a = whole_of(many, cut, cut->value[there.id].grad);
        b = whole_of(one, g, value->grad);
        check_equal(value->name, a, b, tt_shape_count(&value->type.shape),
                    floor);
        tt_free(a);
        tt_free(b);
    }
}

static int64_t count_op(const tt_graph *g, const tt_op_def *op)
{
    int64_t n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        n += g->node[i].op == op;
    return n;
}

// Partitions, runs both, compares; returns how often `op` was inserted.
static int64_t verify_with(const tt_graph *g, const tt_partition_params *params,
                           const tt_op_def *op)
{
    tt_graph *cut = NULL;
    const tt_status status =
        tt_pass_apply(tt_pass_find("partition"), params, g, &cut);
    CHECK_MSG(status == TT_OK, "%s: %s", params->mesh, tt_error_message());
    tt_interp *one = NULL, *many = NULL;
    CHECK(tt_interp_create(g, &one) == TT_OK);
    CHECK(tt_interp_create(cut, &many) == TT_OK);
    fill(one, g);
    fill(many, cut);
    CHECK_MSG(tt_interp_run(one) == TT_OK, "%s", tt_error_message());
    CHECK_MSG(tt_interp_run(many) == TT_OK, "%s", tt_error_message());
    compare(many, cut, one, g);
    const int64_t n = count_op(cut, op);
    tt_interp_destroy(one);
    tt_interp_destroy(many);
    tt_graph_destroy(cut);
    return n;
}

static int64_t verify(const tt_graph *g, const char *mesh, const char *layout,
                      const tt_op_def *op)
{
    return verify_with(g, &(tt_partition_params){mesh, layout}, op);
}

static tt_val dense(tt_builder *b, tt_val x, const char *name, const char *in,
                    const char *out)
{
    const tt_dense d = {.name = name,
                        .in = in,
                        .out = out,
                        .has_bias = true,
                        .init = tt_init_normal(1),
                        .bias_init = tt_init_normal(1)};
    return tt_nn_dense(b, x, &d);
}

static tt_val mean_square(tt_builder *b, tt_val x)
{
    tt_str shape = {0};
    tt_shape_print(&tt_type_of(b, x)->shape, &shape);
    const tt_val target = tt_input(b, "target", TT_F64, tt_str_text(&shape));
    tt_str_fini(&shape);
    return tt_call(b, &tt_op_mse, NULL, (tt_val[]){x, target}, 2, NULL);
}

static tt_graph *attention_block(const char *heads, const char *kv, bool causal)
{
    tt_builder b;
    char packed[64];
    begin(&b);
    const tt_val x = tt_input(&b, "x", TT_F64, "batch:2 seq:7 embed:6");
    tt_val o;
    if (kv == NULL) {
        snprintf(packed, sizeof packed, "qkv:3.%s", heads);
        o = tt_nn_packed_attention(&b, dense(&b, x, "qkv", "embed:6", packed),
                                   causal ? &(tt_past){TT_NONE, 0} : NULL);
    } else {
        tt_val part[3] = {dense(&b, x, "q", "embed:6", heads),
                          dense(&b, x, "k", "embed:6", kv),
                          dense(&b, x, "v", "embed:6", kv)};
        for (int i = 0; i < 3; i++)
            part[i] = tt_callf(&b, &tt_op_reshape, &part[i], 1, "dims=1,1,1,1");
        o = tt_callf(&b, &tt_op_attention, part, 3, "causal=%s",
                     causal ? "true" : "false");
        o = tt_callf(&b, &tt_op_reshape, &o, 1, "dims=1,1,2");
    }
    const tt_val y = tt_nn_add(&b, x, dense(&b, o, "out", heads, "embed:6"));
    return finish(&b, mean_square(&b, y));
}

TEST(ring_attention_equals_whole_attention)
{
    for (int causal = 0; causal < 2; causal++) {
        tt_graph *g = attention_block("heads:2.head:4", NULL, causal == 1);
        CHECK(verify(g, "context:2", "seq:context", &tt_op_shift) > 0);
        CHECK(verify(g, "context:3", "seq:context", &tt_op_shift) > 0);
        CHECK(verify(g, "data:2 context:2", "batch:data seq:context",
                     &tt_op_shift) > 0);
        tt_graph_destroy(g);
    }
}

TEST(packed_qkv_splits_by_heads)
{
    tt_graph *g = attention_block("heads:4.head:2", NULL, true);
    CHECK(verify(g, "tensor:2", "heads:tensor", &tt_op_all_reduce) == 1);
    CHECK(verify(g, "tensor:3", "heads:tensor", &tt_op_all_reduce) == 1);
    CHECK(verify(g, "tensor:4", "heads:tensor", &tt_op_all_gather) == 0);
    CHECK(verify(g, "data:2 tensor:2", "batch:data heads:tensor",
                 &tt_op_all_gather) == 0);
    CHECK(verify(g, "tensor:2 context:2", "heads:tensor seq:context",
                 &tt_op_shift) > 0);
    tt_graph_destroy(g);
}

TEST(grouped_queries_with_fewer_key_value_heads_than_ranks)
{
    tt_graph *g = attention_block("heads:4.head:2", "kv_heads:2.head:2", true);
    const char *layout = "heads:tensor kv_heads:tensor";
    CHECK(verify(g, "tensor:2", layout, &tt_op_all_gather) == 0);
    CHECK(verify(g, "tensor:4", layout, &tt_op_all_reduce) > 0);
    CHECK(verify(g, "tensor:3", layout, &tt_op_all_reduce) > 0);
    tt_graph_destroy(g);
}

static tt_graph *token_model(bool tied)
{
    tt_builder b;
    begin(&b);
    const tt_val ids = tt_input(&b, "tokens.x", TT_I32, "batch:3 seq:5");
    const tt_val labels = tt_input(&b, "tokens.y", TT_I32, "batch:3 seq:5");
    const tt_val wte =
        tt_param(&b, "wte", tt_init_normal(1), "vocab:11 embed:6");
    const tt_val head =
        tied ? wte
             : tt_param(&b, "head", tt_init_normal(1), "vocab:11 embed:6");
    tt_val x =
        tt_call(&b, &tt_op_embedding, NULL, (tt_val[]){ids, wte}, 2, NULL);
    x = tt_nn_layer_norm(&b, x, "ln", 1e-5);
    const tt_val logits = tt_callf(
        &b, &tt_op_matmul, (tt_val[]){x, head, TT_NONE}, 3, "transpose_b=true");
    return finish(&b, tt_callf(&b, &tt_op_cross_entropy,
                               (tt_val[]){logits, labels}, 2, "smoothing=0.1"));
}

TEST(vocabulary_parallel_loss_equals_the_whole_loss)
{
    tt_graph *g = token_model(false);
    CHECK(verify(g, "tensor:2", "vocab:tensor", &tt_op_all_gather) == 0);
    CHECK(verify(g, "tensor:3", "vocab:tensor", &tt_op_all_reduce) > 0);
    CHECK(verify(g, "data:3 tensor:2", "batch:data vocab:tensor",
                 &tt_op_all_gather) == 0);
    tt_graph_destroy(g);
}

TEST(tied_embedding_gets_both_gradients)
{
    tt_graph *g = token_model(true);
    CHECK(verify(g, "tensor:2", "vocab:tensor", &tt_op_all_gather) == 0);
    CHECK(verify(g, "data:2", "batch:data", &tt_op_all_gather) == 0);
    CHECK(verify(g, "data:2 tensor:3", "batch:data vocab:tensor",
                 &tt_op_all_gather) == 0);
    tt_graph_destroy(g);
}

static tt_graph *conv_model(const char *shape)
{
    tt_builder b;
    begin(&b);
    tt_val x = tt_input(&b, "x", TT_F64, shape);
    const tt_conv c1 = {"c1", 4, 3, 2, 1, true};
    const tt_conv c2 = {"c2", 3, 3, 1, 1, false};
    x = tt_nn_conv(&b, x, &c1);
    x = tt_nn_batch_norm(&b, x, "bn", true, TT_NONE);
    x = tt_nn_max_pool(&b, x, 3, 2, 1);
    x = tt_nn_conv(&b, x, &c2);
    x = tt_nn_flatten(&b, tt_nn_adaptive_pool(&b, x, 1));
    x = dense(&b, x, "fc", "in:3", "classes:5");
    return finish(&b, mean_square(&b, x));
}

TEST(synchronised_batch_norm_over_a_split_batch)
{
    tt_graph *g = conv_model("batch:4 channels:2 height:9 width:9");
    CHECK(verify(g, "data:2", "batch:data", &tt_op_all_reduce) > 0);
    CHECK(verify(g, "data:3", "batch:data", &tt_op_all_reduce) > 0);
    tt_graph_destroy(g);
}

TEST(strided_convolution_halo_at_odd_height)
{
    tt_graph *g = conv_model("batch:2 channels:2 height:13 width:7");
    CHECK(verify(g, "space:2", "height:space", &tt_op_halo) > 0);
    CHECK(verify(g, "space:3", "height:space", &tt_op_halo) > 0);
    CHECK(verify(g, "space:2", "width:space", &tt_op_halo) > 0);
    CHECK(verify(g, "data:2 space:2", "batch:data height:space", &tt_op_halo) >
          0);
    tt_graph_destroy(g);
}

// Tokens of each group go to experts through one-hot tables (the router's
// result), experts work on [experts, groups, capacity], and the answers return.
static tt_graph *expert_model(void)
{
    tt_builder b;
    begin(&b);
    const tt_val x = tt_input(&b, "x", TT_F64, "groups:4 tokens:5 embed:3");
    const tt_val send =
        tt_input(&b, "send", TT_F64, "groups:4 experts:4.capacity:2 tokens:5");
    const tt_val back =
        tt_input(&b, "back", TT_F64, "groups:4 tokens:5 experts:4.capacity:2");
    const tt_val up =
        tt_param(&b, "experts.up", tt_init_normal(1), "experts:4 embed:3 ff:6");
    const tt_val down = tt_param(&b, "experts.down", tt_init_normal(1),
                                 "experts:4 ff:6 embed:3");
    const tt_val w = tt_param(&b, "in", tt_init_normal(1), "from:3 embed:3");
    tt_val h =
        tt_call(&b, &tt_op_matmul, NULL, (tt_val[]){x, w, TT_NONE}, 3, NULL);
    h = tt_call(&b, &tt_op_matmul, NULL, (tt_val[]){send, h, TT_NONE}, 3, NULL);
    h = tt_callf(&b, &tt_op_reshape, &h, 1, "dims=1,1,1,1");
    h = tt_callf(&b, &tt_op_transpose, &h, 1, "perm=1,0,2,3");
    h = tt_callf(&b, &tt_op_reshape, &h, 1, "dims=1,2,1");
    h = tt_callf(&b, &tt_op_matmul, (tt_val[]){h, up, TT_NONE}, 3,
                 "activation=gelu_tanh");
    h = tt_call(&b, &tt_op_matmul, NULL, (tt_val[]){h, down, TT_NONE}, 3, NULL);
    h = tt_callf(&b, &tt_op_reshape, &h, 1, "dims=1,1,1,1");
    h = tt_callf(&b, &tt_op_transpose, &h, 1, "perm=1,0,2,3");
    h = tt_callf(&b, &tt_op_reshape, &h, 1, "dims=1,2,1");
    h = tt_call(&b, &tt_op_matmul, NULL, (tt_val[]){back, h, TT_NONE}, 3, NULL);
    return finish(&b, mean_square(&b, h));
}

TEST(expert_dispatch_by_all_to_all)
{
    tt_graph *g = expert_model();
    CHECK(verify(g, "expert:2", "groups:expert experts:expert",
                 &tt_op_all_to_all) >= 4);
    CHECK(verify(g, "expert:4", "groups:expert experts:expert",
                 &tt_op_all_to_all) >= 4);
    CHECK(verify(g, "expert:3", "groups:expert experts:expert",
                 &tt_op_all_to_all) >= 4);
    tt_graph_destroy(g);
}

// The weight's only factor has a name that the layout does not know, but its gradient
// comes out split along it over `tensor`; scattering that over `data` along the same
// factor would mix up blocks of blocks.
TEST(a_gradient_is_scattered_along_a_factor_that_another_axis_has_split)
{
    tt_builder b;
    const tt_matmul_params plain = {0};
    begin(&b);
    const tt_val x = tt_input(&b, "x", TT_F64, "batch:4 k:6");
    const tt_val u = tt_param(&b, "u", tt_init_normal(1), "k:6 ff:8");
    const tt_val w = tt_param(&b, "w", tt_init_normal(1), "in:8");
    const tt_val v = tt_param(&b, "v", tt_init_normal(1), "ff:8 out:4");
    const tt_val h = tt_mul(&b, tt_matmul(&b, x, u, TT_NONE, &plain), w);
    const tt_val y = tt_matmul(&b, h, v, TT_NONE, &plain);
    tt_graph *g = finish(&b, mean_square(&b, y));
    const tt_partition_params params = {
        .mesh = "data:2 tensor:2", .layout = "batch:data ff:tensor", .zero = 2};
    CHECK(verify_with(g, &params, &tt_op_reduce_scatter) == 3);
    tt_graph_destroy(g);
}
