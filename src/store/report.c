#include "store/report.h"

#include "base/file.h"
#include "base/json.h"
#include "store/report_parts.h"

#include <stdio.h>

// ---- facts.json ----------------------------------------------------------

static void add_rows(tt_json *j, const char *key, const tt_report_row *row)
{
    tt_json_open(j, key, '{');
    for (; row != NULL && row->name != NULL; row++)
        tt_json_str(j, row->name, row->value);
    tt_json_close(j, '}');
}

tt_status tt_report_facts_text(const tt_report_facts *facts, tt_str *out)
{
    tt_json j = {.out = out};
    tt_json_open(&j, NULL, '{');
    tt_json_str(&j, "title", facts->title);
    if (facts->outcome != NULL)
        tt_json_str(&j, "outcome", facts->outcome);
    tt_json_str(&j, "unit", facts->unit);
    tt_json_f64(&j, "seconds", facts->seconds);
    tt_json_f64(&j, "input_stall", facts->input_stall);
    tt_json_f64(&j, "checkpoint_stall", facts->checkpoint_stall);
    add_rows(&j, "facts", facts->facts);
    add_rows(&j, "machine", facts->machine);
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

// A file that is not there leaves its part of the page out.
static void try_part(const char *folder, const char *name, tt_str *out)
{
    if (read_part(folder, name, out) != TT_OK)
        tt_str_clear(out);
}

tt_status tt_report_page(const tt_report_files *files, tt_str *out)
{
    tt_report_data data = {.files = files};
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the report");
    if (tt_json_read(tt_str_text(&files->facts), files->facts.n, "facts.json",
                     arena, &data.facts) != TT_OK)
        data.facts = NULL;
    if (tt_json_read(tt_str_text(&files->ranks), files->ranks.n, "ranks.json",
                     arena, &data.ranks) != TT_OK)
        data.ranks = NULL;
    tt_status status = tt_metrics_parse(tt_str_text(&files->metrics),
                                        files->metrics.n, arena, &data.metrics);
    if (status == TT_OK)
        status = tt__report_page(&data, out);
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

tt_status tt_report_write(const char *folder)
{
    tt_report_files files = {.folder = folder};
    tt_status status = read_part(folder, "metrics.jsonl", &files.metrics);
    if (status == TT_OK) {
        try_part(folder, "facts.json", &files.facts);
        try_part(folder, "config.yaml", &files.config);
        try_part(folder, "log.txt", &files.log);
        try_part(folder, "ranks.json", &files.ranks);
        status = write_page(folder, &files);
    }
    tt_str_fini(&files.facts);
    tt_str_fini(&files.metrics);
    tt_str_fini(&files.config);
    tt_str_fini(&files.log);
    tt_str_fini(&files.ranks);
    return status;
}
