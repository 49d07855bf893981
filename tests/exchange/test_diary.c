// The diary of workers: no time is lost, however long the run is.

#include "base/arena.h"
#include "exchange/diary.h"
#include "exchange/drawn.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { W = 3 };

static double of_bars(const tt_diary *d, int32_t worker, int cause)
{
    double sum = 0;
    for (int b = 0; b < TT_DIARY_BARS; b++)
        sum += tt_diary_bar(d, worker, b)[cause];
    return sum;
}

// Bars have the sums, none is fuller than it is long, and at least half are used.
static void check(const tt_diary *d, double now)
{
    for (int32_t i = 0; i < d->workers; i++)
        for (int c = 0; c < TT_N_CAUSES; c++)
            CHECK_CLOSE(of_bars(d, i, c), tt_diary_sum(d, i, c), 1e-9);
    for (int32_t i = 0; i < d->workers; i++)
        for (int b = 0; b < TT_DIARY_BARS; b++) {
            double full = 0;
            for (int c = 0; c < TT_N_CAUSES; c++)
                full += tt_diary_bar(d, i, b)[c];
            CHECK(full <= d->width * (1 + 1e-9));
        }
    const int used = tt_diary_used(d);
    CHECK((used - 1) * d->width < now && now <= used * d->width * (1 + 1e-9));
    CHECK(now < 0.05 || used >= TT_DIARY_BARS / 2);
}

TEST(a_diary_keeps_all_time_in_a_bounded_number_of_bars)
{
    tt_arena *arena = tt_arena_create();
    tt_diary d;
    CHECK_OK(tt_diary_init(&d, W, arena));
    double t = 0;
    for (int i = 0; i < 5000; i++) {
        const double length = 0.01 * (1 + i % 7) * (i > 2000 ? 100 : 1);
        for (int32_t w = 0; w < W; w++)
            tt_diary_add(&d, w, (i + w) % TT_N_CAUSES, t, t + length);
        t += length;
        if (i % 500 == 499)
            check(&d, t);
    }
    double all = 0;
    for (int c = 0; c < TT_N_CAUSES; c++)
        all += tt_diary_sum(&d, 1, c);
    CHECK_CLOSE(all, t, 1e-9);
    tt_arena_destroy(arena);
}

TEST(wasted_work_is_no_longer_work)
{
    tt_arena *arena = tt_arena_create();
    tt_diary d;
    CHECK_OK(tt_diary_init(&d, W, arena));
    tt_turn good = {.worker = 1, .began = 2, .moved = 1, .computed = 4};
    tt_turn bad = {.worker = 1, .began = 7, .waited = 2, .computed = 3};
    tt_diary_turn(&d, &good);
    tt_diary_turn(&d, &bad);
    tt_diary_waste(&d, &bad);
    tt_diary_waste(&d, &bad); // known already
    CHECK_CLOSE(tt_diary_sum(&d, 1, TT_CAUSE_COMPUTING), 4, 1e-12);
    CHECK_CLOSE(tt_diary_sum(&d, 1, TT_CAUSE_WASTED), 3, 1e-12);
    CHECK_CLOSE(tt_diary_sum(&d, 1, TT_CAUSE_MESSAGES), 1, 1e-12);
    CHECK_CLOSE(tt_diary_sum(&d, 1, TT_CAUSE_TURN), 2, 1e-12);
    // The bar that begins at 9.
    const double *bar = tt_diary_bar(&d, 1, (int)(9.01 / d.width));
    CHECK(bar[TT_CAUSE_WASTED] > 0 && bar[TT_CAUSE_COMPUTING] < 1e-12);
    tt_arena_destroy(arena);
}

// Workers that never wait: each one's time is computing and messages, all of it.
TEST(drawn_times_add_up_and_survive_a_checkpoint)
{
    const tt_drawn_rules rules = {
        .workers = W, .seed = 5, .spread = 0.5, .jitter = 0.3, .delay = 0.2};
    tt_arena *arena = tt_arena_create();
    tt_drawn one, two;
    double v[4096];
    CHECK_OK(tt_drawn_init(&one, &rules, arena));
    CHECK_OK(tt_drawn_init(&two, &rules, arena));
    CHECK(tt_drawn_count(&rules) <= 4096);
    for (int i = 0; i < 300; i++) {
        tt_drawn_begin(&one, tt_drawn_next(&one));
        if (i == 100) {
            tt_drawn_save(&one, v);
            CHECK_OK(tt_drawn_load(&two, v));
        } else if (i > 100) {
            tt_drawn_begin(&two, tt_drawn_next(&two));
        }
    }
    tt_diary d;
    CHECK_OK(tt_drawn_diary(&one, arena, &d));
    for (int32_t i = 0; i < W; i++) {
        double all = 0;
        for (int c = 0; c < TT_N_CAUSES; c++)
            all += tt_diary_sum(&d, i, c);
        CHECK_CLOSE(all, one.now, 1e-9);
        CHECK(tt_diary_sum(&d, i, TT_CAUSE_HELD) == 0);
        CHECK(tt_diary_sum(&one.diary, i, TT_CAUSE_COMPUTING) ==
              tt_diary_sum(&two.diary, i, TT_CAUSE_COMPUTING));
    }
    tt_arena_destroy(arena);
}

TEST(measured_times_are_no_longer_than_the_time_that_there_was)
{
    const tt_drawn_rules rules = {.workers = W, .seed = 5};
    tt_arena *arena = tt_arena_create();
    tt_drawn d;
    CHECK_OK(tt_drawn_init(&d, &rules, arena));
    tt_drawn_arrived(&d, 0, 2, 0.5, 1); // the rest is messages
    tt_drawn_arrived(&d, 1, 2, 9, 1.5); // its clock is another
    tt_drawn_arrived(&d, 2, 3, 0, 9);
    CHECK_CLOSE(tt_diary_sum(&d.diary, 0, TT_CAUSE_MESSAGES), 0.5, 1e-12);
    CHECK_CLOSE(tt_diary_sum(&d.diary, 1, TT_CAUSE_TURN), 0.5, 1e-12);
    CHECK_CLOSE(tt_diary_sum(&d.diary, 2, TT_CAUSE_COMPUTING), 3, 1e-12);
    tt_drawn_begin(&d, 0);
    CHECK_CLOSE(tt_diary_sum(&d.diary, 0, TT_CAUSE_HELD), 1, 1e-12);
    tt_arena_destroy(arena);
}
