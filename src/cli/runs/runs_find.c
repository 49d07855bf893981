// runs_find - finds runs by id, folder or name, and small facts about one.

#include "base/file.h"
#include "base/json_read.h"
#include "base/str.h"
#include "cli/runs/runs.h"
#include "cli/spark.h"
#include "store/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const tt_history_row *row_of_id(const tt_runs *runs, const char *word)
{
    char *end = NULL;
    const long long id = strtoll(word, &end, 10);
    for (int64_t i = 0; i < runs->n && *end == '\0'; i++)
        if (runs->row[i].id == id)
            return &runs->row[i];
    return NULL;
}

static const tt_history_row *row_of_folder(const tt_runs *runs,
                                           const char *folder)
{
    for (int64_t i = 0; i < runs->n; i++)
        if (strcmp(runs->row[i].folder, folder) == 0)
            return &runs->row[i];
    return NULL;
}

static const tt_json_value *read_facts(const char *folder, tt_arena *arena)
{
    tt_str text = {0};
    const tt_json_value *facts = NULL;
    if (tt_run_read(folder, "facts.json", &text) != TT_OK ||
        tt_json_read(tt_str_text(&text), text.n, "facts.json", arena, &facts) !=
            TT_OK)
        facts = NULL;
    tt_str_fini(&text);
    return facts;
}

// What the run's own facts say. Without an outcome it goes on, or was killed.
static void add_facts(tt_history_row *row, tt_arena *arena)
{
    const tt_json_value *facts = read_facts(row->folder, arena);
    if (facts == NULL)
        return;
    const tt_json_value *list = tt_json_get(facts, "facts");
    row->status = tt_json_text(tt_json_get(facts, "outcome"), "running");
    row->started = tt_json_text(tt_json_get(facts, "started"), "");
    row->model = tt_json_text(tt_json_get(list, "model"), "");
    row->steps =
        strtoll(tt_json_text(tt_json_get(list, "steps"), "0"), NULL, 10);
    if (strcmp(row->status, "stopped early") == 0)
        row->status = "done";
}

// A row for a folder that the history does not know, from its files.
static tt_status row_of_files(const char *folder, tt_arena *arena,
                              tt_history_row *row)
{
    tt_str config = {0};
    *row = (tt_history_row){
        .folder = tt_arena_strdup(arena, folder),
        .model = "",
        .status = "unknown",
        .config = "",
        .started = "",
        .ended = "",
        .train_loss = (double)NAN,
        .val_loss = (double)NAN,
        .best_loss = (double)NAN,
        .accuracy = (double)NAN,
    };
    if (tt_run_read(folder, "config.yaml", &config) == TT_OK)
        row->config = tt_arena_strdup(arena, tt_str_text(&config));
    tt_str_fini(&config);
    if (row->folder == NULL || row->config == NULL)
        return TT_ERR_NOMEM;
    add_facts(row, arena);
    return TT_OK;
}

static void take(double *to, double value)
{
    if (!isnan(value))
        *to = value;
}

// The history is written now and then. What a run has logged is newer.
static void take_metrics(tt_history_row *row, const tt_metrics *metrics)
{
    const tt_metric_series *val = tt_metrics_find(metrics, "val/loss");
    if (metrics->last_step > row->step)
        row->step = metrics->last_step;
    if (row->steps < row->step)
        row->steps = row->step;
    if (!(metrics->last_seconds <= row->seconds))
        take(&row->seconds, metrics->last_seconds);
    take(&row->train_loss, tt_metrics_last(metrics, "train/loss"));
    take(&row->val_loss, tt_metrics_last(metrics, "val/loss"));
    take(&row->accuracy, tt_metrics_last(metrics, "val/accuracy"));
    for (int64_t i = 0; val != NULL && i < val->n; i++)
        if (!(row->best_loss <= val->value[i]))
            take(&row->best_loss, val->value[i]);
}

// Whether the history knows only what it was told on the way, and not the end.
static bool is_open(const tt_history_row *row)
{
    return row->id == 0 || strcmp(row->status, "running") == 0;
}

static void add_metrics(tt_runs_one *one, tt_arena *arena)
{
    one->has_metrics =
        tt_metrics_read(one->row.folder, arena, &one->metrics) == TT_OK;
    if (one->has_metrics && is_open(&one->row))
        take_metrics(&one->row, &one->metrics);
}

tt_status tt__runs_refresh(tt_history_row *row)
{
    tt_metrics metrics;
    if (!is_open(row))
        return TT_OK;
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the metrics of a run");
    if (tt_metrics_read(row->folder, arena, &metrics) == TT_OK)
        take_metrics(row, &metrics);
    tt_arena_destroy(arena);
    return TT_OK;
}

const char *tt__runs_when(const tt_runs_one *one, int n)
{
    const char *when = "at the end";
    for (int i = 0; i < n; i++) {
        const char *status = tt__runs_status(&one[i].row);
        if (strcmp(status, "running") == 0)
            return "so far";
        if (strcmp(status, "killed") == 0)
            when = "when last heard of";
    }
    return when;
}

static const char *last_part(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    return slash != NULL && slash[1] != '\0' ? slash + 1 : folder;
}

// By the last part of the folder, which is what lists show. Several runs may have it.
static tt_status row_of_name(const tt_runs *runs, const char *word,
                             const tt_history_row **row_out)
{
    tt_str ids = {0};
    int n = 0;
    for (int64_t i = 0; i < runs->n; i++) {
        if (strcmp(last_part(runs->row[i].folder), word) != 0)
            continue;
        *row_out = &runs->row[i];
        tt_str_addf(&ids, "%s%lld", n++ == 0 ? "" : ", ",
                    (long long)runs->row[i].id);
    }
    tt_status status = tt_str_status(&ids);
    if (status == TT_OK && n > 1)
        status = tt_fail(TT_ERR_ARG,
                         "%d runs are called \"%s\": give an id (%s), or the "
                         "folder",
                         n, word, tt_str_text(&ids));
    tt_str_fini(&ids);
    return status;
}

tt_status tt__runs_find(const tt_runs *runs, const char *word, tt_runs_one *out)
{
    char full[PATH_MAX];
    tt_runs_one one = {0};
    const tt_history_row *row = row_of_id(runs, word);
    if (row == NULL && realpath(word, full) != NULL) {
        row = row_of_folder(runs, full);
        char path[PATH_MAX + 16];
        snprintf(path, sizeof path, "%s/metrics.jsonl", full);
        if (row == NULL && tt_file_exists(path)) {
            TT_TRY(row_of_files(full, runs->arena, &one.row));
            row = &one.row;
        }
    }
    if (row == NULL)
        TT_TRY(row_of_name(runs, word, &row));
    if (row == NULL)
        return tt_fail(TT_ERR_ARG,
                       "there is no run \"%s\"; `tutti runs` lists them: give "
                       "an id, a folder or its last part",
                       word);
    one.row = *row;
    add_metrics(&one, runs->arena);
    *out = one;
    return TT_OK;
}

const char *tt__runs_status(const tt_history_row *row)
{
    if (strcmp(row->status, "running") != 0)
        return row->status;
    return tt_file_lock_is_dead(row->folder) ? "killed" : row->status;
}

const char *tt__runs_error(const tt_history_row *row, tt_arena *arena)
{
    if (strcmp(row->status, "failed") != 0)
        return NULL;
    return tt_json_text(tt_json_get(read_facts(row->folder, arena), "error"),
                        NULL);
}

tt_status tt__runs_name(tt_runs_one *one, int n, tt_arena *arena)
{
    for (int i = 0; i < n; i++) {
        const char *name = last_part(one[i].row.folder);
        bool is_taken = false;
        for (int k = 0; k < n; k++)
            is_taken |=
                k != i && strcmp(last_part(one[k].row.folder), name) == 0;
        one[i].name = tt_arena_strdup(
            arena, is_taken ? tt__runs_folder(&one[i].row) : name);
        if (one[i].name == NULL)
            return TT_ERR_NOMEM;
    }
    return TT_OK;
}

const char *tt__runs_folder(const tt_history_row *row)
{
    char here[PATH_MAX];
    const size_t n = getcwd(here, sizeof here) != NULL ? strlen(here) : 0;
    if (n > 1 && strncmp(row->folder, here, n) == 0 && row->folder[n] == '/')
        return row->folder + n + 1;
    return row->folder;
}

void tt__runs_json(const tt_history_row *row, tt_arena *arena, tt_json *json)
{
    const char *error = tt__runs_error(row, arena);
    tt_json_i64(json, "id", row->id);
    tt_json_str(json, "started", row->started);
    tt_json_str(json, "ended", row->ended);
    tt_json_str(json, "model", row->model);
    tt_json_i64(json, "step", row->step);
    tt_json_i64(json, "steps", row->steps);
    tt_json_i64(json, "parameters", row->parameters);
    tt_json_f64(json, "seconds", row->seconds);
    tt_json_f64(json, "loss", row->train_loss);
    tt_json_f64(json, "val_loss", row->val_loss);
    tt_json_f64(json, "best_loss", row->best_loss);
    tt_json_f64(json, "accuracy", row->accuracy);
    tt_json_str(json, "status", tt__runs_status(row));
    if (error != NULL)
        tt_json_str(json, "error", error);
    tt_json_str(json, "folder", row->folder);
}

void tt__runs_curve(const tt_runs_one *one, const char *name, int columns,
                    bool has_utf8, tt_str *out)
{
    tt_spark spark = {0};
    const tt_metric_series *s =
        one->has_metrics ? tt_metrics_find(&one->metrics, name) : NULL;
    for (int64_t i = 0; s != NULL && i < s->n; i++)
        tt_spark_add(&spark, s->value[i]);
    if (spark.n > 0 || spark.n_sum > 0)
        tt_spark_draw(&spark, columns, has_utf8, out);
    while (out->n > 0 && out->text[out->n - 1] == ' ')
        out->text[--out->n] = '\0'; // a short run needs fewer columns
}
