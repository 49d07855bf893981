// Every model and preset lowers to a plan without overlaps, whatever the order of
// its gradients and the number of micro-batches.

#include "base/alloc.h"
#include "base/settings/settings.h"
#include "job/job.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static void set(tt_settings *settings, const char *text, tt_arena *arena)
{
    CHECK_OK(tt_settings_assign(settings, text, "test", arena));
}

static tt_job *configure(const char *model, const char *const *more,
                         tt_arena *arena)
{
    tt_settings settings = {0};
    tt_job *job = NULL;
    tt_str text = {0};
    tt_str_addf(&text, "model=%s", model);
    set(&settings, tt_str_text(&text), arena);
    tt_str_fini(&text);
    for (; *more != NULL; more++)
        set(&settings, *more, arena);
    CHECK_OK(tt_job_configure(&settings, NULL, &job));
    return job;
}

static void check_model(const char *name, int n_micro, bool split)
{
    static const char *const more[] = {"device=ref", "batch=2", NULL};
    tt_arena *arena = tt_arena_create();
    tt_job *job = configure(name, more, arena);
    CHECK_MSG(tt_job_plan(job) == TT_OK, "%s: %s", name, tt_error_message());
    tt_plan *plan = NULL;
    const tt_lower_options options = {.n_micro = n_micro,
                                      .split_weight_grad = split};
    const tt_status status =
        tt_plan_lower(job->graph, &job->backend->target, &options, &plan);
    CHECK_MSG(status == TT_OK, "%s: %s", name, tt_error_message());
    CHECK_MSG(tt_plan_verify(plan) == TT_OK, "%s: %s", name,
              tt_error_message());
    int64_t sum = 0;
    for (int u = 0; u < TT_N_BUFFER_USES; u++)
        sum += plan->bytes_by_use[u];
    CHECK_MSG(plan->peak_bytes - sum <= sum / 20, "%s: %lld of %lld are gaps",
              name, (long long)(plan->peak_bytes - sum),
              (long long)plan->peak_bytes);
    tt_plan_destroy(plan);
    tt_job_close(job);
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
}

TEST_SLOW(every_model_lowers_without_overlaps, 240)
{
    int n = 0;
    const tt_model_def *const *all = tt_model_all(&n);
    for (int i = 0; i < n; i++) {
        check_model(all[i]->name, 1, false);
        check_model(all[i]->name, 3, true);
        for (const tt_model_preset *p = all[i]->presets;
             p != NULL && p->name != NULL; p++)
            check_model(p->name, 1, true);
    }
}

// Ten numbers that depend on everything: losses of two steps and norms.
static void train(const char *const *more, bool split, double *out)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = configure("gpt", more, arena);
    CHECK_OK(tt_job_plan(job));
    if (split) {
        tt_plan *plan = NULL;
        CHECK_OK(
            tt_plan_lower(job->graph, &job->backend->target,
                          &(tt_lower_options){.n_micro = job->plan->n_micro,
                                              .split_weight_grad = true},
                          &plan));
        tt_plan_destroy(job->plan);
        job->plan = plan;
    }
    CHECK_OK(tt_job_start(
        job, &(tt_exec_options){.poison = true, .check_finite = true}));
    for (int i = 0; i < 2; i++) {
        tt_step_result r;
        CHECK_OK(tt_job_step(job, tt_job_feed_random, NULL, &r));
        out[2 * i] = r.loss;
        out[2 * i + 1] = r.norm;
    }
    CHECK(tt_exec_peak_used(job->exec) == job->plan->peak_bytes);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

TEST(a_transformer_trains_alike_in_both_orders_of_gradients)
{
    static const char *const more[] = {"device=ref",
                                       "model.layers=2",
                                       "model.width=16",
                                       "model.heads=2",
                                       "model.vocab=32",
                                       "batch=2",
                                       "seq=8",
                                       "accumulate=2",
                                       "precision=fp64",
                                       "optim=adamw",
                                       NULL};
    double joined[4], apart[4];
    train(more, false, joined);
    train(more, true, apart);
    CHECK(memcmp(joined, apart, sizeof(joined)) == 0);
    CHECK(joined[0] > 0 && joined[1] > 0);
}
