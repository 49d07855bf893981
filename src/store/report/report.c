#include "store/report/report.h"

#include "base/file.h"
#include "base/json.h"
#include "store/report/report_parts.h"

#include <stdio.h>
#include <string.h>

// ---- facts.json ----------------------------------------------------------

static void add_rows(tt_json *j, const char *key, const tt_report_row *row)
{
    tt_json_open(j, key, '{');
    for (; row != NULL && row->name != NULL; row++)
        tt_json_str(j, row->name, row->value);
    tt_json_close(j, '}');
}

void tt_report_time_json(const tt_report_time *t, tt_json *j)
{
    tt_json_open(j, "time", '{');
    tt_json_f64(j, "total", t->total);
    tt_json_f64(j, "computing", t->computing);
    tt_json_f64(j, "network", t->network);
    tt_json_f64(j, "data", t->data);
    tt_json_f64(j, "evaluation", t->evaluation);
    tt_json_f64(j, "checkpoints", t->checkpoints);
    tt_json_f64(j, "last", t->last);
    tt_json_f64(j, "other", t->other);
    tt_json_close(j, '}');
}

static void add_known(tt_json *j, const char *key, const char *value)
{
    if (value != NULL)
        tt_json_str(j, key, value);
}

tt_status tt_report_facts_text(const tt_report_facts *facts, tt_str *out)
{
    tt_json j = {.out = out};
    tt_json_open(&j, NULL, '{');
    tt_json_str(&j, "title", facts->title);
    add_known(&j, "outcome", facts->outcome);
    add_known(&j, "error", facts->error);
    add_known(&j, "started", facts->started);
    add_known(&j, "updated", facts->updated);
    add_known(&j, "parent", facts->parent);
    tt_json_str(&j, "unit", facts->unit);
    tt_json_f64(&j, "units", facts->units);
    if (facts->memory > 0)
        tt_json_i64(&j, "memory_bytes", facts->memory);
    if (facts->time.total > 0)
        tt_report_time_json(&facts->time, &j);
    add_rows(&j, "facts", facts->facts);
    add_rows(&j, "machine", facts->machine);
    add_rows(&j, "settings", facts->settings);
    tt_json_close(&j, '}');
    tt_str_add(out, "\n");
    return tt_str_status(out);
}

// ---- the page ------------------------------------------------------------

static const int64_t bytes_max = (int64_t)1 << 31; // of one file

static tt_status read_part(const char *folder, const char *name, tt_str *out)
{
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (n < 0 || n >= (int)sizeof path)
        return tt_fail(TT_ERR_ARG, "the run's path is too long");
    return tt_file_read(path, bytes_max, out);
}

// Reads a file; if it is missing, its part of the page is left out.
static void try_part(const char *folder, const char *name, tt_str *out)
{
    if (read_part(folder, name, out) != TT_OK)
        tt_str_clear(out);
}

// Parses a file; one that is not JSON counts as missing. The report is made from
// whatever a crashed run has left.
static const tt_json_value *try_json(const tt_str *text, const char *name,
                                     tt_arena *arena)
{
    const tt_json_value *value = NULL;
    return tt_json_read(tt_str_text(text), text->n, name, arena, &value) ==
                   TT_OK
               ? value
               : NULL;
}

static tt_status make_page(const tt_report_files *files, tt_arena *arena,
                           tt_str *out)
{
    tt_report_data data = {.files = files};
    data.facts = try_json(&files->facts, "facts.json", arena);
    data.ranks = try_json(&files->ranks, "ranks.json", arena);
    data.workers = try_json(&files->workers, "workers.json", arena);
    data.before = try_json(&files->parent_facts, "facts.json", arena);
    TT_TRY(tt_metrics_parse(tt_str_text(&files->metrics), files->metrics.n,
                            arena, &data.metrics));
    const char *parent = tt_json_text(tt_json_get(data.facts, "parent"), "");
    const tt_str *theirs = &files->parent_metrics;
    if (parent[0] != '\0' && theirs->n > 0 &&
        tt_metrics_parse(tt_str_text(theirs), theirs->n, arena,
                         &data.parent_metrics) == TT_OK) {
        const char *slash = strrchr(parent, '/');
        data.parent = slash != NULL && slash[1] != '\0' ? slash + 1 : parent;
    }
    return tt__report_page_add(&data, out);
}

tt_status tt_report_page(const tt_report_files *files, tt_str *out)
{
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the report");
    const tt_status status = make_page(files, arena, out);
    tt_arena_destroy(arena);
    return status;
}

static tt_status write_page(const char *folder, const tt_report_files *files)
{
    char path[PATH_MAX];
    tt_str page = {0};
    const int n = snprintf(path, sizeof path, "%s/report.html", folder);
    tt_status status = n > 0 && n < (int)sizeof path
                           ? tt_report_page(files, &page)
                           : tt_fail(TT_ERR_ARG, "the run's path is too long");
    if (status == TT_OK)
        status = tt_file_replace(path, page.text, page.n);
    tt_str_fini(&page);
    return status;
}

// Reads the files of the run that this one was forked from, if it still exists.
static void try_parent(tt_report_files *files)
{
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return;
    const tt_json_value *facts = try_json(&files->facts, "facts.json", arena);
    const char *parent = tt_json_text(tt_json_get(facts, "parent"), "");
    if (parent[0] == '/') {
        try_part(parent, "facts.json", &files->parent_facts);
        try_part(parent, "metrics.jsonl", &files->parent_metrics);
    }
    tt_arena_destroy(arena);
}

tt_status tt_report_write(const char *folder)
{
    tt_report_files files = {.folder = folder,
                             .is_dead = tt_file_lock_is_dead(folder)};
    tt_status status = read_part(folder, "metrics.jsonl", &files.metrics);
    if (status == TT_OK) {
        try_part(folder, "facts.json", &files.facts);
        try_part(folder, "config.yaml", &files.config);
        try_part(folder, "log.txt", &files.log);
        try_part(folder, "ranks.json", &files.ranks);
        try_part(folder, "workers.json", &files.workers);
        try_parent(&files);
        status = write_page(folder, &files);
    }
    tt_str_fini(&files.facts);
    tt_str_fini(&files.metrics);
    tt_str_fini(&files.config);
    tt_str_fini(&files.log);
    tt_str_fini(&files.ranks);
    tt_str_fini(&files.workers);
    tt_str_fini(&files.parent_facts);
    tt_str_fini(&files.parent_metrics);
    return status;
}
