// The folder of a run: lines that are whole, cuts, full disks.

#include "base/alloc.h"
#include "base/file.h"
#include "store/events.h"
#include "store/metrics.h"
#include "store/run.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/tutti-run-XXXXXX";

static void enter(void)
{
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
}

static void leave(void)
{
    CHECK(chdir("/") == 0);
    CHECK_OK(tt_file_remove(folder));
    CHECK(tt_alloc_live() == 0);
}

static tt_run *open_run(void)
{
    tt_run *run = NULL;
    CHECK_OK(tt_run_open("r/s", true, &run));
    CHECK(strcmp(tt_run_folder(run), "r/s") == 0);
    return run;
}

static tt_status log_one(tt_run *run, int64_t step)
{
    const tt_metric metrics[] = {{"train/loss", 1.0 / (double)(step + 1)},
                                 {"lr", step == 2 ? (double)NAN : 0.5}};
    return tt_run_log(run, step, 0.25 * (double)step, metrics, 2);
}

static bool holds(const char *name, const char *text)
{
    tt_str s = {0};
    CHECK_OK(tt_run_read("r/s", name, &s));
    const bool is_same = strcmp(tt_str_text(&s), text) == 0;
    if (!is_same)
        fprintf(stderr, "%s:\n%s", name, tt_str_text(&s));
    tt_str_fini(&s);
    return is_same;
}

// The only events file: its name; its steps as "1 2 3" in `steps`.
static void read_events(char name[PATH_MAX], char steps[256])
{
    int n_files = 0, used = 0;
    DIR *dir = opendir("r/s");
    CHECK(dir != NULL);
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
        if (strncmp(e->d_name, "events.out.tfevents.", 20) == 0) {
            n_files++;
            snprintf(name, PATH_MAX, "%s", e->d_name);
        }
    closedir(dir);
    CHECK(n_files == 1);
    tt_str s = {0};
    tt_event_record event;
    CHECK_OK(tt_run_read("r/s", name, &s));
    int64_t at = 0;
    steps[0] = '\0';
    for (; tt_events_next(s.text + at, s.n - at, &event); at += event.bytes)
        if (event.kind == TT_EVENT_SUMMARY)
            used += snprintf(steps + used, 256 - (size_t)used, "%s%lld",
                             used ? " " : "", (long long)event.step);
    CHECK(at == s.n);
    tt_str_fini(&s);
}

static bool has_steps(const char *want)
{
    char name[PATH_MAX], steps[256];
    read_events(name, steps);
    return strcmp(steps, want) == 0;
}

static void append(const char *path, const char *text, int64_t n)
{
    tt_file file = TT_FILE_CLOSED;
    CHECK_OK(tt_file_append(&file, path));
    CHECK_OK(tt_file_write(&file, text, n));
    CHECK_OK(tt_file_close(&file));
}

TEST(run_writes_lines_events_and_files)
{
    enter();
    tt_run *run = open_run(), *other = NULL;
    CHECK(tt_run_open("r/s", true, &other) == TT_ERR_STATE);
    for (int64_t step = 1; step <= 3; step++)
        CHECK_OK(log_one(run, step));
    CHECK_OK(tt_run_write(run, "config.yaml", "model: gpt\n", 11));
    CHECK(holds("metrics.jsonl",
                "{\"step\":1,\"seconds\":0.25,\"train/loss\":0.5,\"lr\":0.5}\n"
                "{\"step\":2,\"seconds\":0.5,\"train/loss\":"
                "0.3333333333333333,\"lr\":null}\n"
                "{\"step\":3,\"seconds\":0.75,\"train/loss\":0.25,\"lr\":0.5}"
                "\n"));
    CHECK(has_steps("1 2 3") && holds("config.yaml", "model: gpt\n"));
    tt_str none = {0};
    CHECK(tt_run_read("r/s", "none", &none) == TT_ERR_IO);
    tt_run_close(run);
    tt_run_close(NULL);
    leave();
}

TEST(run_goes_on_where_it_was)
{
    enter();
    tt_run *run = open_run();
    CHECK_OK(log_one(run, 1));
    tt_run_close(run);
    run = open_run();
    CHECK_OK(log_one(run, 2));
    tt_run_close(run);
    CHECK(has_steps("1 2"));
    leave();
}

TEST(run_cut_removes_what_comes_after_a_step)
{
    enter();
    char before[PATH_MAX], after[PATH_MAX], steps[256];
    tt_run *run = open_run();
    for (int64_t step = 0; step <= 5; step++) {
        CHECK_OK(log_one(run, step));
        CHECK_OK(tt_run_note(run, step, step == 3 ? "a\n\nb" : "c"));
    }
    read_events(before, steps);
    CHECK_OK(tt_run_cut(run, 3, NULL, NULL));
    CHECK(has_steps("0 1 2 3"));
    read_events(after, steps);
    CHECK(strcmp(after, before) > 0); // whoever watches sees a new file
    CHECK_OK(log_one(run, 4));
    CHECK(has_steps("0 1 2 3 4"));
    tt_str log = {0};
    CHECK_OK(tt_run_read("r/s", "log.txt", &log));
    CHECK(strstr(log.text, " step 2: c\n") != NULL);
    CHECK(strstr(log.text, " step 3: a\n    \n    b\n") != NULL);
    CHECK(strstr(log.text, "step 4") == NULL);
    tt_str_fini(&log);
    tt_arena *arena = tt_arena_create();
    tt_metrics metrics;
    CHECK_OK(tt_metrics_read("r/s", arena, &metrics));
    CHECK(metrics.last_step == 4 && metrics.n_bad == 0);
    CHECK(tt_metrics_find(&metrics, "lr")->n == 5);
    tt_arena_destroy(arena);
    CHECK_OK(tt_run_cut(run, -1, NULL, NULL));
    CHECK(has_steps("") && holds("metrics.jsonl", "") && holds("log.txt", ""));
    tt_run_close(run);
    leave();
}

TEST(run_takes_up_what_a_killed_one_left)
{
    enter();
    char name[PATH_MAX], path[PATH_MAX + 8], steps[256];
    tt_run *run = open_run();
    CHECK_OK(log_one(run, 1));
    CHECK_OK(tt_run_note(run, 1, "x"));
    tt_run_close(run);
    read_events(name, steps);
    snprintf(path, sizeof path, "r/s/%s", name);
    append("r/s/metrics.jsonl", "{\"step\":2,\"sec", 14);
    append("r/s/log.txt", "2026", 4);
    append(path, "\x21\0\0\0\0\0", 6);
    append("r/s/.tmp-report.html-77-1", "<", 1);
    run = open_run();
    CHECK(!tt_file_exists("r/s/.tmp-report.html-77-1"));
    CHECK_OK(log_one(run, 2));
    CHECK(has_steps("1 2"));
    tt_run_close(run);
    // And when the next one begins by cutting.
    append(path, "\x21\0\0\0\0\0", 6);
    append("r/s/metrics.jsonl", "{\"step\":3,\"sec", 14);
    run = open_run();
    CHECK_OK(tt_run_cut(run, 1, NULL, NULL));
    CHECK(has_steps("1"));
    CHECK(holds("metrics.jsonl", "{\"step\":1,\"seconds\":0.25,\"train/loss\":"
                                 "0.5,\"lr\":0.5}\n"));
    tt_run_close(run);
    // Nothing of the events was written, not even the version.
    read_events(name, steps);
    snprintf(path, sizeof path, "r/s/%s", name);
    CHECK(truncate(path, 11) == 0);
    run = open_run();
    CHECK_OK(log_one(run, 9));
    CHECK(has_steps("9"));
    tt_run_close(run);
    leave();
}

TEST(run_reports_a_full_disk_once_and_stays_readable)
{
    enter();
    for (int64_t k = 1; k <= 4; k++) {
        CHECK_OK(tt_file_remove("r"));
        tt_run *run = open_run();
        CHECK_OK(log_one(run, 1));
        tt_file_fail_from(k, ENOSPC);
        int n_failed = 0;
        for (int64_t step = 2; step <= 5; step++) {
            n_failed += log_one(run, step) != TT_OK;
            n_failed += tt_run_note(run, step, "note") != TT_OK;
        }
        CHECK(n_failed == 1 && tt_run_failures(run) > 1);
        tt_file_fail_at(0, 0);
        CHECK_OK(log_one(run, 6));
        tt_run_close(run);
        tt_arena *arena = tt_arena_create();
        tt_metrics metrics;
        CHECK_OK(tt_metrics_read("r/s", arena, &metrics));
        CHECK(metrics.last_step == 6 && metrics.n_bad == 0);
        tt_arena_destroy(arena);
        CHECK(has_steps("1 6") || has_steps("1 2 6"));
    }
    leave();
}

TEST(run_takes_back_half_a_line)
{
    enter();
    tt_run *run = open_run();
    struct stat info;
    struct rlimit limit;
    CHECK_OK(log_one(run, 1));
    CHECK(stat("r/s/metrics.jsonl", &info) == 0);
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = (rlim_t)info.st_size + 10;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(log_one(run, 2) == TT_ERR_IO);
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    const int64_t before = info.st_size;
    CHECK(stat("r/s/metrics.jsonl", &info) == 0 && info.st_size == before);
    CHECK_OK(log_one(run, 3));
    CHECK(has_steps("1 3"));
    tt_run_close(run);
    leave();
}

TEST(run_survives_a_failure_of_every_call)
{
    enter();
    for (int64_t k = 1;; k++) {
        tt_run *run = NULL;
        CHECK_OK(tt_file_remove("r"));
        tt_run *first = open_run();
        for (int64_t step = 1; step <= 3; step++)
            CHECK_OK(log_one(first, step));
        tt_run_close(first);
        append("r/s/metrics.jsonl", "{", 1);
        tt_file_fail_at(k, EIO);
        tt_status status = tt_run_open("r/s", true, &run);
        if (status == TT_OK)
            status = tt_run_cut(run, 2, NULL, NULL);
        if (status == TT_OK)
            status = log_one(run, 3);
        if (status == TT_OK)
            status = tt_run_write(run, "report.html", "<p>", 3);
        const bool is_done = tt_file_count() < k;
        tt_file_fail_at(0, 0);
        tt_run_close(run);
        CHECK(!is_done || status == TT_OK); // the owner's name is not missed
        CHECK(tt_alloc_live() == 0);
        run = open_run();
        CHECK_OK(tt_run_cut(run, 2, NULL, NULL));
        CHECK(has_steps("1 2"));
        tt_run_close(run);
        if (is_done)
            break;
        CHECK(k < 100);
    }
    leave();
}

// A link among the files of a run is not followed, whichever it is.
TEST(run_follows_no_links)
{
    static const char *const names[] = {
        "r/s/metrics.jsonl", "r/s/log.txt", "r/s/.lock",
        "r/s/events.out.tfevents.9999999999.host.1.0"};
    enter();
    CHECK_OK(tt_file_replace("precious", "not a line", 10));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tt_run *run = NULL;
        tt_str text = {0};
        CHECK_OK(tt_file_make_folder("r/s"));
        CHECK(symlink("../../precious", names[i]) == 0);
        CHECK(tt_run_open("r/s", true, &run) == TT_ERR_IO);
        CHECK_MSG(strstr(tt_error_message(), "symbolic link") != NULL, "%s",
                  tt_error_message());
        CHECK_OK(tt_file_read("precious", 100, &text));
        CHECK(strcmp(tt_str_text(&text), "not a line") == 0);
        tt_str_fini(&text);
        CHECK_OK(tt_file_remove("r"));
    }
    leave();
}
