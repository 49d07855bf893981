// What a plan says that agreements send is what ranks send, for every sample of every policy
// whose replicas have weights of their own.

#include "job/survey.h"
#include "test.h"
#include "train/crew.h"
#include "train/jobs.h"
#include "train/replicas/outcomes.h"

#include <string.h>

typedef struct trial {
    const char *const *setting;
    bool is_bound; // codes are shorter than their room: the plan has a bound
} trial;

// After the first steps, until agreements begin anew. What is on its way is let land first:
// it counts where it was sent.
static tt_status measure(tt_job *job, tt_arena *arena, void *user)
{
    enum { FIRST = 8 };
    const trial *t = user;
    tt_survey survey;
    tt_step_result result;
    tt_wire_stats stats;
    TT_TRY(tt_job_start(job, NULL));
    TT_TRY(tt_survey_make(job, arena, &survey));
    job->wants_meeting = job->wants_model = false;
    for (int64_t i = 0; i < FIRST + survey.steps; i++) {
        if (i == FIRST) {
            TT_TRY(tt_job_land(job));
            tt_comm_wire_stats(job->peers.wire, true, &stats);
        }
        TT_TRY(tt_job_step(job, tt_job_feed_random, NULL, &result));
    }
    TT_TRY(tt_job_land(job));
    tt_comm_wire_stats(job->peers.wire, false, &stats);
    const bool is_so = t->is_bound ? stats.bytes <= survey.total.bytes
                                   : stats.bytes == survey.total.bytes;
    return is_so && stats.messages == survey.total.messages
               ? TT_OK
               : tt_fail(TT_ERR_STATE,
                         "%s %s: rank %d sent %lld in %lld messages in %lld "
                         "steps, planned %lld in %lld",
                         t->setting[0], t->setting[1], job->peers.rank,
                         (long long)stats.bytes, (long long)stats.messages,
                         (long long)survey.steps, (long long)survey.total.bytes,
                         (long long)survey.total.messages);
}

static tt_status be_rank(const tt_launch_rank *rank, void *user)
{
    const trial *t = user;
    return crew_be_rank(rank, family_named("mlp"), t->setting, measure, user);
}

// Where steps between agreements depend on the loss, nobody knows them before.
static void check_sent(const tt_policy_def *policy, const char *sample,
                       tt_arena *arena)
{
    static const char *const more[] = {"exchange.replicas=4", "batch=4",
                                       "collective=ring", NULL};
    const char *setting[SETTINGS];
    if (strstr(sample, "adaptive") != NULL)
        return;
    with_policy(policy, sample, more, arena, setting);
    trial t = {.setting = setting, .is_bound = policy->codec != NULL};
    const tt_launch_options options = {
        .n_ranks = 2, .rank_bytes = INT64_C(1) << 28, .pin = false};
    CHECK_OK(tt_launch(&options, be_rank, &t));
}

static bool is_static(const tt_policy_def *policy)
{
    return policy->kind == TT_POLICY_STATIC;
}

TEST_SLOW(plans_say_what_agreements_send, 120)
{
    CHECK(each_policy(is_static, check_sent) >= 20);
}
