// Averages that come the more often the lower the loss is (exchange.adaptive): as the
// formula says, and the same on any number of ranks.

#include "test.h"
#include "train/jobs.h"
#include "train/replicas/outcomes.h"

#include <math.h>

// Every step has as many targets, so a round's loss is the mean of its steps' losses.
TEST(averages_come_as_the_loss_says)
{
    static const char *const more[] = {FOUR, "exchange.policy=average",
                                       "exchange.every=12",
                                       "exchange.adaptive=true", NULL};
    made m = start_job(family_named("gpt"), more, false);
    double sum = 0, first = 0;
    int64_t every = 12, last = 0, least = 12;
    for (int64_t step = 1; step <= 80; step++) {
        tt_step_result r;
        CHECK_OK(tt_job_step(m.job, feed_one_batch, NULL, &r));
        sum += r.loss;
        const bool is_due = step - last >= every;
        CHECK_MSG((m.job->replicas.agreed == 1) == is_due,
                  "step %lld: %lld agreements, %lld steps after the last of "
                  "%lld",
                  (long long)step, (long long)m.job->replicas.agreed,
                  (long long)(step - last), (long long)every);
        if (!is_due)
            continue;
        const double mean = sum / (double)(step - last);
        first = first == 0 ? mean : first;
        const int64_t next = (int64_t)ceil(12 * sqrt(mean / first));
        every = next < every ? next : every;
        least = every < least ? every : least;
        last = step;
        sum = 0;
    }
    CHECK_MSG(least < 11, "the period fell to %lld only", (long long)least);
    close_job(&m);
}

TEST_SLOW(groups_have_one_period_on_any_ranks, 60)
{
    static const char *const more[] = {"exchange.policy=allreduce",
                                       "exchange.outer.policy=average",
                                       "exchange.outer.every=3",
                                       "exchange.outer.adaptive=true",
                                       "exchange.replicas=4",
                                       "exchange.group=2",
                                       "batch=8",
                                       "precision=fp64",
                                       "optim.lr=0.1",
                                       NULL};
    check_ranks("mlp", more, (const int32_t[]){2, 4, 0}, 9);
}

#define MLP "model=mlp", "image=3", "model.classes=3", "batch=24"

TEST(what_cannot_be_adaptive_is_said)
{
    static const char *const never[] = {MLP,
                                        "exchange.replicas=4",
                                        "exchange.policy=average",
                                        "exchange.every=0",
                                        "exchange.adaptive=true",
                                        NULL};
    static const char *const parts[] = {MLP,
                                        "exchange.replicas=4",
                                        "exchange.policy=average",
                                        "exchange.parts=2",
                                        "exchange.adaptive=true",
                                        NULL};
    static const char *const inside[] = {MLP,
                                         "exchange.replicas=4",
                                         "exchange.group=2",
                                         "exchange.policy=average",
                                         "exchange.adaptive=true",
                                         "exchange.outer.policy=average",
                                         NULL};
    check_refused(never, "exchange.every=8 would do");
    check_refused(parts, "exchange.parts=1 would do");
    check_refused(inside, "exchange.outer.adaptive would do");
}
