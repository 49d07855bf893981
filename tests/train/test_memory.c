// Memory is what the plan says: the highest byte that a step changes is the last
// one planned, and a step allocates nothing.

#include "base/alloc.h"
#include "families.h"
#include "test.h"

static void check(const family *f, const char *const *more)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_job *job = NULL;
    tt_step_result result;
    family_settings(f, more, &settings, arena);
    CHECK_OK(family_start(&settings, true, &job));
    CHECK_OK(tt_job_step(job, tt_job_feed_random, NULL, &result));
    const int64_t before = tt_alloc_count();
    for (int i = 0; i < 2; i++)
        CHECK_OK(tt_job_step(job, tt_job_feed_random, NULL, &result));
    CHECK_MSG(tt_alloc_count() == before, "%s: a step allocates", f->name);
    CHECK_MSG(tt_exec_peak_used(job->exec) == job->plan->peak_bytes,
              "%s: %lld bytes used of %lld planned", f->name,
              (long long)tt_exec_peak_used(job->exec),
              (long long)job->plan->peak_bytes);
    CHECK_MSG(tt_exec_overrun(job->exec) < 0, "%s: writes beyond a buffer",
              f->name);
    tt_job_close(job);
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
}

static void check_all(const char *device, const char *accumulate,
                      const char *precision)
{
    const char *const more[] = {device, accumulate, precision, NULL};
    const char *const doubled[] = {device, accumulate, precision, "batch=6",
                                   NULL};
    for (const family *f = families; f->name != NULL; f++)
        check(f, accumulate[11] == '1' ? more : doubled);
}

TEST(memory_on_ref_is_what_was_planned)
{
    check_all("device=ref", "accumulate=1", "precision=fp32");
}

TEST(memory_on_cpu_is_what_was_planned)
{
    check_all("device=cpu", "accumulate=1", "precision=fp32");
}

TEST(memory_on_cpu_with_micro_batches_is_what_was_planned)
{
    check_all("device=cpu", "accumulate=3", "precision=fp32");
}

TEST(memory_on_cpu_in_bf16_is_what_was_planned)
{
    check_all("device=cpu", "accumulate=1", "precision=bf16");
}
