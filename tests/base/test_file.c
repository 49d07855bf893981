// Writing files: whole or not at all, with every call failing in turn.

#include "base/alloc.h"
#include "base/file.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/tutti-file-XXXXXX";

static void enter(void)
{
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
}

static void leave(void)
{
    CHECK(chdir("/") == 0);
    CHECK_OK(tt_file_remove(folder));
    CHECK(!tt_file_exists(folder) && tt_alloc_live() == 0);
}

static int count_entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    return n - 2;
}

static bool holds(const char *path, const char *text)
{
    tt_str s = {0};
    CHECK_OK(tt_file_read(path, 1 << 20, &s));
    const bool is_same = strcmp(tt_str_text(&s), text) == 0;
    tt_str_fini(&s);
    return is_same;
}

TEST(file_append_write_cut)
{
    enter();
    tt_file file = TT_FILE_CLOSED;
    CHECK_OK(tt_file_create(&file, "f"));
    CHECK_OK(tt_file_write(&file, "one\n", 4));
    CHECK_OK(tt_file_close(&file));
    CHECK_OK(tt_file_close(&file));
    CHECK(tt_file_create(&file, "f") == TT_ERR_IO);
    CHECK(strcmp(tt_error_message(), "f: cannot be created: something of "
                                     "that name is there already") == 0);
    CHECK_OK(tt_file_append(&file, "f"));
    CHECK_OK(tt_file_write(&file, "two", 3));
    int64_t bytes = 0;
    CHECK_OK(tt_file_size(&file, &bytes));
    CHECK(bytes == 7 && holds("f", "one\ntwo"));
    CHECK_OK(tt_file_cut(&file, 4));
    CHECK_OK(tt_file_write(&file, "3", 1));
    CHECK_OK(tt_file_close(&file));
    CHECK(holds("f", "one\n3"));
    leave();
}

TEST(file_short_and_interrupted_writes_go_on)
{
    enter();
    for (int64_t k = 1; k <= 6; k++) {
        tt_file_fail_at(k, TT_FILE_SHORT);
        CHECK_OK(tt_file_replace("f", "0123456789", 10));
        CHECK(holds("f", "0123456789"));
        tt_file_fail_at(k, EINTR);
        CHECK_OK(tt_file_replace("f", "abc", 3));
        CHECK(holds("f", "abc"));
    }
    tt_file_fail_at(0, 0);
    CHECK(count_entries(".") == 1);
    leave();
}

TEST(file_replace_is_old_or_new_whatever_fails)
{
    static const int errors[] = {ENOSPC, EIO};
    enter();
    for (int e = 0; e < 2; e++)
        for (int64_t k = 1;; k++) {
            CHECK_OK(tt_file_replace("f", "old", 3));
            tt_file_fail_at(k, errors[e]);
            const tt_status status = tt_file_replace("f", "new", 3);
            const bool is_done = tt_file_count() < k;
            tt_file_fail_at(0, 0);
            CHECK(status == (is_done ? TT_OK : TT_ERR_IO));
            CHECK(holds("f", "old") || holds("f", "new"));
            CHECK(count_entries(".") == 1);
            if (is_done) {
                CHECK(k == 7 && holds("f", "new"));
                break;
            }
            CHECK(errors[e] != ENOSPC ||
                  strstr(tt_error_message(), "the disk is full") != NULL);
        }
    leave();
}

TEST(file_sweep_removes_temporaries_and_nothing_else)
{
    enter();
    char name[PATH_MAX];
    CHECK_OK(tt_file_temporary("a/b", name));
    CHECK(strncmp(name, "a/.tmp-b-", 9) == 0);
    CHECK_OK(tt_file_make_folder("a//c/d"));
    CHECK_OK(tt_file_make_folder(name));
    CHECK_OK(tt_file_temporary("a/x", name));
    CHECK_OK(tt_file_replace(name, "x", 1));
    static const char *const others[] = {
        "a/.tmp-",     "a/.tmp-1-2",  "a/.tmp-x",   "a/.tmp-x-1",
        "a/tmp-x-1-2", "a/.tmp-x-1-", "a/.tmp-x--2"};
    for (int i = 0; i < 7; i++)
        CHECK_OK(tt_file_replace(others[i], "x", 1));
    CHECK(count_entries("a") == 10);
    CHECK_OK(tt_file_sweep("a"));
    CHECK(count_entries("a") == 8);
    CHECK(tt_file_sweep("none") == TT_ERR_IO);
    leave();
}

TEST(file_folders_and_bad_names)
{
    enter();
    CHECK(tt_file_make_folder("") == TT_ERR_ARG);
    CHECK_OK(tt_file_replace("f", "x", 1));
    CHECK(tt_file_make_folder("f/g") == TT_ERR_IO);
    CHECK(tt_file_is_folder(".") && !tt_file_is_folder("f"));
    CHECK_OK(tt_file_remove("none"));
    CHECK(tt_file_replace("none/f", "x", 1) == TT_ERR_IO);
    CHECK(tt_file_sync_folder("none") == TT_ERR_IO);
    tt_str s = {0};
    CHECK(tt_file_read("none", 10, &s) == TT_ERR_IO);
    CHECK(tt_file_read(".", 10, &s) == TT_ERR_IO);
    CHECK(mkfifo("p", 0600) == 0 && tt_file_read("p", 10, &s) == TT_ERR_IO);
    CHECK_OK(tt_file_replace("f", "0123456789", 10));
    CHECK(tt_file_read("f", 9, &s) == TT_ERR_ARG);
    CHECK_OK(tt_file_read("f", 10, &s));
    CHECK_OK(tt_file_read("f", 10, &s));
    CHECK(strcmp(tt_str_text(&s), "01234567890123456789") == 0);
    tt_str_fini(&s);
    leave();
}

TEST(file_exchange_swaps)
{
    enter();
    CHECK_OK(tt_file_replace("f", "f", 1));
    CHECK_OK(tt_file_replace("g", "g", 1));
    const tt_status status = tt_file_exchange("f", "g");
    CHECK(status == TT_ERR_UNSUPPORTED ||
          (status == TT_OK && holds("f", "g") && holds("g", "f")));
    CHECK(tt_file_exchange("f", "none") != TT_OK);
    leave();
}

TEST(file_lock_belongs_to_one_and_dies_with_it)
{
    enter();
    int ready[2];
    char byte = 0;
    CHECK(pipe(ready) == 0);
    tt_lock lock = TT_LOCK_FREE, other = TT_LOCK_FREE;
    const pid_t child = fork();
    if (child == 0) {
        byte = tt_file_lock(".", &lock) == TT_OK;
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1 && byte == 1);
    CHECK(tt_file_lock(".", &lock) == TT_ERR_STATE);
    char want[64];
    snprintf(want, sizeof want, ". is in use by process %ld", (long)child);
    CHECK(strncmp(tt_error_message(), want, strlen(want)) == 0);
    CHECK(!tt_file_lock_is_dead("."));
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(tt_file_lock_is_dead(".") && !tt_file_lock_is_dead("none"));
    CHECK_OK(tt_file_lock(".", &lock));
    CHECK(tt_file_lock(".", &other) == TT_ERR_STATE);
    tt_file_unlock(&lock);
    CHECK_OK(tt_file_lock(".", &other));
    tt_file_unlock(&other);
    leave();
}

// The same where the system says that it has no locks, whichever way it says so.
TEST(file_lock_belongs_to_one_without_locks_of_the_system)
{
    static const int errors[] = {ENOLCK, ENOTSUP, ENOSYS, EINVAL, EIO};
    enter();
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        int ready[2];
        char byte = 0, want[64];
        tt_lock lock = TT_LOCK_FREE, other = TT_LOCK_FREE;
        tt_file_fail_lock(errors[i]);
        CHECK(pipe(ready) == 0);
        const pid_t child = fork();
        if (child == 0) {
            byte = tt_file_lock(".", &lock) == TT_OK;
            if (write(ready[1], &byte, 1) == 1)
                pause();
            _exit(0);
        }
        CHECK(read(ready[0], &byte, 1) == 1 && byte == 1);
        CHECK(tt_file_lock(".", &lock) == TT_ERR_STATE);
        snprintf(want, sizeof want, ". is in use by process %ld", (long)child);
        CHECK_MSG(strncmp(tt_error_message(), want, strlen(want)) == 0, "%s",
                  tt_error_message());
        kill(child, SIGKILL);
        CHECK(waitpid(child, NULL, 0) == child);
        CHECK_OK(tt_file_lock(".", &lock)); // the dead hold nothing
        CHECK(tt_file_lock(".", &other) == TT_ERR_STATE);
        tt_file_unlock(&lock);
        CHECK_OK(tt_file_lock(".", &other));
        tt_file_unlock(&other);
        CHECK(count_entries(".") == 1); // .lock
        close(ready[0]);
        close(ready[1]);
    }
    tt_file_fail_lock(0);
    leave();
}

// Of another host, what beats is alive and what does not is dead.
TEST(file_lock_of_another_host_is_watched)
{
    tt_lock lock = TT_LOCK_FREE;
    enter();
    tt_file_fail_lock(ENOLCK);
    const pid_t child = fork();
    if (child == 0)
        for (int i = 0;; i++) {
            char text[64];
            const int n =
                snprintf(text, sizeof text, "77 elsewhere 5 %016d\n", i);
            if (tt_file_replace(".lock.held", text, n) != TT_OK)
                _exit(1);
            usleep(200000);
        }
    while (!tt_file_exists(".lock.held"))
        usleep(10000);
    CHECK(tt_file_lock(".", &lock) == TT_ERR_STATE);
    CHECK(strstr(tt_error_message(), "process 77 on elsewhere") != NULL);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK_OK(tt_file_sweep("."));
    CHECK_OK(tt_file_lock(".", &lock));
    tt_file_unlock(&lock);
    tt_file_fail_lock(0);
    leave();
}

// What a link in the folder names is not ours to write to.
TEST(file_locks_and_appends_follow_no_links)
{
    enter();
    tt_lock lock = TT_LOCK_FREE;
    tt_file file = TT_FILE_CLOSED;
    CHECK_OK(tt_file_replace("precious", "old", 3));
    CHECK(symlink("precious", ".lock") == 0);
    CHECK(tt_file_lock(".", &lock) == TT_ERR_IO);
    CHECK(strstr(tt_error_message(), "symbolic link") != NULL);
    CHECK(tt_file_append(&file, ".lock") == TT_ERR_IO);
    CHECK(holds("precious", "old"));
    leave();
}
