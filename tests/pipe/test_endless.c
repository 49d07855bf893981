// Pipes that are not emptied before each update. One rank carries out the table of several
// stages, and must come to the weights that follow from the papers' formulas: gradients are
// computed by a plain job at the weights that the formula says, stage by stage, and added to
// the newest weights here, by the formula of the rule about old gradients too. (That ranks come to the same as one rank: `tutti verify`,
// tests/e2e/ranks/endless.sh.)

#include "base/alloc.h"
#include "test.h"
#include "train/jobs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_VERSIONS = 16, TENSORS = 64 };

// Weights of a plain job, and what they were after each update.
typedef struct weights {
    int64_t n;
    tt_tensor tensor[TENSORS], grad[TENSORS];
    int32_t stage[TENSORS];
    double *version[MOST_VERSIONS][TENSORS];
    double *sum[TENSORS], *momentum[TENSORS];
} weights;

typedef struct trial {
    const char *family, *schedule;
    int stages, micro, steps;
    const char *rule; // exchange.staleness; NULL: none
} trial;

static bool has_rule(const trial *t, const char *rule)
{
    return t->rule != NULL && strcmp(t->rule, rule) == 0;
}

static int32_t stage_of(const tt_graph *g, const char *name)
{
    const tt_val w = tt_graph_find(g, name);
    CHECK(tt_is(w) && tt_is(g->value[w.id].grad));
    return g->node[g->value[g->value[w.id].grad.id].node].stage;
}

static double *numbers(int64_t n)
{
    double *x = tt_alloc(8 * n);
    CHECK(x != NULL);
    return x;
}

static weights take_weights(const tt_job *plain, const tt_job *folded)
{
    weights w = {0};
    for (int64_t i = 0; i < plain->tensors.n; i++) {
        const tt_tensor *t = &plain->tensors.v[i];
        if (!tt_tensor_grad(plain->graph, t, &w.grad[w.n]))
            continue;
        CHECK(w.n + 1 < TENSORS);
        w.tensor[w.n] = *t;
        w.stage[w.n] = stage_of(folded->graph, t->name);
        w.sum[w.n] = numbers(t->count);
        w.momentum[w.n] = numbers(t->count);
        memset(w.momentum[w.n], 0, 8 * (size_t)t->count);
        for (int v = 0; v < MOST_VERSIONS; v++)
            w.version[v][w.n] = numbers(t->count);
        CHECK_OK(tt_exec_read(plain->exec, t->val, w.version[0][w.n]));
        w.n++;
    }
    return w;
}

static void free_weights(weights *w)
{
    for (int64_t i = 0; i < w->n; i++) {
        tt_free(w->sum[i]);
        tt_free(w->momentum[i]);
        for (int v = 0; v < MOST_VERSIONS; v++)
            tt_free(w->version[v][i]);
    }
}

// How many updates have come before what a micro-batch reads.
static int version_of(const trial *t, int micro, int32_t stage)
{
    const int step = micro / t->micro;
    if (strcmp(t->schedule, "2bw") == 0)
        return step > 0 ? step - 1 : 0;
    const int back = micro - (t->stages - stage - 1); // gradients come back
    return back > 0 ? back / t->micro : 0;
}

// Adds the gradients of one micro-batch at the weights that it reads.
static void add_micro(const trial *t, made *plain, weights *w, int micro,
                      double *count)
{
    double g[1 << 15];
    for (int64_t i = 0; i < w->n; i++)
        CHECK_OK(
            tt_exec_write(plain->job->exec, w->tensor[i].val,
                          w->version[version_of(t, micro, w->stage[i])][i]));
    plain->job->step = micro; // which random data follow from
    *count += step_job(plain).count;
    for (int64_t i = 0; i < w->n; i++) {
        CHECK(w->tensor[i].count <= (int64_t)(sizeof g / sizeof *g));
        CHECK_OK(tt_exec_read(plain->job->exec, w->grad[i].val, g));
        for (int64_t k = 0; k < w->tensor[i].count; k++)
            w->sum[i][k] += g[k];
    }
}

// Updates between what a micro-batch reads and its own update.
static int age_of(const trial *t, int micro, int32_t stage)
{
    return micro / t->micro - version_of(t, micro, stage);
}

// Divided by the age of gradients that are more than one update old; the mean factor.
static double rate_of(const trial *t, int step, int32_t stage)
{
    double sum = 0;
    for (int m = 0; m < t->micro; m++) {
        const int age = age_of(t, step * t->micro + m, stage);
        sum += has_rule(t, "lr") && age > 1 ? 1.0 / age : 1;
    }
    return 0.1 * sum / t->micro;
}

// 0.9 less 1 - 1 / (age + 1), by the age when the pipe is full.
static double momentum_of(const trial *t, int32_t stage)
{
    const double own = t->rule != NULL ? 0.9 : 0; // sgd has none
    int most = 0;
    for (int m = 0; m < t->steps * t->micro; m++)
        if (age_of(t, m, stage) > most)
            most = age_of(t, m, stage);
    return has_rule(t, "momentum") ? own - 1 + 1.0 / (most + 1) : own;
}

static void update(const trial *t, weights *w, int64_t i, int step,
                   double count)
{
    const double rate = rate_of(t, step, w->stage[i]);
    const double keeps = momentum_of(t, w->stage[i]);
    for (int64_t k = 0; k < w->tensor[i].count; k++) {
        double *v = &w->momentum[i][k];
        *v = keeps * *v + w->sum[i][k] / count;
        w->version[step + 1][i][k] = w->version[step][i][k] - rate * *v;
    }
}

static void make_step(const trial *t, made *plain, weights *w, int step)
{
    double count = 0;
    for (int64_t i = 0; i < w->n; i++)
        memset(w->sum[i], 0, 8 * (size_t)w->tensor[i].count);
    for (int m = 0; m < t->micro; m++)
        add_micro(t, plain, w, step * t->micro + m, &count);
    for (int64_t i = 0; i < w->n; i++)
        update(t, w, i, step, count);
}

static double distance(const tt_job *job, const weights *w, int version)
{
    double worst = 0, x[1 << 15];
    for (int64_t i = 0; i < w->n; i++) {
        const tt_val v = tt_graph_find(job->graph, w->tensor[i].name);
        CHECK_OK(tt_exec_read(job->exec, v, x));
        for (int64_t k = 0; k < w->tensor[i].count; k++)
            worst = fmax(worst, fabs(x[k] - w->version[version][i][k]));
    }
    return worst;
}

static made make_plain(const trial *t)
{
    const char *const more[] = {"precision=fp64",   "batch=2",
                                "optim=sgd",        "optim.lr=0.1",
                                "optim.clip=0",     "optim.weight_decay=0",
                                "model.layers=4",   "threads=1",
                                "model.tied=false", NULL};
    return start_job(family_named(t->family), more, false);
}

static made make_folded(const trial *t, bool poison)
{
    char batch[32], micro[32], schedule[32], rule[48];
    snprintf(batch, sizeof batch, "batch=%d", 2 * t->micro);
    snprintf(micro, sizeof micro, "accumulate=%d", t->micro);
    snprintf(schedule, sizeof schedule, "pipe.schedule=%s", t->schedule);
    snprintf(rule, sizeof rule, "exchange.staleness=%s",
             t->rule != NULL ? t->rule : "none");
    const char *const more[] = {"precision=fp64",
                                batch,
                                micro,
                                schedule,
                                rule,
                                t->rule != NULL ? "optim=momentum"
                                                : "optim=sgd",
                                "optim.lr=0.1",
                                "optim.clip=0",
                                "optim.weight_decay=0",
                                "model.layers=4",
                                "model.tied=false",
                                "threads=1",
                                NULL};
    made m = make_job(family_named(t->family), more);
    m.job->fold = t->stages;
    m.job->until = t->steps;
    CHECK_OK(tt_job_start(m.job, &(tt_exec_options){.poison = poison}));
    return m;
}

static void check_trial(const trial *t)
{
    made folded = make_folded(t, false), plain = make_plain(t);
    weights w = take_weights(plain.job, folded.job);
    for (int s = 0; s < t->steps; s++)
        make_step(t, &plain, &w, s);
    for (int s = 0; s < t->steps; s++) {
        CHECK(tt_job_is_drained(folded.job) == (s == 0));
        (void)step_job(&folded);
    }
    CHECK(tt_job_is_drained(folded.job));
    const double off = distance(folded.job, &w, t->steps);
    CHECK_MSG(off < 1e-12,
              "%s of %s on %d stages, %d micro-batches, rule %s: %g off",
              t->schedule, t->family, t->stages, t->micro,
              t->rule != NULL ? t->rule : "none", off);
    // And it matters which weights are read.
    CHECK(t->stages == 1 || distance(folded.job, &w, t->steps - 1) > 1e-4);
    free_weights(&w);
    close_job(&folded);
    close_job(&plain);
}

TEST_SLOW(weights_follow_from_the_formulas_of_the_papers, 120)
{
    const trial trials[] = {
        {"llama", "pipedream", 2, 1, 6}, {"llama", "pipedream", 4, 1, 9},
        {"llama", "pipedream", 3, 2, 5}, {"llama", "2bw", 2, 1, 5},
        {"llama", "2bw", 4, 3, 4},       {"gpt", "pipedream", 3, 1, 6},
        {"gpt", "2bw", 3, 2, 4},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
        check_trial(&trials[i]);
}

TEST_SLOW(what_is_done_about_old_gradients_follows_from_formulas, 120)
{
    const trial trials[] = {
        {"llama", "pipedream", 4, 1, 9, "lr"},
        {"gpt", "pipedream", 3, 1, 6, "lr"},
        {"llama", "pipedream", 4, 2, 5, "lr"}, // of two ages in an update
        {"llama", "2bw", 2, 1, 5, "lr"}, // one update old: that is no rule
        {"llama", "pipedream", 4, 1, 9, "momentum"},
        {"gpt", "pipedream", 3, 2, 5, "momentum"},
        {"llama", "2bw", 4, 3, 4, "momentum"},
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
        check_trial(&trials[i]);
}

// ---- memory --------------------------------------------------------------

static void check_versions(const char *schedule, int32_t rank, int32_t versions)
{
    char text[64];
    snprintf(text, sizeof text, "pipe.schedule=%s", schedule);
    const char *const more[] = {"mesh.pipe=4",
                                "batch=6",
                                "accumulate=3",
                                text,
                                "pipe.steps=8",
                                "model.layers=4",
                                "model.tied=false",
                                "optim=momentum",
                                NULL};
    made m = make_job(family_named("gpt"), more);
    tt_plan *plan = NULL;
    int64_t bytes = 0;
    m.job->train.save_every = 0;
    CHECK_OK(tt_job_plan(m.job));
    CHECK_OK(tt_job_plan_rank(m.job, rank, &plan));
    CHECK_OK(tt_plan_verify(plan));
    for (int32_t b = 0; b < plan->n_buffers; b++)
        bytes +=
            plan->buffer[b].use == TT_USE_PARAM ? plan->buffer[b].bytes : 0;
    CHECK(plan->n_places == versions);
    CHECK(plan->stash_bytes * versions == bytes * (versions - 1));
    CHECK(tt_pipe_staleness(m.job->pipe, rank) ==
          (strcmp(schedule, "2bw") == 0 ? 1 : (3 - rank + 2) / 3));
    tt_plan_destroy(plan);
    close_job(&m);
}

// With one micro-batch an update it is P - r; here an update has three.
TEST(a_stage_keeps_as_many_versions_as_published)
{
    for (int32_t r = 0; r < 4; r++) {
        check_versions("pipedream", r, 1 + (3 - r + 2) / 3);
        check_versions("2bw", r, 2);
        check_versions("predict", r, 1);
    }
}

TEST(a_plan_with_versions_needs_what_it_says)
{
    const trial trials[] = {{"llama", "pipedream", 4, 1, 6},
                            {"llama", "2bw", 3, 2, 4}};
    for (size_t i = 0; i < 2; i++) {
        made m = make_folded(&trials[i], true);
        for (int s = 0; s < trials[i].steps; s++)
            (void)step_job(&m);
        CHECK(tt_exec_overrun(m.job->exec) == -1);
        CHECK(tt_exec_peak_used(m.job->exec) == m.job->plan->peak_bytes);
        close_job(&m);
    }
}
