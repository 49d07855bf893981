// Workers with weights of their own: under every policy and sample the loss of a small GPT
// and of LeNet falls. That ranks make no difference is tests/e2e/async/peers.sh.

#include "policy/peer.h"
#include "test.h"
#include "train/jobs.h"
#include "train/replicas/outcomes.h"

#include <math.h>

static bool is_peer(const tt_policy_def *policy)
{
    return policy->peer != TT_PEER_NONE;
}

static void check_falls(const tt_policy_def *policy, const char *sample,
                        const family *f, tt_arena *arena)
{
    static const char *const more[] = {"exchange.replicas=4", "batch=8",
                                       "optim=sgd",           "optim.lr=0.05",
                                       "threads=1",           NULL};
    const char *setting[SETTINGS];
    tt_step_result r = {0};
    double first = 0;
    with_policy(policy, sample, more, arena, setting);
    made m = start_job(f, setting, false);
    for (int i = 0; i < 50; i++) {
        CHECK_OK(tt_job_step(m.job, feed_one_batch, NULL, &r));
        first = i == 0 ? r.loss : first;
    }
    CHECK_MSG(isfinite(r.loss) && r.loss < 0.97 * first && r.norm > 0,
              "%s with %s %s: loss %g, then %g", f->name, policy->name, sample,
              first, r.loss);
    close_job(&m);
}

static void check_trains(const tt_policy_def *policy, const char *sample,
                         tt_arena *arena)
{
    static const family lenet = {
        "lenet", {"model=lenet", "model.classes=7", "image=28", NULL}, true};
    check_falls(policy, sample, family_named("gpt"), arena);
    check_falls(policy, sample, &lenet, arena);
}

TEST_SLOW(peers_train_a_gpt_and_a_conv_net, 180)
{
    CHECK(each_policy(is_peer, check_trains) >= 12);
}
