// Recomputation changes memory and FLOPs, but not one bit of a result.

#include "base/alloc.h"
#include "base/settings/settings.h"
#include "golden.h"
#include "graph/grad.h"
#include "job/job.h"
#include "ops/arith.h"
#include "ops/gradops.h"
#include "ops/matmul.h"
#include "ops/ops.h"
#include "pass/pass.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

enum { N_STEPS = 3 };

static tt_job *plan(const char *settings_text, const char *device,
                    const char *mode, tt_arena *arena)
{
    tt_settings settings = {0};
    tt_job *job = NULL;
    char text[512], *rest = NULL;
    snprintf(text, sizeof text, "%s device=%s recompute=%s threads=1",
             settings_text, device, mode);
    for (char *t = strtok_r(text, " ", &rest); t != NULL;
         t = strtok_r(NULL, " ", &rest))
        CHECK_OK(tt_settings_assign(&settings, t, "test", arena));
    CHECK_OK(tt_job_configure(&settings, NULL, &job));
    CHECK_OK(tt_job_plan(job));
    return job;
}

// Appends losses and everything that a step leaves behind: gradients, state.
static void record(tt_job *job, const tt_step_result *r, tt_str *out)
{
    tt_str_addf(out, "%a %a %a\n", r->loss, r->norm, r->correct);
    for (int32_t v = 0; v < job->graph->n_values; v++) {
        const tt_value *value = &job->graph->value[v];
        if (!tt_role_is_state(value->role))
            continue;
        const tt_val of[] = {{v}, value->grad};
        const int64_t n = tt_shape_count(&value->type.shape) *
                          tt_dtype_bytes(value->type.dtype);
        unsigned char *data = tt_alloc(2 * n);
        for (int i = 0; i < 2 && tt_is(of[i]); i++) {
            uint64_t sum = 1469598103934665603u;
            CHECK_OK(tt_exec_read(job->exec, of[i], data));
            for (int64_t b = 0; b < n; b++)
                sum = (sum ^ data[b]) * 1099511628211u;
            tt_str_addf(out, "%s%s %llx\n", value->name, i == 0 ? "" : "'",
                        (unsigned long long)sum);
        }
        tt_free(data);
    }
}

static void train(const char *settings, const char *device, const char *mode,
                  tt_str *out)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan(settings, device, mode, arena);
    CHECK_OK(tt_plan_verify(job->plan));
    CHECK_OK(tt_job_start(
        job, &(tt_exec_options){.poison = true, .check_finite = true}));
    for (int i = 0; i < N_STEPS; i++) {
        tt_step_result r;
        CHECK_OK(tt_job_step(job, tt_job_feed_random, NULL, &r));
        record(job, &r, out);
    }
    CHECK(tt_exec_peak_used(job->exec) == job->plan->peak_bytes);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

static void check_same(const char *settings, const char *device)
{
    static const char *const modes[] = {"selective", "full"};
    tt_str kept = {0};
    train(settings, device, "none", &kept);
    for (int m = 0; m < 2; m++) {
        tt_str again = {0};
        train(settings, device, modes[m], &again);
        const char *a = tt_str_text(&kept), *b = tt_str_text(&again);
        while (*a != '\0' && *a == *b)
            a++, b++;
        while (a > tt_str_text(&kept) && a[-1] != '\n')
            a--;
        CHECK_MSG(*a == '\0' && *b == '\0',
                  "%s on %s: recompute=%s differs in %.60s", settings, device,
                  modes[m], a);
        tt_str_fini(&again);
    }
    tt_str_fini(&kept);
}

static void check_all(const char *const *all)
{
    for (; *all != NULL; all++) {
        check_same(*all, "ref");
        check_same(*all, "cpu");
    }
}

TEST_SLOW(recomputed_transformers_train_to_the_same_bits, 180)
{
    static const char *const all[] = {
        "model=gpt model.layers=3 model.width=32 model.heads=4 model.vocab=40 "
        "model.context=16 model.dropout=0.2 batch=4 seq=16 accumulate=2",
        "model=gpt model.layers=2 model.width=32 model.heads=4 model.vocab=40 "
        "model.context=16 batch=2 seq=16 precision=bf16",
        "model=llama model.layers=2 model.width=32 model.heads=4 "
        "model.kv_heads=2 model.vocab=40 model.ff=48 batch=2 seq=16",
        "model=vit model.layers=2 model.width=32 model.heads=2 model.ff=64 "
        "model.patch=8 model.classes=10 model.dropout=0.1 batch=2 image=32",
        NULL};
    check_all(all);
}

TEST_SLOW(recomputed_networks_train_to_the_same_bits, 180)
{
    static const char *const all[] = {
        "model=resnet18 model.width=4 model.classes=10 batch=4 image=32 "
        "accumulate=2",
        "model=vgg11-bn model.width=4 model.hidden=16 model.classes=10 "
        "batch=2 image=32",
        "model=lstm model.embed=24 model.hidden=24 model.vocab=40 "
        "model.dropout=0.2 batch=4 seq=6",
        "model=mlp batch=3", NULL};
    check_all(all);
}

// One count per micro-batch, whether or not the norm is computed again.
TEST(recomputed_norms_see_a_batch_once)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan("model=resnet18 model.width=4 model.classes=3 batch=4 "
                       "accumulate=2 image=32",
                       "ref", "full", arena);
    CHECK_OK(tt_job_start(job, &(tt_exec_options){0}));
    for (int i = 0; i < N_STEPS; i++) {
        tt_step_result r;
        CHECK_OK(tt_job_step(job, tt_job_feed_random, NULL, &r));
    }
    const tt_val v =
        tt_graph_find(job->graph, "layer2.0.bn1.num_batches_tracked");
    int64_t seen = 0;
    CHECK_OK(tt_exec_read(job->exec, v, &seen));
    CHECK(seen == 2 * N_STEPS);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

static void measure(const char *mode, int64_t layers, tt_plan *out)
{
    char text[256];
    tt_arena *arena = tt_arena_create();
    snprintf(text, sizeof text,
             "model=gpt model.layers=%lld model.width=128 model.heads=4 "
             "model.vocab=64 model.context=64 batch=16 seq=64 optim=sgd",
             (long long)layers);
    tt_job *job = plan(text, "ref", mode, arena);
    *out = *job->plan; // the numbers
    tt_job_close(job);
    tt_arena_destroy(arena);
}

// Of a block's values, 16 times its input, full recomputation keeps the input;
// selective drops both norms and the gelu.
TEST(memory_falls_by_what_is_recomputed)
{
    tt_plan none[2], some[2], full[2];
    for (int i = 0; i < 2; i++) {
        measure("none", 4 + 8 * i, &none[i]);
        measure("selective", 4 + 8 * i, &some[i]);
        measure("full", 4 + 8 * i, &full[i]);
    }
    const double input = 4.0 * 128 * 16 * 64;
    const int use = TT_USE_ACTIVATION;
#define PER_BLOCK(p)                                                           \
    ((double)(p[1].bytes_by_use[use] - p[0].bytes_by_use[use]) / 8 / input)
    CHECK_CLOSE(PER_BLOCK(none), 16, 0.05);
    CHECK_CLOSE(PER_BLOCK(some), 10, 0.05);
    CHECK_CLOSE(PER_BLOCK(full), 1, 0.05);
#undef PER_BLOCK
    // 12 inputs, and one block's values with their gradients.
    CHECK((double)full[1].bytes_by_use[use] < (12 + 16 + 16) * input);
    CHECK(some[1].cost.flops < 1.02 * none[1].cost.flops);
    CHECK(some[1].cost.flops > none[1].cost.flops);
    CHECK(full[1].cost.flops < 1.34 * none[1].cost.flops);
    CHECK(full[1].cost.flops > 1.15 * none[1].cost.flops);
}

TEST(too_large_a_model_is_told_to_recompute)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan("model=gpt model.layers=12 model.width=64 model.heads=2 "
                       "model.vocab=64 batch=4 seq=64",
                       "ref", "none", arena);
    tt_job *less = plan("model=gpt model.layers=12 model.width=64 "
                        "model.heads=2 model.vocab=64 batch=4 seq=64",
                        "ref", "full", arena);
    job->backend->target.memory_bytes = less->plan->peak_bytes;
    CHECK(tt_job_check_fit(job) == TT_ERR_NOMEM);
    CHECK(strstr(tt_error_message(), "\n  recompute=full: ") != NULL);
    CHECK(strstr(tt_error_message(), "recompute=selective") == NULL);
    job->backend->target.memory_bytes = job->plan->peak_bytes - 1;
    CHECK(tt_job_check_fit(job) == TT_ERR_NOMEM);
    CHECK(strstr(tt_error_message(), "fit:\n  recompute=selective: ") != NULL);
    tt_job_close(less);
    tt_job_close(job);
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
}

static bool is_same_node(const tt_node *a, const tt_node *b)
{
    return a->op == b->op && a->phase == b->phase && a->n_in == b->n_in &&
           a->n_out == b->n_out && strcmp(a->origin, b->origin) == 0;
}

// What the pass inserted, and in front of what.
static void list_inserted(const tt_graph *old, const tt_graph *new, tt_str *out)
{
    int32_t o = 0;
    bool is_run = false;
    for (int32_t n = 0; n < new->n_nodes; n++) {
        const tt_node *node = &new->node[n];
        const bool is_old =
            o < old->n_nodes && is_same_node(&old->node[o], node);
        if (!is_old)
            tt_str_addf(out, "  %s %s\n", node->op->name, node->origin);
        else if (is_run)
            tt_str_addf(out, "    before %s %s\n", node->op->name,
                        node->origin);
        is_run = !is_old;
        o += is_old ? 1 : 0;
    }
    CHECK(o == old->n_nodes);
}

// Values say nothing about what is recomputed where: the reviewed list does.
TEST(golden_recompute)
{
    static const char *const all[] = {
        "model=gpt model.layers=3 model.width=96 model.heads=2 model.vocab=24 "
        "model.context=8 model.dropout=0.1 batch=2 seq=8",
        "model=gpt model.layers=2 model.width=96 model.heads=2 model.vocab=24 "
        "model.context=8 batch=2 seq=8",
        "model=gpt model.layers=1 model.width=96 model.heads=2 model.vocab=24 "
        "model.context=8 batch=2 seq=8",
        "model=llama model.layers=2 model.width=96 model.heads=2 "
        "model.kv_heads=1 model.vocab=24 model.ff=24 batch=2 seq=8",
        "model=vit model.layers=2 model.width=96 model.heads=2 model.ff=32 "
        "model.patch=8 model.classes=10 batch=2 image=16",
        "model=resnet18 model.width=16 model.classes=10 batch=2 image=32",
        "model=vgg11 model.width=16 model.hidden=16 model.classes=10 batch=2 "
        "image=32",
        "model=lstm model.layers=2 model.embed=12 model.hidden=10 "
        "model.vocab=20 batch=2 seq=6",
        "model=mlp model.layers=4 model.width=8 batch=2 image=4",
        NULL};
    static const char *const modes[] = {"selective", "full"};
    tt_str text = {0};
    for (const char *const *m = all; *m != NULL; m++)
        for (int i = 0; i < 2; i++) {
            tt_arena *arena = tt_arena_create();
            tt_job *kept = plan(*m, "ref", "none", arena);
            tt_job *again = plan(*m, "ref", modes[i], arena);
            tt_str_addf(&text, "%s %s\n", modes[i], *m);
            list_inserted(kept->graph, again->graph, &text);
            tt_job_close(again);
            tt_job_close(kept);
            tt_arena_destroy(arena);
        }
    golden_compare("recompute", tt_str_text(&text));
    tt_str_fini(&text);
}

// How often silu is computed after selective recomputation, when its result is
// read by the host too or not.
static int count_silu(bool is_output)
{
    tt_builder b;
    tt_graph *g = NULL, *again = NULL;
    const int selective = 1;
    const tt_init init = {.kind = TT_INIT_NORMAL, .a = 1};
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    tt_val h = tt_input(&b, "x", TT_F32, "batch:8 in:64");
    for (int i = 0; i < 2; i++) {
        const tt_val w =
            tt_param(&b, i == 0 ? "w0" : "w1", init, "in:64 out:64");
        h = tt_matmul(&b, h, w, TT_NONE, &(tt_matmul_params){0});
        h = i == 0 ? tt_call(&b, &tt_op_silu, NULL, &h, 1, NULL) : h;
        if (i == 0 && is_output)
            tt_output(&b, "hidden", h);
    }
    const tt_val loss = tt_reduce_dims(&b, h, TT_REDUCE_SUM, NULL, 0);
    tt_output(&b, "loss", loss);
    CHECK_OK(tt_grad(&b, loss, NULL, NULL));
    CHECK_OK(tt_builder_take(&b, &g));
    CHECK_OK(tt_pass_apply(tt_pass_find("recompute"), &selective, g, &again));
    int n = 0;
    for (int32_t i = 0; i < again->n_nodes; i++)
        n += again->node[i].op == &tt_op_silu;
    tt_graph_destroy(g);
    tt_graph_destroy(again);
    return n;
}

// It stays for the host anyhow.
TEST(what_the_host_reads_is_not_computed_again)
{
    CHECK(count_silu(false) == 2);
    CHECK(count_silu(true) == 1);
}
