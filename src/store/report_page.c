// report_page - the sections of the page, from top to bottom.

#include "base/utf8.h"
#include "store/report_parts.h"

#include <math.h>
#include <string.h>

void tt__html_add(tt_str *out, const char *text)
{
    int64_t left = (int64_t)strlen(text);
    while (left > 0) {
        const int n = tt_utf8_read(text, left, NULL);
        const unsigned char c = (unsigned char)*text;
        if (n == 0 || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
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
            tt_str_add_bytes(out, text, n);
        text += n == 0 ? 1 : n;
        left -= n == 0 ? 1 : n;
    }
}

static const tt_metric_series *find(const tt_report_data *d, const char *name)
{
    return tt_metrics_find(&d->metrics, name);
}

// Lowest (sign -1) or highest (1).
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

static const char *title_of(const tt_report_data *d)
{
    const char *slash = strrchr(d->files->folder, '/');
    const char *name =
        slash != NULL && slash[1] != '\0' ? slash + 1 : d->files->folder;
    return tt_json_text(tt_json_get(d->facts, "title"), name);
}

static void add_head(const tt_report_data *d, tt_str *out)
{
    tt_str_add(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
                    "<meta charset=\"utf-8\">\n"
                    "<meta name=\"viewport\" content=\"width=device-width, "
                    "initial-scale=1\">\n"
                    "<meta name=\"color-scheme\" content=\"light dark\">\n"
                    "<meta name=\"generator\" content=\"Tutti\">\n<title>");
    tt__html_add(out, title_of(d));
    tt_str_add(out, "</title>\n<style>\n");
    tt_str_add(out, tt__report_style);
    tt_str_add(out, "</style>\n</head>\n<body>\n<header>\n<h1>");
    tt__html_add(out, title_of(d));
    tt_str_add(out, "</h1>\n");
    const char *outcome =
        tt_json_text(tt_json_get(d->facts, "outcome"), "running");
    tt_str_add(out, "<span class=\"outcome ");
    tt_str_add(out, strcmp(outcome, "failed") == 0 ? "is-bad"
                    : strcmp(outcome, "done") == 0 ? "is-good"
                                                   : "is-open");
    tt_str_add(out, "\">");
    tt__html_add(out, outcome);
    tt_str_add(out, "</span>\n</header>\n");
}

static void add_tile(tt_str *out, const char *name, double value, int digits,
                     const char *unit)
{
    if (isfinite(value))
        tt_str_addf(out, "<div><b>%.*f%s</b><span>%s</span></div>\n", digits,
                    value, unit, name);
}

static void add_time(tt_str *out, double seconds)
{
    const int64_t s = (int64_t)(seconds + 0.5);
    if (!isfinite(seconds) || seconds <= 0 || seconds > 1e9)
        return;
    tt_str_add(out, "<div><b>");
    if (seconds < 100)
        tt_str_addf(out, "%.1f s", seconds);
    else if (s < 3600)
        tt_str_addf(out, "%lld:%02lld min", (long long)(s / 60),
                    (long long)(s % 60));
    else
        tt_str_addf(out, "%lld:%02lld h", (long long)(s / 3600),
                    (long long)(s / 60 % 60));
    tt_str_add(out, "</b><span>time</span></div>\n");
}

static void add_tiles(const tt_report_data *d, tt_str *out)
{
    tt_str_add(out, "<section class=\"tiles\">\n");
    add_tile(out, "best validation loss", best_of(find(d, "val/loss"), -1), 4,
             "");
    add_tile(out, "best validation accuracy",
             100 * best_of(find(d, "val/accuracy"), 1), 2, "%");
    add_tile(out, "last training loss",
             tt_metrics_last(&d->metrics, "train/loss"), 4, "");
    if (d->metrics.last_step >= 0)
        add_tile(out, "steps", (double)d->metrics.last_step, 0, "");
    const double seconds = tt_json_number(tt_json_get(d->facts, "seconds"), 0);
    add_time(out,
             d->metrics.last_seconds > 0 ? d->metrics.last_seconds : seconds);
    tt_str_add(out, "</section>\n");
}

// ---- curves --------------------------------------------------------------

typedef struct known { // metrics that have a place of their own
    const char *title, *train, *val;
    double log_above;
    int best;
    bool is_percent;
    const char *label[TT_CHART_CURVES]; // NULL: training, validation
} known;

static const known known_charts[] = {
    {"Loss", "train/loss", "val/loss", 4, -1, false},
    {"Accuracy", "train/accuracy", "val/accuracy", 0, 1, true},
    {"Learning rate", "lr", NULL, 0, 0, false},
    {"Norm of the gradient", "grad_norm", NULL, 15, 0, false},
    {"Tokens per second", "tokens_per_second", NULL, 0, 0, false},
    {"Images per second", "images_per_second", NULL, 0, 0, false},
    {"Communication, seconds per step",
     "comm/exposed_seconds",
     "comm/hidden_seconds",
     0,
     0,
     false,
     {"exposed", "hidden"}},
    {"Spread of arrivals at collectives, seconds", "comm/spread_seconds", NULL,
     20, 0, false},
};
enum { N_KNOWN = sizeof known_charts / sizeof known_charts[0] };

// Has a chart already, or says no more than one that has.
static bool is_shown(const char *name)
{
    static const char *const implied[] = {"epoch", "step_seconds", "comm/bytes",
                                          "train/perplexity", "val/perplexity"};
    for (int i = 0; i < 5; i++)
        if (strcmp(name, implied[i]) == 0)
            return true;
    for (int i = 0; i < N_KNOWN; i++)
        if (strcmp(name, known_charts[i].train) == 0 ||
            (known_charts[i].val != NULL &&
             strcmp(name, known_charts[i].val) == 0))
            return true;
    return false;
}

static const char *label_of(const known *k, int curve)
{
    static const char *const usual[] = {"training", "validation"};
    if (k->val == NULL)
        return NULL;
    return k->label[curve] != NULL ? k->label[curve] : usual[curve];
}

static tt_status add_charts(const tt_report_data *d, tt_str *out)
{
    tt_str_add(out, "<section class=\"charts\">\n");
    for (int i = 0; i < N_KNOWN; i++) {
        const known *k = &known_charts[i];
        const tt_metric_series *val = k->val == NULL ? NULL : find(d, k->val);
        const tt_chart chart = {.title = k->title,
                                .curve = {{label_of(k, 0), find(d, k->train)},
                                          {label_of(k, 1), val}},
                                .is_percent = k->is_percent,
                                .log_above = k->log_above,
                                .best = k->best};
        TT_TRY(tt__chart_add(&chart, out));
    }
    for (int i = 0; i < d->metrics.n; i++) {
        if (is_shown(d->metrics.v[i].name))
            continue;
        const tt_chart chart = {.title = d->metrics.v[i].name,
                                .curve = {{NULL, &d->metrics.v[i]}}};
        TT_TRY(tt__chart_add(&chart, out));
    }
    tt_str_add(out, "</section>\n");
    return TT_OK;
}

// ---- tables --------------------------------------------------------------

static void add_table(const char *title, const tt_json_value *rows, tt_str *out)
{
    if (rows == NULL || rows->type != TT_JSON_OBJECT || rows->first == NULL)
        return;
    tt_str_addf(out, "<section><h2>%s</h2>\n<table>\n", title);
    for (const tt_json_value *v = rows->first; v != NULL; v = v->next) {
        tt_str_add(out, "<tr><th>");
        tt__html_add(out, v->key);
        tt_str_add(out, "</th><td>");
        tt__html_add(out, tt_json_text(v, ""));
        tt_str_add(out, "</td></tr>\n");
    }
    tt_str_add(out, "</table></section>\n");
}

static double fraction_of(const tt_report_data *d, const char *key)
{
    const double v = tt_json_number(tt_json_get(d->facts, key), 0);
    return v > 0 && v <= 1 ? v : 0;
}

// Where the time went, as one bar.
static void add_split(const tt_report_data *d, tt_str *out)
{
    const double input = fraction_of(d, "input_stall");
    const double save = fraction_of(d, "checkpoint_stall");
    const double rest = fmax(0, 1 - input - save);
    const struct {
        const char *name;
        double part;
    } part[] = {{"computing", rest},
                {"waiting for data", input},
                {"waiting for checkpoints", save}};
    if (tt_json_number(tt_json_get(d->facts, "seconds"), 0) <= 0)
        return;
    tt_str_add(out, "<section><h2>Time</h2>\n<div class=\"split\">");
    for (int i = 0; i < 3; i++)
        tt_str_addf(out, "<i class=\"p%d\" style=\"flex-grow:%.5f\"></i>", i,
                    part[i].part);
    tt_str_add(out, "</div>\n<p class=\"keys\">");
    for (int i = 0; i < 3; i++)
        tt_str_addf(out, "<span class=\"key p%d\">%s %.1f%%</span> ", i,
                    part[i].name, 100 * part[i].part);
    tt_str_add(out, "</p></section>\n");
}

enum { LOG_MAX = 256 << 10 };

// The end of a long text is what matters.
static void add_text(const char *title, const tt_str *text, bool is_open,
                     tt_str *out)
{
    const char *from = tt_str_text(text);
    if (text->n == 0)
        return;
    if (text->n > LOG_MAX) {
        from += text->n - LOG_MAX;
        const char *line = strchr(from, '\n');
        from = line != NULL ? line + 1 : from;
    }
    tt_str_addf(out, "<section><details%s><summary>%s</summary>\n<pre>",
                is_open ? " open" : "", title);
    tt__html_add(out, from);
    tt_str_add(out, "</pre></details></section>\n");
}

tt_status tt__report_page(const tt_report_data *d, tt_str *out)
{
    add_head(d, out);
    add_tiles(d, out);
    TT_TRY(add_charts(d, out));
    tt__report_ranks(d->ranks, out);
    tt_str_add(out, "<div class=\"columns\">\n");
    add_table("Run", tt_json_get(d->facts, "facts"), out);
    tt_str_add(out, "<div>\n");
    add_table("Machine", tt_json_get(d->facts, "machine"), out);
    add_split(d, out);
    tt_str_add(out, "</div>\n</div>\n");
    add_text("Notes", &d->files->log, true, out);
    add_text("Settings", &d->files->config, false, out);
    tt_str_add(out, "<footer>Made by Tutti from ");
    tt__html_add(out, d->files->folder);
    tt_str_add(out, "</footer>\n</body>\n</html>\n");
    return tt_str_status(out);
}
