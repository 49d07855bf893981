// law_policy_mix - graphs of neighbours, against their matrices.
//
// Without training the weights of all replicas after some agreements are a product of
// matrices times what they were. So here they are computed in plain loops, and compared:
//
//   weights   x after k agreements is W_k ... W_2 W_1 x
//   rate      after a round of all turns the distance from the mean is at most the second
//             singular value of the round's product times what it was
//   model     the mean of what all began with, after every agreement
//   mass      where rows do not add up to 1 (push-sum), weights are divided by their sum; a
//             round is no longer like the next, so the product of all so far is compared
//   end       all come to the model
//
// Graphs are of several sizes, regular and not, also where a rank has replicas that do not
// hear at a distance at which others do.

#include "base/alloc.h"
#include "check/law_policy.h"
#include "policy/mix.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 4 };

// One case at work.
typedef struct tt__law_policy_case {
    tt__law_policy_subject s;
    double *w, *product, *next;    // [n][n]
    double *start[TT_LAW_WEIGHTS]; // what replicas began with
    double worst, off, distance; // of the weights, of the model; from the mean
} tt__law_policy_case;

static tt_status prepare(tt__law_policy_case *c)
{
    tt__law_policy_subject *s = &c->s;
    const int64_t n = s->replicas, bytes = n * n * (int64_t)sizeof(double);
    TT_TRY(tt__law_policy_open(s));
    TT_TRY(tt__law_policy_scatter(s));
    c->w = tt_arena_alloc(s->arena, bytes);
    c->product = tt_arena_alloc(s->arena, bytes);
    c->next = tt_arena_alloc(s->arena, bytes);
    if (c->w == NULL || c->product == NULL || c->next == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < n * n; i++)
        c->product[i] = i % (n + 1) == 0;
    for (int i = 0; i < s->n; i++) {
        c->start[i] = tt_arena_copy(s->arena, s->weight[i].x,
                                    8 * s->weight[i].replica->count);
        if (c->start[i] == NULL)
            return TT_ERR_NOMEM;
    }
    return TT_OK;
}

// product = W product; a mean over all is a matrix too.
static void multiply(tt__law_policy_case *c, int variant)
{
    const tt__law_policy_subject *s = &c->s;
    const int64_t n = s->replicas;
    if (!tt_policy_mix(s->policy, s->job->exchange.policy_params, n, variant,
                       c->w))
        for (int64_t i = 0; i < n * n; i++)
            c->w[i] = 1 / (double)n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            c->next[i * n + j] = 0;
            for (int64_t k = 0; k < n; k++)
                c->next[i * n + j] += c->w[i * n + k] * c->product[k * n + j];
        }
    memcpy(c->product, c->next, (size_t)(n * n) * sizeof *c->product);
}

static bool has_mass(const tt__law_policy_case *c)
{
    return tt_policy_has_mass(c->s.policy, c->s.job->exchange.policy_params);
}

// What replica r must have of an element that began as x.
static double wanted(const tt__law_policy_case *c, const double *x,
                     int64_t stride, int64_t r)
{
    const int64_t n = c->s.replicas;
    double sum = 0, mass = 0;
    for (int64_t j = 0; j < n; j++) {
        sum += c->product[r * n + j] * x[j * stride];
        mass += c->product[r * n + j];
    }
    return has_mass(c) ? sum / mass : sum;
}

static tt_status compare(tt__law_policy_case *c)
{
    tt__law_policy_subject *s = &c->s;
    double distance = 0;
    TT_TRY(tt_job_model(s->job));
    for (int i = 0; i < s->n; i++) {
        const tt__law_policy_weight *w = &s->weight[i];
        const int64_t n = w->model->count;
        TT_TRY(tt_exec_read(s->job->exec, w->replica->val, w->x));
        TT_TRY(tt_exec_read(s->job->exec, w->model->val, w->mean));
        for (int64_t k = 0; k < n; k++) {
            double mean = 0;
            for (int64_t r = 0; r < s->replicas; r++) {
                const double x = w->x[r * n + k];
                c->worst = tt_law_worse(
                    c->worst, fabs(x - wanted(c, c->start[i] + k, n, r)));
                mean += c->start[i][r * n + k] / (double)s->replicas;
            }
            for (int64_t r = 0; r < s->replicas; r++)
                distance += (w->x[r * n + k] - mean) * (w->x[r * n + k] - mean);
            c->off = tt_law_worse(c->off, fabs(w->mean[k] - mean));
        }
    }
    c->distance = sqrt(distance);
    return TT_OK;
}

// The product, with rows that add up to 1.
static const double *rows_of_one(tt__law_policy_case *c)
{
    const int64_t n = c->s.replicas;
    for (int64_t i = 0; i < n; i++) {
        double mass = 0;
        for (int64_t j = 0; j < n; j++)
            mass += c->product[i * n + j];
        for (int64_t j = 0; j < n; j++)
            c->next[i * n + j] =
                c->product[i * n + j] / (has_mass(c) ? mass : 1);
    }
    return c->next;
}

// One round: until every variant had its turn. The rate is that of the product of all
// rounds so far.
static tt_status check_round(tt__law_policy_case *c, double *rate_out)
{
    tt__law_policy_subject *s = &c->s;
    const void *params = s->job->exchange.policy_params;
    const int n = tt_policy_variants(s->policy, params, s->replicas);
    tt_step_result result;
    for (int agreed = 0; agreed < n;) {
        TT_TRY(tt_job_step(s->job, tt_job_feed_random, NULL, &result));
        for (int v = 0; v < n; v++)
            if (s->policy->is_due(params, s->replicas, s->job->step, v)) {
                multiply(c, v);
                agreed++;
            }
        TT_TRY(compare(c));
    }
    *rate_out = tt_policy_mix_rate(rows_of_one(c), s->replicas);
    return TT_OK;
}

static tt_status check_case(tt__law_policy_case *c)
{
    tt__law_policy_subject *s = &c->s;
    double rate = 1;
    TT_TRY(prepare(c));
    TT_TRY(compare(c));
    const double begin = c->distance;
    double first = 0;
    c->off = 0; // the model was made before
    for (int i = 0; i < ROUNDS; i++) {
        TT_TRY(check_round(c, &rate));
        first = i == 0 ? rate : first;
        const double most = has_mass(c) ? rate : pow(first, i + 1);
        tt_law_report_check(
            s->r, c->distance <= most * begin * (1 + 1e-9) + 1e-11,
            "%s %s: %lld replicas: the distance went from %g to %g in %d "
            "rounds, after which it is %g times as far at most",
            s->policy->name, s->sample, (long long)s->replicas, begin,
            c->distance, i + 1, most);
    }
    const double most = has_mass(c) ? rate : first;
    tt_law_report_check(
        s->r, most < 1 - 1e-6, "%s %s: %lld replicas come no nearer: %g",
        s->policy->name, s->sample, (long long)s->replicas, most);
    tt_law_report_check(s->r, c->worst < 1e-11 && c->off < 1e-11,
                        "%s %s: %lld replicas: weights are off the matrices "
                        "by %g, the model by %g",
                        s->policy->name, s->sample, (long long)s->replicas,
                        c->worst, c->off);
    return TT_OK;
}

static tt_status check_graph(tt_law_report *r, const tt_policy_def *policy,
                             int64_t replicas, const char *sample)
{
    tt__law_policy_case c = {.s = {.r = r,
                                   .policy = policy,
                                   .sample = sample,
                                   .replicas = replicas,
                                   .group = replicas,
                                   .arena = tt_arena_create()}};
    const tt_status status = c.s.arena == NULL ? TT_ERR_NOMEM : check_case(&c);
    tt_job_close(c.s.job);
    tt_arena_destroy(c.s.arena);
    if (status == TT_ERR_NOMEM)
        return status;
    tt_law_report_check(r, status == TT_OK, "%s %s: %lld replicas: %s",
                        policy->name, sample, (long long)replicas,
                        tt_error_message());
    return TT_OK;
}

tt_status tt__law_policy_check_mixes(tt_law_report *r)
{
    static const struct {
        int64_t replicas;
        const char *sample;
    } table[] = {
        {8, "graph=ring"},
        {6, "graph=torus every=2"},
        {8, "graph=exponential turns=true"},
        {4, "graph=butterfly"},
        {8, "graph=butterfly every=2"},
        {6, "graph=butterfly"},
        {4, "graph=complete"},
        {4, "graph=edges edges=0-1,1-2,2-3"},
        {6, "graph=edges edges=0-1,0-2,0-3,0-4,0-5"},
        {8, "graph=edges edges=0-1,1-2,2-0,2-3,3-4,4-5,5-6,6-7,7-4,5-7"},
        {8, "graph=cycle push=true every=2"},
        {8, "graph=exponential turns=true push=true"},
        {6, "graph=edges push=true edges=0-1,0-2,0-3,0-4,0-5"},
        {3, "graph=arrows push=true edges=0-1,1-0,1-2,2-0"},
        {6, "graph=arrows push=true edges=0-1,1-2,2-3,3-4,4-5,5-0,0-3,0-4"},
        {8, "graph=arrows push=true edges=0-1,1-2,2-3,3-4,4-5,5-6,6-7,7-0,2-0,"
            "6-1,6-2"},
    };
    const tt_policy_def *policy = tt_policy_find("gossip");
    if (!tt_law_report_wants(r, policy->name))
        return TT_OK;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        TT_TRY(check_graph(r, policy, table[i].replicas, table[i].sample));
    return TT_OK;
}
