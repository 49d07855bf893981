// runs_compare - one run in full, or several side by side: the settings that differ,
// the last value of every metric, the curves of the loss.
//
// The same comparison is printed as text, JSON and HTML. each_difference finds the
// settings once, and a callback writes them in each form.

#include "base/file.h"
#include "base/settings/yaml.h"
#include "cli/columns.h"
#include "cli/runs/runs.h"
#include "cli/table.h"
#include "store/report/report.h"
#include "store/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CURVE_COLUMNS = 40 };

static const char *const curves[] = {"train/loss", "val/loss"};

// ---- settings ------------------------------------------------------------

// Settings that cannot be read count as none.
static void read_config(const tt_history_row *row, tt_arena *arena,
                        tt_settings *out)
{
    const tt_settings none = {0};
    if (tt_yaml_parse(row->config, (int64_t)strlen(row->config), "config.yaml",
                      arena, out) != TT_OK)
        *out = none;
}

static const char *value_of(const tt_settings *settings, const char *key)
{
    const tt_setting *s = tt_settings_find(settings, key);
    return s != NULL ? s->value : "-";
}

// Whether runs differ in a setting. Where a run lies is not a difference.
static bool differs(const tt_settings *all, int n, const char *key)
{
    const tt_settings *first = NULL;
    if (strcmp(key, "run") == 0)
        return false;
    for (int i = 0; i < n; i++) {
        if (all[i].n == 0)
            continue; // its settings are unknown
        if (first == NULL)
            first = &all[i];
        if (strcmp(value_of(&all[i], key), value_of(first, key)) != 0)
            return true;
    }
    return false;
}

// Whether no run before the i-th has the key: each key is visited once.
static bool is_first_with(const tt_settings *all, int i, const char *key)
{
    for (int k = 0; k < i; k++)
        if (tt_settings_find(&all[k], key) != NULL)
            return false;
    return true;
}

typedef void key_fn(void *user, const tt_settings *all, int n, const char *key);

static tt_status each_difference(const tt_runs *runs, const tt_runs_one *one,
                                 int n, key_fn *visit, void *user)
{
    tt_settings *all = tt_arena_alloc(runs->arena, n * (int64_t)sizeof(*all));
    if (all == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < n; i++)
        read_config(&one[i].row, runs->arena, &all[i]);
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < all[i].n; k++) {
            const char *key = all[i].v[k].key;
            if (is_first_with(all, i, key) && differs(all, n, key))
                visit(user, all, n, key);
        }
    return TT_OK;
}

static void add_difference(void *user, const tt_settings *all, int n,
                           const char *key)
{
    tt_columns *columns = user;
    tt_columns_add(columns, key);
    for (int i = 0; i < n; i++)
        tt_columns_add(columns, value_of(&all[i], key));
}

static void json_difference(void *user, const tt_settings *all, int n,
                            const char *key)
{
    tt_json *json = user;
    tt_json_open(json, key, '[');
    for (int i = 0; i < n; i++) {
        const tt_setting *s = tt_settings_find(&all[i], key);
        tt_json_str(json, NULL, s != NULL ? s->value : NULL);
    }
    tt_json_close(json, ']');
}

// ---- metrics -------------------------------------------------------------

static void add_heading(tt_columns *columns, const char *title,
                        const tt_runs_one *one, int n)
{
    tt_columns_add(columns, title);
    for (int i = 0; i < n; i++)
        tt_columns_add(columns, one[i].name);
}

static bool is_new_name(const tt_runs_one *one, int i, const char *name)
{
    for (int k = 0; k < i; k++)
        if (one[k].has_metrics && tt_metrics_find(&one[k].metrics, name))
            return false;
    return true;
}

static void add_metrics(tt_columns *columns, const tt_runs_one *one, int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; one[i].has_metrics && k < one[i].metrics.n; k++) {
            const char *name = one[i].metrics.v[k].name;
            if (!is_new_name(one, i, name))
                continue;
            tt_columns_add(columns, name);
            for (int j = 0; j < n; j++)
                tt_columns_add_number(
                    columns,
                    one[j].has_metrics ? tt_metrics_last(&one[j].metrics, name)
                                       : (double)NAN,
                    6);
        }
}

static void add_facts(tt_columns *columns, const tt_runs_one *one, int n)
{
    tt_columns_add(columns, "status");
    for (int i = 0; i < n; i++)
        tt_columns_add(columns, tt__runs_status(&one[i].row));
    tt_columns_add(columns, "steps");
    for (int i = 0; i < n; i++)
        tt_columns_addf(columns, "%lld", (long long)one[i].row.step);
    tt_columns_add(columns, "seconds");
    for (int i = 0; i < n; i++)
        tt_columns_add_number(columns, one[i].row.seconds, 6);
    tt_columns_add(columns, "best val loss");
    for (int i = 0; i < n; i++)
        tt_columns_add_number(columns, one[i].row.best_loss, 6);
}

// ---- several -------------------------------------------------------------

tt_status tt__runs_compare(const tt_runs *runs, const tt_runs_one *one, int n,
                           tt_str *out)
{
    tt_columns settings = {.arena = runs->arena, .n = n + 1};
    tt_columns metrics = {
        .arena = runs->arena, .n = n + 1, .right = ~(uint64_t)1};
    add_heading(&settings, "setting", one, n);
    TT_TRY(each_difference(runs, one, n, add_difference, &settings));
    if (settings.n_cells > settings.n)
        TT_TRY(tt_columns_print(&settings, &runs->term, out));
    else
        tt_str_add(out, "the settings are the same\n");
    tt_str_add(out, "\n");
    add_heading(&metrics, tt__runs_when(one, n), one, n);
    add_facts(&metrics, one, n);
    add_metrics(&metrics, one, n);
    TT_TRY(tt_columns_print(&metrics, &runs->term, out));
    tt_str_add(out, "\n");
    for (int c = 0; c < 2; c++)
        tt__runs_chart(runs, one, n, curves[c], out);
    return tt_str_status(out);
}

// ---- as a page -----------------------------------------------------------

typedef struct differences {
    tt_report_difference *v;
    int n, most;
    tt_arena *arena;
} differences;

static void page_difference(void *user, const tt_settings *all, int n,
                            const char *key)
{
    differences *d = user;
    const char **value = tt_arena_alloc(d->arena, n * (int64_t)sizeof(char *));
    if (value == NULL || d->n == d->most)
        return;
    for (int i = 0; i < n; i++) {
        const tt_setting *s = tt_settings_find(&all[i], key);
        value[i] = s != NULL ? s->value : NULL;
    }
    d->v[d->n++] = (tt_report_difference){key, value};
}

// A file that does not exist counts as empty.
static void read_texts(const tt_runs_one *one, tt_report_compared *out)
{
    *out = (tt_report_compared){.name = one->name,
                                .folder = tt__runs_folder(&one->row),
                                .status = tt__runs_status(&one->row)};
    if (tt_run_read(one->row.folder, "metrics.jsonl", &out->metrics) != TT_OK)
        tt_str_clear(&out->metrics);
    if (tt_run_read(one->row.folder, "facts.json", &out->facts) != TT_OK)
        tt_str_clear(&out->facts);
}

tt_status tt__runs_compare_page(const tt_runs *runs, const tt_runs_one *one,
                                int n, const char *file)
{
    tt_str page = {0};
    differences d = {.arena = runs->arena, .most = TT_SETTINGS_MAX};
    tt_report_compared *run =
        tt_arena_alloc(runs->arena, n * (int64_t)sizeof *run);
    d.v = tt_arena_alloc(runs->arena, d.most * (int64_t)sizeof *d.v);
    if (run == NULL || d.v == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(each_difference(runs, one, n, page_difference, &d));
    for (int i = 0; i < n; i++)
        read_texts(&one[i], &run[i]);
    tt_status status =
        tt_report_compare(&(tt_report_comparison){n, run, d.n, d.v}, &page);
    if (status == TT_OK)
        status = tt_file_replace(file, page.text, page.n);
    for (int i = 0; i < n; i++) {
        tt_str_fini(&run[i].metrics);
        tt_str_fini(&run[i].facts);
    }
    tt_str_fini(&page);
    return status;
}

static void json_last(const tt_metrics *metrics, tt_json *json)
{
    for (int k = 0; k < metrics->n; k++)
        tt_json_f64(json, metrics->v[k].name,
                    tt_metrics_last(metrics, metrics->v[k].name));
}

tt_status tt__runs_compare_json(const tt_runs *runs, const tt_runs_one *one,
                                int n, tt_json *json)
{
    tt_json_open(json, NULL, '{');
    tt_json_open(json, "runs", '[');
    for (int i = 0; i < n; i++) {
        tt_json_open(json, NULL, '{');
        tt__runs_json(&one[i].row, runs->arena, json);
        tt_json_open(json, "metrics", '{');
        if (one[i].has_metrics)
            json_last(&one[i].metrics, json);
        tt_json_close(json, '}');
        tt_json_close(json, '}');
    }
    tt_json_close(json, ']');
    tt_json_open(json, "settings", '{');
    TT_TRY(each_difference(runs, one, n, json_difference, json));
    tt_json_close(json, '}');
    tt_json_close(json, '}');
    return TT_OK;
}

// ---- one -----------------------------------------------------------------

static void show_row(const tt_runs *runs, const char *name, const char *value,
                     tt_str *out)
{
    tt_str clean = {0};
    tt_term_add_foreign(value, false, &clean);
    if (clean.n > 0)
        tt_table_row(&runs->term, name, tt_str_text(&clean),
                     tt_term_width(&runs->term), out);
    tt_str_fini(&clean);
}

static void show_facts(const tt_runs *runs, const tt_history_row *row,
                       tt_str *out)
{
    tt_str text = {0};
    if (row->id > 0)
        tt_str_addf(&text, "%lld", (long long)row->id);
    show_row(runs, "run", tt_str_text(&text), out);
    show_row(runs, "folder", tt__runs_folder(row), out);
    show_row(runs, "model", row->model, out);
    show_row(runs, "status", tt__runs_status(row), out);
    const char *error = tt__runs_error(row, runs->arena);
    if (error != NULL)
        show_row(runs, "why", error, out);
    show_row(runs, "started", row->started, out);
    show_row(runs, "ended", row->ended, out);
    tt_str_clear(&text);
    tt_add_grouped(&text, row->step);
    if (row->steps > row->step) {
        tt_str_add(&text, " of ");
        tt_add_grouped(&text, row->steps);
    }
    show_row(runs, "steps", tt_str_text(&text), out);
    tt_str_clear(&text);
    if (row->seconds > 0)
        tt_add_seconds(&text, row->seconds);
    show_row(runs, "time", tt_str_text(&text), out);
    tt_str_fini(&text);
}

tt_status tt__runs_show(const tt_runs *runs, const tt_runs_one *one,
                        tt_str *out)
{
    tt_columns metrics = {.arena = runs->arena, .n = 2, .right = 2};
    show_facts(runs, &one->row, out);
    for (int c = 0; c < 2; c++) {
        tt_str curve = {0};
        tt__runs_curve(one, curves[c], CURVE_COLUMNS, runs->term.has_utf8,
                       &curve);
        show_row(runs, curves[c], tt_str_text(&curve), out);
        tt_str_fini(&curve);
    }
    tt_str_add(out, "\n");
    add_heading(&metrics, tt__runs_when(one, 1), one, 1);
    add_metrics(&metrics, one, 1);
    if (metrics.n_cells > 2)
        TT_TRY(tt_columns_print(&metrics, &runs->term, out));
    tt_str_add(out, "\n");
    tt_term_add_foreign(one->row.config, true, out);
    return tt_str_status(out);
}

static void json_series(const tt_metric_series *s, tt_json *json)
{
    tt_json_open(json, s->name, '{');
    tt_json_open(json, "step", '[');
    for (int64_t i = 0; i < s->n; i++)
        tt_json_i64(json, NULL, s->step[i]);
    tt_json_close(json, ']');
    tt_json_open(json, "value", '[');
    for (int64_t i = 0; i < s->n; i++)
        tt_json_f64(json, NULL, s->value[i]);
    tt_json_close(json, ']');
    tt_json_close(json, '}');
}

tt_status tt__runs_show_json(const tt_runs_one *one, tt_arena *arena,
                             tt_json *json)
{
    tt_json_open(json, NULL, '{');
    tt__runs_json(&one->row, arena, json);
    tt_json_str(json, "config", one->row.config);
    tt_json_open(json, "metrics", '{');
    for (int k = 0; one->has_metrics && k < one->metrics.n; k++)
        json_series(&one->metrics.v[k], json);
    tt_json_close(json, '}');
    tt_json_close(json, '}');
    return TT_OK;
}
