#include "cli/record.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "store/history.h"
#include "store/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// record - a watch between the training loop and the display: it notes and passes on.

enum { STAMP_BYTES = 32, MESSAGE_BYTES = 2048 };

struct tt_record {
    tt_watch watch, shown;
    tt_arena *arena;
    tt_history_row row; // folder NULL: the run has not started
    char started[STAMP_BYTES], ended[STAMP_BYTES];
    // Of earlier starts; when this one began.
    double seconds_before, first_second;
    bool has_ended, has_failed;
};

tt_status tt_record_path(tt_arena *arena, const char **path_out)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *path = NULL;
    if (state != NULL && state[0] == '/') // others are to be ignored
        path = tt_arena_printf(arena, "%s/tutti/runs.db", state);
    else if (home != NULL && home[0] != '\0')
        path = tt_arena_printf(arena, "%s/.local/state/tutti/runs.db", home);
    else
        return tt_fail(TT_ERR_ARG, "there is no place for the history of runs: "
                                   "set HOME or XDG_STATE_HOME");
    if (path == NULL)
        return TT_ERR_NOMEM;
    *path_out = path;
    return TT_OK;
}

void tt_record_move(const char *from, const char *to, tt_arena *arena)
{
    const char *path = NULL;
    char full[PATH_MAX];
    tt_history *history = NULL;
    if (tt_record_path(arena, &path) != TT_OK || !tt_file_exists(path) ||
        realpath(to, full) == NULL)
        return;
    tt_status status = tt_history_open(path, &history);
    if (status == TT_OK)
        status = tt_history_move(history, from, full);
    tt_history_close(history);
    if (status != TT_OK)
        fprintf(stderr, "note: `tutti runs` does not know it: %s\n",
                tt_error_message());
}

static void print_now(char out[STAMP_BYTES])
{
    struct tm parts;
    const time_t now = time(NULL);
    if (gmtime_r(&now, &parts) == NULL ||
        strftime(out, STAMP_BYTES, "%FT%TZ", &parts) == 0)
        out[0] = '\0';
}

// A resumed run keeps the time of its first start, its best loss and its seconds.
static tt_status take_up(tt_record *r, tt_history *history)
{
    const tt_history_row *old = NULL;
    TT_TRY(tt_history_find(history, r->row.folder, r->arena, &old));
    if (old == NULL)
        return TT_OK;
    r->row.started = old->started;
    r->row.best_loss = old->best_loss;
    r->seconds_before = old->seconds;
    return TT_OK;
}

static tt_status put(tt_record *r, bool is_resumed)
{
    const char *path = NULL;
    tt_history *history = NULL;
    TT_TRY(tt_record_path(r->arena, &path));
    TT_TRY(tt_history_open(path, &history));
    tt_status status = is_resumed ? take_up(r, history) : TT_OK;
    r->row.seconds = r->seconds_before + tt_clock_seconds() - r->first_second;
    if (status == TT_OK)
        status = tt_history_put(history, &r->row);
    tt_history_close(history);
    return status;
}

// A failure is reported once. The error message of the run, if it has one, must
// survive this call, so it is put back.
static void save(tt_record *r, bool is_resumed)
{
    char message[MESSAGE_BYTES]; // perhaps why the run failed
    snprintf(message, sizeof message, "%s", tt_error_message());
    if (r->has_failed || put(r, is_resumed) == TT_OK)
        return;
    r->has_failed = true; // said once
    if (r->shown.text != NULL)
        r->shown.text(r->shown.user, TT_TEXT_WARNING, r->row.step,
                      tt_error_message());
    (void)tt_fail(TT_ERR_STATE, "%s", message);
}

// The settings as they were saved in the run's folder.
static const char *read_config(tt_record *r)
{
    tt_str text = {0};
    const char *copy = NULL;
    if (tt_run_read(r->row.folder, "config.yaml", &text) == TT_OK)
        copy = tt_arena_strdup(r->arena, tt_str_text(&text));
    tt_str_fini(&text);
    return copy != NULL ? copy : "";
}

static void on_start(void *user, const tt_run_facts *facts)
{
    tt_record *r = user;
    if (r->shown.start != NULL)
        r->shown.start(r->shown.user, facts);
    print_now(r->started);
    r->first_second = tt_clock_seconds();
    r->row = (tt_history_row){
        .folder = tt_arena_strdup(r->arena, facts->folder),
        .model = tt_arena_strdup(r->arena, facts->model),
        .status = "running",
        .started = r->started,
        .ended = "",
        .step = facts->first_step,
        .steps = facts->steps,
        .parameters = facts->parameters,
        .train_loss = (double)NAN,
        .val_loss = (double)NAN,
        .best_loss = (double)NAN,
        .accuracy = (double)NAN,
    };
    if (r->row.folder == NULL)
        return;
    r->row.config = read_config(r);
    save(r, facts->first_step > 0);
}

static void on_first(void *user, double loss)
{
    const tt_record *r = user;
    if (r->shown.first != NULL)
        r->shown.first(r->shown.user, loss);
}

static void on_step(void *user, int64_t step, double loss)
{
    tt_record *r = user;
    if (r->shown.step != NULL)
        r->shown.step(r->shown.user, step, loss);
    r->row.step = step;
}

static void on_point(void *user, const tt_run_point *point)
{
    tt_record *r = user;
    if (r->shown.point != NULL)
        r->shown.point(r->shown.user, point);
    r->row.step = point->step;
    r->row.train_loss = point->loss;
}

static void on_eval(void *user, const tt_run_eval *eval)
{
    tt_record *r = user;
    if (r->shown.eval != NULL)
        r->shown.eval(r->shown.user, eval);
    r->row.step = eval->step;
    r->row.val_loss = eval->loss;
    r->row.accuracy = eval->accuracy;
    if (!(r->row.best_loss <= eval->loss))
        r->row.best_loss = eval->loss;
    if (r->row.folder != NULL)
        save(r, false);
}

static void on_text(void *user, tt_run_text kind, int64_t step,
                    const char *text)
{
    const tt_record *r = user;
    if (r->shown.text != NULL)
        r->shown.text(r->shown.user, kind, step, text);
}

static void finish(tt_record *r, const char *status)
{
    print_now(r->ended);
    r->row.ended = r->ended;
    r->row.status = status;
    if (r->row.folder != NULL)
        save(r, false);
    r->has_ended = true;
}

static void on_end(void *user, const tt_run_end *end)
{
    static const char *const status[] = {
        [TT_RUN_DONE] = "done",
        [TT_RUN_EARLY] = "done",
        [TT_RUN_SIGNAL] = "stopped",
        [TT_RUN_FAILED] = "failed",
    };
    tt_record *r = user;
    if (r->shown.end != NULL)
        r->shown.end(r->shown.user, end);
    const bool is_asked =
        end->reason == TT_RUN_DONE && end->step < r->row.steps;
    r->row.step = end->step;
    if (!isnan(end->loss))
        r->row.train_loss = end->loss;
    if (!isnan(end->val_loss))
        r->row.val_loss = end->val_loss;
    if (!isnan(end->best_loss))
        r->row.best_loss = end->best_loss;
    if (!isnan(end->accuracy))
        r->row.accuracy = end->accuracy;
    finish(r, is_asked ? "stopped" : status[end->reason]);
}

tt_status tt_record_open(const tt_watch *shown, tt_record **record_out)
{
    tt_record *r = tt_alloc(sizeof(*r));
    if (r != NULL)
        r->arena = tt_arena_create();
    if (r == NULL || r->arena == NULL) {
        tt_free(r);
        return tt_fail(TT_ERR_NOMEM, "no memory for the history of runs");
    }
    r->shown = *shown;
    r->watch = (tt_watch){.user = r,
                          .start = on_start,
                          .first = on_first,
                          .step = on_step,
                          .point = on_point,
                          .eval = on_eval,
                          .text = on_text,
                          .end = on_end};
    *record_out = r;
    return TT_OK;
}

const tt_watch *tt_record_watch(tt_record *record)
{
    return &record->watch;
}

void tt_record_close(tt_record *record)
{
    if (record == NULL)
        return;
    if (record->row.folder != NULL && !record->has_ended)
        finish(record, "failed");
    tt_arena_destroy(record->arena);
    tt_free(record);
}
