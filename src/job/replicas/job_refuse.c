// job_refuse - what replicas with weights of their own cannot be, each with a sentence that
// names a setting that would do.

#include "base/alloc.h"
#include "job/replicas/job_groups.h"
#include "job/replicas/replicas.h"
#include "policy/average.h"

#include <string.h>

// The policy that speaks to those who have other weights, and for how many: of groups the
// first of two, or the only one.
static tt_replicas_level speaker(const tt_job *job, int64_t *n_out)
{
    tt__job_groups groups;
    tt__job_groups_of(job, &groups);
    *n_out = groups.n_levels > 0 ? groups.n[0] : 1;
    return groups.n_levels > 0
               ? groups.level[0]
               : (tt_replicas_level){.policy =
                                         tt_exchange_policy(&job->exchange),
                                     .params = job->exchange.policy_params};
}

static const tt_policy_def *policy_of(const tt_job *job)
{
    int64_t n = 0;
    return speaker(job, &n).policy;
}

static const char *policy_name(const tt_job *job)
{
    return policy_of(job)->name;
}

static tt_status check_shares(const tt_job *job)
{
    const int64_t replicas = job->exchange.replicas;
    const int64_t ranks = job->grid.size[TT_AXIS_DATA];
    const int64_t micro = job->options.micro;
    if (replicas < 2)
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s with one replica: nobody is there "
                       "to agree with; exchange.replicas=2 or -n 2 would do",
                       policy_name(job));
    if (replicas % ranks != 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.replicas=%lld cannot be shared by %lld ranks "
                       "along data evenly; exchange.replicas=%lld would do, in "
                       "a run that begins with it",
                       (long long)replicas, (long long)ranks, (long long)ranks);
    if (micro % replicas != 0)
        return tt_fail(TT_ERR_ARG,
                       "a micro-batch of %lld cannot be divided between %lld "
                       "replicas evenly; batch=%lld would do",
                       (long long)micro, (long long)replicas,
                       (long long)((micro + replicas - 1) / replicas *
                                   replicas * job->options.accumulate));
    return TT_OK;
}

static tt_status check_mesh(const tt_job *job)
{
    static const int not [] = {TT_AXIS_PIPE, TT_AXIS_EXPERT};
    for (size_t i = 0; i < sizeof not / sizeof not [0]; i++)
        if (job->grid.size[not [i]] > 1)
            return tt_fail(
                TT_ERR_ARG,
                "exchange.policy=%s with mesh.%s=%lld: replicas with weights "
                "of their own have no %s; mesh.%s=1 would do",
                policy_name(job), tt_axis_name[not [i]],
                (long long)job->grid.size[not [i]],
                not [i] == TT_AXIS_PIPE ? "stages" : "experts elsewhere",
                tt_axis_name[not [i]]);
    if (job->distribution.zero > 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s with zero=%lld: ranks cannot share "
                       "out states that differ between replicas; zero=0 would "
                       "do",
                       policy_name(job), (long long)job->distribution.zero);
    return TT_OK;
}

static tt_status check_exact(const tt_job *job)
{
    const int64_t own = job->exchange.replicas / job->grid.size[TT_AXIS_DATA];
    if (!job->options.exact || (own & (own - 1)) == 0)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "exact: sums over replicas are taken in pairs, and a rank "
                   "has %lld of them, which is no power of two; -n %lld "
                   "would do",
                   (long long)own, (long long)job->exchange.replicas);
}

static tt_status check_rest(const tt_job *job)
{
    if (job->options.precision == TT_PRECISION_FP16)
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s with precision=fp16: the loss scale "
                       "would be another one in each replica; precision=bf16 "
                       "would do",
                       policy_name(job));
    return TT_OK;
}

static const void *policy_params(const tt_job *job)
{
    int64_t n = 0;
    return speaker(job, &n).params;
}

static tt_status refuse_codec(const tt_job *job, const char *why)
{
    return tt_fail(TT_ERR_ARG,
                   "exchange.policy=%s with exchange.codec=%s: %s; "
                   "exchange.codec=none would do",
                   policy_name(job), tt_exchange_codec(&job->exchange)->name,
                   why);
}

static tt_status refuse_feedback(const tt_job *job, const char *why)
{
    return tt_fail(TT_ERR_ARG,
                   "exchange.policy=%s with exchange.feedback=true: %s; "
                   "exchange.feedback=auto would do",
                   policy_name(job), why);
}

// Neighbours know public copies of each other's weights.
static tt_status check_public(const tt_job *job)
{
    const tt_exchange *e = &job->exchange;
    int64_t n = 0;
    const tt_replicas_level level = speaker(job, &n);
    const char *outer = level.params == e->outer.params ? "outer." : "";
    double *w = tt_alloc(n * n * (int64_t)sizeof *w);
    if (w == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a graph of %lld replicas",
                       (long long)n);
    const bool has_mix = tt_policy_mix(level.policy, level.params, n, 0, w);
    tt_free(w);
    if (!has_mix)
        return tt_fail(TT_ERR_ARG,
                       "exchange.codec=%s with a mean over all replicas: that "
                       "is averaging; exchange.%spolicy=average "
                       "exchange.%severy=1 would do",
                       tt_exchange_codec(e)->name, outer, outer);
    return e->feedback == TT_FEEDBACK_ON
               ? refuse_codec(job, "with exchange.feedback=true there would "
                                   "be two memories of what codes did not "
                                   "say, and public copies are one")
               : TT_OK;
}

// What replicas have changed since they agreed is sent as a code.
static tt_status check_codec(const tt_job *job)
{
    const char *name = tt_exchange_codec(&job->exchange)->name;
    const tt_policy_def *policy = policy_of(job);
    if (!tt_exchange_is_coded(&job->exchange))
        return TT_OK;
    if (policy->codec != NULL)
        return refuse_codec(job, "it has a code of its own");
    if (policy->mix != NULL)
        TT_TRY(check_public(job));
    if (policy->keeps_rest && job->exchange.feedback == TT_FEEDBACK_ON)
        return refuse_feedback(job, "what a code does not say is in the "
                                    "difference from the centre the next time");
    if (strcmp(policy->name, "average") == 0 &&
        ((const tt_average_params *)policy_params(job))->every == 0)
        return refuse_codec(job, "with exchange.every=0 nothing is sent");
    if (strcmp(name, "dgc") == 0 || strcmp(name, "factors") == 0)
        return refuse_codec(job, "that is a code of gradients");
    return TT_OK;
}

tt_status tt__job_replicas_check(tt_job *job)
{
    tt__job_groups groups;
    const bool is_static = tt_exchange_is_static(&job->exchange);
    if (is_static && job->exchange.replicas == 0)
        job->exchange.replicas = job->grid.size[TT_AXIS_DATA];
    TT_TRY(tt__job_groups_check(job));
    if (!is_static)
        return TT_OK;
    TT_TRY(check_shares(job));
    TT_TRY(check_mesh(job));
    TT_TRY(check_exact(job));
    TT_TRY(check_rest(job));
    TT_TRY(check_codec(job));
    tt__job_groups_of(job, &groups);
    job->replicas.n = groups.replicas / groups.data_ranks;
    if (groups.share == 1)
        job->replicas.n /= groups.group_ranks;
    for (int i = 0; i < groups.n_levels; i++) {
        const tt_replicas_level *l = &groups.level[i];
        if (l->policy->check != NULL)
            TT_TRY(l->policy->check(l->params, groups.n[i]));
    }
    return TT_OK;
}
