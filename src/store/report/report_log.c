// report_log - log.txt taken apart: samples of text, and notes.
//
//   2026-01-31T12:00:00Z step 120: sample
//       To be or not to be
//   2026-01-31T12:00:05Z step 130: loss 9.1 is a spike: skipped

#include "store/report/report_parts.h"

#include <string.h>

enum { NOTES_MAX = 256 << 10, SAMPLES_MAX = 30, INDENT = 4 };

typedef struct entry {
    const char *text; // all of it, with its continued lines
    int64_t n;
    const char *body; // after the first line
    bool is_sample;
} entry;

// The entry that begins at `text`.
static entry entry_at(const char *text, int64_t n)
{
    static const char mark[] = ": sample\n";
    const char *end = memchr(text, '\n', (size_t)n);
    const char *const stop = text + n;
    end = end != NULL ? end + 1 : stop;
    entry e = {.text = text, .body = end};
    const int64_t first = end - text;
    const int64_t m = (int64_t)strlen(mark);
    e.is_sample =
        first >= m && memcmp(end - m, mark, (size_t)m) == 0 &&
        memmem(text, (size_t)first, " step ", strlen(" step ")) != NULL;
    while (end < stop && *end == ' ') {
        const char *next = memchr(end, '\n', (size_t)(stop - end));
        end = next != NULL ? next + 1 : stop;
    }
    e.n = end - text;
    return e;
}

// The continued lines without their indentation.
static void add_body(const entry *e, tt_str *out)
{
    const char *line = e->body, *const stop = e->text + e->n;
    while (line < stop) {
        const char *end = memchr(line, '\n', (size_t)(stop - line));
        end = end != NULL ? end + 1 : stop;
        const int64_t indent = end - line > INDENT ? INDENT : end - line - 1;
        if (indent >= 0)
            tt__html_add_bytes(out, line + indent, end - line - indent);
        line = end;
    }
}

// Adds "step 120" from the first line of an entry.
static void add_step(const entry *e, tt_str *out)
{
    const char *step = memmem(e->text, (size_t)e->n, "step ", 5);
    const char *colon = step != NULL
                            ? memchr(step, ':', (size_t)(e->text + e->n - step))
                            : NULL;
    if (colon != NULL && colon - step < 40)
        tt__html_add_bytes(out, step, colon - step);
}

static void add_sample(const entry *e, bool is_open, tt_str *out)
{
    tt_str_addf(out, "<details%s><summary>", is_open ? " open" : "");
    add_step(e, out);
    tt_str_add(out, "</summary><pre class=\"sample\">");
    add_body(e, out);
    tt_str_add(out, "</pre></details>\n");
}

// The newest samples, the last one first.
static void add_samples(const tt_str *log, tt_str *out)
{
    entry kept[SAMPLES_MAX];
    int64_t n = 0;
    for (int64_t at = 0; at < log->n;) {
        const entry e = entry_at(log->text + at, log->n - at);
        if (e.is_sample)
            kept[n++ % SAMPLES_MAX] = e;
        at += e.n;
    }
    if (n == 0)
        return;
    tt_str_add(out, "<section class=\"samples\"><h2>Samples</h2>\n");
    for (int64_t i = n - 1; i >= 0 && i >= n - SAMPLES_MAX; i--)
        add_sample(&kept[i % SAMPLES_MAX], i == n - 1, out);
    if (n > SAMPLES_MAX)
        tt_str_addf(out,
                    "<p class=\"keys\">%lld older ones are in log.txt"
                    "</p>\n",
                    (long long)(n - SAMPLES_MAX));
    tt_str_add(out, "</section>\n");
}

void tt__report_log(const tt_str *log, tt_str *out)
{
    bool is_open = false;
    add_samples(log, out);
    for (int64_t at = 0; at < log->n;) {
        const entry e = entry_at(log->text + at, log->n - at);
        const bool is_shown = !e.is_sample && log->n - at <= NOTES_MAX;
        if (is_shown && !is_open)
            tt_str_add(out, "<section><details open><summary>Notes</summary>\n"
                            "<pre tabindex=\"0\">");
        is_open |= is_shown;
        if (is_shown)
            tt__html_add_bytes(out, e.text, e.n);
        at += e.n;
    }
    if (is_open)
        tt_str_add(out, "</pre></details></section>\n");
}
