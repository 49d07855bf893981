#include "runs.h"

#include "base/file.h"
#include "runs_describe.h"
#include "store/checkpoint.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char home[64] = "/tmp/test-runs-XXXXXX";

void runs_enter(void)
{
    CHECK(mkdtemp(home) != NULL && chdir(home) == 0);
}

void runs_enter_memory(void)
{
    if (access("/dev/shm", W_OK) == 0)
        snprintf(home, sizeof home, "/dev/shm/test-runs-XXXXXX");
    runs_enter();
}

void runs_leave(void)
{
    CHECK_OK(tt_file_remove(home));
}

static void on_step(void *user, int64_t step, double loss)
{
    runs_watch *w = user;
    (void)step, (void)loss;
    w->steps++;
    if (w->stop_at > 0 && w->steps >= w->stop_at)
        w->stop = 1;
}

static void on_point(void *user, const tt_run_point *point)
{
    runs_watch *w = user;
    w->points++;
    if (w->points == w->stop_at_point)
        w->stop = 1;
    CHECK(point->step_seconds > 0);
}

static void on_eval(void *user, const tt_run_eval *eval)
{
    runs_watch *w = user;
    w->evals++;
    if (w->evals == w->stop_at_eval)
        w->stop = 1;
    CHECK(eval->step > 0);
}

static void on_text(void *user, tt_run_text kind, int64_t step,
                    const char *text)
{
    runs_watch *w = user;
    (void)step;
    if (++w->texts == w->stop_at_text)
        w->stop = 1;
    if (kind == TT_TEXT_WARNING) {
        w->warnings++;
        snprintf(w->warning, sizeof w->warning, "%s", text);
    } else {
        w->notes++;
        snprintf(w->note, sizeof w->note, "%s", text);
    }
}

static tt_status assign_all(tt_settings *settings, const char *const *list,
                            tt_arena *arena)
{
    for (; list != NULL && *list != NULL; list++)
        TT_TRY(tt_settings_assign(settings, *list, "test", arena));
    return TT_OK;
}

tt_status runs_train(const char *folder, const char *const *settings,
                     const char *const *more, runs_watch *w,
                     tt_run_end *end_out)
{
    tt_arena *arena = tt_arena_create();
    tt_settings all = {0};
    tt_session *session = NULL;
    tt_run_end end;
    const tt_watch watch = {.user = w,
                            .step = on_step,
                            .point = on_point,
                            .eval = on_eval,
                            .text = on_text};
    const tt_train_request request = {.folder = folder,
                                      .watch = w != NULL ? &watch : NULL,
                                      .stop = w != NULL ? &w->stop : NULL};
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory");
    tt_status status = assign_all(&all, settings, arena);
    if (status == TT_OK)
        status = assign_all(&all, more, arena);
    if (status == TT_OK)
        status = tt_session_open(&all, NULL, true, &session);
    if (status == TT_OK)
        status = tt_train(session, &request, end_out ? end_out : &end);
    tt_session_close(session);
    tt_arena_destroy(arena);
    return status;
}

static void same_tensors(const tt_safetensors *a, const tt_safetensors *b)
{
    CHECK(tt_safetensors_count(a) == tt_safetensors_count(b));
    for (int64_t i = 0; i < tt_safetensors_count(a); i++) {
        const tt_safetensor *x = tt_safetensors_at(a, i);
        const tt_safetensor *y = tt_safetensors_find(b, x->name);
        CHECK(y != NULL && x->bytes == y->bytes);
        CHECK_MSG(memcmp(x->data, y->data, (size_t)x->bytes) == 0, "%s differs",
                  x->name);
    }
}

void runs_same(const char *a, const char *b)
{
    tt_checkpoint *x = NULL, *y = NULL;
    tt_str notes = {0}, first = {0}, second = {0};
    CHECK_OK(tt_checkpoint_read(a, NULL, &notes, &x));
    CHECK_OK(tt_checkpoint_read(b, NULL, &notes, &y));
    CHECK(x->step == y->step && notes.n == 0);
    same_tensors(x->model, y->model);
    same_tensors(x->optim, y->optim);
    runs_metrics(a, &first);
    runs_metrics(b, &second);
    CHECK_MSG(strcmp(tt_str_text(&first), tt_str_text(&second)) == 0,
              "metrics differ:\n%s\n%s", tt_str_text(&first),
              tt_str_text(&second));
    tt_checkpoint_close(x);
    tt_checkpoint_close(y);
    tt_str_fini(&first);
    tt_str_fini(&second);
    tt_str_fini(&notes);
}

int runs_child(const char *folder, const char *const *settings,
               const char *const *more, const runs_watch *w, int64_t k)
{
    int result = 0;
    fflush(NULL);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        runs_watch own = w != NULL ? *w : (runs_watch){0};
        tt_run_end end = {0};
        tt_file_fail_at(k, TT_FILE_KILL);
        const tt_status status = runs_train(folder, settings, more, &own, &end);
        if (status != TT_OK)
            fprintf(stderr, "%s\n", tt_error_message());
        _exit(status != TT_OK ? 1 : end.reason == TT_RUN_SIGNAL ? 2 : 0);
    }
    CHECK(waitpid(child, &result, 0) == child);
    return WIFEXITED(result) ? WEXITSTATUS(result) : -1;
}

void runs_write_csv(const char *path, int rows, int bad, int n_bad)
{
    enum { COLUMNS = 16 };
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    for (int i = 0; i < rows; i++) {
        for (int c = 0; c < COLUMNS; c++)
            fprintf(file, "%s,",
                    i >= bad && i < bad + n_bad && c == 3 ? "1e30"
                    : (i * 7 + c * 3) % 5 == i % 4        ? "1.0"
                                                          : "0.25");
        fprintf(file, "%d\n", i % 4);
    }
    CHECK(fclose(file) == 0);
}
