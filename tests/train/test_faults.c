// No memory at any point of configuring, planning, starting and stepping is an
// error that is returned; nothing leaks, nothing crashes, nothing hangs.

#include "base/alloc.h"
#include "families.h"
#include "test.h"

static tt_status live(tt_settings *settings)
{
    tt_job *job = NULL;
    tt_step_result result;
    TT_TRY(family_start(settings, false, &job));
    tt_status status = TT_OK;
    for (int i = 0; i < 2 && status == TT_OK; i++)
        status = tt_job_step(job, tt_job_feed_random, NULL, &result);
    tt_job_close(job);
    return status;
}

static void fail_at(tt_settings *settings, const family *f, int64_t k)
{
    const int64_t before = tt_alloc_live();
    tt_alloc_fail_at(k);
    const tt_status status = live(settings);
    tt_alloc_fail_at(0);
    CHECK_MSG(status == TT_ERR_NOMEM, "%s: allocation %lld: %s", f->name,
              (long long)k, status == TT_OK ? "no error" : tt_error_message());
    CHECK_MSG(tt_alloc_live() == before, "%s: allocation %lld leaks", f->name,
              (long long)k);
}

static void fail_everywhere(const char *device, int64_t stride)
{
    const char *const more[] = {device, "accumulate=1", NULL};
    for (const family *f = families; f->name != NULL; f++) {
        tt_arena *arena = tt_arena_create();
        tt_settings settings = {0};
        family_settings(f, more, &settings, arena);
        tt_alloc_fail_at(0);
        CHECK_OK(live(&settings));
        const int64_t n = tt_alloc_count();
        // Another start for each family, so that strides meet all kinds of points.
        for (int64_t k = 1 + (f - families) % stride; k <= n; k += stride)
            fail_at(&settings, f, k);
        tt_arena_destroy(arena);
        CHECK(tt_alloc_live() == 0);
    }
}

TEST_SLOW(training_on_ref_survives_some_failing_allocations, 300)
{
    fail_everywhere("device=ref", 7);
}

TEST_SLOW(training_on_cpu_survives_some_failing_allocations, 300)
{
    fail_everywhere("device=cpu", 7);
}

TEST_ALL(training_on_ref_survives_every_failing_allocation)
{
    fail_everywhere("device=ref", 1);
}

TEST_ALL(training_on_cpu_survives_every_failing_allocation)
{
    fail_everywhere("device=cpu", 1);
}
