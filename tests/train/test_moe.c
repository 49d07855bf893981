// Experts in a model: what keeps them busy is learnt, and is no part of the loss.

#include "base/alloc.h"
#include "job/job.h"
#include "test.h"

#include <math.h>
#include <string.h>

typedef struct outcome {
    double loss, router; // router: norm of its gradient
} outcome;

static outcome step_with(const char *balance)
{
    static const char *const settings[] = {
        "model=gpt",      "model.layers=1",  "model.width=8",   "model.heads=2",
        "model.vocab=11", "model.context=6", "model.experts=3", "batch=4",
        "precision=fp64", "optim.clip=0",    "threads=1",
    };
    outcome out = {0};
    tt_settings all = {0};
    tt_arena *arena = tt_arena_create();
    tt_job *job = NULL;
    tt_step_result result;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        CHECK_OK(tt_settings_assign(&all, settings[i], "test", arena));
    CHECK_OK(tt_settings_assign(&all, balance, "test", arena));
    CHECK_OK(tt_job_configure(&all, NULL, &job));
    CHECK_OK(tt_job_start(job, NULL));
    CHECK_OK(tt_job_step(job, tt_job_feed_random, NULL, &result));
    const tt_graph *g = job->graph;
    const tt_val w = tt_graph_find(g, "transformer.h.0.mlp.router.weight");
    CHECK(tt_is(w));
    double grad[8 * 3] = {0};
    CHECK_OK(tt_exec_read(job->exec, g->value[w.id].grad, grad));
    for (int i = 0; i < 8 * 3; i++)
        out.router += grad[i] * grad[i];
    out.loss = result.loss;
    tt_job_close(job);
    tt_arena_destroy(arena);
    return out;
}

TEST(balance_is_learnt_and_not_reported)
{
    const outcome without = step_with("model.balance=0");
    const outcome with = step_with("model.balance=1");
    CHECK(with.loss == without.loss);
    CHECK(fabs(with.router - without.router) > 1e-6 * without.router);
}

TEST(more_choices_than_experts_are_refused)
{
    tt_settings all = {0};
    tt_arena *arena = tt_arena_create();
    tt_job *job = NULL;
    CHECK_OK(tt_settings_assign(&all, "model=gpt", "test", arena));
    CHECK_OK(tt_settings_assign(&all, "model.experts=3", "test", arena));
    CHECK_OK(tt_settings_assign(&all, "model.choices=4", "test", arena));
    CHECK_OK(tt_job_configure(&all, NULL, &job));
    CHECK(tt_job_plan(job) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "more than model.experts=3") != NULL);
    tt_job_close(job);
    tt_arena_destroy(arena);
}
