// The history of runs: rows, several writers, files that are something else.

#include "base/alloc.h"
#include "base/file.h"
#include "store/history.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/tutti-history-XXXXXX";

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

static tt_history_row row_of(const char *name, int64_t step)
{
    return (tt_history_row){
        .folder = name,
        .model = "gpt",
        .status = "running",
        .config = "model: gpt\n",
        .started = "2026-01-01T00:00:00Z",
        .step = step,
        .steps = 100,
        .parameters = 1234567890123,
        .seconds = 1.5,
        .train_loss = 2.5,
        .val_loss = (double)NAN,
        .best_loss = (double)INFINITY,
        .accuracy = 0.25,
    };
}

static int64_t list(tt_arena *arena, const tt_history_row **rows)
{
    tt_history *history = NULL;
    int64_t n = 0;
    CHECK_OK(tt_history_open("state/runs.db", &history));
    CHECK_OK(tt_history_list(history, arena, rows, &n));
    tt_history_close(history);
    return n;
}

TEST(history_keeps_a_row_per_folder)
{
    static const char odd[] = "it's \"odd\"; DROP TABLE runs";
    enter();
    tt_history *history = NULL;
    const tt_history_row *rows = NULL;
    tt_arena *arena = tt_arena_create();
    CHECK(list(arena, &rows) == 0);
    CHECK_OK(tt_history_open("state/runs.db", &history));
    tt_history_row row = row_of("a", 1);
    CHECK_OK(tt_history_put(history, &row));
    row = row_of("b", 2);
    row.started = "2026-01-02T00:00:00Z";
    row.model = odd;
    CHECK_OK(tt_history_put(history, &row));
    row = row_of("a", 50);
    row.status = "done";
    row.ended = "2026-01-03T00:00:00Z";
    CHECK_OK(tt_history_put(history, &row));
    tt_history_close(history);
    tt_history_close(NULL);
    CHECK(list(arena, &rows) == 2);
    CHECK(rows[0].id == 2 && strcmp(rows[0].model, odd) == 0);
    CHECK(strcmp(rows[0].ended, "") == 0 && rows[0].step == 2);
    CHECK(rows[1].id == 1 && rows[1].step == 50 && rows[1].steps == 100);
    CHECK(strcmp(rows[1].status, "done") == 0);
    CHECK(strcmp(rows[1].folder, "a") == 0);
    CHECK(strcmp(rows[1].config, "model: gpt\n") == 0);
    CHECK(rows[1].parameters == 1234567890123 && rows[1].seconds == 1.5);
    CHECK(rows[1].train_loss == 2.5 && rows[1].accuracy == 0.25);
    CHECK(isnan(rows[1].val_loss) && isnan(rows[1].best_loss));
    tt_arena_destroy(arena);
    leave();
}

TEST(history_knows_a_folder_by_its_full_name)
{
    enter();
    tt_history *history = NULL;
    const tt_history_row *rows = NULL;
    tt_arena *arena = tt_arena_create();
    CHECK_OK(tt_history_open("state/runs.db", &history));
    CHECK_OK(tt_file_make_folder("runs/x"));
    tt_history_row row = row_of("runs/x", 1);
    CHECK_OK(tt_history_put(history, &row));
    row = row_of("./runs/../runs/x/", 2);
    CHECK_OK(tt_history_put(history, &row));
    CHECK_OK(tt_history_find(history, "runs/x/.", arena, &rows));
    CHECK(rows != NULL && rows->step == 2);
    CHECK_OK(tt_history_find(history, "runs", arena, &rows));
    CHECK(rows == NULL);
    tt_history_close(history);
    CHECK(list(arena, &rows) == 1 && rows[0].folder[0] == '/');
    CHECK(rows[0].step == 2);
    tt_arena_destroy(arena);
    leave();
}

static void refuses(const char *bytes, int64_t n, const char *words)
{
    tt_history *history = NULL;
    CHECK_OK(tt_file_replace("other", bytes, n));
    const tt_status status = tt_history_open("other", &history);
    CHECK_MSG(status == TT_ERR_IO && strstr(tt_error_message(), words) != NULL,
              "%d %s", (int)status, tt_error_message());
    tt_str text = {0};
    CHECK_OK(tt_file_read("other", 1 << 20, &text)); // untouched
    CHECK(text.n == n && memcmp(text.text, bytes, (size_t)n) == 0);
    tt_str_fini(&text);
}

TEST(history_refuses_what_is_not_its_own)
{
    enter();
    tt_history *history = NULL;
    char noise[5000];
    for (int i = 0; i < 5000; i++)
        noise[i] = (char)(i * i * 31 + i);
    refuses(noise, sizeof noise, "damaged or something else");
    refuses("hello, this is a text and not a data base of anybody", 52,
            "damaged or something else");
    CHECK_OK(tt_file_make_folder("d"));
    CHECK(tt_history_open("d", &history) == TT_ERR_IO);
    CHECK_OK(tt_file_replace("f", "", 0));
    CHECK(tt_history_open("f/runs.db", &history) == TT_ERR_IO);
    // Ours, with the numbers in its header changed: version, then application.
    CHECK_OK(tt_history_open("mine", &history));
    tt_history_close(history);
    tt_str text = {0};
    CHECK_OK(tt_file_read("mine", 1 << 20, &text));
    text.text[63] = 2;
    refuses(text.text, text.n, "another version");
    text.text[71] = 1;
    refuses(text.text, text.n, "another program");
    // Damaged after the header: an error now or when it is listed, no crash.
    text.text[63] = 1;
    text.text[71] = 0x74;
    memset(text.text + 100, 0xee, (size_t)text.n - 100);
    CHECK_OK(tt_file_replace("other", text.text, text.n));
    tt_arena *arena = tt_arena_create();
    const tt_history_row *rows = NULL;
    int64_t n = 0;
    history = NULL;
    tt_status status = tt_history_open("other", &history);
    if (status == TT_OK)
        status = tt_history_list(history, arena, &rows, &n);
    CHECK(status == TT_ERR_IO);
    tt_history_close(history);
    tt_arena_destroy(arena);
    tt_str_fini(&text);
    leave();
}

// Few enough that nobody waits for long, though every row goes to a slow disk.
enum { ROWS_EACH = 6 };

static _Noreturn void put_many(int who)
{
    char name[32];
    for (int i = 0; i < ROWS_EACH; i++) {
        tt_history *history = NULL;
        snprintf(name, sizeof name, "run-%d-%d", who, i);
        const tt_history_row row = row_of(name, i);
        if (tt_history_open("state/runs.db", &history) != TT_OK ||
            tt_history_put(history, &row) != TT_OK)
            _exit(1);
        tt_history_close(history);
    }
    _exit(0);
}

TEST(history_takes_several_writers_and_a_killed_one)
{
    enter();
    pid_t child[4];
    for (int i = 0; i < 4; i++) {
        child[i] = fork();
        if (child[i] == 0)
            put_many(i);
    }
    usleep(30000);
    kill(child[3], SIGKILL);
    for (int i = 0; i < 4; i++) {
        int result = 0;
        CHECK(waitpid(child[i], &result, 0) == child[i]);
        CHECK(i == 3 || result == 0);
    }
    const tt_history_row *rows = NULL;
    tt_arena *arena = tt_arena_create();
    CHECK(list(arena, &rows) >= 3 * ROWS_EACH);
    tt_arena_destroy(arena);
    leave();
}
