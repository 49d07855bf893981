// The evaluation copy: the same loss as training where nothing is random and no
// batch norm is there, running statistics where it is, and the same on every run.

#include "base/alloc.h"
#include "job/feed.h"
#include "job/infer.h"
#include "jobs.h"
#include "state/restore.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static tt_inference *open_infer(tt_job *job,
                                const tt_inference_options *options)
{
    tt_inference *infer = NULL;
    CHECK_OK(tt_inference_open(job, options, &infer));
    return infer;
}

static tt_inference_result look(tt_inference *infer, const void *x,
                                const void *y)
{
    tt_inference_result r;
    CHECK_OK(tt_inference_batch(infer, x, y, &r));
    return r;
}

// The training step's loss is that of the weights before its update.
static void equals_training(const char *name, const char *const *more,
                            double tolerance)
{
    made m = start_job(family_named(name), more, false);
    tt_inference *infer = open_infer(m.job, &(tt_inference_options){0});
    step_job(&m);
    CHECK_OK(tt_inference_sync(infer, m.job, false));
    CHECK_OK(tt_job_feed_random(NULL, m.job, 0, infer->x, infer->y));
    const tt_inference_result r = look(infer, infer->x, infer->y);
    const tt_inference_result again = look(infer, infer->x, infer->y);
    CHECK(memcmp(&r, &again, sizeof r) == 0);
    const tt_step_result t = step_job(&m);
    CHECK(r.count == t.count && r.correct == t.correct);
    CHECK_CLOSE(r.loss / r.count, t.loss, tolerance);
    CHECK(infer->plan->bytes_by_use[TT_USE_OPTIM] == 0);
    CHECK(infer->plan->bytes_by_use[TT_USE_GRAD] == 0);
    CHECK(infer->plan->peak_bytes < m.job->plan->peak_bytes);
    tt_inference_close(infer);
    close_job(&m);
}

TEST(infer_equals_training)
{
    static const char *const names[] = {"gpt", "llama", "mlp", "vit"};
    for (int i = 0; i < 4; i++) {
        equals_training(names[i], (const char *const[]){NULL}, 0);
        equals_training(names[i], (const char *const[]){"precision=fp64", NULL},
                        0);
        equals_training(names[i], (const char *const[]){"precision=bf16", NULL},
                        1e-3);
        equals_training(names[i], (const char *const[]){"device=ref", NULL}, 0);
    }
    equals_training("lstm", (const char *const[]){"model.dropout=0", NULL}, 0);
}

// Weights in bf16 alone: half the memory, no masters.
TEST(infer_holds_each_weight_once)
{
    static const char *const bf16[] = {"precision=bf16", NULL};
    static const char *const fp32[] = {NULL};
    made a = make_job(family_named("gpt"), bf16);
    made b = make_job(family_named("gpt"), fp32);
    tt_inference *x = open_infer(a.job, &(tt_inference_options){0});
    tt_inference *y = open_infer(b.job, &(tt_inference_options){0});
    const int64_t low = x->plan->bytes_by_use[TT_USE_PARAM];
    const int64_t full = y->plan->bytes_by_use[TT_USE_PARAM];
    if (a.job->options.precision == TT_PRECISION_BF16)
        CHECK_MSG(low < full * 6 / 10, "%lld of %lld", (long long)low,
                  (long long)full);
    tt_inference_close(x);
    tt_inference_close(y);
    close_job(&a);
    close_job(&b);
}

// Dropout is off: the loss does not depend on the seed or the step.
TEST(infer_drops_nothing)
{
    static const char *const none[] = {"model.dropout=0", NULL};
    static const char *const much[] = {"model.dropout=0.5", NULL};
    made a = start_job(family_named("gpt"), none, false);
    made b = start_job(family_named("gpt"), much, false);
    tt_inference *x = open_infer(a.job, &(tt_inference_options){0});
    tt_inference *y = open_infer(b.job, &(tt_inference_options){0});
    CHECK_OK(tt_inference_sync(x, a.job, false));
    CHECK_OK(tt_inference_sync(y, b.job, false));
    CHECK_OK(tt_job_feed_random(NULL, a.job, 0, x->x, x->y));
    CHECK(look(x, x->x, x->y).loss == look(y, x->x, x->y).loss);
    tt_inference_close(x);
    tt_inference_close(y);
    close_job(&a);
    close_job(&b);
}

static void set_buffer(made *m, const char *name, float value)
{
    const tt_tensor *t = tt_tensors_find(&m->job->tensors, name);
    float *data = tt_alloc(t->bytes);
    for (int64_t i = 0; i < t->count; i++)
        data[i] = value;
    CHECK_OK(tt_tensor_write(m->job->exec, t, data));
    tt_free(data);
}

TEST(infer_uses_running_statistics)
{
    made m =
        start_job(family_named("resnet"), (const char *const[]){NULL}, false);
    tt_inference *infer = open_infer(m.job, &(tt_inference_options){0});
    tt_inference *one = open_infer(m.job, &(tt_inference_options){.batch = 1});
    step_job(&m);
    CHECK_OK(tt_inference_sync(infer, m.job, false));
    CHECK_OK(tt_inference_sync(one, m.job, false));
    CHECK_OK(tt_job_feed_random(NULL, m.job, 0, infer->x, infer->y));
    const tt_inference_result both = look(infer, infer->x, infer->y);
    // With statistics of the batch, samples would not stand for themselves.
    const tt_inference_result first = look(one, infer->x, infer->y);
    const tt_inference_result second =
        look(one, (const float *)infer->x + 3 * 32 * 32,
             (const int32_t *)infer->y + 1);
    CHECK_CLOSE(first.loss + second.loss, both.loss, 1e-4);
    CHECK(first.count == 1 && both.count == 2);
    set_buffer(&m, "bn1.running_mean", 3);
    CHECK_OK(tt_inference_sync(infer, m.job, false));
    CHECK(look(infer, infer->x, infer->y).loss != both.loss);
    tt_inference_close(infer);
    tt_inference_close(one);
    close_job(&m);
}

TEST(infer_takes_averages)
{
    static const char *const more[] = {"train.ema=0.999", NULL};
    made m = start_job(family_named("gpt"), more, false);
    tt_inference *infer = open_infer(m.job, &(tt_inference_options){0});
    CHECK_OK(tt_inference_sync(infer, m.job, false));
    CHECK_OK(tt_job_feed_random(NULL, m.job, 0, infer->x, infer->y));
    const double before = look(infer, infer->x, infer->y).loss;
    m.job->lr = 0.1;
    step_job(&m);
    CHECK_OK(tt_inference_sync(infer, m.job, true));
    const double averaged = look(infer, infer->x, infer->y).loss;
    CHECK_OK(tt_inference_sync(infer, m.job, false));
    const double after = look(infer, infer->x, infer->y).loss;
    CHECK(averaged != before);
    CHECK(fabs(averaged - before) < 0.1 * fabs(after - before));
    tt_inference_close(infer);
    close_job(&m);
}

// Logits explain the loss; any batch; without labels too.
static void logits_explain(const char *const *more, double tolerance)
{
    made m = start_job(family_named("mlp"), more, false);
    tt_inference *infer = open_infer(
        m.job, &(tt_inference_options){.batch = 3, .wants_logits = true});
    CHECK(infer->io.batch == 3 && infer->classes == m.job->classes);
    CHECK_OK(tt_inference_sync(infer, m.job, false));
    CHECK_OK(tt_job_feed_random(NULL, m.job, 0, m.job->x, m.job->y));
    const int32_t label[3] = {0, -1, 1};
    const tt_inference_result r = look(infer, m.job->x, label);
    float logits[3 * 64];
    CHECK(infer->classes <= 64);
    CHECK_OK(tt_inference_logits(infer, logits));
    double loss = 0;
    for (int s = 0; s < 3; s += 2) {
        const float *row = logits + s * infer->classes;
        double sum = 0;
        for (int64_t i = 0; i < infer->classes; i++)
            sum += exp((double)row[i]);
        loss += log(sum) - (double)row[label[s]];
    }
    CHECK(r.count == 2);
    CHECK_CLOSE(r.loss, loss, tolerance);
    CHECK(look(infer, m.job->x, NULL).count == 0);
    float again[3 * 64];
    CHECK_OK(tt_inference_logits(infer, again));
    CHECK(memcmp(logits, again, sizeof(float) * 3 * (size_t)infer->classes) ==
          0);
    tt_inference_close(infer);
    close_job(&m);
}

TEST(infer_gives_logits)
{
    logits_explain((const char *const[]){NULL}, 1e-5);
    logits_explain((const char *const[]){"precision=bf16", NULL}, 1e-2);
    logits_explain((const char *const[]){"precision=fp64", NULL}, 1e-5);
}

TEST(infer_loads_without_a_training_state)
{
    char path[] = "/tmp/tutti-infer-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    made m = start_job(family_named("vgg"), (const char *const[]){NULL}, false);
    made bare = make_job(family_named("vgg"), (const char *const[]){NULL});
    tt_snapshot s = {0};
    step_job(&m);
    CHECK_OK(tt_snapshot_take(m.job->exec, &m.job->tensors, m.arena, &s));
    CHECK_OK(tt_safetensors_write(path, s.model, s.n_model, NULL, 0));
    tt_inference *x = open_infer(m.job, &(tt_inference_options){0});
    tt_inference *y = open_infer(bare.job, &(tt_inference_options){0});
    CHECK(tt_inference_sync(y, bare.job, false) == TT_ERR_STATE);
    CHECK_OK(tt_inference_sync(x, m.job, false));
    CHECK_OK(tt_inference_load(y, path, &(tt_weights_options){0}, NULL));
    CHECK_OK(tt_job_feed_random(NULL, m.job, 0, x->x, x->y));
    CHECK(look(x, x->x, x->y).loss == look(y, x->x, x->y).loss);
    // All of it must be there.
    CHECK_OK(tt_safetensors_write(path, s.model, s.n_model - 1, NULL, 0));
    CHECK(tt_inference_load(y, path, &(tt_weights_options){0}, NULL) ==
          TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "does not fit the model") != NULL);
    tt_snapshot_free(&s);
    tt_inference_close(x);
    tt_inference_close(y);
    close_job(&m);
    close_job(&bare);
    unlink(path);
}

// ---- what a loader delivers ----------------------------------------------

TEST(feed_converts_and_checks)
{
    made m = make_job(family_named("mlp"),
                      (const char *const[]){"precision=fp64", NULL});
    CHECK_OK(tt_job_start(m.job, NULL));
    float pixels[5 * 49];
    int32_t labels[5] = {0, 1, -1, 2, 3};
    for (int i = 0; i < 5 * 49; i++)
        pixels[i] = (float)i / 7;
    tt_batch batch = {pixels, labels, 5};
    CHECK_OK(
        tt_feed_batch(m.job->plan, m.job->classes, &batch, m.job->x, m.job->y));
    CHECK(((const double *)m.job->x)[8] == (double)pixels[8]);
    const int32_t *y = m.job->y;
    CHECK(y[0] == 0 && y[1] == 1 && y[2] < 0 && y[4] == 3);
    labels[3] = (int32_t)m.job->classes;
    CHECK(tt_feed_batch(m.job->plan, m.job->classes, &batch, m.job->x,
                        m.job->y) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "label 10 at 3") != NULL);
    close_job(&m);
    made t = start_job(family_named("gpt"), (const char *const[]){NULL}, false);
    int32_t x[18] = {0}, next[18] = {0};
    batch = (tt_batch){x, next, 2};
    CHECK_OK(
        tt_feed_batch(t.job->plan, t.job->classes, &batch, t.job->x, t.job->y));
    x[4] = 37;
    CHECK(tt_feed_batch(t.job->plan, t.job->classes, &batch, t.job->x,
                        t.job->y) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "token 37 at 4 of a batch") != NULL);
    x[4] = -1;
    CHECK(tt_feed_batch(t.job->plan, t.job->classes, &batch, t.job->x, NULL) ==
          TT_ERR_ARG);
    close_job(&t);
}

// ---- files of others -----------------------------------------------------

#define SHARED "../shared/data/"

static const tt_safetensor *tensor_of(const tt_safetensors *file,
                                      const char *name)
{
    const tt_safetensor *t = tt_safetensors_find(file, name);
    CHECK_MSG(t != NULL, "no %s", name);
    return t;
}

// GPT-2 of Hugging Face gives the logits and the loss that PyTorch gave.
TEST(infer_equals_pytorch_on_gpt2_tiny)
{
    static const family gpt2 = {"gpt2-tiny",
                                {"model=gpt", "model.layers=2", "model.heads=2",
                                 "model.width=32", "model.vocab=96",
                                 "model.context=16", "batch=2", NULL},
                                false};
    if (access(SHARED "reference/gpt2-tiny.safetensors", R_OK) != 0)
        SKIP("no " SHARED);
    made m = make_job(&gpt2, (const char *const[]){NULL});
    tt_inference *infer =
        open_infer(m.job, &(tt_inference_options){.wants_logits = true});
    tt_safetensors *file = NULL;
    tt_str notes = {0};
    CHECK_OK(tt_inference_load(infer, SHARED "reference/gpt2-tiny.safetensors",
                               &(tt_weights_options){0}, &notes));
    CHECK(notes.n == 0);
    CHECK_OK(tt_safetensors_open(
        SHARED "reference/gpt2-tiny-expected.safetensors", &file));
    tt_tensor_convert(TT_I64, tensor_of(file, "input_ids")->data, TT_I32,
                      infer->x, 32);
    tt_tensor_convert(TT_I64, tensor_of(file, "targets")->data, TT_I32,
                      infer->y, 32);
    const tt_inference_result r = look(infer, infer->x, infer->y);
    CHECK_CLOSE(r.loss / r.count, 5.304470539093018, 1e-6);
    float *logits = tt_alloc(32 * 96 * (int64_t)sizeof *logits);
    float *wanted = tt_alloc(32 * 96 * (int64_t)sizeof *wanted);
    memcpy(wanted, tensor_of(file, "logits")->data, 32 * 96 * sizeof *wanted);
    CHECK_OK(tt_inference_logits(infer, logits));
    for (int i = 0; i < 32 * 96; i++)
        CHECK_CLOSE(logits[i], wanted[i], 1e-5);
    tt_free(logits);
    tt_free(wanted);
    tt_safetensors_close(file);
    tt_inference_close(infer);
    close_job(&m);
}

TEST(infer_loads_a_llama_of_others)
{
    static const family llama = {"llama-2m",
                                 {"model=llama", "model.layers=2",
                                  "model.heads=2", "model.kv_heads=2",
                                  "model.width=64", "model.ff=256",
                                  "model.vocab=1024", "seq=8", "batch=1", NULL},
                                 false};
    if (access(SHARED "safetensors-sample/llama-2m-model.safetensors", R_OK) !=
        0)
        SKIP("no " SHARED);
    made m = make_job(&llama, (const char *const[]){NULL});
    tt_inference *infer = open_infer(m.job, &(tt_inference_options){0});
    CHECK_OK(tt_inference_load(infer,
                               SHARED "safetensors-sample/llama-2m-model"
                                      ".safetensors",
                               &(tt_weights_options){0}, NULL));
    static const int32_t ids[9] = {1, 5, 9, 30, 7, 2, 8, 4, 6};
    const tt_inference_result r = look(infer, ids, ids + 1);
    CHECK(r.count == 8 && r.loss > 0 && isfinite(r.loss));
    tt_inference_close(infer);
    close_job(&m);
}

// ---- memory --------------------------------------------------------------

// Everything that may run out of memory between two steps.
static tt_status use_all(made *m, const char *path)
{
    tt_inference *infer = NULL;
    tt_inference_result r;
    tt_snapshot s = {0};
    tt_arena *arena = tt_arena_create();
    tt_safetensors *file = NULL;
    tt_status status = arena != NULL ? TT_OK : TT_ERR_NOMEM;
    if (status == TT_OK)
        status = tt_snapshot_take(m->job->exec, &m->job->tensors, arena, &s);
    if (status == TT_OK)
        status = tt_safetensors_write(path, s.model, s.n_model, NULL, 0);
    if (status == TT_OK)
        status = tt_safetensors_open(path, &file);
    const tt_tensors model = tt_tensors_model(&m->job->tensors);
    if (status == TT_OK)
        status = tt_tensors_restore(
            m->job->exec, &model, &(tt_restore){.model = file, .name = "file"},
            &(tt_slices_result){0});
    if (status == TT_OK)
        status = tt_inference_open(
            m->job, &(tt_inference_options){.wants_logits = true}, &infer);
    if (status == TT_OK)
        status = tt_inference_sync(infer, m->job, false);
    if (status == TT_OK)
        status = tt_inference_load(infer, path, &(tt_weights_options){0}, NULL);
    if (status == TT_OK)
        status = tt_inference_batch(infer, infer->x, infer->y, &r);
    tt_inference_close(infer);
    tt_safetensors_close(file);
    tt_snapshot_free(&s);
    tt_arena_destroy(arena);
    return status;
}

TEST(infer_and_snapshots_survive_failing_allocations)
{
    char path[] = "/tmp/tutti-infer-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    static const char *const more[] = {"precision=bf16", "train.ema=0.5", NULL};
    made m = start_job(family_named("mlp"), more, false);
    CHECK_OK(use_all(&m, path));
    const int64_t before = tt_alloc_live();
    tt_status status = TT_ERR_NOMEM;
    for (int64_t k = 1; status != TT_OK; k++) {
        tt_alloc_fail_at(k);
        status = use_all(&m, path);
        tt_alloc_fail_at(0);
        CHECK_MSG(status == TT_OK || status == TT_ERR_NOMEM,
                  "allocation %lld: %s", (long long)k, tt_error_message());
        CHECK_MSG(tt_alloc_live() == before, "allocation %lld leaks",
                  (long long)k);
    }
    unlink(path);
    close_job(&m);
}
