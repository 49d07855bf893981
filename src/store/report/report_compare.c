// report_compare - several runs on one page and on one scale. A colour stands for a
// run. Settings that are the same in all runs are left out, so that the table shows
// the cause of a difference in the curves.

#include "store/report/report_parts.h"

#include <math.h>
#include <string.h>

enum { COLORS = 8 };

static const char *const colors[COLORS] = {"r0", "r1", "r2", "r3",
                                           "r4", "r5", "r6", "r7"};

typedef struct compared { // runs with what their files say
    const tt_report_comparison *of;
    tt_metrics *metrics;
    tt_sent *sent;
    double *units;    // tokens or images of a step; 0: not known
    const char *unit; // "tokens"; NULL: the runs count different things
    tt_curve *curve;  // room for one each
} compared;

// ---- reading -------------------------------------------------------------

static tt_status read_run(compared *c, int i, tt_arena *arena)
{
    const tt_report_compared *run = &c->of->run[i];
    const tt_json_value *facts = NULL;
    TT_TRY(tt_metrics_parse(tt_str_text(&run->metrics), run->metrics.n, arena,
                            &c->metrics[i]));
    if (tt_json_read(tt_str_text(&run->facts), run->facts.n, "facts.json",
                     arena, &facts) != TT_OK)
        facts = NULL;
    const double units = tt_json_number(tt_json_get(facts, "units"), 0);
    const char *unit = tt_json_text(tt_json_get(facts, "unit"), NULL);
    c->units[i] = isfinite(units) && units > 0 ? units : 0;
    if (i == 0)
        c->unit = unit;
    else if (unit == NULL || c->unit == NULL || strcmp(unit, c->unit) != 0)
        c->unit = NULL;
    return TT_OK;
}

static tt_status read_runs(compared *c, tt_arena *arena)
{
    const int64_t n = c->of->n;
    c->metrics = tt_arena_alloc(arena, n * (int64_t)sizeof *c->metrics);
    c->units = tt_arena_alloc(arena, n * (int64_t)sizeof *c->units);
    c->curve = tt_arena_alloc(arena, n * (int64_t)sizeof *c->curve);
    c->sent = tt_arena_alloc(arena, n * (int64_t)sizeof *c->sent);
    if (c->metrics == NULL || c->units == NULL || c->curve == NULL ||
        c->sent == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < c->of->n; i++)
        TT_TRY(read_run(c, i, arena));
    return TT_OK;
}

// ---- curves --------------------------------------------------------------

typedef struct kind {
    const char *title, *y_name, *name, *id; // with an id: wide
    double log_above;
    bool is_percent, is_noisy;
} kind;

static const kind kinds[] = {
    {"Training loss", "loss", "train/loss", "train", 0, false, true},
    {"Validation loss", "loss", "val/loss", "val", 0, false, false},
    {"Training accuracy", "accuracy", "train/accuracy", NULL, 0, true, true},
    {"Validation accuracy", "accuracy", "val/accuracy", NULL, 0, true, false},
    {"Learning rate", "learning rate", "lr", NULL, 0, false, false},
    {"Norm of the gradient", "norm", "grad_norm", NULL, 15, false, true},
    {"Tokens per second", "tokens/s", "tokens_per_second", NULL, 0, false,
     true},
    {"Images per second", "images/s", "images_per_second", NULL, 0, false,
     true},
};

static tt_status add_kind(const compared *c, const kind *k, tt_str *out)
{
    for (int i = 0; i < c->of->n; i++)
        c->curve[i] =
            (tt_curve){.label = c->of->run[i].name,
                       .color = colors[i % COLORS],
                       .series = tt_metrics_find(&c->metrics[i], k->name),
                       .units = c->units[i],
                       .sent = &c->sent[i],
                       .is_noisy = k->is_noisy,
                       .stroke = i >= COLORS ? TT_DASHED : TT_SOLID};
    const tt_chart chart = {.title = k->title,
                            .y_name = k->y_name,
                            .id = k->id,
                            .units = c->unit,
                            .curve = c->curve,
                            .n = c->of->n,
                            .is_percent = k->is_percent,
                            .is_wide = k->id != NULL,
                            .log_above = k->log_above};
    return tt__chart_add(&chart, out);
}

// ---- tables --------------------------------------------------------------

static double best_of(const tt_metric_series *s, int sign)
{
    double best = (double)NAN;
    for (int64_t i = 0; s != NULL && i < s->n; i++)
        if (isfinite(s->value[i]) &&
            (isnan(best) || sign * (s->value[i] - best) > 0))
            best = s->value[i];
    return best;
}

static void add_cell(tt_str *out, double value, int digits)
{
    if (isfinite(value))
        tt_str_addf(out, "<td>%.*f</td>", digits, value);
    else
        tt_str_add(out, "<td></td>");
}

static void add_run(const compared *c, int i, tt_str *out)
{
    const tt_report_compared *run = &c->of->run[i];
    const tt_metrics *m = &c->metrics[i];
    tt_str_addf(out,
                "<tr><th scope=\"row\"><span class=\"key box %s\">"
                "</span>",
                colors[i % COLORS]);
    tt__html_add(out, run->name);
    tt_str_add(out, "</th><td>");
    tt__html_add(out, run->status);
    tt_str_addf(out, "</td><td>%lld</td><td>",
                (long long)(m->last_step > 0 ? m->last_step : 0));
    if (m->last_seconds > 0 && m->last_seconds < 1e9)
        tt__time_add(out, m->last_seconds);
    tt_str_add(out, "</td>");
    add_cell(out, tt_metrics_last(m, "train/loss"), 4);
    add_cell(out, tt_metrics_last(m, "val/loss"), 4);
    add_cell(out, best_of(tt_metrics_find(m, "val/loss"), -1), 4);
    add_cell(out, 100 * best_of(tt_metrics_find(m, "val/accuracy"), 1), 2);
    tt_str_add(out, "<td>");
    tt__html_add(out, run->folder);
    tt_str_add(out, "</td></tr>\n");
}

static void add_runs(const compared *c, tt_str *out)
{
    static const char *const heading[] = {
        "run",        "status",   "steps",      "time",  "training loss",
        "validation", "its best", "accuracy %", "folder"};
    tt_str_add(out,
               "<section><div class=\"rows\" tabindex=\"0\"><table>\n<tr>");
    for (int i = 0; i < 9; i++)
        tt_str_addf(out, "<th scope=\"col\">%s</th>", heading[i]);
    tt_str_add(out, "</tr>\n");
    for (int i = 0; i < c->of->n; i++)
        add_run(c, i, out);
    tt_str_add(out, "</table></div></section>\n");
}

static void add_settings(const tt_report_comparison *of, tt_str *out)
{
    tt_str_add(out, "<section><h2>Settings that differ</h2>\n");
    if (of->n_differences == 0)
        tt_str_add(out, "<p>None: the settings are the same.</p>");
    else
        tt_str_add(out, "<div class=\"rows\" tabindex=\"0\"><table>\n<tr>"
                        "<th scope=\"col\">setting</th>");
    for (int i = 0; i < of->n && of->n_differences > 0; i++) {
        tt_str_add(out, "<th scope=\"col\">");
        tt__html_add(out, of->run[i].name);
        tt_str_add(out, "</th>");
    }
    for (int k = 0; k < of->n_differences; k++) {
        tt_str_add(out, k == 0 ? "</tr>\n<tr>" : "<tr>");
        tt_str_add(out, "<th scope=\"row\">");
        tt__html_add(out, of->difference[k].key);
        tt_str_add(out, "</th>");
        for (int i = 0; i < of->n; i++) {
            const char *value = of->difference[k].value[i];
            tt_str_add(out, "<td>");
            tt__html_add(out, value != NULL ? value : "-");
            tt_str_add(out, "</td>");
        }
        tt_str_add(out, "</tr>\n");
    }
    tt_str_add(out, of->n_differences > 0 ? "</table></div></section>\n"
                                          : "</section>\n");
}

// ---- the page ------------------------------------------------------------

static tt_status add_page(const compared *c, tt_str *out)
{
    tt_str title = {0};
    for (int i = 0; i < c->of->n; i++)
        tt_str_addf(&title, "%s%s", i > 0 ? ", " : "", c->of->run[i].name);
    tt__head_add(out, tt_str_text(&title), 0);
    tt_str_add(out, "<header><h1>");
    tt__html_add(out, tt_str_text(&title));
    tt_str_add(out, "</h1></header>\n<main>\n");
    tt_status status = tt_str_status(&title);
    tt_str_fini(&title);
    add_runs(c, out);
    tt_str_add(out, "<section class=\"charts\" aria-label=\"curves\">\n");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && status == TT_OK; i++)
        status = add_kind(c, &kinds[i], out);
    tt_str_add(out, "</section>\n");
    add_settings(c->of, out);
    tt_str_add(out, "</main>\n<footer>Made by Tutti</footer>\n"
                    "<p id=\"say\" role=\"status\"></p>\n<script>");
    tt_str_add(out, tt__report_script);
    tt_str_add(out, "</script>\n</body>\n</html>\n");
    return status == TT_OK ? tt_str_status(out) : status;
}

tt_status tt_report_compare(const tt_report_comparison *comparison, tt_str *out)
{
    compared c = {.of = comparison};
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the comparison");
    tt_status status = read_runs(&c, arena);
    for (int i = 0; i < comparison->n && status == TT_OK; i++)
        status = tt__sent_make(&c.metrics[i], &c.sent[i]);
    if (status == TT_OK)
        status = add_page(&c, out);
    for (int i = 0; i < comparison->n && c.sent != NULL; i++)
        tt__sent_free(&c.sent[i]);
    tt_arena_destroy(arena);
    return status;
}
