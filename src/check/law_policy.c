// law_policy - what every static policy promises, without training: replicas begin with
// random weights, the learning rate is 0, and only agreements change them.
//
//   rate     an agreement multiplies the distance of the replicas from their mean by no
//            more than the policy says; a step without one leaves all bits
//   mean     where the model is the mean of the replicas, agreements leave the mean as it
//            is, and the model is that mean
//   equal    replicas that an agreement makes equal are equal to the model
//   codes    where neighbours send codes, with every codec: the mean stays, and replicas come
//            nearer to it if they go slowly, and as far as is found for the codec; or it is
//            refused with a sentence
//
// Of groups the same holds for the replicas of each around their mean, and for the means of
// the groups, where the policy inside keeps them.
//
// Graphs of neighbours have more (law_policy_mix.c).
//
// For several numbers of replicas on one rank; that ranks make no difference is shown by
// tests/train/test_replicas.c and tests/train/replicas/test_groups.c.

#include "check/law_policy.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 9 };

// ---- a job ---------------------------------------------------------------

static tt_status set(tt__law_policy_subject *s, tt_settings *settings,
                     const char *key, const char *value)
{
    return tt_settings_set(settings, key, value, "law", s->arena);
}

// "every=2 optim=none" as exchange.every and exchange.optim.
static tt_status set_sample(tt__law_policy_subject *s, tt_settings *settings)
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

tt_status tt__law_policy_open(tt__law_policy_subject *s)
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
    if (s->codec != NULL)
        TT_TRY(set(s, &settings, "exchange.codec", s->codec->name));
    if (s->gamma != NULL)
        TT_TRY(set(s, &settings, "exchange.gamma", s->gamma));
    TT_TRY(tt_job_configure(&settings, NULL, &s->job));
    TT_TRY(tt_job_start(s->job, NULL));
    s->job->lr = 0;
    return TT_OK;
}

static tt_status find_weights(tt__law_policy_subject *s)
{
    const tt_tensors *all = &s->job->tensors;
    for (int64_t i = 0; i < all->n && s->n < TT_LAW_WEIGHTS; i++) {
        const char *name =
            tt_arena_printf(s->arena, "%s.replica", all->v[i].name);
        tt__law_policy_weight w = {
            .model = &all->v[i],
            .replica = name == NULL ? NULL : tt_tensors_find(all, name)};
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

// What a policy keeps of the weights that replicas began with.
static tt_status scatter_states(tt__law_policy_subject *s,
                                const tt__law_policy_weight *w)
{
    const tt_policy_state *state = NULL;
    const int n =
        tt_policy_states(s->policy, s->job->exchange.policy_params, &state);
    for (int i = 0; i < n; i++) {
        const char *name = tt_arena_printf(s->arena, "%s.%s.%s", w->model->name,
                                           s->policy->name, state[i].name);
        const tt_tensor *t =
            name == NULL ? NULL : tt_tensors_find(&s->job->tensors, name);
        if (state[i].from_model && !state[i].is_common && t != NULL)
            TT_TRY(tt_exec_write(s->job->exec, t->val, w->x));
    }
    return TT_OK;
}

tt_status tt__law_policy_scatter(tt__law_policy_subject *s)
{
    TT_TRY(find_weights(s));
    for (int i = 0; i < s->n; i++) {
        const tt__law_policy_weight *w = &s->weight[i];
        const uint64_t key = tt_rng_key(3, w->replica->name, 0);
        for (int64_t k = 0; k < w->replica->count; k++)
            w->x[k] = tt_rng_normal(key, (uint64_t)k);
        TT_TRY(tt_exec_write(s->job->exec, w->replica->val, w->x));
        TT_TRY(scatter_states(s, w));
    }
    return TT_OK;
}

// ---- what holds ----------------------------------------------------------

// How far replicas are from each other.
typedef struct spread {
    double within;  // the distance of replicas from the mean of their group
    double between; // that of these means from the mean of all
    double moved;   // how far that has moved
} spread;

// One element: its mean, and what it adds to squares of distances.
static double look_at(const tt__law_policy_subject *s, const double *x,
                      int64_t stride, spread *sum)
{
    double mean = 0;
    for (int64_t r = 0; r < s->replicas; r++)
        mean += x[r * stride] / (double)s->replicas;
    for (int64_t first = 0; first < s->replicas; first += s->group) {
        double own = 0;
        for (int64_t r = first; r < first + s->group; r++)
            own += x[r * stride] / (double)s->group;
        for (int64_t r = first; r < first + s->group; r++)
            sum->within += (x[r * stride] - own) * (x[r * stride] - own);
        sum->between += (own - mean) * (own - mean) * (double)s->group;
    }
    return mean;
}

// Reads all weights.
static tt_status look(tt__law_policy_subject *s, spread *out)
{
    spread sum = {0};
    for (int i = 0; i < s->n; i++) {
        const tt__law_policy_weight *w = &s->weight[i];
        const int64_t n = w->model->count;
        TT_TRY(tt_exec_read(s->job->exec, w->replica->val, w->x));
        for (int64_t k = 0; k < n; k++) {
            const double mean = look_at(s, w->x + k, n, &sum);
            sum.moved = tt_law_worse(sum.moved, fabs(mean - w->mean[k]));
            w->mean[k] = mean;
        }
    }
    *out = (spread){sqrt(sum.within), sqrt(sum.between), sum.moved};
    return TT_OK;
}

// The largest difference between the model and the replicas' mean.
static tt_status apart(tt__law_policy_subject *s, double *apart_out)
{
    *apart_out = 0;
    for (int i = 0; i < s->n; i++) {
        const tt__law_policy_weight *w = &s->weight[i];
        TT_TRY(tt_exec_read(s->job->exec, w->model->val, w->x));
        for (int64_t k = 0; k < w->model->count; k++)
            *apart_out = tt_law_worse(*apart_out, fabs(w->x[k] - w->mean[k]));
    }
    return TT_OK;
}

// A policy at work: inside groups, or between them.
typedef struct level {
    const tt_policy_def *policy;
    const void *params;
    int64_t n; // that agree
} level;

static level inside(const tt__law_policy_subject *s)
{
    return (level){s->policy, s->job->exchange.policy_params, s->group};
}

static level between(const tt__law_policy_subject *s)
{
    return (level){tt_exchange_outer_policy(&s->job->exchange),
                   s->job->exchange.outer.params, s->replicas / s->group};
}

static bool keeps_model(const level *l)
{
    return l->policy != NULL && tt_policy_keeps_model(l->policy, l->params);
}

// Whether a variant has run after the last step. Where that depends on the loss, the job
// knows.
static bool was_due(const tt__law_policy_subject *s, const level *l,
                    int variant)
{
    return tt_policy_is_retimed(l->policy, l->params)
               ? s->job->replicas.agreed != 0
               : l->policy->is_due(l->params, l->n, s->job->step, variant);
}

// By what a step may multiply the distance; 1: nobody agrees, or only about a part.
static double bound_of(const tt__law_policy_subject *s, const level *l,
                       bool *is_quiet_out)
{
    const tt_policy_def *p = l->policy;
    const int n = p == NULL ? 0 : tt_policy_variants(p, l->params, l->n);
    double bound = 1;
    int due = 0;
    for (int i = 0; i < n; i++)
        if (was_due(s, l, i)) {
            due++;
            bound *=
                p->parts != NULL && n > 1 ? 1 : p->rate(l->params, l->n, i);
        }
    *is_quiet_out = due == 0;
    return n > 0 && p->parts != NULL && due == n ? p->rate(l->params, l->n, 0)
                                                 : bound;
}

// A level at which nobody agrees leaves all bits, unless another one moves the weights.
static void check_distance(const tt__law_policy_subject *s, const char *which,
                           double before, double after, const level *l,
                           bool is_alone)
{
    bool is_quiet = false;
    const double bound = bound_of(s, l, &is_quiet);
    tt_law_report_check(
        s->r,
        is_quiet && is_alone ? after == before
                             : after <= bound * before * (1 + 1e-9) + 1e-12,
        "%s %s: %lld replicas: the distance %s went from %g to %g in step "
        "%lld, at most %g times it",
        s->policy->name, s->sample, (long long)s->replicas, which, before,
        after, (long long)s->job->step, bound);
}

static tt_status check_step(tt__law_policy_subject *s, spread *before)
{
    const level in = inside(s), out = between(s);
    const level *top = out.policy != NULL ? &out : &in;
    const char *name = s->policy->name;
    tt_step_result result;
    spread after;
    double off = 0;
    bool is_quiet = false;
    TT_TRY(tt_job_step(s->job, tt_job_feed_random, NULL, &result));
    TT_TRY(look(s, &after));
    check_distance(s, "within groups", before->within, after.within, &in,
                   out.policy == NULL);
    if (out.policy != NULL && !keeps_model(&in))
        check_distance(s, "between groups", before->between, after.between,
                       &out, false);
    TT_TRY(tt_job_model(s->job));
    TT_TRY(apart(s, &off));
    const bool is_mean = !keeps_model(&in) && !keeps_model(&out);
    tt_law_report_check(s->r, !is_mean || (after.moved < 1e-12 && off < 1e-12),
                        "%s %s: %lld replicas: their mean moved by %g, the "
                        "model is off by %g",
                        name, s->sample, (long long)s->replicas, after.moved,
                        off);
    const bool is_equal = bound_of(s, top, &is_quiet) == 0 &&
                          (top == &in || !in.policy->model_leads);
    tt_law_report_check(s->r, !is_equal || off < 1e-12,
                        "%s %s: %lld equal replicas are off the model by %g",
                        name, s->sample, (long long)s->replicas, off);
    *before = after;
    return TT_OK;
}

static tt_status check_job(tt__law_policy_subject *s)
{
    spread before;
    TT_TRY(tt__law_policy_open(s));
    TT_TRY(tt__law_policy_scatter(s));
    TT_TRY(look(s, &before));
    for (int i = 0; i < STEPS; i++)
        TT_TRY(check_step(s, &before));
    return TT_OK;
}

static tt_status check_coded(tt__law_policy_subject *s)
{
    enum { AGREEMENTS = 200 };
    spread before, after;
    tt_step_result result;
    const tt_status status = tt__law_policy_open(s);
    if (status == TT_ERR_ARG) {
        tt_law_report_check(
            s->r, strstr(tt_error_message(), "would do") != NULL,
            "%s with %s is refused, but not what would do: %s", s->policy->name,
            s->codec->name, tt_error_message());
        return TT_OK;
    }
    TT_TRY(status);
    TT_TRY(tt__law_policy_scatter(s));
    TT_TRY(look(s, &before));
    after = before;
    for (int i = 0; i < AGREEMENTS; i++) {
        TT_TRY(tt_job_step(s->job, tt_job_feed_random, NULL, &result));
        TT_TRY(look(s, &after));
        tt_law_report_check(s->r, after.moved < 1e-12,
                            "%s with %s: the replicas' mean moved by %g",
                            s->policy->name, s->codec->name, after.moved);
    }
    const double most = s->gamma != NULL ? 0.9 : 1;
    tt_law_report_check(s->r, after.within < most * before.within,
                        "%s with %s: the distance went from %g to %g",
                        s->policy->name, s->codec->name, before.within,
                        after.within);
    return TT_OK;
}

static tt_status check_codec(tt_law_report *r, const tt_policy_def *policy,
                             const tt_codec_def *codec, const char *gamma)
{
    tt__law_policy_subject s = {
        .r = r,
        .policy = policy,
        .codec = codec,
        .gamma = gamma,
        .sample = policy->samples != NULL ? policy->samples[0] : "",
        .replicas = 4,
        .group = 4,
        .arena = tt_arena_create()};
    tt_status status = s.arena == NULL ? TT_ERR_NOMEM : check_coded(&s);
    tt_job_close(s.job);
    tt_arena_destroy(s.arena);
    if (status == TT_ERR_NOMEM)
        return status;
    tt_law_report_check(r, status == TT_OK, "%s with %s: %s", policy->name,
                        codec->name, tt_error_message());
    return TT_OK;
}

static tt_status check_codecs(tt_law_report *r, const tt_policy_def *policy)
{
    int n = 0;
    const tt_codec_def *const *all = tt_codec_all(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i]->name, "none") != 0) {
            TT_TRY(check_codec(r, policy, all[i], "0.02"));
            TT_TRY(check_codec(r, policy, all[i], NULL));
        }
    return TT_OK;
}

static tt_status check_sample(tt_law_report *r, const tt_policy_def *policy,
                              const char *sample, int64_t replicas,
                              int64_t group)
{
    tt__law_policy_subject s = {.r = r,
                                .policy = policy,
                                .sample = sample,
                                .replicas = replicas,
                                .group = group,
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

// Eight replicas in groups of four or two, under the policies that are named.
static tt_status check_groups(tt_law_report *r)
{
    static const struct {
        const char *policy, *sample;
        int64_t group;
    } table[] = {
        {"average", "every=2 group=4 outer.policy=average outer.every=4", 4},
        {"average",
         "every=1 group=2 outer.policy=average outer.every=2 "
         "outer.optim=nesterov outer.optim_lr=0.7",
         2},
        {"average",
         "every=2 optim=momentum group=4 outer.policy=elastic outer.every=2",
         4},
        {"elastic",
         "every=1 alpha=0.4 group=4 outer.policy=elastic outer.every=2", 4},
        {"elastic", "every=2 group=2 outer.policy=gossip outer.every=3", 2},
        {"gossip",
         "graph=ring group=4 outer.policy=average outer.every=4 outer.parts=2",
         4},
        {"gossip",
         "graph=ring group=2 outer.policy=gossip outer.graph=exponential "
         "outer.turns=true",
         2},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (tt_law_report_wants(r, table[i].policy))
            TT_TRY(check_sample(r, tt_policy_find(table[i].policy),
                                table[i].sample, 8, table[i].group));
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
                TT_TRY(check_sample(r, all[i], *p, replicas[k], replicas[k]));
        if (all[i]->mix != NULL)
            TT_TRY(check_codecs(r, all[i]));
    }
    TT_TRY(tt__law_policy_check_mixes(r));
    return check_groups(r);
}

const tt_law_def tt_law_policy = {
    .name = "policy",
    .doc = "Policies bring replicas together at their rate, around the model.",
    .run = run,
};
