// report_page - the sections of the page, from top to bottom.

#include "base/utf8.h"
#include "store/report/report_parts.h"

#include <math.h>
#include <string.h>

void tt__html_add_bytes(tt_str *out, const char *text, int64_t n)
{
    for (int64_t left = n; left > 0;) {
        const int bytes = tt_utf8_read(text, left, NULL);
        const unsigned char c = (unsigned char)*text;
        if (bytes == 0 || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
            tt_str_add(out, "\xef\xbf\xbd"); // U+FFFD
        else if (c == '&')
            tt_str_add(out, "&amp;");
        else if (c == '<')
            tt_str_add(out, "&lt;");
        else if (c == '>')
            tt_str_add(out, "&gt;");
        else if (c == '"')
            tt_str_add(out, "&quot;");
        else if (c == '\'')
            tt_str_add(out, "&#39;");
        else
            tt_str_add_bytes(out, text, bytes);
        text += bytes == 0 ? 1 : bytes;
        left -= bytes == 0 ? 1 : bytes;
    }
}

void tt__html_add(tt_str *out, const char *text)
{
    tt__html_add_bytes(out, text, (int64_t)strlen(text));
}

void tt__time_add(tt_str *out, double seconds)
{
    const int64_t s = (int64_t)(fmin(fmax(seconds, 0), 1e12) + 0.5);
    if (seconds < 100)
        tt_str_addf(out, "%.1f s", seconds);
    else if (s < 3600)
        tt_str_addf(out, "%lld:%02lld min", (long long)(s / 60),
                    (long long)(s % 60));
    else
        tt_str_addf(out, "%lld:%02lld h", (long long)(s / 3600),
                    (long long)(s / 60 % 60));
}

static const tt_metric_series *find(const tt_report_data *d, const char *name)
{
    return tt_metrics_find(&d->metrics, name);
}

// The lowest (sign -1) or the highest (sign 1) value.
static double best_of(const tt_metric_series *s, int sign)
{
    double best = (double)NAN;
    for (int64_t i = 0; s != NULL && i < s->n; i++)
        if (isfinite(s->value[i]) &&
            (isnan(best) || sign * (s->value[i] - best) > 0))
            best = s->value[i];
    return best;
}

// ---- head ----------------------------------------------------------------

enum { REFRESH = 15 }; // seconds

void tt__head_add(tt_str *out, const char *title, int refresh)
{
    tt_str_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                    "<meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width, "
                    "initial-scale=1\">\n"
                    "<meta name=\"color-scheme\" content=\"light dark\">\n"
                    "<meta name=\"generator\" content=\"Tutti\">\n");
    if (refresh > 0)
        tt_str_addf(out, "<meta http-equiv=\"refresh\" content=\"%d\">\n",
                    refresh);
    tt_str_add(out, "<title>");
    tt__html_add(out, title);
    tt_str_add(out, "</title>\n<style>\n");
    for (int i = 0; tt__report_style[i] != NULL; i++)
        tt_str_add(out, tt__report_style[i]);
    tt_str_add(out, "</style>\n</head>\n<body>\n");
}

static const char *fact(const tt_report_data *d, const char *key)
{
    return tt_json_text(tt_json_get(d->facts, key), "");
}

static const char *title_of(const tt_report_data *d)
{
    const char *slash = strrchr(d->files->folder, '/');
    const char *name =
        slash != NULL && slash[1] != '\0' ? slash + 1 : d->files->folder;
    return tt_json_text(tt_json_get(d->facts, "title"), name);
}

static const char *outcome_of(const tt_report_data *d)
{
    return tt_json_text(tt_json_get(d->facts, "outcome"),
                        d->files->is_dead ? "killed" : "running");
}

// "2026-01-31T12:00:00Z" as "2026-01-31 12:00:00 UTC".
static void add_stamp(const char *what, const char *stamp, tt_str *out)
{
    if (stamp[0] == '\0')
        return;
    tt_str_addf(out, " <span>%s <time datetime=\"", what);
    tt__html_add(out, stamp);
    tt_str_add(out, "\">");
    const char *t = strchr(stamp, 'T');
    const int64_t n = (int64_t)strlen(stamp);
    if (t != NULL && stamp[n - 1] == 'Z') {
        tt__html_add_bytes(out, stamp, t - stamp);
        tt_str_add(out, " ");
        tt__html_add_bytes(out, t + 1, stamp + n - 1 - (t + 1));
        tt_str_add(out, " UTC");
    } else {
        tt__html_add(out, stamp);
    }
    tt_str_add(out, "</time></span>");
}

// If the run failed: why, at the top of the page.
static void add_why(const tt_report_data *d, const char *outcome, tt_str *out)
{
    const bool is_failed = strcmp(outcome, "failed") == 0;
    if (!is_failed && strcmp(outcome, "killed") != 0)
        return;
    tt_str_add(out, "<p class=\"why\" role=\"alert\"><b>");
    if (d->metrics.last_step > 0)
        tt_str_addf(out, "%s after step %lld:", is_failed ? "Failed" : "Ended",
                    (long long)d->metrics.last_step);
    else
        tt_str_addf(out, "%s:", is_failed ? "Failed" : "Ended");
    tt_str_add(out, "</b> ");
    if (!is_failed)
        tt_str_add(out, "the program was killed, or its machine went down. The "
                        "same command goes on from the newest checkpoint.");
    else
        tt__html_add(out, tt_json_text(tt_json_get(d->facts, "error"),
                                       "the notes below say why"));
    tt_str_add(out, "</p>\n");
}

static void add_header(const tt_report_data *d, tt_str *out)
{
    const char *outcome = outcome_of(d);
    const bool is_bad =
        strcmp(outcome, "failed") == 0 || strcmp(outcome, "killed") == 0;
    tt_str_add(out, "<header>\n<h1>");
    tt__html_add(out, title_of(d));
    tt_str_addf(out, "</h1>\n<span class=\"outcome %s\">",
                is_bad                         ? "is-bad"
                : strcmp(outcome, "done") == 0 ? "is-good"
                                               : "is-open");
    tt__html_add(out, outcome);
    tt_str_add(out, "</span>\n</header>\n<p class=\"when\">");
    add_stamp("started", fact(d, "started"), out);
    add_stamp(strcmp(outcome, "running") == 0 ? "as of" : "ended",
              fact(d, "updated"), out);
    if (d->parent != NULL) {
        tt_str_add(out, " <span>forked from ");
        tt__html_add(out, d->parent);
        tt_str_add(out, "</span>");
    }
    tt_str_add(out, "</p>\n");
    add_why(d, outcome, out);
}

// ---- tiles ---------------------------------------------------------------

static void add_tile(tt_str *out, const char *name, double value, int digits,
                     const char *unit)
{
    if (isfinite(value))
        tt_str_addf(out, "<div><dd>%.*f%s</dd><dt>%s</dt></div>\n", digits,
                    value, unit, name);
}

static void add_short(tt_str *out, const char *name, double value)
{
    if (!isfinite(value))
        return;
    tt_str_add(out, "<div><dd>");
    tt__number_add(out, value, false);
    tt_str_addf(out, "</dd><dt>%s</dt></div>\n", name);
}

static void add_tiles(const tt_report_data *d, tt_str *out)
{
    const tt_metrics *m = &d->metrics;
    tt_str_add(out, "<section><dl class=\"tiles\">\n");
    add_tile(out, "best validation loss", best_of(find(d, "val/loss"), -1), 4,
             "");
    add_tile(out, "best validation accuracy",
             100 * best_of(find(d, "val/accuracy"), 1), 2, "%");
    add_tile(out, "last training loss", tt_metrics_last(m, "train/loss"), 4,
             "");
    if (m->last_step >= 0)
        add_tile(out, "steps", (double)m->last_step, 0, "");
    if (m->last_seconds > 0 && m->last_seconds < 1e9) {
        tt_str_add(out, "<div><dd>");
        tt__time_add(out, m->last_seconds);
        tt_str_add(out, "</dd><dt>of training</dt></div>\n");
    }
    add_short(out, "tokens per second",
              tt_metrics_last(m, "tokens_per_second"));
    add_short(out, "images per second",
              tt_metrics_last(m, "images_per_second"));
    add_tile(out, "of the device's peak", 100 * tt_metrics_last(m, "mfu"), 1,
             "%");
    tt_str_add(out, "</dl></section>\n");
}

// ---- tables --------------------------------------------------------------

void tt__report_table(const char *title, const tt_json_value *rows, tt_str *out)
{
    if (rows == NULL || rows->type != TT_JSON_OBJECT || rows->first == NULL)
        return;
    tt_str_addf(out, "<section><h2>%s</h2>\n<table>\n", title);
    for (const tt_json_value *v = rows->first; v != NULL; v = v->next) {
        tt_str_add(out, "<tr><th scope=\"row\">");
        tt__html_add(out, v->key);
        tt_str_add(out, "</th><td>");
        tt__html_add(out, tt_json_text(v, ""));
        tt_str_add(out, "</td></tr>\n");
    }
    tt_str_add(out, "</table></section>\n");
}

enum { ROWS = 24, NAMES = 12 };

// The last value at or before a step.
static double value_at(const tt_metric_series *s, int64_t step, int64_t *at)
{
    while (*at < s->n && s->step[*at] <= step)
        ++*at;
    return *at > 0 ? s->value[*at - 1] : (double)NAN;
}

void tt__report_numbers(const tt_metrics *m, tt_str *out)
{
    const tt_metric_series *longest = m->n > 0 ? &m->v[0] : NULL;
    const int n = m->n < NAMES ? m->n : NAMES;
    int64_t at[NAMES] = {0};
    for (int i = 1; i < m->n; i++)
        longest = m->v[i].n > longest->n ? &m->v[i] : longest;
    if (longest == NULL)
        return;
    const int64_t rows = longest->n < ROWS ? longest->n : ROWS;
    tt_str_add(out, "<section><details><summary>The curves as numbers"
                    "</summary>\n<div class=\"rows\" tabindex=\"0\"><table>\n"
                    "<tr><th scope=\"col\">step</th>");
    for (int i = 0; i < n; i++) {
        tt_str_add(out, "<th scope=\"col\">");
        tt__html_add(out, m->v[i].name);
        tt_str_add(out, "</th>");
    }
    tt_str_add(out, "</tr>\n");
    for (int64_t r = 0; r < rows; r++) {
        const int64_t step =
            longest->step[rows > 1 ? r * (longest->n - 1) / (rows - 1) : 0];
        tt_str_addf(out, "<tr><th scope=\"row\">%lld</th>", (long long)step);
        for (int i = 0; i < n; i++) {
            const double v = value_at(&m->v[i], step, &at[i]);
            tt_str_addf(out, isnan(v) ? "<td></td>" : "<td>%.5g</td>", v);
        }
        tt_str_add(out, "</tr>\n");
    }
    tt_str_add(out, "</table></div></details></section>\n");
}

static void add_config(const tt_str *text, tt_str *out)
{
    if (text->n == 0)
        return;
    tt_str_add(out, "<section><details><summary>All settings</summary>\n"
                    "<pre tabindex=\"0\">");
    tt__html_add_bytes(out, text->text, text->n);
    tt_str_add(out, "</pre></details></section>\n");
}

tt_status tt__report_page_add(const tt_report_data *d, tt_str *out)
{
    const bool is_running = strcmp(outcome_of(d), "running") == 0;
    tt__head_add(out, title_of(d), is_running ? REFRESH : 0);
    add_header(d, out);
    tt_str_add(out, "<main>\n");
    add_tiles(d, out);
    TT_TRY(tt__report_curves(d, out));
    tt__report_time_add(d, out);
    tt__report_ranks(d->ranks, out);
    tt__report_pipe(d->ranks, out);
    tt__report_workers(d->workers, out);
    tt_str_add(out, "<div class=\"columns\">\n");
    tt__report_table("Run", tt_json_get(d->facts, "facts"), out);
    tt_str_add(out, "<div>\n");
    tt__report_table("Machine", tt_json_get(d->facts, "machine"), out);
    tt__report_table("Settings that differ from the defaults",
                     tt_json_get(d->facts, "settings"), out);
    tt_str_add(out, "</div>\n</div>\n");
    tt__report_log(&d->files->log, out);
    tt__report_numbers(&d->metrics, out);
    add_config(&d->files->config, out);
    tt_str_add(out, "</main>\n<footer>Made by Tutti from ");
    tt__html_add(out, d->files->folder);
    tt_str_add(out, "</footer>\n<p id=\"say\" role=\"status\"></p>\n<script>");
    tt_str_add(out, tt__report_script);
    tt_str_add(out, "</script>\n</body>\n</html>\n");
    return tt_str_status(out);
}
