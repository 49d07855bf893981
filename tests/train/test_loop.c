// The training loop: what it does when, and what it does about bad steps and bad
// disks, whatever interrupts it.

#include "base/alloc.h"
#include "base/file.h"
#include "runs.h"
#include "test.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const csv[] = {"model=mlp",
                                  "model.width=8",
                                  "data=csv",
                                  "data.path=d.csv",
                                  "data.holdout=0.1",
                                  "data.shuffle=false",
                                  "batch=4",
                                  "optim=adam",
                                  "optim.lr=0.01",
                                  "train.steps=40",
                                  "log.every=3",
                                  "eval.every=7",
                                  "checkpoint.every=5",
                                  "log.tensorboard=false",
                                  "threads=1",
                                  NULL};

TEST(everything_happens_when_it_is_due)
{
    static const char *const more[] = {"eval.every=10", "checkpoint.keep=100",
                                       NULL};
    runs_watch w = {0};
    tt_run_end end;
    runs_enter();
    runs_write_csv("d.csv", 300, 0, 0);
    CHECK_OK(runs_train("run", csv, more, &w, &end));
    CHECK(w.steps == 40 && w.points == 14 && w.evals == 4);
    CHECK(w.notes == 0 && w.warnings == 0);
    CHECK(end.reason == TT_RUN_DONE && end.step == 40);
    CHECK(isfinite(end.loss) && isfinite(end.val_loss));
    CHECK(end.best_loss <= end.val_loss && end.accuracy >= 0);
    for (int step = 5; step <= 40; step += 5) {
        char path[64];
        snprintf(path, sizeof path, "run/checkpoints/step-%08d", step);
        CHECK_MSG(tt_file_is_folder(path), "no %s", path);
    }
    runs_leave();
}

TEST(what_is_not_finite_stops_and_keeps_the_checkpoint)
{
    runs_enter();
    runs_write_csv("d.csv", 300, 122, 1);
    CHECK(runs_train("run", csv, NULL, NULL, NULL) == TT_ERR_STATE);
    CHECK(strstr(tt_error_message(), "not finite in step 31") != NULL);
    CHECK(tt_file_is_folder("run/checkpoints/step-00000030"));
    CHECK(!tt_file_exists("run/checkpoints/step-00000031"));
    runs_leave();
}

TEST(a_step_that_is_skipped_changes_nothing_but_counts)
{
    static const char *const skip[] = {"train.nan=skip", NULL};
    runs_watch w = {0};
    tt_run_end end;
    runs_enter();
    runs_write_csv("d.csv", 300, 122, 1);
    CHECK_OK(runs_train("run", csv, skip, &w, &end));
    CHECK(end.step == 40 && w.steps == 40 && w.notes == 1);
    CHECK(strstr(w.note, "step 31: skipped") != NULL);
    CHECK(isfinite(end.loss) && isfinite(end.val_loss));
    runs_leave();
}

static const char *const roll[] = {"train.nan=rollback", "train.back=8", NULL};

TEST(a_rollback_goes_on_after_the_bad_batch)
{
    runs_watch w = {0};
    tt_run_end end;
    runs_enter();
    runs_write_csv("d.csv", 300, 122, 1);
    CHECK_OK(runs_train("run", csv, roll, &w, &end));
    CHECK(end.step == 40 && w.notes == 1);
    CHECK(strstr(w.note, "rolled back to step 20") != NULL);
    CHECK(w.steps == 30 + 20);
    runs_leave();
}

TEST(rolling_back_where_nothing_helps_ends_with_an_error)
{
    runs_enter();
    runs_write_csv("d.csv", 300, 100, 200);
    CHECK(runs_train("run", csv, roll, NULL, NULL) == TT_ERR_STATE);
    CHECK(strstr(tt_error_message(), "3 rollbacks in a row") != NULL);
    runs_leave();
}

// Stopped after any number of steps, before and after the rollback, and also when
// the last checkpoint was not written: as after kill -9.
TEST_SLOW(a_rollback_is_the_same_however_it_is_interrupted, 120)
{
    runs_enter();
    runs_write_csv("d.csv", 300, 122, 1);
    CHECK_OK(runs_train("whole", csv, roll, NULL, NULL));
    for (int64_t n = 3; n < 50; n += 13) {
        for (int is_lost = 0; is_lost < 2; is_lost++) {
            runs_watch w = {.stop_at = n};
            tt_run_end end;
            char folder[32], newest[96];
            snprintf(folder, sizeof folder, "run-%d-%d", (int)n, is_lost);
            CHECK_OK(runs_train(folder, csv, roll, &w, &end));
            CHECK(end.reason == TT_RUN_SIGNAL);
            snprintf(newest, sizeof newest, "%s/checkpoints/step-%08d", folder,
                     (int)end.step);
            CHECK(tt_file_is_folder(newest));
            if (is_lost)
                CHECK_OK(tt_file_remove(newest));
            CHECK_OK(runs_train(folder, csv, roll, NULL, &end));
            CHECK(end.reason == TT_RUN_DONE);
            runs_same("whole", folder);
        }
    }
    runs_leave();
}

// A disk that fills up at any write: done with a warning, or an error; with room
// again the run ends with the same bits.
TEST_SLOW(a_full_disk_at_any_write_costs_no_checkpoint, 240)
{
    int64_t failed = 0, warned = 0, repeated = 0;
    runs_enter();
    runs_write_csv("d.csv", 300, 0, 0);
    CHECK_OK(runs_train("whole", csv, NULL, NULL, NULL));
    for (int64_t k = 1; k < 400; k += 47) {
        runs_watch w = {0};
        char folder[32];
        snprintf(folder, sizeof folder, "run-%d", (int)k);
        tt_file_fail_from(k, ENOSPC);
        const tt_status status = runs_train(folder, csv, NULL, &w, NULL);
        tt_file_fail_at(0, 0);
        failed += status != TT_OK;
        warned += w.warnings > 0;
        // Of metrics and of checkpoints: the first, the second, the fourth, ...
        CHECK(w.warnings <= 12);
        repeated += w.warnings > 2;
        CHECK(status == TT_OK || status == TT_ERR_IO);
        CHECK_OK(runs_train(folder, csv, NULL, NULL, NULL));
        if (status != TT_OK)
            runs_same("whole", folder);
    }
    CHECK(failed > 1 && warned > 1 && repeated > 0);
    runs_leave();
}

TEST_SLOW(memory_that_runs_out_is_an_error_and_leaks_nothing, 240)
{
    runs_enter();
    runs_write_csv("d.csv", 60, 0, 0);
    static const char *const more[] = {"train.steps=3", NULL};
    const int64_t before = tt_alloc_live();
    for (int64_t k = 1; k < 3000; k += 97) {
        char folder[32];
        snprintf(folder, sizeof folder, "run-%d", (int)k);
        tt_alloc_fail_at(k);
        const tt_status status = runs_train(folder, csv, more, NULL, NULL);
        tt_alloc_fail_at(0);
        CHECK_MSG(status == TT_OK || tt_error_message()[0] != '\0', "silent");
        CHECK_MSG(tt_alloc_live() == before, "allocation %d leaks", (int)k);
    }
    runs_leave();
}
