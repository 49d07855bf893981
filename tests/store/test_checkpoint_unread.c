// Checkpoints that cannot be read now: that says nothing about them.

#include "base/file.h"
#include "store/checkpoint.h"
#include "store/checkpoint_world.h"
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void save_two(void)
{
    tt_checkpoints *store = tt_world_open(2, 0);
    tt_world_saved(store, 1);
    CHECK_OK(tt_checkpoints_mark_best(store, 1));
    tt_world_saved(store, 2);
    tt_checkpoints_close(store);
}

// Whichever call fails, an older checkpoint never takes the place of a good one, and
// nothing is removed.
TEST(checkpoint_that_cannot_be_read_is_a_failure_and_not_damage)
{
    static const int errors[] = {EIO, EACCES, EMFILE, ENOMEM, ESTALE};
    tt_world_enter();
    save_two();
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++)
        for (int64_t k = 1;; k++) {
            tt_checkpoint *c = NULL;
            tt_checkpoints *store = tt_world_open(1, 0);
            tt_file_fail_read_at(k, errors[e]);
            tt_status status = tt_checkpoints_newest(store, NULL, &c);
            if (status == TT_OK) {
                CHECK(c != NULL && c->step == 2);
                status = tt_checkpoints_settle(store, 2, 1);
            }
            const bool is_done = tt_file_count_reads() < k;
            tt_file_fail_read_at(0, 0);
            CHECK_MSG(status == (is_done ? TT_OK : TT_ERR_IO),
                      "%s at read %lld", strerror(errors[e]), (long long)k);
            tt_checkpoint_close(c);
            tt_checkpoints_close(store);
            CHECK(strcmp(tt_world_steps(), "1 2") == 0);
            CHECK(tt_world_newest() == 2);
            if (is_done) {
                CHECK(k > 10);
                break;
            }
        }
    tt_world_leave();
}

TEST(checkpoint_read_goes_on_after_interruptions)
{
    tt_world_enter();
    save_two();
    for (int64_t k = 1; k < 20; k++) {
        tt_file_fail_read_at(k, EINTR);
        CHECK(tt_world_newest() == 2);
    }
    tt_file_fail_read_at(0, 0);
    tt_file_fail_read_from(1, EINTR); // for ever: an error, not a loop
    CHECK(tt_world_newest() == -1);
    tt_file_fail_read_at(0, 0);
    tt_world_leave();
}

// What a kill between two calls leaves is put right by settling.
TEST(checkpoint_names_and_rules_are_repaired_at_start)
{
    tt_world_enter();
    tt_checkpoints *store = tt_world_open(9, 0);
    for (int64_t step = 1; step <= 6; step++)
        tt_world_saved(store, step);
    tt_checkpoints_close(store);
    CHECK_OK(tt_file_replace("c/latest", "step-00000005\n", 14));
    store = tt_world_open(2, 0);
    CHECK_OK(tt_checkpoints_settle(store, 6, 3));
    CHECK(tt_checkpoints_best(store) == 3);
    CHECK(strcmp(tt_world_steps(), "3 5 6") == 0);
    tt_checkpoints_close(store);
    tt_str text = {0};
    CHECK_OK(tt_file_read("c/latest", 100, &text));
    CHECK(strcmp(tt_str_text(&text), "step-00000006\n") == 0);
    tt_str_fini(&text);
    tt_world_leave();
}

// On a file system that cannot exchange two names, the old one of the same step is
// there again after a kill between two renames.
TEST(checkpoint_that_was_about_to_be_replaced_is_not_lost)
{
    tt_world_enter();
    save_two();
    CHECK(rename("c/step-00000002", "c/step-00000002.replaced") == 0);
    CHECK(mkdir("c/.tmp-step-00000002-1-1", 0700) == 0);
    tt_checkpoints_close(tt_world_open(2, 0));
    CHECK(tt_world_newest() == 2 && tt_world_temporaries() == 0);
    CHECK(strcmp(tt_world_steps(), "1 2") == 0);
    tt_world_leave();
}

TEST(checkpoints_leave_a_trace_when_they_are_gone)
{
    bool found = true;
    tt_world_enter();
    CHECK_OK(tt_checkpoints_trace("c", &found));
    CHECK(!found);
    tt_checkpoints_close(tt_world_open(2, 0));
    CHECK_OK(tt_checkpoints_trace("c", &found));
    CHECK(!found);
    save_two();
    CHECK_OK(tt_file_remove("c/step-00000001"));
    CHECK_OK(tt_file_remove("c/step-00000002"));
    CHECK_OK(tt_file_remove("c/latest"));
    CHECK_OK(tt_file_remove("c/best"));
    CHECK_OK(tt_checkpoints_trace("c", &found));
    CHECK(found);
    tt_world_leave();
}

// Saves and removes without pause.
static _Noreturn void save_forever(void)
{
    const tt_checkpoint_rules rules = {.keep = 1};
    tt_checkpoints *store = NULL;
    if (tt_checkpoints_open("c", &rules, &store) != TT_OK)
        _exit(3);
    for (int64_t step = 3;; step += 1) {
        if (tt_world_save(store, step) != TT_OK ||
            tt_checkpoints_mark_best(store, step) != TT_OK ||
            tt_checkpoints_wait(store) != TT_OK ||
            (step % 3 == 0 && tt_world_save_now(store, step) != TT_OK))
            _exit(4);
    }
}

// Beside training, which removes the checkpoint that is being read.
TEST(checkpoint_is_read_while_others_are_removed)
{
    enum { TRIES = 1500 };
    tt_world_enter();
    save_two();
    const pid_t child = fork();
    if (child == 0)
        save_forever();
    int64_t last = 0;
    for (int i = 0; i < TRIES; i++) {
        const tt_checkpoint_search search = {.wants_best = i % 2 == 0,
                                             .leaves_data = i % 3 == 0,
                                             .limit = INT64_MAX};
        tt_checkpoint *c = NULL;
        tt_str notes = {0};
        CHECK_OK(tt_checkpoint_read("c", &search, &notes, &c));
        CHECK_MSG(notes.n == 0, "%s", tt_str_text(&notes));
        tt_world_check(c);
        last = c->step;
        tt_checkpoint_close(c);
        tt_str_fini(&notes);
    }
    CHECK(last > 3 && waitpid(child, NULL, WNOHANG) == 0);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    tt_world_leave();
}
