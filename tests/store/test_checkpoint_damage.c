// Checkpoints that were damaged, cut, emptied, or left behind by a killed process.

#include "base/alloc.h"
#include "base/file.h"
#include "store/checkpoint.h"
#include "store/checkpoint_world.h"
#include "store/checksum.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const files[] = {
    "c/step-00000002/model.safetensors",
    "c/step-00000002/optim.safetensors",
    "c/step-00000002/config.json",
    "c/step-00000002/state.json",
};

static void save_two(void)
{
    tt_checkpoints *store = tt_world_open(2, 0);
    tt_world_saved(store, 1);
    tt_world_saved(store, 2);
    tt_checkpoints_close(store);
    CHECK(tt_world_newest() == 2);
}

static int64_t size_of(const char *path)
{
    struct stat info;
    CHECK(stat(path, &info) == 0);
    return info.st_size;
}

static void flip(const char *path, int64_t at, int bit)
{
    unsigned char byte = 0;
    const int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= (unsigned char)(1 << bit);
    CHECK(pwrite(fd, &byte, 1, at) == 1 && close(fd) == 0);
}

TEST(checkpoint_with_any_bit_changed_is_not_used)
{
    tt_world_enter();
    save_two();
    for (int f = 0; f < 4; f++) {
        const int64_t n = size_of(files[f]);
        const int64_t stride = f == 3 ? 1 : 1 + n / 60;
        for (int64_t at = 0; at < n; at += stride) {
            const int bit = (int)(at % 8);
            flip(files[f], at, bit);
            CHECK_MSG(tt_world_newest() == 1, "%s byte %lld", files[f],
                      (long long)at);
            flip(files[f], at, bit);
        }
    }
    CHECK(tt_world_newest() == 2);
    tt_world_leave();
}

TEST(checkpoint_cut_anywhere_is_not_used)
{
    tt_world_enter();
    for (int f = 0; f < 4; f++) {
        save_two();
        for (int64_t n = size_of(files[f]); n > 0;) {
            n = n > 200 ? n - 97 : n - 1;
            CHECK(truncate(files[f], n) == 0);
            CHECK(tt_world_newest() == 1);
        }
        CHECK(unlink(files[f]) == 0 && tt_world_newest() == 1);
        CHECK_OK(tt_file_remove("c"));
    }
    tt_world_leave();
}

TEST(checkpoint_that_grew_is_not_used)
{
    tt_world_enter();
    for (int f = 0; f < 4; f++) {
        save_two();
        tt_file file = TT_FILE_CLOSED;
        CHECK_OK(tt_file_append(&file, files[f]));
        CHECK_OK(tt_file_write(&file, "\n", 1));
        CHECK_OK(tt_file_close(&file));
        CHECK(tt_world_newest() == 1);
        CHECK_OK(tt_file_remove("c"));
    }
    tt_world_leave();
}

// Who reads the data sees it: the sum of what was read is not that which was saved.
static bool adds_up(const tt_safetensors *file)
{
    bool is_right = true;
    for (int64_t i = 0; i < tt_safetensors_count(file); i++) {
        const tt_safetensor *t = tt_safetensors_at(file, i);
        const int64_t size = tt_checksum_size(t->dtype);
        is_right = is_right && t->has_sum &&
                   tt_checksum(t->data, t->bytes / size, size, 0) == t->sum;
    }
    return is_right;
}

TEST(checkpoint_whose_data_was_left_has_sums_that_tell)
{
    tt_world_enter();
    save_two();
    tt_checkpoints *store = tt_world_open(2, 0);
    for (int f = 0; f < 2; f++)
        for (int64_t back = 0; back <= 64; back += 16) {
            const int64_t at = size_of(files[f]) - 1 - back % 63;
            tt_checkpoint *c = NULL;
            CHECK_OK(tt_checkpoints_newest(store, NULL, &c));
            CHECK(c->step == 2 && adds_up(c->model) && adds_up(c->optim));
            tt_checkpoint_close(c);
            flip(files[f], at, 3);
            CHECK_OK(tt_checkpoints_newest(store, NULL, &c));
            CHECK(c->step == 2 && adds_up(f == 0 ? c->optim : c->model));
            CHECK(!adds_up(f == 0 ? c->model : c->optim));
            tt_checkpoint_close(c);
            CHECK(tt_world_newest() == 1);
            flip(files[f], at, 3);
        }
    CHECK_OK(
        tt_checkpoints_reject(store, 2)); // so it does not push out another
    tt_world_saved(store, 3);
    CHECK(strcmp(tt_world_steps(), "1 2d 3") == 0);
    tt_checkpoints_close(store);
    tt_world_leave();
}

TEST(checkpoint_that_is_bad_is_named_and_replaced)
{
    tt_world_enter();
    save_two();
    flip(files[2], 3, 0);
    CHECK(mkdir("c/step-00000009", 0700) == 0);
    CHECK_OK(tt_file_replace("c/step-00000010", "x", 1));
    tt_checkpoints *store = tt_world_open(2, 0);
    tt_str notes = {0};
    tt_checkpoint *c = NULL;
    CHECK_OK(tt_checkpoints_newest(store, &notes, &c));
    CHECK(c != NULL && c->step == 1);
    tt_checkpoint_close(c);
    CHECK_MSG(strcmp(tt_str_text(&notes),
                     "c/step-00000010 is not used: state.json is missing\n"
                     "c/step-00000009 is not used: state.json is missing\n"
                     "c/step-00000002 is not used: config.json is "
                     "damaged: its hash is wrong\n") == 0,
              "%s", tt_str_text(&notes));
    tt_str_fini(&notes);
    tt_world_saved(store, 11); // bad ones are not among the two that are kept
    CHECK(strcmp(tt_world_steps(), "1 2d 9d 10d 11") == 0);
    tt_checkpoints_close(store);
    CHECK(rename("c/step-00000011", "c/step-00000012") == 0);
    CHECK(tt_world_newest() == 1);
    tt_world_leave();
}

TEST(checkpoint_all_bad_is_none)
{
    tt_world_enter();
    save_two();
    CHECK(unlink(files[3]) == 0);
    CHECK(truncate("c/step-00000001/optim.safetensors", 3) == 0);
    tt_checkpoints *store = tt_world_open(2, 0);
    tt_checkpoint *c = NULL;
    CHECK_OK(tt_checkpoints_newest(store, NULL, &c));
    CHECK(c == NULL && tt_world_newest() == -1);
    tt_world_saved(store, 2);
    CHECK(strcmp(tt_world_steps(), "1d 2 2d") == 0 && tt_world_newest() == 2);
    tt_checkpoints_close(store);
    tt_world_leave();
}

// Saves one checkpoint after the other and says when one is safe.
static _Noreturn void save_forever(int64_t step, int told)
{
    const tt_checkpoint_rules rules = {2, 5};
    tt_checkpoints *store = NULL;
    if (tt_checkpoints_open("c", &rules, &store) != TT_OK)
        _exit(3);
    for (;; step++) {
        const int64_t word = step;
        if (tt_world_save(store, step) != TT_OK ||
            (step % 3 == 0 && tt_checkpoints_mark_best(store, step) != TT_OK) ||
            tt_checkpoints_wait(store) != TT_OK ||
            write(told, &word, sizeof word) != sizeof word)
            _exit(4);
        if (step % 7 == 0 && tt_world_save(store, step) != TT_OK)
            _exit(5); // the same step once more
    }
}

// Kills a process that saves, some time after it has told of 0, 1 or 2; returns the
// last that it told of.
static int64_t save_and_kill(int64_t safe)
{
    int told[2], result = 0;
    int64_t word = 0;
    CHECK(pipe(told) == 0);
    const pid_t child = fork();
    if (child == 0)
        save_forever(safe + 1, told[1]);
    close(told[1]);
    for (int n = rand() % 3; n > 0; n--) {
        CHECK(read(told[0], &word, sizeof word) == sizeof word);
        safe = word;
    }
    const struct timespec pause = {0, (rand() % 20000) * 1000L};
    nanosleep(&pause, NULL);
    kill(child, SIGKILL);
    CHECK(waitpid(child, &result, 0) == child);
    CHECK(WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL);
    while (read(told[0], &word, sizeof word) == sizeof word)
        safe = word;
    close(told[0]);
    return safe;
}

TEST(checkpoint_of_a_killed_process_is_whole_and_not_older_than_told)
{
    tt_world_enter();
    int64_t safe = 0;
    srand(3);
    for (int i = 0; i < 50; i++) {
        safe = save_and_kill(safe);
        const int64_t step = tt_file_is_folder("c") ? tt_world_newest() : -1;
        CHECK(step >= safe || (safe == 0 && step == -1));
        safe = step > 0 ? step : 0;
        tt_checkpoints_close(tt_world_open(2, 5));
        CHECK(tt_world_temporaries() == 0);
        CHECK((step > 0 ? step : -1) == tt_world_newest());
    }
    CHECK(safe > 20);
    tt_world_leave();
}
