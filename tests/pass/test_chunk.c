// A loss in chunks is the loss: same gradients, fewer logits at a time.

#include "base/alloc.h"
#include "base/settings/settings.h"
#include "job/job.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "pass/chunk.h"
#include "pass/pass.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char gpt[] = "model=gpt model.layers=2 model.width=32 "
                          "model.heads=2 model.vocab=97 model.context=23 "
                          "batch=6 seq=23 threads=1";

static tt_job *configure(const char *settings_text, const char *more,
                         tt_arena *arena)
{
    tt_settings settings = {0};
    tt_job *job = NULL;
    char text[512], *rest = NULL;
    snprintf(text, sizeof text, "%s %s", settings_text, more);
    for (char *t = strtok_r(text, " ", &rest); t != NULL;
         t = strtok_r(NULL, " ", &rest))
        CHECK_OK(tt_settings_assign(&settings, t, "test", arena));
    CHECK_OK(tt_job_configure(&settings, NULL, &job));
    return job;
}

typedef struct outcome {
    tt_step_result result;
    double *grad; // of all weights
    int64_t n, chunks, peak;
} outcome;

static void take_gradients(tt_job *job, outcome *o)
{
    for (int32_t v = 0; v < job->graph->n_values; v++) {
        const tt_val grad = job->graph->value[v].grad;
        if (!tt_is(grad))
            continue;
        const tt_type *type = &job->graph->value[grad.id].type;
        const int64_t n = tt_shape_count(&type->shape);
        void *data = tt_alloc(n * tt_dtype_bytes(type->dtype));
        CHECK_OK(tt_exec_read(job->exec, grad, data));
        o->grad = tt_realloc(o->grad, o->n * (int64_t)sizeof(double),
                             (o->n + n) * (int64_t)sizeof(double));
        for (int64_t i = 0; i < n; i++)
            o->grad[o->n++] = tt_dtype_load(type->dtype, data, i);
        tt_free(data);
    }
}

// The second step: what the first left behind counts too.
static outcome train(const char *settings, const char *more)
{
    outcome o = {0};
    tt_arena *arena = tt_arena_create();
    tt_job *job = configure(settings, more, arena);
    CHECK_OK(tt_job_plan(job));
    CHECK_OK(tt_plan_verify(job->plan));
    CHECK_OK(tt_job_start(
        job, &(tt_exec_options){.poison = true, .check_finite = true}));
    for (int i = 0; i < 2; i++)
        CHECK_OK(tt_job_step(job, tt_job_feed_random, NULL, &o.result));
    CHECK(tt_exec_peak_used(job->exec) == job->plan->peak_bytes);
    o.chunks = job->chunks;
    o.peak = job->plan->peak_bytes;
    take_gradients(job, &o);
    tt_job_close(job);
    tt_arena_destroy(arena);
    return o;
}

static double distance(const outcome *a, const outcome *b)
{
    double off = 0, all = 0;
    CHECK(a->n == b->n && a->n > 0);
    for (int64_t i = 0; i < a->n; i++) {
        off += (a->grad[i] - b->grad[i]) * (a->grad[i] - b->grad[i]);
        all += b->grad[i] * b->grad[i];
    }
    return sqrt(off / all);
}

static void check_same(const char *settings, const char *more, double tolerance)
{
    static const int64_t wanted[] = {2, 3, 7};
    char text[256];
    snprintf(text, sizeof text, "%s loss.chunks=1", more);
    outcome whole = train(settings, text);
    CHECK(whole.chunks == 1);
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%s loss.chunks=%lld", more,
                 (long long)wanted[i]);
        outcome o = train(settings, text);
        CHECK_MSG(o.chunks == wanted[i], "%s: %lld chunks", text,
                  (long long)o.chunks);
        CHECK_MSG(distance(&o, &whole) <= tolerance, "%s: off by %g", text,
                  distance(&o, &whole));
        CHECK(fabs(o.result.loss - whole.result.loss) <=
              tolerance * whole.result.loss);
        CHECK(o.result.count == whole.result.count);
        CHECK(o.result.correct == whole.result.correct);
        tt_free(o.grad);
    }
    tt_free(whole.grad);
}

TEST(gradients_of_chunks_are_those_of_the_whole)
{
    check_same(gpt, "device=ref precision=fp64 smoothing=0.1", 1e-12);
    check_same(gpt, "device=cpu", 2e-6);
}

TEST(chunks_add_up_over_micro_batches_and_under_recomputation)
{
    check_same(gpt, "device=cpu accumulate=3 recompute=full", 2e-6);
    check_same("model=lstm model.hidden=16 model.embed=16 model.vocab=53 "
               "batch=3 seq=7 threads=1",
               "device=ref precision=fp64 recompute=full", 1e-12);
}

TEST(a_head_with_a_bias_and_rows_of_a_batch_alone)
{
    check_same("model=mlp model.width=24 batch=7 threads=1",
               "device=ref precision=fp64", 1e-12);
}

TEST(there_are_no_more_chunks_than_rows)
{
    outcome o = train(gpt, "device=ref precision=fp64 loss.chunks=1000");
    outcome whole = train(gpt, "device=ref precision=fp64 loss.chunks=1");
    CHECK(o.chunks == 23);
    CHECK(distance(&o, &whole) <= 1e-12);
    tt_free(o.grad);
    tt_free(whole.grad);
}

// With a vocabulary so large that logits are all that counts.
TEST(memory_falls_as_logits_do)
{
    static const char wide[] =
        "model=gpt model.layers=1 model.width=8 model.heads=1 "
        "model.vocab=4001 model.context=16 batch=8 seq=16 threads=1 device=ref";
    const int64_t logits = 8 * 16 * 4001 * 4;
    outcome whole = train(wide, "loss.chunks=1");
    outcome o = train(wide, "loss.chunks=8");
    CHECK_MSG(whole.peak - o.peak >= logits * 7 / 8 - logits / 50,
              "%lld less, of logits of %lld", (long long)(whole.peak - o.peak),
              (long long)logits);
    tt_free(o.grad);
    tt_free(whole.grad);
}

static int64_t planned_chunks(int64_t memory, const char *more, bool *fits_out)
{
    static const char wide[] =
        "model=gpt model.layers=1 model.width=8 model.heads=1 "
        "model.vocab=4001 model.context=64 batch=8 seq=64 threads=1 device=cpu";
    tt_arena *arena = tt_arena_create();
    tt_job *job = configure(wide, more, arena);
    job->backend->target.memory_bytes = memory;
    CHECK_OK(tt_job_plan(job));
    const int64_t chunks = job->chunks;
    *fits_out = job->plan->peak_bytes <= memory;
    if (!*fits_out)
        CHECK(tt_job_check_fit(job) == TT_ERR_NOMEM);
    tt_job_close(job);
    tt_arena_destroy(arena);
    return chunks;
}

TEST(short_memory_makes_chunks)
{
    bool fits = false;
    CHECK(planned_chunks((int64_t)1 << 30, "", &fits) == 1 && fits);
    CHECK(planned_chunks((int64_t)4 << 20, "", &fits) == 8 && fits);
    CHECK(planned_chunks((int64_t)3 << 19, "", &fits) == 16 && fits);
    CHECK(planned_chunks((int64_t)1 << 20, "", &fits) == 64 && !fits);
    CHECK(planned_chunks((int64_t)4 << 20, "loss.chunks=1", &fits) == 1);
    CHECK(!fits && strstr(tt_error_message(), "loss.chunks=8") != NULL);
    CHECK(planned_chunks((int64_t)4 << 20, "exact=true", &fits) == 1);
    CHECK(!fits);
}

// ---- the pass alone ------------------------------------------------------

// The stripes of a chunked graph: of which dim, and how many.
static int64_t count_stripes(const char *cuts, int64_t chunks, int64_t *dim_out)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = configure("model=gpt model.layers=1 model.width=8 "
                            "model.heads=1 model.vocab=11 model.context=24 "
                            "batch=6 seq=24 device=ref",
                            "loss.chunks=1", arena);
    tt_graph *made = NULL;
    int64_t parts = 0;
    CHECK_OK(tt_job_plan(job));
    const tt_chunk_params params = {chunks, cuts};
    CHECK_OK(tt_pass_apply(tt_pass_find("chunk"), &params, job->graph, &made));
    for (int32_t n = 0; n < made->n_nodes; n++) {
        const tt_stripe_params *p = made->node[n].params;
        if (made->node[n].op == &tt_op_stripe) {
            parts = p->parts;
            *dim_out = p->dim;
        }
    }
    tt_graph_destroy(made);
    tt_job_close(job);
    tt_arena_destroy(arena);
    return parts;
}

TEST(rows_that_ranks_share_are_dealt_out_evenly)
{
    int64_t dim = -1;
    CHECK(count_stripes("", 5, &dim) == 5 && dim == 1);
    CHECK(count_stripes("batch:2", 24, &dim) == 24 && dim == 1);
    // 24 in 2 blocks: 12 each, of which 5 chunks are not even, 6 are.
    CHECK(count_stripes("seq:2", 5, &dim) == 6 && dim == 1);
    CHECK(count_stripes("seq:4 batch:3", 5, &dim) == 6 && dim == 1);
    // 24 in 5 blocks: not at all, but samples are left.
    CHECK(count_stripes("batch:1 seq:5", 4, &dim) == 4 && dim == 0);
    CHECK(count_stripes("seq:24 batch:3", 4, &dim) == 2 && dim == 0);
    CHECK(count_stripes("batch:6 seq:5", 4, &dim) == 1);
}

TEST(a_graph_without_such_a_head_is_refused)
{
    tt_builder b;
    tt_graph *g = NULL, *made = NULL;
    static const tt_grad_ops none = {0};
    CHECK_OK(tt_builder_init(&b, &none));
    const tt_val x = tt_input(&b, "x", TT_F32, "batch:4 classes:3");
    const tt_val y = tt_input(&b, "y", TT_I32, "batch:4");
    tt_output(
        &b, "loss",
        tt_call(&b, &tt_op_cross_entropy, NULL, (tt_val[]){x, y}, 2, NULL));
    CHECK_OK(tt_builder_take(&b, &g));
    tt_builder_fini(&b);
    const tt_chunk_params params = {2, ""};
    CHECK(tt_pass_apply(tt_pass_find("chunk"), &params, g, &made) ==
          TT_ERR_UNSUPPORTED);
    CHECK(strstr(tt_error_message(), "plain product") != NULL);
    tt_graph_destroy(g);
}
