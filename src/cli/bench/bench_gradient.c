// bench_gradient - numbers that are spread as gradients are, for codecs.
//
// With a file: its model on its data. Without: a small GPT on random tokens. In both cases
// the optimiser is plain SGD, and the gradient is what the last step took from the weights:
// so weights have only to be read before and after it.

#include "base/alloc.h"
#include "cli/bench/bench.h"
#include "job/feed.h"
#include "session/session.h"

#include <string.h>

static const double deadline = 600; // seconds without a sample

static const char *const plain_sgd[] = {"optim=sgd", "optim.lr=0.1",
                                        "optim.clip=0", "precision=fp32"};

// ---- weights -------------------------------------------------------------

// Matrices one after another, as many as fit; then all of them again.
static tt_status read_weights(const tt_job *job, float *out, int64_t n)
{
    int64_t done = 0;
    for (int32_t v = 0; v < job->graph->n_values; v++) {
        const tt_value *value = &job->graph->value[v];
        const int64_t count = tt_shape_count(&value->type.shape);
        if (value->role != TT_ROLE_PARAM || value->type.dtype != TT_F32 ||
            value->type.shape.ndim < 2 || done + count > n)
            continue;
        TT_TRY(tt_exec_read(job->exec, (tt_val){v}, out + done));
        done += count;
    }
    for (int64_t i = done; i < n && done > 0; i++)
        out[i] = out[i - done];
    return done > 0 ? TT_OK
                    : tt_fail(TT_ERR_STATE,
                              "a tensor of %lld numbers is too "
                              "small for a gradient; side=4096 would do",
                              (long long)n);
}

// ---- steps ---------------------------------------------------------------

typedef struct training {
    tt_job *job;
    tt_loader *loader; // NULL: random data
} training;

static tt_status feed(void *user, const tt_job *job, int64_t micro, void *x,
                      void *y)
{
    tt_batch batch;
    (void)micro;
    TT_TRY(tt_loader_next(((training *)user)->loader, deadline, &batch));
    return tt_feed_batch(job->plan, job->classes, &batch, x, y);
}

static tt_status run_steps(training *t, int64_t n)
{
    tt_step_result last;
    if (t->loader == NULL)
        return tt_bench_run(t->job, n, NULL, &last);
    for (int64_t i = 0; i < n; i++)
        TT_TRY(tt_job_step(t->job, feed, t, &last));
    return TT_OK;
}

static tt_status take_gradient(training *t, int64_t steps, float *x, int64_t n)
{
    float *before = tt_alloc(n * (int64_t)sizeof *before);
    tt_status status = before == NULL
                           ? tt_fail(TT_ERR_NOMEM, "no memory for a benchmark")
                           : tt_job_start(t->job, NULL);
    if (status == TT_OK)
        status = run_steps(t, steps);
    if (status == TT_OK)
        status = read_weights(t->job, before, n);
    if (status == TT_OK)
        status = run_steps(t, 1);
    if (status == TT_OK)
        status = read_weights(t->job, x, n);
    for (int64_t i = 0; i < n && status == TT_OK; i++)
        x[i] = before[i] - x[i];
    tt_free(before);
    return status;
}

// ---- settings ------------------------------------------------------------

static tt_status add_plain(tt_settings *settings, tt_arena *arena)
{
    for (size_t i = 0; i < sizeof plain_sgd / sizeof *plain_sgd; i++)
        TT_TRY(tt_settings_assign(settings, plain_sgd[i], "bench", arena));
    return TT_OK;
}

// What the file says, but for the optimiser and its precision.
static bool is_kept(const char *key, const tt_opt *table)
{
    return strcmp(key, "optim") != 0 && strncmp(key, "optim.", 6) != 0 &&
           strcmp(key, "precision") != 0 && tt_opt_find(table, key) == NULL;
}

static tt_status of_file(tt_cli *cli, const tt_opt *table, int64_t steps,
                         float *x, int64_t n)
{
    tt_settings settings = {0};
    tt_session *session = NULL;
    training t = {0};
    for (int64_t i = 0; i < cli->settings.n; i++) {
        const tt_setting *s = &cli->settings.v[i];
        if (is_kept(s->key, table))
            TT_TRY(tt_settings_set(&settings, s->key, s->value, s->origin,
                                   cli->arena));
    }
    TT_TRY(add_plain(&settings, cli->arena));
    TT_TRY(tt_session_open(&settings, NULL, true, &session));
    t.job = session->job;
    tt_status status =
        tt_loader_open(session->data->train, &session->loader, &t.loader);
    if (status == TT_OK)
        status = take_gradient(&t, steps, x, n);
    tt_loader_close(t.loader);
    tt_session_close(session);
    return status;
}

static tt_status of_small_gpt(tt_cli *cli, int64_t steps, float *x, int64_t n)
{
    static const char *const text[] = {
        "model=gpt",       "model.layers=2", "model.width=64", "model.heads=4",
        "model.vocab=256", "batch=4",        "seq=32",         "device=cpu",
    };
    tt_settings settings = {0};
    training t = {0};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++)
        TT_TRY(tt_settings_assign(&settings, text[i], "bench", cli->arena));
    TT_TRY(add_plain(&settings, cli->arena));
    TT_TRY(tt_job_configure(&settings, NULL, &t.job));
    const tt_status status = take_gradient(&t, steps, x, n);
    tt_job_close(t.job);
    return status;
}

tt_status tt_bench_gradient(tt_cli *cli, const tt_opt *table, int64_t steps,
                            float *x, int64_t n)
{
    return cli->file != NULL ? of_file(cli, table, steps, x, n)
                             : of_small_gpt(cli, steps, x, n);
}
