// Of batch, micro and accumulate any two give the third; a step without data has the
// last that was given.

#include "jobs.h"
#include "test.h"

static void gives(const char *const *more, int64_t batch, int64_t micro,
                  int64_t accumulate)
{
    static const char *const mlp[] = {"model=mlp", "image=4", NULL};
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0};
    tt_job *job = NULL;
    for (int i = 0; mlp[i] != NULL; i++)
        CHECK_OK(tt_settings_assign(&s, mlp[i], "test", arena));
    for (; *more != NULL; more++)
        CHECK_OK(tt_settings_assign(&s, *more, "test", arena));
    CHECK_OK(tt_job_configure(&s, NULL, &job));
    CHECK(job->options.batch == batch);
    CHECK(job->options.micro == micro);
    CHECK(job->options.accumulate == accumulate);
    CHECK_OK(tt_job_plan(job));
    CHECK(job->io.batch == micro && job->plan->n_micro == accumulate);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

TEST(batch_micro_accumulate_give_each_other)
{
    gives((const char *const[]){NULL}, 8, 8, 1);
    gives((const char *const[]){"batch=12", NULL}, 12, 12, 1);
    gives((const char *const[]){"accumulate=4", NULL}, 8, 2, 4);
    gives((const char *const[]){"micro=3", NULL}, 3, 3, 1);
    gives((const char *const[]){"batch=12", "accumulate=4", NULL}, 12, 3, 4);
    gives((const char *const[]){"batch=12", "micro=4", NULL}, 12, 4, 3);
    gives((const char *const[]){"micro=4", "accumulate=5", NULL}, 20, 4, 5);
    gives((const char *const[]){"batch=20", "micro=4", "accumulate=5", NULL},
          20, 4, 5);
}

TEST(batch_contradictions_are_refused)
{
    check_refused(
        (const char *const[]){"model=mlp", "batch=12", "accumulate=5", NULL},
        "batch=12 is not a multiple of accumulate=5");
    check_refused(
        (const char *const[]){"model=mlp", "batch=12", "micro=5", NULL},
        "batch=12 is not a multiple of micro=5");
    check_refused((const char *const[]){"model=mlp", "batch=12", "micro=4",
                                        "accumulate=2", NULL},
                  "batch=12 is not micro=4 times accumulate=2");
    check_refused((const char *const[]){"model=mlp", "micro=16777216",
                                        "accumulate=2", NULL},
                  "micro=16777216 times accumulate=2 is a batch of 33554432");
}

// The data of the first step in every step.
static tt_status feed_same(void *user, const tt_job *job, int64_t micro,
                           void *x, void *y)
{
    tt_job first = *job;
    first.step = 0;
    return tt_job_feed_random(user, &first, micro, x, y);
}

TEST(steps_without_data_have_the_last_that_was_given)
{
    static const char *const none[] = {NULL};
    made a = start_job(family_named("mlp"), none, false);
    made b = start_job(family_named("mlp"), none, false);
    tt_step_result given, kept;
    double first = 0;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(tt_job_step(a.job, i == 0 ? feed_same : NULL, NULL, &kept));
        CHECK_OK(tt_job_step(b.job, feed_same, NULL, &given));
        CHECK(kept.loss == given.loss);
        CHECK(i == 0 || kept.loss != first);
        first = i == 0 ? kept.loss : first;
    }
    CHECK(same_states(read_states(&a), read_states(&b)));
    close_job(&a);
    close_job(&b);
}
