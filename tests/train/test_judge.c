// What is a spike, and what happens after steps that went wrong.

#include "test.h"
#include "train/judge.h"

#include <math.h>
#include <string.h>

static const tt_train_options none = {.spike_sigma = 3};
static const tt_train_options skipping = {
    .nan = TT_NAN_SKIP, .spike = TT_SPIKE_SKIP, .spike_sigma = 3};
static const tt_train_options rolling = {
    .nan = TT_NAN_ROLLBACK, .spike = TT_SPIKE_ROLLBACK, .spike_sigma = 3};

static tt_verdict judge(tt_judge *p, const tt_train_options *o, int64_t step,
                        double loss)
{
    char why[256] = "";
    const tt_judge_step s = {step, loss, 1, tt_judge_limit(p, o)};
    const tt_verdict verdict = tt_judge_verdict(p, o, &s, why);
    CHECK((verdict == TT_VERDICT_GOOD) == (why[0] == '\0'));
    return verdict;
}

// Losses 1 and 3 in turn: mean 2, deviation 1.
static void fill(tt_judge *p, const tt_train_options *o, int n)
{
    for (int i = 0; i < n; i++)
        (void)judge(p, o, i + 1, i % 2 == 0 ? 1 : 3);
}

TEST(a_spike_lies_sigmas_above_the_mean)
{
    tt_judge p = {0};
    fill(&p, &skipping, TT_JUDGE_WINDOW);
    CHECK_CLOSE(tt_judge_limit(&p, &skipping), 5, 1e-12);
    CHECK(judge(&p, &skipping, 200, 4.9) == TT_VERDICT_GOOD);
    CHECK(judge(&p, &skipping, 201, 6) == TT_VERDICT_SKIP);
    CHECK(p.skips == 1);
    CHECK(judge(&p, &skipping, 202, 0.1) == TT_VERDICT_GOOD);
    CHECK(p.skips_in_row == 0 && p.skips == 1);
}

TEST(few_losses_or_no_policy_give_no_limit)
{
    tt_judge p = {0};
    fill(&p, &skipping, TT_JUDGE_LEAST - 1);
    CHECK(isinf(tt_judge_limit(&p, &skipping)));
    fill(&p, &skipping, 1);
    CHECK(!isinf(tt_judge_limit(&p, &skipping)));
    CHECK(isinf(tt_judge_limit(&p, &none)));
}

TEST(the_window_forgets_old_losses)
{
    tt_judge p = {0};
    for (int i = 0; i < 1000; i++)
        (void)judge(&p, &skipping, i + 1, 100 - 0.05 * i);
    CHECK(p.n == TT_JUDGE_WINDOW);
    CHECK(p.window[TT_JUDGE_WINDOW - 1] == 100 - 0.05 * 999);
    CHECK(tt_judge_limit(&p, &skipping) < 65);
}

TEST(equal_losses_leave_room_above)
{
    tt_judge p = {0};
    for (int i = 0; i < 50; i++)
        (void)judge(&p, &skipping, i + 1, 2);
    CHECK(judge(&p, &skipping, 51, 2.001) == TT_VERDICT_GOOD);
}

TEST(what_is_not_finite_stops_skips_or_rolls_back)
{
    tt_judge p = {0};
    CHECK(judge(&p, &none, 1, (double)NAN) == TT_VERDICT_STOP);
    CHECK(judge(&p, &none, 1, (double)INFINITY) == TT_VERDICT_STOP);
    CHECK(judge(&p, &skipping, 1, (double)NAN) == TT_VERDICT_SKIP);
    CHECK(judge(&p, &rolling, 1, (double)NAN) == TT_VERDICT_ROLLBACK);
    CHECK(p.n == 0);
    char why[256];
    const tt_judge_step s = {7, 1, (double)NAN, (double)INFINITY};
    CHECK(tt_judge_verdict(&p, &none, &s, why) == TT_VERDICT_STOP);
    CHECK(strstr(why, "gradient") != NULL && strstr(why, "step 7") != NULL);
}

TEST(gradients_beyond_fp16_are_skipped_whatever_nan_says)
{
    tt_judge p = {0};
    char why[256];
    tt_judge_step s = {7, 1, (double)INFINITY, (double)INFINITY, 512};
    CHECK(tt_judge_verdict(&p, &none, &s, why) == TT_VERDICT_SKIP);
    CHECK(strstr(why, "step 7") != NULL && strstr(why, "512") != NULL);
    s.loss = (double)NAN;
    CHECK(tt_judge_verdict(&p, &none, &s, why) == TT_VERDICT_STOP);
    s.loss = 1;
    for (int i = 1; i < TT_JUDGE_SKIPS; i++)
        CHECK(tt_judge_verdict(&p, &none, &s, why) == TT_VERDICT_SKIP);
    CHECK(tt_judge_verdict(&p, &none, &s, why) == TT_VERDICT_STOP);
}

TEST(skipping_for_ever_ends)
{
    tt_judge p = {0};
    for (int i = 0; i < TT_JUDGE_SKIPS; i++)
        CHECK(judge(&p, &skipping, i + 1, (double)NAN) == TT_VERDICT_SKIP);
    CHECK(judge(&p, &skipping, 100, (double)NAN) == TT_VERDICT_STOP);
}

TEST(rolling_back_for_ever_ends_and_progress_counts)
{
    tt_judge p = {0};
    for (int i = 0; i < TT_JUDGE_ROLLBACKS; i++) {
        const tt_judge bad = p;
        CHECK(judge(&p, &rolling, 10, (double)NAN) == TT_VERDICT_ROLLBACK);
        p = (tt_judge){0}; // as it was in the checkpoint
        tt_judge_rolled_back(&p, &bad, 10, 5);
        CHECK(p.anchor == 5);
        CHECK(judge(&p, &rolling, 9, 1) == TT_VERDICT_GOOD);
    }
    CHECK(p.rollbacks == TT_JUDGE_ROLLBACKS);
    tt_judge stuck = p;
    CHECK(judge(&stuck, &rolling, 10, (double)NAN) == TT_VERDICT_STOP);
    CHECK(judge(&p, &rolling, 11, 1) == TT_VERDICT_GOOD);
    CHECK(judge(&p, &rolling, 12, (double)NAN) == TT_VERDICT_ROLLBACK);
}

TEST(the_state_of_a_policy_survives_as_text)
{
    tt_judge p = {0}, q;
    tt_str text = {0};
    tt_json json = {.out = &text};
    const tt_json_value *root = NULL;
    tt_arena *arena = tt_arena_create();
    for (int i = 0; i < 200; i++)
        (void)judge(&p, &skipping, i + 1, i == 150 ? 1e6 : 1 / (1.0 + i));
    p.rollbacks = 3;
    p.rollbacks_in_row = 2;
    p.furthest = 1234567890123;
    p.anchor = 77;
    tt_judge_print(&p, &json, NULL);
    CHECK_OK(tt_str_status(&text));
    CHECK_OK(tt_json_read(tt_str_text(&text), text.n, "state", arena, &root));
    tt_judge_read(root, &q);
    CHECK(memcmp(&p, &q, sizeof p) == 0);
    tt_str_fini(&text);
    tt_arena_destroy(arena);
}

// What replicas have done since they met: their mean loss varies less than that of one.
static tt_judge_step met(const tt_judge *p, const tt_train_options *o,
                         double n_bad, double n_spikes, double single)
{
    const bool is_all = n_bad + n_spikes == 40;
    return (tt_judge_step){.step = 10,
                           .loss = is_all ? (double)NAN : 2,
                           .limit = tt_judge_limit(p, o),
                           .n_single = 40,
                           .n_bad = n_bad,
                           .n_spikes = n_spikes,
                           .single = single};
}

TEST(replicas_are_judged_by_single_steps)
{
    static const tt_train_options stopping = {
        .nan = TT_NAN_STOP, .spike = TT_SPIKE_SKIP, .spike_sigma = 3};
    char why[256] = "";
    tt_judge p = {0};
    tt_judge_step s;
    for (int i = 0; i < TT_JUDGE_WINDOW; i++) {
        s = met(&p, &skipping, 0, 0, i % 2 == 0 ? 1 : 3);
        CHECK(tt_judge_verdict(&p, &skipping, &s, why) == TT_VERDICT_GOOD);
    }
    CHECK_CLOSE(tt_judge_limit(&p, &skipping), 5, 1e-12);
    // what a replica left out alone
    s = met(&p, &skipping, 1, 2, (double)NAN);
    CHECK(tt_judge_verdict(&p, &skipping, &s, why) == TT_VERDICT_GOOD);
    CHECK(p.n == TT_JUDGE_WINDOW && isfinite(p.window[p.n - 1]));
    CHECK(tt_judge_verdict(&p, &rolling, &s, why) == TT_VERDICT_ROLLBACK);
    CHECK(tt_judge_verdict(&p, &stopping, &s, why) == TT_VERDICT_STOP);
    CHECK(strstr(why, "1 of 40 steps of single replicas") != NULL);
    s = met(&p, &rolling, 0, 2, 1);
    CHECK(tt_judge_verdict(&p, &rolling, &s, why) == TT_VERDICT_ROLLBACK);
    CHECK(strstr(why, "2 of 40 steps of single replicas") != NULL);
    // what all left out
    s = met(&p, &skipping, 0, 40, 9);
    CHECK(tt_judge_verdict(&p, &stopping, &s, why) == TT_VERDICT_SKIP);
    s = met(&p, &skipping, 40, 0, (double)NAN);
    CHECK(tt_judge_verdict(&p, &skipping, &s, why) == TT_VERDICT_SKIP);
    CHECK(tt_judge_verdict(&p, &stopping, &s, why) == TT_VERDICT_STOP);
}
