// However often a run is interrupted, by signals at any point of the loop or by kills at
// any file call, what it leaves in the end is what one leaves that was left alone:
// metrics, events, best, latest, and the checkpoints that are kept.

#include "base/file.h"
#include "runs.h"
#include "runs_describe.h"
#include "store/checkpoint.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// Evaluations at steps that have checkpoints and at steps that have none; the best is
// neither the first nor always one of those that are due.
static const char *const tiny[] = {"model=mlp",         "model.width=4",
                                   "data=synthetic",    "data.size=200",
                                   "data.image=4",      "data.noise=0.9",
                                   "batch=4",           "optim.lr=3",
                                   "optim=adamw",       "seed=3",
                                   "train.steps=10",    "threads=1",
                                   "data.workers=1",    "log.every=2",
                                   "eval.every=3",      "checkpoint.every=4",
                                   "checkpoint.keep=1", NULL};

static void alone(const char *const *more, tt_str *out)
{
    CHECK(runs_child("alone", tiny, more, NULL, 0) == 0);
    runs_describe("alone", out);
}

// The run in "r" has come to its end: it is as the other one.
static void same(const tt_str *want, const char *what, int64_t k)
{
    tt_str got = {0};
    runs_describe("r", &got);
    CHECK_MSG(strcmp(tt_str_text(want), tt_str_text(&got)) == 0,
              "%s %lld:\n%s\n--- but alone:\n%s", what, (long long)k,
              tt_str_text(&got), tt_str_text(want));
    tt_str_fini(&got);
    CHECK_OK(tt_file_remove("r"));
}

// Stops at the `at`-th call of one kind in each of its starts, until it ends by itself.
static void stop_often(const runs_watch *w, const tt_str *want,
                       const char *what, int64_t at)
{
    int result = 2;
    int n_starts = 0;
    for (; result == 2 && n_starts < 40; n_starts++)
        result = runs_child("r", tiny, NULL, n_starts % 2 == 0 ? w : NULL, 0);
    CHECK_MSG(result == 0, "%s %lld: %d", what, (long long)at, result);
    same(want, what, at);
}

TEST_SLOW(run_interrupted_by_a_signal_at_any_point_ends_like_one_left_alone,
          240)
{
    tt_str want = {0};
    runs_enter_memory();
    alone(NULL, &want);
    CHECK(strstr(tt_str_text(&want), "best") != NULL);
    for (int64_t at = 1; at <= 10; at++)
        stop_often(&(runs_watch){.stop_at = at}, &want, "step", at);
    for (int64_t at = 1; at <= 5; at++)
        stop_often(&(runs_watch){.stop_at_point = at}, &want, "point", at);
    for (int64_t at = 1; at <= 3; at++)
        stop_often(&(runs_watch){.stop_at_eval = at}, &want, "evaluation", at);
    // From the first step of every start on: what follows a step is broken off.
    stop_often(&(runs_watch){.stop_at = 1, .stop = 1}, &want, "at once", 0);
    tt_str_fini(&want);
    runs_leave();
}

// A kill at every file call of a run, then a start that is left alone.
TEST_SLOW(run_killed_at_any_file_call_ends_like_one_left_alone, 600)
{
    tt_str want = {0};
    runs_enter_memory();
    alone(NULL, &want);
    int64_t k = 1;
    for (int result = -1; result == -1; k++) {
        result = runs_child("r", tiny, NULL, NULL, k);
        CHECK_MSG(result <= 0, "call %lld: status %d", (long long)k, result);
        if (result == -1)
            CHECK_MSG(runs_child("r", tiny, NULL, NULL, 0) == 0, "call %lld",
                      (long long)k);
        same(&want, "killed at call", k);
    }
    CHECK(k > 100);
    tt_str_fini(&want);
    runs_leave();
}

// A signal, then kills at every file call of the start that goes on.
TEST_SLOW(run_stopped_in_an_evaluation_and_killed_ends_like_one_left_alone, 600)
{
    tt_str want = {0};
    const runs_watch during = {.stop_at = 6}; // an evaluation follows
    runs_enter_memory();
    alone(NULL, &want);
    int64_t k = 1;
    for (int result = -1; result == -1; k += 3) {
        CHECK(runs_child("r", tiny, NULL, &during, 0) == 2);
        result = runs_child("r", tiny, NULL, NULL, k);
        CHECK_MSG(result <= 0, "call %lld: status %d", (long long)k, result);
        if (result == -1)
            CHECK(runs_child("r", tiny, NULL, NULL, 0) == 0);
        same(&want, "stopped, then killed at call", k);
    }
    tt_str_fini(&want);
    runs_leave();
}

// Checkpoints by time are there when a run is killed, and gone when it has ended.
TEST_SLOW(checkpoints_by_minutes_are_saved_and_leave_nothing_behind, 120)
{
    static const char *const often[] = {"checkpoint.minutes=1e-9", NULL};
    static const char *const only[] = {
        "checkpoint.minutes=1e-9", "checkpoint.every=0", "eval.every=0", NULL};
    tt_str want = {0};
    bool found = false;
    runs_enter_memory();
    alone(NULL, &want);
    CHECK(runs_child("r", tiny, often, NULL, 0) == 0);
    same(&want, "checkpoints by time", 0);
    CHECK(runs_child("r", tiny, only, NULL, 150) == -1);
    CHECK_OK(tt_checkpoints_trace("r/checkpoints", &found));
    CHECK(found);
    CHECK(runs_child("r", tiny, only, NULL, 0) == 0);
    tt_str_fini(&want);
    runs_leave();
}
