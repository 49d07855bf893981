// Replicas that tell a part of what they have changed: parts in turns
// (exchange.policy=partial), or what is significant (gaia). Ranks, and that the loss falls,
// are shown for every policy by tests/train/test_replicas.c.

#include "base/alloc.h"
#include "test.h"
#include "train/jobs.h"
#include "train/replicas/outcomes.h"

#include <math.h>
#include <stdio.h>

TEST(one_part_is_summing_gradients)
{
    static const char *const whole[] = {FOUR, "exchange.policy=partial",
                                        "exchange.parts=1", NULL};
    static const char *const sum[] = {USUAL, NULL};
    static const char *const grouped[] = {EIGHT,
                                          "exchange.policy=allreduce",
                                          "exchange.group=2",
                                          "exchange.outer.policy=partial",
                                          "exchange.outer.parts=1",
                                          NULL};
    check_same(whole, sum, "", 4);
    check_same(grouped, sum, "", 4);
}

TEST(everything_is_significant_above_zero)
{
    static const char *const all[] = {FOUR, "exchange.policy=gaia",
                                      "exchange.threshold=0", NULL};
    static const char *const sum[] = {USUAL, NULL};
    static const char *const grouped[] = {EIGHT,
                                          "exchange.policy=allreduce",
                                          "exchange.group=4",
                                          "exchange.outer.policy=gaia",
                                          "exchange.outer.threshold=0",
                                          NULL};
    check_same(all, sum, "", 4);
    check_same(grouped, sum, "", 4);
}

// Of one weight: whether each replica is ahead of what all have heard by the n-th part of
// what it has not told; how many numbers are not told.
static int64_t untold_of(const made *m, const tt_tensor *t, const char *policy)
{
    char name[256];
    snprintf(name, sizeof name, "%s.replica", t->name);
    const tt_tensor *own = tt_tensors_find(&m->job->tensors, name);
    snprintf(name, sizeof name, "%s.%s.untold", t->name, policy);
    const tt_tensor *left = tt_tensors_find(&m->job->tensors, name);
    int64_t n = 0;
    if (left == NULL)
        return -1;
    CHECK(own != NULL && own->count == 4 * t->count);
    double *model = tt_alloc(8 * t->count), *x = tt_alloc(8 * own->count),
           *a = tt_alloc(8 * own->count);
    CHECK_OK(tt_exec_read(m->job->exec, t->val, model));
    CHECK_OK(tt_exec_read(m->job->exec, own->val, x));
    CHECK_OK(tt_exec_read(m->job->exec, left->val, a));
    for (int64_t k = 0; k < own->count; k++) {
        const double ahead = x[k] - model[k % t->count];
        CHECK_MSG(fabs(ahead - a[k] / 4) < 1e-12, "%s: %g ahead of %g", t->name,
                  ahead, a[k] / 4);
        n += fabs(a[k]) > 0;
    }
    tt_free(model);
    tt_free(x);
    tt_free(a);
    return n;
}

TEST(what_had_its_turn_is_told)
{
    static const char *const more[] = {FOUR, "exchange.policy=partial",
                                       "exchange.parts=3", NULL};
    made m = start_job(family_named("gpt"), more, false);
    int told = 0, untold = 0;
    for (int i = 0; i < 4; i++)
        (void)step_job(&m);
    for (int64_t i = 0; i < m.job->tensors.n; i++) {
        const int64_t n = untold_of(&m, &m.job->tensors.v[i], "partial");
        told += n == 0;
        untold += n > 0;
    }
    CHECK_MSG(told > 0 && untold > told, "%d told, %d not", told, untold);
    close_job(&m);
}

// Numbers that are not told after some steps.
static int64_t count_untold(const char *const *more)
{
    made m = start_job(family_named("gpt"), more, false);
    int64_t sum = 0;
    for (int i = 0; i < 4; i++)
        (void)step_job(&m);
    for (int64_t i = 0; i < m.job->tensors.n; i++) {
        const int64_t n = untold_of(&m, &m.job->tensors.v[i], "gaia");
        sum += n > 0 ? n : 0;
    }
    close_job(&m);
    return sum;
}

TEST(what_is_not_significant_is_kept)
{
    static const char *const low[] = {FOUR, "exchange.policy=gaia",
                                      "exchange.threshold=0.001", NULL};
    static const char *const high[] = {FOUR, "exchange.policy=gaia",
                                       "exchange.threshold=0.1", NULL};
    const int64_t few = count_untold(low), many = count_untold(high);
    CHECK_MSG(0 < few && few < many / 2, "%lld and %lld are not told",
              (long long)few, (long long)many);
}

#define MLP "model=mlp", "image=3", "model.classes=3", "batch=24"

TEST(what_gaia_cannot_do_is_said)
{
    static const char *const coded[] = {MLP, "exchange.replicas=4",
                                        "exchange.policy=gaia",
                                        "exchange.codec=topk", NULL};
    static const char *const inside[] = {MLP,
                                         "exchange.replicas=4",
                                         "exchange.group=2",
                                         "exchange.policy=average",
                                         "exchange.outer.policy=gaia",
                                         NULL};
    check_refused(coded, "exchange.codec=none would do");
    check_refused(inside, "exchange.policy=allreduce would do");
}
