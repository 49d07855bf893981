// Learning rates against their formulas, and at the edges.

#include "config/schedule.h"
#include "test.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static tt_schedule make(tt_schedule_kind kind, int64_t warmup, double final)
{
    return (tt_schedule){.kind = (int)kind,
                         .warmup = warmup,
                         .final = final,
                         .step_every = 10,
                         .step_factor = 0.5,
                         .decay_steps = 20};
}

TEST(every_schedule_warms_up_linearly)
{
    for (int kind = TT_SCHEDULE_CONSTANT; kind <= TT_SCHEDULE_WSD; kind++) {
        const tt_schedule s = make((tt_schedule_kind)kind, 9, 0.1);
        for (int64_t i = 0; i < 9; i++)
            CHECK_CLOSE(tt_schedule_factor(&s, i, 100), (double)(i + 1) / 10,
                        1e-15);
        CHECK(tt_schedule_factor(&s, 9, 100) == 1);
    }
}

TEST(every_schedule_begins_with_all_of_it_without_warm_up)
{
    for (int kind = TT_SCHEDULE_CONSTANT; kind <= TT_SCHEDULE_WSD; kind++) {
        const tt_schedule s = make((tt_schedule_kind)kind, 0, 0.1);
        CHECK(tt_schedule_factor(&s, 0, 100) == 1);
    }
}

TEST(cosine_is_that_of_nano_gpt)
{
    const tt_schedule s = make(TT_SCHEDULE_COSINE, 100, 0.1);
    for (int64_t it = 0; it < 2100; it += 7) {
        const double ratio = (double)(it - 100) / (2000 - 100);
        double want = 0.1 + 0.5 * (1 + cos(pi * ratio)) * (1 - 0.1);
        if (it < 100)
            want = (double)(it + 1) / 101;
        if (it > 2000)
            want = 0.1;
        CHECK_CLOSE(tt_schedule_factor(&s, it, 2000), want, 1e-14);
    }
}

TEST(linear_is_a_line)
{
    const tt_schedule s = make(TT_SCHEDULE_LINEAR, 0, 0.2);
    CHECK_CLOSE(tt_schedule_factor(&s, 25, 100), 0.8, 1e-15);
    CHECK_CLOSE(tt_schedule_factor(&s, 50, 100), 0.6, 1e-15);
    CHECK_CLOSE(tt_schedule_factor(&s, 99, 100), 0.208, 1e-14);
    CHECK_CLOSE(tt_schedule_factor(&s, 100, 100), 0.2, 1e-15);
}

TEST(step_multiplies_after_every_stretch)
{
    const tt_schedule s = make(TT_SCHEDULE_STEP, 3, 0);
    CHECK(tt_schedule_factor(&s, 12, 100) == 1);
    CHECK(tt_schedule_factor(&s, 13, 100) == 0.5);
    CHECK(tt_schedule_factor(&s, 22, 100) == 0.5);
    CHECK(tt_schedule_factor(&s, 23, 100) == 0.25);
}

TEST(rsqrt_falls_with_the_root)
{
    const tt_schedule s = make(TT_SCHEDULE_RSQRT, 100, 0);
    CHECK(tt_schedule_factor(&s, 100, 0) == 1);
    CHECK_CLOSE(tt_schedule_factor(&s, 400, 0), 0.5, 1e-15);
    const tt_schedule plain = make(TT_SCHEDULE_RSQRT, 0, 0);
    CHECK_CLOSE(tt_schedule_factor(&plain, 3, 0), 0.5, 1e-15);
}

TEST(wsd_is_flat_and_decays_at_the_end)
{
    const tt_schedule s = make(TT_SCHEDULE_WSD, 10, 0.5);
    CHECK(tt_schedule_factor(&s, 10, 100) == 1);
    CHECK(tt_schedule_factor(&s, 80, 100) == 1);
    CHECK_CLOSE(tt_schedule_factor(&s, 90, 100), 0.75, 1e-15);
    CHECK_CLOSE(tt_schedule_factor(&s, 100, 100), 0.5, 1e-15);
}

TEST(wsd_in_a_run_shorter_than_its_decay_only_decays)
{
    const tt_schedule s = make(TT_SCHEDULE_WSD, 0, 0);
    CHECK(tt_schedule_factor(&s, 0, 10) == 1);
    CHECK_CLOSE(tt_schedule_factor(&s, 5, 10), 0.5, 1e-15);
}

TEST(beyond_the_end_the_final_rate_stays)
{
    static const tt_schedule_kind kind[] = {
        TT_SCHEDULE_LINEAR, TT_SCHEDULE_COSINE, TT_SCHEDULE_WSD};
    for (int i = 0; i < 3; i++) {
        const tt_schedule s = make(kind[i], 5, 0.1);
        CHECK_CLOSE(tt_schedule_factor(&s, 100, 100), 0.1, 1e-14);
        CHECK_CLOSE(tt_schedule_factor(&s, 1000000, 100), 0.1, 1e-14);
        CHECK(tt_schedule_needs_end(&s));
    }
}

TEST(a_run_of_nothing_but_warm_up_has_rates)
{
    for (int kind = TT_SCHEDULE_CONSTANT; kind <= TT_SCHEDULE_WSD; kind++) {
        const tt_schedule s = make((tt_schedule_kind)kind, 50, 0.1);
        for (int64_t i = 0; i < 12; i++) {
            const double f = tt_schedule_factor(&s, i, 10);
            CHECK(isfinite(f) && f > 0 && f < 1);
        }
        CHECK(isfinite(tt_schedule_factor(&s, 50, 10)));
    }
}
