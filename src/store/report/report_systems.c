// report_systems - the page of `tutti compare`. See report_systems.h.
//
// The page answers in this order: which is fastest and what it costs (table), which
// learns fastest (curves over samples, time and bytes), which memory buys which speed
// (Pareto), why (one step of each), what they are (taxonomy), how to see it again.

#include "store/report/report_systems.h"

#include "base/arena.h"
#include "store/report/report_parts.h"

#include <math.h>
#include <stddef.h>

enum { COLORS = 8 };

const char *tt__systems_color(int i, int *stroke_out)
{
    static const char *const colors[COLORS] = {"r0", "r1", "r2", "r3",
                                               "r4", "r5", "r6", "r7"};
    if (stroke_out != NULL)
        *stroke_out = i / COLORS % TT_STROKES;
    return colors[i % COLORS];
}

void tt__systems_seconds(tt_str *out, double s)
{
    if (!isfinite(s))
        tt_str_add(out, "-");
    else if (s < 0.9995e-3)
        tt_str_addf(out, "%.3g \xc2\xb5s", s * 1e6); // micro
    else if (s < 0.9995)
        tt_str_addf(out, "%.3g ms", s * 1e3);
    else
        tt_str_addf(out, "%.3g s", s);
}

void tt__systems_bytes(tt_str *out, double bytes)
{
    if (isfinite(bytes))
        tt__axis_bytes_add(out, bytes);
    else
        tt_str_add(out, "-");
}

// ---- the table -----------------------------------------------------------

static void add_seconds(tt_str *out, const tt_interval *v)
{
    tt_str_add(out, "<td>");
    tt__systems_seconds(out, v->mid);
    if (v->high > v->low && v->mid > 0)
        tt_str_addf(out, " <small>\xc2\xb1%.0f%%</small>",
                    50 * (v->high - v->low) / v->mid);
    tt_str_add(out, "</td>");
}

static void add_loss(tt_str *out, const tt_interval *v)
{
    if (!isfinite(v->mid))
        tt_str_add(out, "<td>-</td>");
    else if (v->high > v->low)
        tt_str_addf(out, "<td>%.3f <small>\xc2\xb1%.3f</small></td>", v->mid,
                    (v->high - v->low) / 2);
    else
        tt_str_addf(out, "<td>%.3f</td>", v->mid);
}

bool tt_compared_has_staleness(const tt_compared *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->system[i].refusal == NULL && isfinite(c->system[i].staleness))
            return true;
    return false;
}

void tt_compared_drawn(const tt_compared *c, tt_str *out)
{
    bool has_any = false;
    for (int i = 0; i < c->n; i++) {
        if (c->system[i].refusal != NULL || !c->system[i].is_drawn)
            continue;
        tt_str_addf(out, "%s%s", has_any ? ", " : "", c->system[i].name);
        has_any = true;
    }
    if (has_any)
        tt_str_add(out, ": a drawn clock says who is next; times are those of "
                        "working that out here, not of ranks that do so");
}

static void add_row(const tt_compared *c, int i, tt_str *out)
{
    const tt_compared_system *s = &c->system[i];
    int stroke = 0;
    const char *color = tt__systems_color(i, &stroke);
    tt_str_addf(out, "<tr><th scope=\"row\"><span class=\"key %s%s\"></span>",
                color, tt__stroke_class[stroke]);
    tt__html_add(out, s->name);
    tt_str_add(out, "</th>");
    add_seconds(out, &s->step);
    tt_str_add(out, "<td>");
    if (s->step.mid > 0)
        tt__number_add(out, s->units / s->step.mid, false);
    tt_str_add(out, "</td><td>");
    tt__systems_seconds(out, s->exposed.mid);
    if (s->step.mid > 0 && isfinite(s->exposed.mid))
        tt_str_addf(out, " <small>%.0f%%</small>",
                    100 * s->exposed.mid / s->step.mid);
    tt_str_add(out, "</td><td>");
    tt__systems_bytes(out, s->bytes);
    tt_str_add(out, "</td><td>");
    tt__systems_bytes(out, s->memory);
    tt_str_add(out, "</td>");
    add_loss(out, &s->at_samples);
    add_loss(out, &s->at_time);
    add_seconds(out, &s->to_loss);
    if (tt_compared_has_staleness(c))
        tt_str_addf(out,
                    isfinite(s->staleness) ? "<td>%.2f</td>" : "<td>-</td>",
                    s->staleness);
    tt_str_add(out, "</tr>\n");
}

static void add_headings(const tt_compared *c, tt_str *out)
{
    const char *unit = c->unit != NULL ? c->unit : "samples";
    tt_str_addf(out,
                "<tr><th scope=\"col\">system</th><th scope=\"col\">step</th>"
                "<th scope=\"col\">%s/s</th><th scope=\"col\">exposed</th>"
                "<th scope=\"col\">sent</th><th scope=\"col\">memory</th>"
                "<th scope=\"col\">loss after ",
                unit);
    tt__number_add(out, c->units, false);
    tt_str_addf(out, " %s</th><th scope=\"col\">loss after ", unit);
    tt__systems_seconds(out, c->seconds);
    tt_str_add(out, "</th><th scope=\"col\">time to loss");
    if (isfinite(c->target))
        tt_str_addf(out, " %.4g", c->target);
    tt_str_addf(
        out, "</th>%s</tr>\n",
        tt_compared_has_staleness(c) ? "<th scope=\"col\">staleness</th>" : "");
}

static void add_table(const tt_compared *c, tt_str *out)
{
    tt_str drawn = {0};
    tt_str_add(out, "<section><h2 id=\"costs\">What each costs</h2>\n<div "
                    "class=\"rows\" tabindex=\"0\" role=\"group\" "
                    "aria-labelledby=\"costs\"><table "
                    "aria-labelledby=\"costs\">\n");
    add_headings(c, out);
    for (int i = 0; i < c->n; i++)
        if (c->system[i].refusal == NULL)
            add_row(c, i, out);
    tt_str_add(out,
               "</table></div>\n<p class=\"keys\">step: median over the run, "
               "the mean where steps differ, of all rounds; exposed: "
               "communication that a step waited for; "
               "sent: by a rank in a step; memory: planned, of the rank that "
               "needs the most; ");
    if (tt_compared_has_staleness(c))
        tt_str_add(out, "staleness: updates between the weights that a "
                        "gradient was computed at and the update that it goes "
                        "into, mean; ");
    tt_str_add(out, "\xc2\xb1: half the range of the rounds.</p>\n");
    tt_compared_drawn(c, &drawn);
    if (drawn.n > 0) {
        tt_str_add(out, "<p class=\"keys\">");
        tt__html_add(out, tt_str_text(&drawn));
        tt_str_add(out, ".</p>\n");
    }
    tt_str_fini(&drawn);
    tt_str_add(out, "</section>\n");
}

static void add_refusals(const tt_compared *c, tt_str *out)
{
    bool has_any = false;
    for (int i = 0; i < c->n; i++) {
        const tt_compared_system *s = &c->system[i];
        if (s->refusal == NULL && s->failure == NULL)
            continue;
        if (!has_any)
            tt_str_add(out, "<section><h2 id=\"refused\">What could not run, "
                            "and why</h2>\n<table "
                            "aria-labelledby=\"refused\">\n");
        has_any = true;
        tt_str_add(out, "<tr><th scope=\"row\">");
        tt__html_add(out, s->name);
        tt_str_add(out, "</th><td>");
        if (s->refusal == NULL)
            tt_str_addf(out, "ran %d of %d rounds: ", s->n_rounds, c->rounds);
        tt__html_add(out, s->refusal != NULL ? s->refusal : s->failure);
        tt_str_add(out, "</td></tr>\n");
    }
    if (has_any)
        tt_str_add(out, "</table></section>\n");
}

// ---- curves --------------------------------------------------------------

// Steps become bytes that a rank has sent until then.
static tt_status over_bytes(const tt_compared_system *s, tt_arena *arena,
                            const tt_metric_series **out)
{
    tt_metric_series *new = tt_arena_alloc(arena, sizeof *new);
    int64_t *step =
        tt_arena_alloc(arena, (s->loss->n + 1) * (int64_t)sizeof *step);
    if (new == NULL || step == NULL)
        return TT_ERR_NOMEM;
    *new = *s->loss;
    for (int64_t i = 0; i < s->loss->n; i++)
        step[i] = (int64_t)((double)s->loss->step[i] * s->bytes);
    new->step = step;
    *out = new;
    return TT_OK;
}

static tt_status add_chart(const tt_compared *c, bool is_bytes, tt_arena *arena,
                           tt_str *out)
{
    tt_curve *curve =
        tt_arena_alloc(arena, (c->n + 1) * (int64_t)sizeof *curve);
    int n = 0;
    if (curve == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < c->n; i++) {
        const tt_compared_system *s = &c->system[i];
        if (s->loss == NULL || (is_bytes && !(s->bytes > 0)))
            continue;
        tt_curve *to = &curve[n++];
        *to = (tt_curve){.label = s->name,
                         .series = s->loss,
                         .units = s->units,
                         .is_noisy = true,
                         .is_quiet = true};
        to->color = tt__systems_color(i, &to->stroke);
        if (is_bytes)
            TT_TRY(over_bytes(s, arena, &to->series));
    }
    const tt_chart chart = {
        .title = is_bytes ? "Loss against bytes sent" : "Loss",
        .y_name = "loss",
        .id = is_bytes ? "bytes" : "loss",
        .is_bytes = is_bytes,
        .units = is_bytes ? NULL : c->unit,
        .steps = is_bytes ? "bytes that a rank has sent" : NULL,
        .curve = curve,
        .n = n,
        .is_wide = true};
    return tt__chart_add(&chart, out);
}

// ---- what they are -------------------------------------------------------

static void add_taxonomy(const tt_compared *c, tt_str *out)
{
    tt_str_add(out, "<section><h2 id=\"kinds\">What they are</h2>\n<div "
                    "class=\"rows\" tabindex=\"0\" role=\"group\" "
                    "aria-labelledby=\"kinds\"><table class=\"texts\" "
                    "aria-labelledby=\"kinds\">\n<tr><th "
                    "scope=\"col\">system</th>");
    for (int f = 0; c->field_name[f] != NULL; f++)
        tt_str_addf(out, "<th scope=\"col\">%s</th>", c->field_name[f]);
    tt_str_add(out, "<th scope=\"col\">lacks</th><th scope=\"col\">settings"
                    "</th></tr>\n");
    for (int i = 0; i < c->n; i++) {
        const tt_compared_system *s = &c->system[i];
        if (s->field == NULL)
            continue;
        tt_str_add(out, "<tr><th scope=\"row\">");
        tt__html_add(out, s->name);
        tt_str_add(out, "<br><small>");
        tt__html_add(out, s->source);
        tt_str_add(out, "</small></th>");
        for (int f = 0; c->field_name[f] != NULL; f++) {
            tt_str_add(out, "<td>");
            tt__html_add(out, s->field[f]);
            tt_str_add(out, "</td>");
        }
        tt_str_add(out, "<td>");
        tt__html_add(out, s->lacks);
        tt_str_add(out, "</td><td>");
        tt__html_add(out, s->settings);
        tt_str_add(out, "</td></tr>\n");
    }
    tt_str_add(out, "</table></div></section>\n");
}

// Whether a step of each has as many samples as that of any other.
static bool has_one_batch(const tt_compared *c)
{
    double units = 0;
    for (int i = 0; i < c->n; i++) {
        const tt_compared_system *s = &c->system[i];
        if (s->refusal != NULL)
            continue;
        if (units > 0 && s->units != units)
            return false;
        units = s->units;
    }
    return true;
}

static void add_again(const tt_compared *c, tt_str *out)
{
    tt_str_add(out, "<section><h2>To see it again</h2>\n<pre tabindex=\"0\" "
                    "role=\"group\" aria-label=\"the command\">");
    tt__html_add(out, c->command);
    tt_str_addf(out,
                "</pre>\n<p>All systems had the same kernels, data%s%s. What "
                "is finished is not run again.</p></section>\n",
                has_one_batch(c) ? ", initial weights and global batch"
                                 : " and initial weights; a step of some has "
                                   "other samples than one of others, as "
                                   "where clients train by themselves",
                c->rounds > 1 ? "; rounds went through them forth and back, "
                                "so that other work on the machine hit all "
                                "alike"
                              : "");
}

// ---- the page ------------------------------------------------------------

static tt_status add_page(const tt_compared *c, tt_arena *arena, tt_str *out)
{
    tt__head_add(out, c->title, 0);
    tt_str_add(out, "<header><h1>");
    tt__html_add(out, c->title);
    tt_str_add(out, "</h1></header>\n<p class=\"when\">");
    tt__html_add(out, c->about);
    tt_str_add(out, "</p>\n<main>\n");
    add_table(c, out);
    add_refusals(c, out);
    tt_str_add(out, "<section class=\"charts\" aria-label=\"curves\">\n");
    TT_TRY(add_chart(c, false, arena, out));
    TT_TRY(add_chart(c, true, arena, out));
    tt_str_add(out, "</section>\n");
    tt__systems_pareto(c, out);
    tt__systems_lanes(c, out);
    add_taxonomy(c, out);
    add_again(c, out);
    tt_str_add(out, "</main>\n<footer>Made by Tutti</footer>\n"
                    "<p id=\"say\" role=\"status\"></p>\n<script>");
    tt_str_add(out, tt__report_script);
    tt_str_add(out, "</script>\n</body>\n</html>\n");
    return tt_str_status(out);
}

tt_status tt_report_systems(const tt_compared *compared, tt_str *out)
{
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the comparison");
    const tt_status status = add_page(compared, arena, out);
    tt_arena_destroy(arena);
    return status;
}
