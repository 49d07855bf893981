// runs - the runs that were made on this machine: a list, one of them, several side by
// side, the best.

#include "base/file.h"
#include "base/str.h"
#include "cli/columns.h"
#include "cli/record.h"
#include "cli/runs/runs.h"
#include "cli/table.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COMPARE_MAX = 32 };

static tt_status read_history(tt_runs *runs)
{
    const char *path = NULL;
    tt_history *history = NULL;
    const tt_history_row *row = NULL;
    TT_TRY(tt_record_path(runs->arena, &path));
    if (!tt_file_exists(path))
        return TT_OK; // no run yet; listing must not create the file
    TT_TRY(tt_history_open(path, &history));
    const tt_status status =
        tt_history_list(history, runs->arena, &row, &runs->n);
    tt_history_close(history);
    TT_TRY(status);
    tt_history_row *now =
        tt_arena_alloc(runs->arena, runs->n * (int64_t)sizeof(*now));
    if (now == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < runs->n; i++) {
        now[i] = row[i];
        TT_TRY(tt__runs_refresh(&now[i]));
    }
    runs->row = now;
    return TT_OK;
}

// "2026-01-31T12:00:00Z" in the user's local time.
static void add_time(tt_columns *columns, const char *stamp)
{
    struct tm utc = {0}, local;
    char text[32] = "-";
    if (strptime(stamp, "%Y-%m-%dT%H:%M:%SZ", &utc) != NULL) {
        const time_t at = timegm(&utc);
        if (localtime_r(&at, &local) != NULL)
            (void)strftime(text, sizeof text, "%F %H:%M", &local);
    }
    tt_columns_add(columns, text);
}

static void add_steps(tt_columns *columns, const tt_history_row *row)
{
    if (row->steps > row->step)
        tt_columns_addf(columns, "%lld/%lld", (long long)row->step,
                        (long long)row->steps);
    else
        tt_columns_addf(columns, "%lld", (long long)row->step);
}

static void add_accuracy(tt_columns *columns, double accuracy)
{
    if (isnan(accuracy))
        tt_columns_add(columns, "-");
    else
        tt_columns_addf(columns, "%.2f%%", 100 * accuracy);
}

// The kind of model: its description up to the colon.
static void add_model(tt_columns *columns, const char *model)
{
    tt_columns_addf(columns, "%.*s", (int)strcspn(model, ":"), model);
}

enum { REASONS = 5 };

// Why the newest failed runs failed, below the table.
static void add_reasons(const tt_runs *runs, tt_str *out)
{
    const int width = runs->term.is_live ? tt_term_width(&runs->term) : 0;
    int n = 0;
    for (int64_t i = 0; i < runs->n && n < REASONS; i++) {
        const tt_history_row *row = &runs->row[i];
        const char *error = tt__runs_error(row, runs->arena);
        tt_str line = {0};
        if (error == NULL)
            continue;
        tt_str_addf(&line, "%lld failed: ", (long long)row->id);
        tt_term_add_foreign(error, false, &line);
        tt_str_add(out, n++ == 0 ? "\n" : "");
        tt_add_wrapped(out, tt_str_text(&line),
                       &(tt_wrapping){.width = width, .indent = "  "});
        tt_str_add(out, "\n");
        tt_str_fini(&line);
    }
}

static tt_status print_rows(const tt_runs *runs, tt_str *out)
{
    static const char *const heading[] = {"id",       "started", "model",
                                          "steps",    "loss",    "val loss",
                                          "accuracy", "status",  "folder"};
    tt_columns columns = {
        .arena = runs->arena,
        .n = 9,
        .right = 0x79,
        .width = runs->term.is_live ? tt_term_width(&runs->term) : 0,
        .drop = {6, 2, 1, 4}};
    for (int i = 0; i < 9; i++)
        tt_columns_add(&columns, heading[i]);
    for (int64_t i = 0; i < runs->n; i++) {
        const tt_history_row *row = &runs->row[i];
        tt_columns_addf(&columns, "%lld", (long long)row->id);
        add_time(&columns, row->started);
        add_model(&columns, row->model);
        add_steps(&columns, row);
        tt_columns_add_number(&columns, row->train_loss, 4);
        tt_columns_add_number(&columns, row->val_loss, 4);
        add_accuracy(&columns, row->accuracy);
        tt_columns_add(&columns, tt__runs_status(row));
        tt_columns_add(&columns, tt__runs_folder(row));
    }
    TT_TRY(tt_columns_print(&columns, &runs->term, out));
    add_reasons(runs, out);
    return tt_str_status(out);
}

// `none` is printed when there is nothing to list.
static tt_status list_rows(const tt_runs *runs, bool is_json, const char *none,
                           tt_str *out)
{
    tt_json json = {.out = out};
    if (!is_json && runs->n == 0) {
        tt_str_addf(out, "%s\n", none);
        return tt_str_status(out);
    }
    if (!is_json)
        return print_rows(runs, out);
    tt_json_open(&json, NULL, '[');
    for (int64_t i = 0; i < runs->n; i++) {
        tt_json_open(&json, NULL, '{');
        tt__runs_json(&runs->row[i], runs->arena, &json);
        tt_json_close(&json, '}');
    }
    tt_json_close(&json, ']');
    tt_str_add(out, "\n");
    return tt_str_status(out);
}

// ---- the best ------------------------------------------------------------

typedef struct ranked {
    double value; // lower is better
    const tt_history_row *row;
} ranked;

static int by_value(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->row->id > y->row->id ? -1 : 1; // the newer first
}

static double value_of(const tt_history_row *row, int metric)
{
    const double values[] = {row->val_loss, row->train_loss, row->best_loss,
                             -row->accuracy};
    return values[metric];
}

// Runs that have the metric, the best first.
static tt_status rank(tt_runs *runs, const char *name)
{
    static const char *const names[] = {"val_loss", "loss", "best_loss",
                                        "accuracy"};
    int metric = 0;
    while (metric < 4 && strcmp(names[metric], name) != 0)
        metric++;
    if (metric == 4)
        return tt_fail(TT_ERR_ARG,
                       "runs are ranked by val_loss, loss, best_loss or "
                       "accuracy, not by \"%s\"",
                       name);
    ranked *v = tt_arena_alloc(runs->arena, runs->n * (int64_t)sizeof(*v));
    tt_history_row *rows =
        tt_arena_alloc(runs->arena, runs->n * (int64_t)sizeof(*rows));
    if (v == NULL || rows == NULL)
        return TT_ERR_NOMEM;
    int64_t n = 0;
    for (int64_t i = 0; i < runs->n; i++) {
        const double value = value_of(&runs->row[i], metric);
        if (!isnan(value))
            v[n++] = (ranked){value, &runs->row[i]};
    }
    if (n > 1)
        qsort(v, (size_t)n, sizeof(*v), by_value);
    for (int64_t i = 0; i < n; i++)
        rows[i] = *v[i].row;
    runs->row = rows;
    runs->n = n;
    return TT_OK;
}

// ---- the command ---------------------------------------------------------

static tt_status show(const tt_runs *runs, const char *word, bool is_json,
                      tt_str *out)
{
    tt_runs_one one;
    tt_json json = {.out = out};
    TT_TRY(tt__runs_find(runs, word, &one));
    TT_TRY(tt__runs_name(&one, 1, runs->arena));
    if (!is_json)
        return tt__runs_show(runs, &one, out);
    TT_TRY(tt__runs_show_json(&one, runs->arena, &json));
    tt_str_add(out, "\n");
    return tt_str_status(out);
}

static tt_status compare_page(const tt_runs *runs, const tt_runs_one *one,
                              int n, bool is_json, tt_str *out)
{
    tt_json json = {.out = out};
    TT_TRY(tt__runs_compare_page(runs, one, n, runs->out));
    if (is_json) {
        tt_json_open(&json, NULL, '{');
        tt_json_str(&json, "page", runs->out);
        tt_json_close(&json, '}');
    } else {
        tt_str_add(out, runs->out);
    }
    tt_str_add(out, "\n");
    return tt_str_status(out);
}

static tt_status compare(const tt_runs *runs, const tt_cli *cli, bool is_json,
                         tt_str *out)
{
    tt_json json = {.out = out};
    const int n = cli->n_words - 1;
    if (n < 2)
        return tt_fail(TT_ERR_ARG, "give two runs or more to compare, by id, "
                                   "name or folder");
    tt_runs_one *one = tt_arena_alloc(runs->arena, n * (int64_t)sizeof(*one));
    if (one == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        TT_TRY(tt__runs_find(runs, cli->word[i + 1], &one[i]));
    TT_TRY(tt__runs_name(one, n, runs->arena));
    if (tt_cli_has(cli, "--html"))
        return compare_page(runs, one, n, is_json, out);
    if (!is_json)
        return tt__runs_compare(runs, one, n, out);
    TT_TRY(tt__runs_compare_json(runs, one, n, &json));
    tt_str_add(out, "\n");
    return tt_str_status(out);
}

static tt_status check_words(const tt_cli *cli, const char *verb, int most)
{
    if (cli->n_words > most + 1)
        return tt_fail(TT_ERR_ARG, "tutti runs %s: \"%s\" is one word too many",
                       verb, cli->word[most + 1]);
    return TT_OK;
}

static tt_status dispatch(tt_runs *runs, const tt_cli *cli, bool is_json,
                          tt_str *out)
{
    const char *verb = cli->n_words > 0 ? cli->word[0] : "list";
    const char *word = cli->n_words > 1 ? cli->word[1] : NULL;
    if (strcmp(verb, "list") == 0) {
        TT_TRY(check_words(cli, verb, 0));
        return list_rows(runs, is_json,
                         "no runs yet: `tutti train FILE.yaml` makes one", out);
    }
    if (strcmp(verb, "best") == 0) {
        TT_TRY(check_words(cli, verb, 1));
        TT_TRY(rank(runs, word != NULL ? word : "val_loss"));
        return list_rows(runs, is_json, "no run has that number yet", out);
    }
    if (strcmp(verb, "show") == 0) {
        TT_TRY(check_words(cli, verb, 1));
        if (word == NULL)
            return tt_fail(TT_ERR_ARG,
                           "which run? tutti runs show ID|NAME|FOLDER");
        return show(runs, word, is_json, out);
    }
    if (strcmp(verb, "compare") == 0)
        return compare(runs, cli, is_json, out);
    return tt_fail(TT_ERR_ARG,
                   "tutti runs can list, show, compare and best, not \"%s\"",
                   verb);
}

typedef struct options {
    const char *out;
} options;

static const tt_opt table[] = {
    {"out", "compare.html", "file of the page that --html writes", TT_OPT_STR,
     offsetof(options, out)},
    {0},
};

// A file is named only where one is written, and must not be a folder.
static tt_status read_out(tt_cli *cli, tt_runs *runs)
{
    options o;
    const bool is_given = tt_settings_find(&cli->settings, "out") != NULL;
    const bool is_compared =
        cli->n_words > 0 && strcmp(cli->word[0], "compare") == 0;
    TT_TRY(tt_cli_options(cli, table, &o));
    if (tt_cli_has(cli, "--html") && !is_compared)
        return tt_fail(TT_ERR_ARG,
                       "--html makes a page of runs that are compared: tutti "
                       "runs compare A B --html; the page of one run is its "
                       "report.html");
    if (is_given && !tt_cli_has(cli, "--html"))
        return tt_fail(TT_ERR_ARG, "out=FILE says where --html writes the "
                                   "page; add --html");
    if (o.out[0] == '\0' || tt_file_is_folder(o.out))
        return tt_fail(TT_ERR_ARG,
                       "out=%s: must be a file, such as "
                       "out=compare.html",
                       o.out);
    runs->out = o.out;
    return TT_OK;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    tt_runs runs = {.arena = cli->arena};
    tt_str out = {0};
    (void)exit_out;
    TT_TRY(read_out(cli, &runs));
    tt_term_init(&runs.term, STDOUT_FILENO);
    TT_TRY(read_history(&runs));
    tt_status status = dispatch(&runs, cli, tt_cli_has(cli, "--json"), &out);
    if (status == TT_OK)
        status = tt_str_status(&out);
    if (status == TT_OK)
        fputs(tt_str_text(&out), stdout);
    tt_str_fini(&out);
    return status;
}

static const tt_flag flags[] = {
    {"--html", "compare: a page with the curves on one scale (out=FILE)"},
    {"--json", "JSON instead of text"},
    {0},
};

const tt_command_def tt_command_runs = {
    .name = "runs",
    .doc = "The runs that were made: list, show, compare, best.",
    .usage = "[list | show RUN | compare RUN ... [--html] "
             "[out=FILE] | best [METRIC]] [--json]",
    .detail =
        "A RUN is an id of the list, a folder, or the last part of a folder "
        "in the list.\n"
        "compare prints settings that differ, the last of every metric and "
        "the losses on\none scale; with --html it writes a page and prints its "
        "name.\n"
        "A METRIC is val_loss (the default), loss, best_loss or accuracy.\n"
        "The history is $XDG_STATE_HOME/tutti/runs.db, or\n"
        "~/.local/state/tutti/runs.db; a run's folder alone is enough for show "
        "and\ncompare.",
    .flags = flags,
    .max_words = COMPARE_MAX + 1,
    .takes_paths = true,
    .run = run,
};
