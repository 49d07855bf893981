// Nothing that was trained is lost by starting again: not where checkpoints cannot be
// read, are damaged or are gone, and not where a folder is no run.

#include "base/arena.h"
#include "base/file.h"
#include "runs.h"
#include "test.h"
#include "train/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const tiny[] = {
    "model=mlp",    "model.width=4", "data=synthetic",     "data.size=40",
    "data.image=4", "batch=4",       "train.steps=8",      "threads=1",
    "log.every=2",  "eval.every=4",  "checkpoint.every=2", NULL};
static const char *const half[] = {"train.stop=4", NULL};

static tt_status start(const char *folder, const char *const *more,
                       runs_watch *w, tt_run_end *end)
{
    return runs_train(folder, tiny, more, w, end);
}

static bool has(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

// Text of a small file, or "" when there is none.
static void text_of(const char *path, tt_str *out)
{
    tt_str_clear(out);
    if (has(path))
        CHECK_OK(tt_file_read(path, 1 << 20, out));
}

static void spoil(const char *path)
{
    const int fd = open(path, O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, "x", 1, 300) == 1 && close(fd) == 0);
}

// Refused with a sentence that names --fresh; metrics and checkpoints are as they were.
static void refused(const char *what)
{
    tt_str before = {0}, after = {0};
    text_of("r/metrics.jsonl", &before);
    for (int i = 0; i < 2; i++) {
        tt_run_end end = {0};
        CHECK_MSG(start("r", NULL, NULL, &end) == TT_ERR_STATE,
                  "%s: not refused", what);
        CHECK_MSG(strstr(tt_error_message(), "--fresh") != NULL &&
                      strstr(tt_error_message(), "trained before") != NULL,
                  "%s: %s", what, tt_error_message());
    }
    text_of("r/metrics.jsonl", &after);
    CHECK_MSG(before.n > 0 && before.n == after.n &&
                  memcmp(before.text, after.text, (size_t)after.n) == 0,
              "%s: metrics were touched", what);
    tt_str_fini(&before);
    tt_str_fini(&after);
}

TEST(run_with_all_checkpoints_damaged_wants_fresh)
{
    runs_enter();
    for (int kind = 0; kind < 3; kind++) {
        static const char *const file[] = {"model.safetensors", "state.json",
                                           "optim.safetensors"};
        char path[2][128];
        CHECK_OK(start("r", half, NULL, NULL));
        for (int i = 0; i < 2; i++) {
            snprintf(path[i], sizeof path[i], "r/checkpoints/step-0000000%d/%s",
                     2 + 2 * i, file[kind]);
            spoil(path[i]);
        }
        refused(file[kind]);
        CHECK_MSG(strstr(tt_error_message(), "is not used: ") != NULL, "%s",
                  tt_error_message());
        CHECK(has(path[0]) && has(path[1]));
        CHECK_OK(tt_file_remove("r"));
    }
    runs_leave();
}

TEST(run_whose_checkpoints_are_gone_wants_fresh)
{
    static const char *const gone[] = {"rm -r r/checkpoints",
                                       "rm -r r/checkpoints/*",
                                       "rm -r r/checkpoints/step-*"};
    runs_enter();
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        CHECK_OK(start("r", half, NULL, NULL));
        const pid_t child = fork();
        if (child == 0) {
            execl("/bin/sh", "sh", "-c", gone[i], (char *)NULL);
            _exit(127);
        }
        int result = 0;
        CHECK(waitpid(child, &result, 0) == child && result == 0);
        refused(gone[i]);
        CHECK(strstr(tt_error_message(), "gone") != NULL);
        CHECK_OK(tt_file_remove("r"));
    }
    runs_leave();
}

// One good one is enough; the others get another name and stay.
TEST(run_goes_on_from_an_older_checkpoint_and_keeps_the_damaged)
{
    runs_enter();
    CHECK_OK(start("whole", NULL, NULL, NULL));
    CHECK_OK(start("r", half, NULL, NULL));
    spoil("r/checkpoints/step-00000004/model.safetensors");
    runs_watch w = {0};
    CHECK_OK(start("r", NULL, &w, NULL));
    CHECK(strstr(w.note, "step-00000004 is not used") != NULL);
    CHECK(has("r/checkpoints/step-00000004.damaged/model.safetensors"));
    runs_same("whole", "r");
    runs_leave();
}

// A read that fails ends the start; with all well again the run goes on as ever.
TEST(run_whose_checkpoints_cannot_be_read_is_left_alone)
{
    static const int errors[] = {EIO, EACCES, EMFILE, ENOMEM, ESTALE};
    tt_str before = {0}, after = {0};
    runs_enter();
    CHECK_OK(start("whole", NULL, NULL, NULL));
    CHECK_OK(start("r", half, NULL, NULL));
    text_of("r/metrics.jsonl", &before);
    int64_t k = 1;
    for (bool is_done = false; !is_done; k++) {
        tt_run_end end = {0};
        tt_file_fail_read_at(k, errors[k % 5]);
        const tt_status status = start("r", half, NULL, &end);
        is_done = tt_file_count_reads() < k;
        tt_file_fail_read_at(0, 0);
        CHECK_MSG(status != TT_OK || end.step == 4, "read %lld: began at 0",
                  (long long)k);
        CHECK_MSG(has("r/checkpoints/step-00000004/state.json") &&
                      has("r/checkpoints/step-00000002/state.json"),
                  "read %lld: a checkpoint is gone", (long long)k);
        text_of("r/metrics.jsonl", &after);
        CHECK_MSG(before.n == after.n &&
                      memcmp(before.text, after.text, (size_t)after.n) == 0,
                  "read %lld: metrics are cut", (long long)k);
    }
    CHECK(k > 20);
    CHECK_OK(start("r", NULL, NULL, NULL));
    runs_same("whole", "r");
    tt_str_fini(&before);
    tt_str_fini(&after);
    runs_leave();
}

// Killed before its first checkpoint a run begins again by itself.
TEST(run_without_a_checkpoint_begins_again)
{
    static const char *const none[] = {"checkpoint.every=0", NULL};
    runs_enter();
    CHECK_OK(start("whole", none, NULL, NULL));
    fflush(NULL);
    CHECK_OK(tt_file_make_folder("r/checkpoints"));
    CHECK_OK(tt_file_replace("r/checkpoints/.lock", "1 x\n", 4));
    const char line[] = "{\"step\":2,\"seconds\":1,\"train/loss\":2}\n";
    CHECK_OK(tt_file_replace("r/metrics.jsonl", line, sizeof line - 1));
    CHECK_OK(start("r", none, NULL, NULL));
    runs_same("whole", "r");
    runs_leave();
}

TEST(fresh_moves_runs_away_and_nothing_else)
{
    tt_arena *arena = tt_arena_create();
    const char *aside = "";
    runs_enter();
    CHECK_OK(tt_file_make_folder("photos"));
    CHECK_OK(tt_file_replace("photos/1.jpg", "x", 1));
    CHECK_OK(tt_file_replace("photos/config.yaml", "x", 1));
    CHECK(tt_run_set_aside("photos", arena, &aside) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "not the folder of a run") != NULL);
    CHECK(has("photos/1.jpg") && !has("photos.1"));
    CHECK_OK(tt_file_replace("file", "x", 1));
    CHECK(tt_run_set_aside("file", arena, &aside) == TT_ERR_ARG);
    CHECK(has("file") && !has("file.1"));
    CHECK_OK(tt_file_make_folder("empty"));
    CHECK_OK(tt_run_set_aside("empty", arena, &aside));
    CHECK(aside == NULL && has("empty"));
    CHECK_OK(start("r", half, NULL, NULL));
    CHECK_OK(tt_run_set_aside("r/", arena, &aside));
    CHECK(aside != NULL && strcmp(aside, "r.1") == 0 && !has("r"));
    CHECK(has("r.1/checkpoints/step-00000004"));
    tt_arena_destroy(arena);
    runs_leave();
}
