// run - a run's folder, written line by line. See run.h.
//
// Metrics and log grow line by line, and a reader (a person, the report,
// TensorBoard) may look at any time. So a file always ends with a whole line. If a
// line could be written only in part (the disk is full), the file is cut back to
// the last whole one; what a crash left half written is cut at the next start.
//
// Each file is hashed as it grows. A checkpoint keeps length and hash
// (tt_run_marks_get), so that a resumed run can cut the files to exactly that
// state, and notice if something else has changed them.

#include "store/run.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "store/events.h"
#include "store/run_parts.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct stream { // a file that grows
    tt_file file;
    char path[PATH_MAX];
    int64_t bytes; // bytes of whole lines
    bool is_torn;  // the file may be longer: half a line
    tt_hasher *hasher;
    int64_t hashed; // bytes in the hash; of events, summaries only
} stream;

struct tt_run {
    char *folder;
    tt_lock lock;
    bool has_events;
    stream metrics, log, events;
    tt_str line; // reused
    int64_t n_failed;
};

const char *tt_run_folder(const tt_run *run)
{
    return run->folder;
}

int64_t tt_run_failures(const tt_run *run)
{
    return run->n_failed;
}

// ---- files that grow -----------------------------------------------------

// Opens a file for appending and reads it once: to cut off half a line that a crash
// has left, and to compute the hash so far.
static tt_status stream_open(stream *s,
                             int64_t (*whole)(const char *text, int64_t n))
{
    tt_str text = {0};
    TT_TRY(tt_file_append(&s->file, s->path));
    tt_status status = tt_file_read(s->path, TT__RUN_FILE_MAX, &text);
    if (status == TT_OK) {
        s->bytes = whole(tt_str_text(&text), text.n);
        s->is_torn = s->bytes != text.n;
        s->hashed = s->bytes;
        tt_hasher_reset(s->hasher);
        if (whole == tt__run_whole_events)
            tt__run_hash_events(tt_str_text(&text), s->bytes, s->hasher,
                                &s->hashed);
        else
            tt_hasher_add(s->hasher, tt_str_text(&text), s->bytes);
    }
    if (status == TT_OK && s->is_torn)
        status = tt_file_cut(&s->file, s->bytes);
    if (status == TT_OK)
        s->is_torn = false;
    tt_str_fini(&text);
    return status;
}

// Appends without hashing: for what says nothing about the run (a version record).
static tt_status stream_put(stream *s, const tt_str *text)
{
    TT_TRY(tt_str_status(text));
    if (s->is_torn)
        TT_TRY(tt_file_cut(&s->file, s->bytes));
    s->is_torn = true;
    TT_TRY(tt_file_write(&s->file, tt_str_text(text), text->n));
    s->bytes += text->n;
    s->is_torn = false;
    return TT_OK;
}

static tt_status stream_add(stream *s, const tt_str *text)
{
    TT_TRY(stream_put(s, text));
    tt_hasher_add(s->hasher, tt_str_text(text), text->n);
    s->hashed += text->n;
    return TT_OK;
}

static void stream_mark(const stream *s, tt_run_mark *mark_out)
{
    mark_out->bytes = s->hashed;
    tt_hasher_text(s->hasher, mark_out->hash);
}

// Removes half a line. If that fails too, the next line tries it again.
static void stream_mend(stream *s)
{
    if (s->is_torn && s->file.fd >= 0 &&
        tt_file_cut(&s->file, s->bytes) == TT_OK)
        s->is_torn = false;
}

static tt_status add_events_file(tt_run *run)
{
    tt_str version = {0};
    TT_TRY(tt__run_name_events(run->folder, run->events.path));
    tt_status status = tt_file_append(&run->events.file, run->events.path);
    run->events.bytes = run->events.hashed = 0;
    run->events.is_torn = false;
    tt_hasher_reset(run->events.hasher);
    if (status == TT_OK) {
        tt_events_version(&version, tt__run_wall());
        status = stream_put(&run->events, &version);
    }
    tt_str_fini(&version);
    return status;
}

static tt_status open_events(tt_run *run)
{
    bool found = false;
    if (!run->has_events)
        return TT_OK;
    TT_TRY(tt__run_find_events(run->folder, run->events.path, &found));
    if (!found)
        return add_events_file(run);
    TT_TRY(stream_open(&run->events, tt__run_whole_events));
    if (run->events.bytes > 0)
        return TT_OK;
    (void)tt_file_close(&run->events.file); // nothing whole is in it
    TT_TRY(tt_file_remove(run->events.path));
    return add_events_file(run);
}

static tt_status open_streams(tt_run *run)
{
    TT_TRY(stream_open(&run->metrics, tt__run_whole_lines));
    TT_TRY(stream_open(&run->log, tt__run_whole_lines));
    return open_events(run);
}

static tt_status close_streams(tt_run *run)
{
    TT_TRY(tt_file_close(&run->metrics.file));
    TT_TRY(tt_file_close(&run->log.file));
    return tt_file_close(&run->events.file);
}

// ---- the folder ----------------------------------------------------------

static tt_status prepare(tt_run *run, const char *folder)
{
    const int64_t n = (int64_t)strlen(folder) + 1;
    run->folder = tt_alloc(n);
    if (run->folder == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", folder);
    memcpy(run->folder, folder, (size_t)n);
    TT_TRY(tt__run_path(folder, "metrics.jsonl", run->metrics.path));
    TT_TRY(tt__run_path(folder, "log.txt", run->log.path));
    TT_TRY(tt_file_make_folder(folder));
    TT_TRY(tt_file_lock(folder, &run->lock));
    TT_TRY(tt_file_sweep(folder));
    return open_streams(run);
}

tt_status tt_run_open(const char *folder, bool tensorboard, tt_run **run_out)
{
    tt_run *run = tt_alloc(sizeof(*run));
    if (run == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", folder);
    run->has_events = tensorboard;
    run->lock = TT_LOCK_FREE;
    run->metrics.file = run->log.file = run->events.file = TT_FILE_CLOSED;
    run->metrics.hasher = tt_hasher_create();
    run->log.hasher = tt_hasher_create();
    run->events.hasher = tt_hasher_create();
    const bool has_all = run->metrics.hasher != NULL &&
                         run->log.hasher != NULL && run->events.hasher != NULL;
    const tt_status status =
        has_all ? prepare(run, folder)
                : tt_fail(TT_ERR_NOMEM, "%s: out of memory", folder);
    if (status == TT_OK)
        *run_out = run;
    else
        tt_run_close(run);
    return status;
}

void tt_run_close(tt_run *run)
{
    if (run == NULL)
        return;
    (void)tt_file_close(&run->metrics.file);
    (void)tt_file_close(&run->log.file);
    (void)tt_file_close(&run->events.file);
    tt_file_unlock(&run->lock);
    tt_hasher_destroy(run->metrics.hasher);
    tt_hasher_destroy(run->log.hasher);
    tt_hasher_destroy(run->events.hasher);
    tt_str_fini(&run->line);
    tt_free(run->folder);
    tt_free(run);
}

tt_status tt_run_cut(tt_run *run, int64_t step, const tt_run_marks *marks,
                     tt_str *notes)
{
    char events[PATH_MAX];
    tt_run_marks m = marks != NULL ? *marks : TT_RUN_UNMARKED;
    if (!run->has_events)
        m.events.bytes = -1;
    TT_TRY(close_streams(run));
    TT_TRY(tt__run_cut_lines(run->metrics.path,
                             &(tt__run_cut_at){step, &m.metrics, notes},
                             tt__run_keep_metrics));
    TT_TRY(tt__run_cut_lines(run->log.path,
                             &(tt__run_cut_at){step, &m.log, notes},
                             tt__run_keep_log));
    TT_TRY(tt__run_name_events(run->folder, events));
    TT_TRY(tt__run_cut_events(
        run->folder, &(tt__run_cut_at){step, &m.events, notes}, events));
    return open_streams(run);
}

void tt_run_marks_get(const tt_run *run, tt_run_marks *marks_out)
{
    stream_mark(&run->metrics, &marks_out->metrics);
    stream_mark(&run->log, &marks_out->log);
    stream_mark(&run->events, &marks_out->events);
    if (!run->has_events)
        marks_out->events.bytes = -1;
}

void tt_run_files_get(const tt_run *run, tt_run_files *files_out)
{
    *files_out = (tt_run_files){
        .folder = run->folder,
        .file = {run->metrics.file, run->log.file, run->events.file}};
}

tt_status tt_run_files_sync(tt_run_files *files)
{
    for (int i = 0; i < 3; i++)
        if (files->file[i].fd >= 0)
            TT_TRY(tt_file_sync(&files->file[i]));
    return tt_file_sync_folder(files->folder);
}

// ---- lines ---------------------------------------------------------------

// Returns the first failure to the caller; later ones are only counted, so that a
// full disk does not end or flood a run.
static tt_status settle(tt_run *run, tt_status status)
{
    if (status == TT_OK || run->n_failed++ > 0)
        return TT_OK;
    return status;
}

static tt_status add_metrics(tt_run *run, int64_t step, double seconds,
                             const tt_metric *metrics, int n)
{
    tt_json json = {.out = &run->line, .is_compact = true};
    tt_str_clear(&run->line);
    tt_json_open(&json, NULL, '{');
    tt_json_i64(&json, "step", step);
    tt_json_f64(&json, "seconds", seconds);
    for (int i = 0; i < n; i++)
        tt_json_f64(&json, metrics[i].name, metrics[i].value);
    tt_json_close(&json, '}');
    tt_str_add(&run->line, "\n");
    return stream_add(&run->metrics, &run->line);
}

// Whether events are wanted and can be written. A failure is returned in *status.
static bool begin_events(tt_run *run, tt_status *status)
{
    *status = TT_OK;
    if (run->has_events && run->events.file.fd < 0)
        *status = open_events(run);
    tt_str_clear(&run->line);
    return run->has_events && *status == TT_OK;
}

static tt_status add_events(tt_run *run, int64_t step, const tt_metric *metrics,
                            int n)
{
    tt_status status = TT_OK;
    if (!begin_events(run, &status))
        return status;
    tt_events_scalars(&run->line, tt__run_wall(), step, metrics, n);
    return stream_add(&run->events, &run->line);
}

// Appends the events in run->line.
static tt_status end_events(tt_run *run)
{
    const tt_status status = settle(run, stream_add(&run->events, &run->line));
    stream_mend(&run->events);
    return status;
}

tt_status tt_run_log_text(tt_run *run, int64_t step, const tt_report_row *text)
{
    tt_status status = TT_OK;
    if (!begin_events(run, &status))
        return settle(run, status);
    tt_events_text(&run->line, tt__run_wall(), step, text);
    return end_events(run);
}

tt_status tt_run_log_settings(tt_run *run, const tt_report_row *settings)
{
    tt_status status = TT_OK;
    if (!begin_events(run, &status))
        return settle(run, status);
    tt_events_settings(&run->line, tt__run_wall(), settings);
    return end_events(run);
}

tt_status tt_run_log_end(tt_run *run, int64_t step, bool is_good)
{
    tt_status status = TT_OK;
    if (!begin_events(run, &status))
        return settle(run, status);
    tt_events_end(&run->line, tt__run_wall(), step, is_good);
    return end_events(run);
}

tt_status tt_run_log(tt_run *run, int64_t step, double seconds,
                     const tt_metric *metrics, int n)
{
    tt_status status = add_metrics(run, step, seconds, metrics, n);
    if (status == TT_OK)
        status = add_events(run, step, metrics, n);
    status = settle(run, status);
    stream_mend(&run->metrics);
    stream_mend(&run->events);
    return status;
}

// Further lines of the text are indented: they belong to the first.
tt_status tt_run_note(tt_run *run, int64_t step, const char *text)
{
    char stamp[32];
    struct tm parts;
    const time_t now = time(NULL);
    const size_t n = gmtime_r(&now, &parts) == NULL
                         ? 0
                         : strftime(stamp, sizeof(stamp), "%FT%TZ", &parts);
    tt_str_clear(&run->line);
    tt_str_addf(&run->line, "%.*s step %lld: ", (int)n, stamp, (long long)step);
    for (const char *p = text; *p != '\0';) {
        const size_t k = strcspn(p, "\n");
        tt_str_addf(&run->line, "%s%.*s\n", p == text ? "" : "    ", (int)k, p);
        p += k + (p[k] == '\n');
    }
    if (text[0] == '\0')
        tt_str_add(&run->line, "\n");
    const tt_status status = settle(run, stream_add(&run->log, &run->line));
    stream_mend(&run->log);
    return status;
}

// ---- whole files ---------------------------------------------------------

tt_status tt_run_write(tt_run *run, const char *name, const char *text,
                       int64_t n)
{
    char path[PATH_MAX];
    TT_TRY(tt__run_path(run->folder, name, path));
    return tt_file_replace(path, text, n);
}

tt_status tt_run_read(const char *folder, const char *name, tt_str *out)
{
    char path[PATH_MAX];
    TT_TRY(tt__run_path(folder, name, path));
    return tt_file_read(path, TT__RUN_FILE_MAX, out);
}
