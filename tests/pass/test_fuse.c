// What the pass fuse finds in whole models; that it computes the same is a law.

#include "base/settings/settings.h"
#include "job/job.h"
#include "ops/ops.h"
#include "pass/fuse.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static tt_job *plan(const char *settings_text, tt_arena *arena)
{
    tt_settings settings = {0};
    tt_job *job = NULL;
    char text[512], *rest = NULL;
    snprintf(text, sizeof text, "device=cpu threads=1 %s", settings_text);
    for (char *t = strtok_r(text, " ", &rest); t != NULL;
         t = strtok_r(NULL, " ", &rest))
        CHECK_OK(tt_settings_assign(&settings, t, "test", arena));
    CHECK_OK(tt_job_configure(&settings, NULL, &job));
    CHECK_OK(tt_job_plan(job));
    return job;
}

static int count(const tt_graph *g, const tt_op_def *op)
{
    int n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        n += g->node[i].op == op ? 1 : 0;
    return n;
}

static const tt_fuse_params all = {NULL, NULL};

static bool is_another(void *user, const tt_op_def *op)
{
    return op != user;
}

// What a device wants that has no kernel for `op`.
static tt_fuse_params all_but(const tt_op_def *op)
{
    return (tt_fuse_params){is_another, (void *)(uintptr_t)op};
}

static const char gpt[] =
    "model=gpt model.layers=3 model.width=32 model.heads=4 model.vocab=40 "
    "model.context=16 batch=2 seq=16";

TEST(everything_that_can_be_fused_in_gpt_is)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan(gpt, arena);
    tt_graph *g = NULL;
    CHECK_OK(tt_pass_apply(tt_pass_find("fuse"), &all, job->graph, &g));
    CHECK(count(g, &tt_op_norm_grad) == 7);
    CHECK(count(g, &tt_op_layer_norm_grad_x) == 0);
    CHECK(count(g, &tt_op_layer_norm_grad_w) == 0);
    CHECK(count(g, &tt_op_cross_entropy_step) == 1);
    CHECK(count(g, &tt_op_cross_entropy) == 0);
    CHECK(count(g, &tt_op_correct) == 0);
    CHECK(count(g, &tt_op_matmul_add) == 6);
    CHECK(count(g, &tt_op_add) == 0);
    CHECK(count(g, &tt_op_matmul_gelu_grad) == 3);
    CHECK(count(g, &tt_op_gelu_grad) == 0);
    CHECK(count(g, &tt_op_matmul_grad_both) == 6);
    CHECK(count(g, &tt_op_bias_grad) == 0);
    tt_graph_destroy(g);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

// The loss's factor, which is a state, goes into the fused loss.
TEST(a_scaled_loss_is_fused)
{
    char settings[256];
    tt_arena *arena = tt_arena_create();
    snprintf(settings, sizeof settings, "%s device=ref precision=fp16", gpt);
    tt_job *job = plan(settings, arena);
    tt_graph *g = NULL;
    CHECK_OK(tt_pass_apply(tt_pass_find("fuse"), &all, job->graph, &g));
    CHECK_OK(tt_graph_verify(g));
    CHECK(count(g, &tt_op_cross_entropy_step) == 1);
    CHECK(count(g, &tt_op_cross_entropy) == 0);
    CHECK(count(g, &tt_op_cross_entropy_grad) == 0);
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        if (node->op != &tt_op_cross_entropy_step)
            continue;
        CHECK(node->n_in == 3);
        const tt_value *factor = &g->value[node->in[2].id];
        CHECK_MSG(strcmp(factor->name, "loss_scale.factor") == 0,
                  "the factor is %s", factor->name);
    }
    tt_graph_destroy(g);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

static const tt_value *named(const tt_graph *g, const char *name)
{
    for (int32_t v = 0; v < g->n_values; v++)
        if (tt_role_is_state(g->value[v].role) &&
            strcmp(g->value[v].name, name) == 0)
            return &g->value[v];
    return NULL;
}

static void check_places(const tt_graph *a, tt_val x, const tt_graph *b,
                         tt_val y, const char *name)
{
    const tt_type *old = &a->value[x.id].type, *new = &b->value[y.id].type;
    for (int axis = 0; axis < a->mesh.n_axes; axis++)
        CHECK_MSG(tt_place_equal(&old->place[axis], &new->place[axis]),
                  "the gradient of %s lies elsewhere on axis %d", name, axis);
}

// What several ranks made of the model is fused as well, and lies where it lay.
TEST(parts_of_ranks_are_fused)
{
    static const tt_partition_params params = {
        .mesh = "data:2 tensor:2",
        .layout = "batch:data heads:tensor ff:tensor"};
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan(gpt, arena);
    tt_graph *parts = NULL, *g = NULL;
    CHECK_OK(
        tt_pass_apply(tt_pass_find("partition"), &params, job->graph, &parts));
    CHECK_OK(tt_pass_apply(tt_pass_find("fuse"), &all, parts, &g));
    CHECK_OK(tt_graph_verify(g));
    CHECK(count(g, &tt_op_norm_grad) == 7);
    CHECK(count(g, &tt_op_matmul_gelu_grad) == 3);
    CHECK(count(g, &tt_op_matmul_grad_both) == 6);
    CHECK(g->mesh.n_axes == 2 &&
          count(g, &tt_op_all_reduce) == count(parts, &tt_op_all_reduce));
    int n_split = 0;
    for (int32_t v = 0; v < parts->n_values; v++) {
        const tt_value *old = &parts->value[v];
        if (!tt_role_is_state(old->role) || !tt_is(old->grad))
            continue;
        const tt_value *new = named(g, old->name);
        CHECK(new != NULL &&tt_is(new->grad));
        check_places(parts, old->grad, g, new->grad, old->name);
        n_split += parts->value[old->grad.id].type.place[1].kind == TT_SPLIT;
    }
    CHECK(n_split > 0);
    for (int32_t o = 0; o < g->n_outputs; o++)
        check_places(parts, parts->output[o].val, g, g->output[o].val,
                     g->output[o].name);
    tt_graph_destroy(g);
    tt_graph_destroy(parts);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

TEST(a_pattern_that_is_not_wanted_is_left_alone)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan(gpt, arena);
    const tt_op_def *const made[] = {
        &tt_op_norm_grad, &tt_op_cross_entropy_step, &tt_op_matmul_add,
        &tt_op_matmul_gelu_grad, &tt_op_matmul_grad_both};
    for (int i = 0; i < 5; i++) {
        tt_graph *g = NULL;
        const tt_fuse_params some = all_but(made[i]);
        CHECK_OK(tt_pass_apply(tt_pass_find("fuse"), &some, job->graph, &g));
        for (int k = 0; k < 5; k++)
            CHECK((count(g, made[k]) == 0) == (k == i));
        tt_graph_destroy(g);
    }
    tt_job_close(job);
    tt_arena_destroy(arena);
}

TEST(the_cpu_wants_nothing_fused)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan(gpt, arena);
    CHECK(count(job->graph, &tt_op_norm_grad) == 0);
    CHECK(count(job->graph, &tt_op_matmul_add) == 0);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

// Dropout stands between the product and the sum; the value that the gradient of GELU
// reads is a sum.
TEST(nothing_is_fused_across_what_stands_between)
{
    tt_arena *arena = tt_arena_create();
    char text[400];
    snprintf(text, sizeof text, "%s model.dropout=0.1", gpt);
    tt_job *job = plan(text, arena);
    tt_graph *g = NULL;
    CHECK_OK(tt_pass_apply(tt_pass_find("fuse"), &all, job->graph, &g));
    CHECK(count(g, &tt_op_matmul_add) == 0);
    CHECK(count(g, &tt_op_add) == 6);
    CHECK(count(g, &tt_op_norm_grad) == 7);
    tt_graph_destroy(g);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

TEST(norms_without_mean_are_fused_too)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job =
        plan("model=llama model.layers=2 model.width=32 model.heads=4 "
             "model.kv_heads=2 model.vocab=40 model.ff=48 batch=2 seq=16",
             arena);
    tt_graph *g = NULL;
    CHECK_OK(tt_pass_apply(tt_pass_find("fuse"), &all, job->graph, &g));
    CHECK(count(g, &tt_op_norm_grad) == 5);
    CHECK(count(g, &tt_op_rms_norm_grad_x) == 0);
    CHECK(count(g, &tt_op_matmul_add) >= 4);
    tt_graph_destroy(g);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

static const char vgg[] = "model=vgg11 model.width=8 model.hidden=16 "
                          "model.classes=10 model.dropout=0 image=32 batch=2";
static const char resnet[] =
    "model=resnet18 model.width=8 model.classes=10 image=32 batch=2";

TEST(convolutions_take_what_stands_after_them)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan(vgg, arena);
    tt_graph *g = NULL;
    CHECK_OK(tt_pass_apply(tt_pass_find("fuse"), &all, job->graph, &g));
    CHECK(count(g, &tt_op_conv_relu) == 8);
    CHECK(count(g, &tt_op_conv) == 0);
    CHECK(count(g, &tt_op_relu_grad_bias) == 8);
    CHECK(count(g, &tt_op_conv_grad_b) == 0);
    CHECK(count(g, &tt_op_relu_grad) == 2); // of the dense layers
    CHECK(count(g, &tt_op_conv_grad_x_add) == 0);
    tt_graph_destroy(g);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

// A block's input gets a gradient from its first convolution and one from the path
// around it; where that path has a convolution too, one of the two takes the sum.
TEST(gradients_at_the_joints_of_blocks_are_added_by_convolutions)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan(resnet, arena);
    tt_graph *g = NULL;
    CHECK(count(job->graph, &tt_op_add) == 8);
    CHECK_OK(tt_pass_apply(tt_pass_find("fuse"), &all, job->graph, &g));
    CHECK(count(g, &tt_op_conv_grad_x_add) == 8);
    CHECK(count(g, &tt_op_add) == 0);
    CHECK(count(g, &tt_op_conv_relu) == 0); // a norm is between
    tt_graph_destroy(g);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

TEST(a_pattern_of_images_that_is_not_wanted_is_left_alone)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan(vgg, arena);
    tt_job *deep = plan(resnet, arena);
    const tt_fuse_params no_relu = all_but(&tt_op_conv_relu);
    const tt_fuse_params no_masks = all_but(&tt_op_relu_grad_bias);
    const tt_fuse_params no_images = all_but(&tt_op_conv_grad_x_add);
    tt_graph *g = NULL;
    CHECK_OK(tt_pass_apply(tt_pass_find("fuse"), &no_relu, job->graph, &g));
    CHECK(count(g, &tt_op_conv_relu) == 0);
    CHECK(count(g, &tt_op_relu_grad_bias) == 8);
    tt_graph_destroy(g);
    CHECK_OK(tt_pass_apply(tt_pass_find("fuse"), &no_masks, job->graph, &g));
    CHECK(count(g, &tt_op_conv_relu) == 8);
    CHECK(count(g, &tt_op_relu_grad_bias) == 0);
    tt_graph_destroy(g);
    CHECK_OK(tt_pass_apply(tt_pass_find("fuse"), &no_images, deep->graph, &g));
    CHECK(count(g, &tt_op_conv_grad_x_add) == 0);
    CHECK(count(g, &tt_op_add) == 8);
    tt_graph_destroy(g);
    tt_job_close(deep);
    tt_job_close(job);
    tt_arena_destroy(arena);
}
