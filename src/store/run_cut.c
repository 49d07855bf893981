// run_cut - cuts metrics, log and events back to a step, when a run resumes or
// rolls back.
//
// After a crash the files may know steps that the checkpoint does not. These steps
// will be made again, and their lines would be there twice. If the checkpoint has
// marks (length and hash of each file), the files are cut to exactly that length.
// Without a mark, or if the hash is wrong, each line is kept or dropped by the step
// it names.
//
// A file of events cannot simply be cut: a TensorBoard that watches it has read on.
// So a new file is made with the events that are kept, beginning with a restart
// record, and the old files are removed.

#include "base/file.h"
#include "store/events.h"
#include "store/run_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char prefix[] = "events.out.tfevents.";

double tt__run_wall(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

tt_status tt__run_path(const char *folder, const char *name,
                       char path[PATH_MAX])
{
    const int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    if (n < 0 || n >= PATH_MAX)
        return tt_fail(TT_ERR_ARG, "%.200s...: the name is too long", folder);
    return TT_OK;
}

int64_t tt__run_whole_lines(const char *text, int64_t n)
{
    const char *last = n > 0 ? memrchr(text, '\n', (size_t)n) : NULL;
    return last != NULL ? last + 1 - text : 0;
}

int64_t tt__run_whole_events(const char *text, int64_t n)
{
    tt_event_record event;
    int64_t done = 0;
    while (tt_events_next(text + done, n - done, &event))
        done += event.bytes;
    return done;
}

// ---- lines ---------------------------------------------------------------

// What a line says about its step. Continued lines belong to the line before.
typedef enum line_kind { LINE_STEP, LINE_CONTINUED, LINE_BAD } line_kind;
typedef line_kind line_step_fn(const char *line, int64_t n, int64_t *step);

// The step after `mark`. The text has a terminating zero, so strtoll stops in time.
static line_kind step_after(const char *text, const char *mark, int64_t *step)
{
    const size_t n = strlen(mark);
    if (strncmp(text, mark, n) != 0 || text[n] < '0' || text[n] > '9')
        return LINE_BAD;
    errno = 0;
    *step = strtoll(text + n, NULL, 10);
    return errno != 0 ? LINE_BAD : LINE_STEP;
}

static line_kind metrics_step(const char *line, int64_t n, int64_t *step)
{
    if (line[n - 1] != '}')
        return LINE_BAD;
    return step_after(line, "{\"step\":", step);
}

// "2026-11-15T11:40:00Z step 120: text"
static line_kind log_step(const char *line, int64_t n, int64_t *step)
{
    if (line[0] == ' ')
        return LINE_CONTINUED;
    const char *blank = memchr(line, ' ', (size_t)n);
    return blank == NULL ? LINE_BAD : step_after(blank, " step ", step);
}

static void keep_lines(const char *text, int64_t n, int64_t limit,
                       line_step_fn *step_of, tt_str *out)
{
    bool is_kept = false;
    while (n > 0) {
        const char *stop = memchr(text, '\n', (size_t)n);
        if (stop == NULL)
            return; // half a line at the end
        const int64_t bytes = stop + 1 - text;
        int64_t step = 0;
        const line_kind kind =
            bytes > 1 ? step_of(text, bytes - 1, &step) : LINE_BAD;
        if (kind != LINE_CONTINUED)
            is_kept = kind == LINE_STEP && step <= limit;
        if (is_kept)
            tt_str_add_bytes(out, text, bytes);
        text += bytes;
        n -= bytes;
    }
}

void tt__run_keep_metrics(const tt_str *text, int64_t step, tt_str *out)
{
    keep_lines(tt_str_text(text), text->n, step, metrics_step, out);
}

void tt__run_keep_log(const tt_str *text, int64_t step, tt_str *out)
{
    keep_lines(tt_str_text(text), text->n, step, log_step, out);
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

// Whether the file begins with the bytes that the mark was made of. If not, says so
// in the notes.
static bool holds(const char *text, int64_t n, const tt__run_cut_at *cut,
                  const char *name)
{
    char hash[TT_HASH_CHARS];
    const tt_run_mark *mark = cut->mark;
    if (mark->bytes < 0 || cut->step < 0)
        return false;
    if (n < mark->bytes) {
        tt_str_addf(cut->notes,
                    "%s is shorter than it was at step %lld: %lld of its %lld "
                    "bytes are missing\n",
                    name, (long long)cut->step, (long long)(mark->bytes - n),
                    (long long)mark->bytes);
        return false;
    }
    tt_hash_text(text, mark->bytes, hash);
    if (strcmp(hash, mark->hash) == 0)
        return true;
    tt_str_addf(cut->notes,
                "%s is not what it was at step %lld: something else has "
                "written to it, or the disk has lost a part\n",
                name, (long long)cut->step);
    return false;
}

tt_status tt__run_cut_lines(const char *path, const tt__run_cut_at *cut,
                            tt__run_keep_fn *keep)
{
    tt_str text = {0}, kept = {0};
    bool found = false;
    tt_status status = tt_file_read_if(path, TT__RUN_FILE_MAX, &text, &found);
    if (status == TT_OK) {
        const bool is_right =
            holds(tt_str_text(&text), text.n, cut, name_of(path));
        if (is_right && keep == tt__run_keep_metrics)
            tt_str_add_bytes(&kept, tt_str_text(&text), cut->mark->bytes);
        else
            keep(&text, cut->step, &kept);
        status = tt_str_status(&kept);
    }
    if (status == TT_OK && found && kept.n != text.n)
        status = tt_file_replace(path, tt_str_text(&kept), kept.n);
    tt_str_fini(&text);
    tt_str_fini(&kept);
    return status;
}

// ---- events --------------------------------------------------------------

typedef struct visiting {
    tt_file_visit_fn *visit;
    void *user;
} visiting;

static tt_status visit_events(void *user, const char *name)
{
    const visiting *v = user;
    return strncmp(name, prefix, sizeof(prefix) - 1) == 0
               ? v->visit(v->user, name)
               : TT_OK;
}

// Calls `visit` for the event files; stops at the first that fails.
static tt_status each_events(const char *folder, tt_file_visit_fn *visit,
                             void *user)
{
    visiting v = {visit, user};
    return tt_file_each(folder, visit_events, &v);
}

// Names begin with the time in ten digits, so the order of texts is that of time.
static tt_status take_newer(void *user, const char *name)
{
    char *newest = user;
    if (strcmp(name, newest) > 0)
        snprintf(newest, NAME_MAX + 1, "%s", name);
    return TT_OK;
}

tt_status tt__run_find_events(const char *folder, char path[PATH_MAX],
                              bool *found)
{
    char newest[NAME_MAX + 1] = "";
    TT_TRY(each_events(folder, take_newer, newest));
    *found = newest[0] != '\0';
    return tt__run_path(folder, newest, path);
}

tt_status tt__run_name_events(const char *folder, char path[PATH_MAX])
{
    char newest[NAME_MAX + 1] = "", host[65] = "", name[NAME_MAX + 1];
    long long now = (long long)tt__run_wall();
    TT_TRY(each_events(folder, take_newer, newest));
    if (newest[0] != '\0') {
        const long long last = atoll(newest + sizeof(prefix) - 1);
        now = now > last ? now : last + 1;
    }
    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0')
        snprintf(host, sizeof(host), "localhost");
    for (char *c = host; *c != '\0'; c++)
        *c = *c == '/' ? '-' : *c;
    snprintf(name, sizeof(name), "%s%010lld.%s.%ld.0", prefix, now, host,
             (long)getpid());
    return tt__run_path(folder, name, path);
}

void tt__run_keep_events(const tt_str *text, int64_t limit, tt_str *out)
{
    tt_event_record event;
    int64_t at = 0;
    tt_events_version(out, tt__run_wall());
    tt_events_restart(out, tt__run_wall(), 0);
    for (; tt_events_next(tt_str_text(text) + at, text->n - at, &event);
         at += event.bytes)
        if (event.kind == TT_EVENT_SUMMARY && event.step <= limit)
            tt_str_add_bytes(out, event.record, event.bytes);
}

void tt__run_hash_events(const char *text, int64_t n, tt_hasher *hasher,
                         int64_t *bytes_out)
{
    tt_event_record event;
    *bytes_out = 0;
    for (int64_t at = 0; tt_events_next(text + at, n - at, &event);
         at += event.bytes)
        if (event.kind == TT_EVENT_SUMMARY) {
            tt_hasher_add(hasher, event.record, event.bytes);
            *bytes_out += event.bytes;
        }
}

// Keeps the summaries up to the mark if it is right, else those up to the step.
static void keep_marked(const tt_str *text, const tt__run_cut_at *cut,
                        tt_str *out)
{
    tt_event_record event;
    tt_str logged = {0};
    for (int64_t at = 0;
         tt_events_next(tt_str_text(text) + at, text->n - at, &event);
         at += event.bytes)
        if (event.kind == TT_EVENT_SUMMARY)
            tt_str_add_bytes(&logged, event.record, event.bytes);
    if (tt_str_status(&logged) == TT_OK &&
        holds(tt_str_text(&logged), logged.n, cut, "the file of events")) {
        logged.n = cut->mark->bytes;
        tt__run_keep_events(&logged, INT64_MAX, out);
    } else {
        tt__run_keep_events(text, cut->step, out);
    }
    tt_str_fini(&logged);
}

static tt_status note_name(void *user, const char *name)
{
    tt_str_addf(user, "%s\n", name);
    return tt_str_status(user);
}

// Removes the old files of events, but not the new one.
static tt_status remove_others(const char *folder, const tt_str *names,
                               const char *made)
{
    char path[PATH_MAX], name[NAME_MAX + 1];
    for (const char *p = tt_str_text(names); *p != '\0'; p++) {
        const size_t n = strcspn(p, "\n");
        snprintf(name, sizeof name, "%.*s", (int)n, p);
        TT_TRY(tt__run_path(folder, name, path));
        if (strcmp(path, made) != 0)
            TT_TRY(tt_file_remove(path));
        p += n;
    }
    return TT_OK;
}

static tt_status make_events(const char *from, const tt__run_cut_at *cut,
                             const char *path)
{
    tt_str text = {0}, kept = {0};
    tt_status status = tt_file_read(from, TT__RUN_FILE_MAX, &text);
    if (status == TT_OK) {
        keep_marked(&text, cut, &kept);
        status = tt_str_status(&kept);
    }
    if (status == TT_OK)
        status = tt_file_replace(path, tt_str_text(&kept), kept.n);
    tt_str_fini(&text);
    tt_str_fini(&kept);
    return status;
}

tt_status tt__run_cut_events(const char *folder, const tt__run_cut_at *cut,
                             const char *path)
{
    char newest[PATH_MAX];
    tt_str names = {0}; // listed before the new one is made
    bool found = false;
    TT_TRY(tt__run_find_events(folder, newest, &found));
    if (!found) {
        (void)holds("", 0, cut, "the file of events");
        return TT_OK;
    }
    tt_status status = each_events(folder, note_name, &names);
    if (status == TT_OK)
        status = make_events(newest, cut, path);
    if (status == TT_OK)
        status = remove_others(folder, &names, path);
    tt_str_fini(&names);
    return status;
}
