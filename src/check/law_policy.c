// law_policy - what every static policy promises, without training: replicas begin with
// random weights, the learning rate is 0, and only agreements change them.
//
//   rate     an agreement multiplies the distance of the replicas from their mean by no
//            more than the policy says; a step without one leaves all bits
//   mean     where the model is the mean of the replicas, agreements leave the mean as it
//            is, and the model is that mean
//   equal    replicas that an agreement makes equal are equal to the model
//
// For several numbers of replicas on one rank; that ranks make no difference is shown by
// tests/train/test_replicas.c.

#include "base/alloc.h"
#include "base/rng.h"
#include "check/law.h"
#include "job/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 9, MOST_WEIGHTS = 16 };

// One weight of the model, and of all replicas.
typedef struct weight {
    const tt_tensor *model, *replica;
    double *x, *mean; // [replicas][n], [n]
} weight;

typedef struct subject {
    tt_law_report *r;
    const tt_policy_def *policy;
    const char *sample;
    int64_t replicas;
    tt_arena *arena;
    tt_job *job;
    weight weight[MOST_WEIGHTS];
    int n;
} subject;

// ---- a job ---------------------------------------------------------------

static tt_status set(subject *s, tt_settings *settings, const char *key,
                     const char *value)
{
    return tt_settings_set(settings, key, value, "law", s->arena);
}

// "every=2 outer=none" as exchange.every and exchange.outer.
static tt_status set_sample(subject *s, tt_settings *settings)
{
    char *text = tt_arena_strdup(s->arena, s->sample), *rest = NULL;
    if (text == NULL)
        return TT_ERR_NOMEM;
    for (char *p = strtok_r(text, " ", &rest); p != NULL;
         p = strtok_r(NULL, " ", &rest)) {
        char *equal = strchr(p, '=');
        *equal = '\0';
        const char *key = tt_arena_printf(s->arena, "exchange.%s", p);
        if (key == NULL)
            return TT_ERR_NOMEM;
        TT_TRY(set(s, settings, key, equal + 1));
    }
    return TT_OK;
}

static tt_status open_job(subject *s)
{
    static const char *const usual[][2] = {
        {"model", "mlp"},    {"model.width", "5"},  {"model.classes", "3"},
        {"image", "3"},      {"precision", "fp64"}, {"optim", "sgd"},
        {"device", "cpu"},   {"batch", "24"},       {"threads", "1"},
        {"optim.clip", "0"},
    };
    tt_settings settings = {0};
    char number[32];
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        TT_TRY(set(s, &settings, usual[i][0], usual[i][1]));
    snprintf(number, sizeof number, "%lld", (long long)s->replicas);
    TT_TRY(set(s, &settings, "exchange.policy", s->policy->name));
    TT_TRY(set(s, &settings, "exchange.replicas", number));
    TT_TRY(set_sample(s, &settings));
    TT_TRY(tt_job_configure(&settings, NULL, &s->job));
    TT_TRY(tt_job_start(s->job, NULL));
    s->job->lr = 0;
    return TT_OK;
}

static tt_status find_weights(subject *s)
{
    const tt_tensors *all = &s->job->tensors;
    for (int64_t i = 0; i < all->n && s->n < MOST_WEIGHTS; i++) {
        const char *name =
            tt_arena_printf(s->arena, "%s.replica", all->v[i].name);
        weight w = {.model = &all->v[i],
                    .replica =
                        name == NULL ? NULL : tt_tensors_find(all, name)};
        if (all->v[i].role != TT_TENSOR_PARAM || w.replica == NULL)
            continue;
        w.x = tt_arena_alloc(s->arena, 8 * w.replica->count);
        w.mean = tt_arena_alloc(s->arena, 8 * w.model->count);
        if (w.x == NULL || w.mean == NULL)
            return TT_ERR_NOMEM;
        s->weight[s->n++] = w;
    }
    return s->n > 0 ? TT_OK : tt_fail(TT_ERR_STATE, "no weight has replicas");
}

static tt_status scatter(subject *s)
{
    for (int i = 0; i < s->n; i++) {
        const weight *w = &s->weight[i];
        const uint64_t key = tt_rng_key(3, w->replica->name, 0);
        for (int64_t k = 0; k < w->replica->count; k++)
            w->x[k] = tt_rng_normal(key, (uint64_t)k);
        TT_TRY(tt_exec_write(s->job->exec, w->replica->val, w->x));
    }
    return TT_OK;
}

// ---- what holds ----------------------------------------------------------

// Reads all weights; the distance from their mean, and how far that has moved.
static tt_status look(subject *s, double *distance_out, double *moved_out)
{
    double distance = 0, moved = 0;
    for (int i = 0; i < s->n; i++) {
        const weight *w = &s->weight[i];
        const int64_t n = w->model->count;
        TT_TRY(tt_exec_read(s->job->exec, w->replica->val, w->x));
        for (int64_t k = 0; k < n; k++) {
            double mean = 0;
            for (int64_t r = 0; r < s->replicas; r++)
                mean += w->x[r * n + k] / (double)s->replicas;
            for (int64_t r = 0; r < s->replicas; r++)
                distance += (w->x[r * n + k] - mean) * (w->x[r * n + k] - mean);
            moved = tt_law_worse(moved, fabs(mean - w->mean[k]));
            w->mean[k] = mean;
        }
    }
    *distance_out = sqrt(distance);
    *moved_out = moved;
    return TT_OK;
}

// The largest difference between the model and the replicas' mean.
static tt_status apart(subject *s, double *apart_out)
{
    *apart_out = 0;
    for (int i = 0; i < s->n; i++) {
        const weight *w = &s->weight[i];
        TT_TRY(tt_exec_read(s->job->exec, w->model->val, w->x));
        for (int64_t k = 0; k < w->model->count; k++)
            *apart_out = tt_law_worse(*apart_out, fabs(w->x[k] - w->mean[k]));
    }
    return TT_OK;
}

// By what a step may multiply the distance; 1: nobody agrees, or only about a part.
static double bound_of(const subject *s, int64_t step, bool *is_quiet_out)
{
    const tt_policy_def *p = s->policy;
    const void *params = s->job->exchange.policy_params;
    const int n = tt_policy_variants(p, params, s->replicas);
    double bound = 1;
    int due = 0;
    for (int i = 0; i < n; i++)
        if (p->is_due(params, s->replicas, step, i)) {
            due++;
            bound *=
                p->parts != NULL && n > 1 ? 1 : p->rate(params, s->replicas, i);
        }
    *is_quiet_out = due == 0;
    return p->parts != NULL && due == n ? p->rate(params, s->replicas, 0)
                                        : bound;
}

static tt_status check_step(subject *s, double *distance)
{
    const void *params = s->job->exchange.policy_params;
    const bool keeps = tt_policy_keeps_model(s->policy, params);
    const char *name = s->policy->name;
    tt_step_result result;
    double after = 0, moved = 0, off = 0;
    bool is_quiet = false;
    TT_TRY(tt_job_step(s->job, tt_job_feed_random, NULL, &result));
    const double bound = bound_of(s, s->job->step, &is_quiet);
    TT_TRY(look(s, &after, &moved));
    tt_law_report_check(
        s->r,
        is_quiet ? after == *distance
                 : after <= bound * *distance * (1 + 1e-9) + 1e-12,
        "%s %s: %lld replicas: the distance went from %g to %g in step %lld, "
        "at most %g times it",
        name, s->sample, (long long)s->replicas, *distance, after,
        (long long)s->job->step, bound);
    TT_TRY(tt_job_model(s->job));
    TT_TRY(apart(s, &off));
    tt_law_report_check(s->r, keeps || (moved < 1e-12 && off < 1e-12),
                        "%s %s: %lld replicas: their mean moved by %g, the "
                        "model is off by %g",
                        name, s->sample, (long long)s->replicas, moved, off);
    tt_law_report_check(s->r, bound > 0 || off < 1e-12,
                        "%s %s: %lld equal replicas are off the model by %g",
                        name, s->sample, (long long)s->replicas, off);
    *distance = after;
    return TT_OK;
}

static tt_status check_job(subject *s)
{
    double distance = 0, moved = 0;
    TT_TRY(open_job(s));
    TT_TRY(find_weights(s));
    TT_TRY(scatter(s));
    TT_TRY(look(s, &distance, &moved));
    for (int i = 0; i < STEPS; i++)
        TT_TRY(check_step(s, &distance));
    return TT_OK;
}

static tt_status check_sample(tt_law_report *r, const tt_policy_def *policy,
                              const char *sample, int64_t replicas)
{
    subject s = {.r = r,
                 .policy = policy,
                 .sample = sample,
                 .replicas = replicas,
                 .arena = tt_arena_create()};
    tt_status status = s.arena == NULL ? TT_ERR_NOMEM : check_job(&s);
    tt_job_close(s.job);
    tt_arena_destroy(s.arena);
    if (status == TT_ERR_NOMEM)
        return status;
    tt_law_report_check(r, status == TT_OK, "%s %s: %lld replicas: %s",
                        policy->name, sample, (long long)replicas,
                        tt_error_message());
    return TT_OK;
}

static tt_status run(tt_law_report *r)
{
    static const int64_t replicas[] = {2, 3, 8};
    int n = 0;
    const tt_policy_def *const *all = tt_policy_all(&n);
    for (int i = 0; i < n; i++) {
        if (all[i]->kind != TT_POLICY_STATIC ||
            !tt_law_report_wants(r, all[i]->name))
            continue;
        tt_law_report_check(r, all[i]->samples != NULL, "%s has no sample",
                            all[i]->name);
        for (const char *const *p = all[i]->samples; p != NULL && *p != NULL;
             p++)
            for (size_t k = 0; k < sizeof replicas / sizeof *replicas; k++)
                TT_TRY(check_sample(r, all[i], *p, replicas[k]));
    }
    return TT_OK;
}

const tt_law_def tt_law_policy = {
    .name = "policy",
    .doc = "Policies bring replicas together at their rate, around the model.",
    .run = run,
};
