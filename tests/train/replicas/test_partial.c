// Parts of what replicas have changed, in turns (exchange.policy=partial). Ranks, and that
// the loss falls, are shown for every policy by tests/train/test_replicas.c.

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

// A replica is ahead of what all have heard by the n-th part of what it has not told; what
// had its turn is told.
TEST(what_is_not_told_is_kept)
{
    static const char *const more[] = {FOUR, "exchange.policy=partial",
                                       "exchange.parts=3", NULL};
    made m = start_job(family_named("gpt"), more, false);
    int told = 0, untold = 0;
    for (int i = 0; i < 4; i++)
        (void)step_job(&m);
    for (int64_t i = 0; i < m.job->tensors.n; i++) {
        const tt_tensor *t = &m.job->tensors.v[i];
        char name[256];
        snprintf(name, sizeof name, "%s.replica", t->name);
        const tt_tensor *own = tt_tensors_find(&m.job->tensors, name);
        snprintf(name, sizeof name, "%s.partial.untold", t->name);
        const tt_tensor *left = tt_tensors_find(&m.job->tensors, name);
        if (left == NULL)
            continue;
        CHECK(own != NULL && own->count == 4 * t->count);
        double *model = tt_alloc(8 * t->count), *x = tt_alloc(8 * own->count),
               *a = tt_alloc(8 * own->count);
        CHECK_OK(tt_exec_read(m.job->exec, t->val, model));
        CHECK_OK(tt_exec_read(m.job->exec, own->val, x));
        CHECK_OK(tt_exec_read(m.job->exec, left->val, a));
        double most = 0;
        for (int64_t k = 0; k < own->count; k++) {
            const double ahead = x[k] - model[k % t->count];
            CHECK_MSG(fabs(ahead - a[k] / 4) < 1e-12, "%s: %g ahead of %g",
                      t->name, ahead, a[k] / 4);
            most = fmax(most, fabs(a[k]));
        }
        told += most == 0;
        untold += most > 0;
        tt_free(model);
        tt_free(x);
        tt_free(a);
    }
    CHECK_MSG(told > 2 && untold > told, "%d told, %d not", told, untold);
    close_job(&m);
}
