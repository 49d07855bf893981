// report_chart - one figure: axes, faint raw values, a smooth line over them,
// evaluations, the best of them, and a reading under the pointer.

#include "base/alloc.h"
#include "store/report_parts.h"

#include <math.h>
#include <stddef.h>

enum {
    WIDTH = 540,
    HEIGHT = 300,
    LEFT = 58,
    RIGHT = 16,
    TOP = 34,
    BOTTOM = 32,
    PLOT_W = WIDTH - LEFT - RIGHT,
    PLOT_H = HEIGHT - TOP - BOTTOM,
    READINGS = 90, // places under the pointer
    FEW = 40,      // points that are shown one by one
};

typedef struct frame {
    const tt_chart *chart;
    tt_scale x, y;
    tt_str *out;
} frame;

static double x_of(const frame *f, double step)
{
    return LEFT + PLOT_W * tt__scale_place(&f->x, step);
}

static double y_of(const frame *f, double value)
{
    return TOP + PLOT_H * (1 - tt__scale_place(&f->y, value));
}

// ---- numbers -------------------------------------------------------------

// "1.5k", "0.0004", "2e-05": short, for an axis.
static void add_number(tt_str *out, double v, bool is_percent)
{
    const double size = fabs(v);
    if (is_percent)
        tt_str_addf(out, "%.4g%%", 100 * v);
    else if (size >= 999.5e6)
        tt_str_addf(out, "%.4gG", v / 1e9);
    else if (size >= 999.5e3)
        tt_str_addf(out, "%.4gM", v / 1e6);
    else if (size >= 9999.5)
        tt_str_addf(out, "%.4gk", v / 1e3);
    else
        tt_str_addf(out, "%.4g", v);
}

// ---- scales --------------------------------------------------------------

static bool is_usable(double v)
{
    return isfinite(v) && fabs(v) < 1e300;
}

typedef struct range {
    double low, high;
    int64_t n;
} range;

static void widen(range *r, double v)
{
    r->low = fmin(r->low, v);
    r->high = fmax(r->high, v);
    r->n++;
}

static tt_scale x_scale(const range *r)
{
    const double low = r->low < r->high ? r->low : r->low - 1;
    return (tt_scale){low < r->high * 0.05 ? fmin(0, low) : low,
                      r->low < r->high ? r->high : r->high + 1};
}

static tt_scale y_scale(const tt_chart *c, const range *r)
{
    const bool is_log =
        c->log_above > 0 && r->low > 0 && r->high / r->low > c->log_above;
    tt_scale s = {is_log ? log10(r->low) : r->low,
                  is_log ? log10(r->high) : r->high, is_log};
    double margin = 0.04 * (s.high - s.low);
    if (margin <= 1e-12 * fabs(s.high))
        margin = s.high == 0 ? 1 : 0.1 * fabs(s.high);
    const bool from_zero = !is_log && s.low >= 0 && s.low < 0.2 * s.high;
    s.low = from_zero ? 0 : s.low - margin;
    s.high += margin;
    if (c->is_percent && s.high > 1)
        s.high = 1;
    return s;
}

static bool make_scales(frame *f)
{
    range x = {HUGE_VAL, -HUGE_VAL, 0};
    range y = {HUGE_VAL, -HUGE_VAL, 0};
    for (int c = 0; c < TT_CHART_CURVES; c++) {
        const tt_metric_series *s = f->chart->curve[c].series;
        for (int64_t i = 0; s != NULL && i < s->n; i++) {
            widen(&x, (double)s->step[i]);
            if (is_usable(s->value[i]))
                widen(&y, s->value[i]);
        }
    }
    if (y.n == 0)
        return false;
    f->x = x_scale(&x);
    f->y = y_scale(f->chart, &y);
    return true;
}

// ---- drawing -------------------------------------------------------------

static void add_axes(const frame *f)
{
    double tick[TT_TICKS_MAX];
    int n = tt__scale_ticks(&f->y, 5, tick);
    for (int i = 0; i < n; i++) {
        const double y = y_of(f, tick[i]);
        if (y < TOP - 1 || y > TOP + PLOT_H + 1)
            continue;
        tt_str_addf(f->out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y,
                    LEFT + PLOT_W);
        tt_str_addf(f->out, "<text class=\"tick end\" x=\"%d\" y=\"%.1f\">",
                    LEFT - 8, y + 4);
        add_number(f->out, tick[i], f->chart->is_percent);
        tt_str_add(f->out, "</text>\n");
    }
    n = tt__scale_ticks(&f->x, 6, tick);
    for (int i = 0; i < n; i++) {
        tt_str_addf(f->out,
                    "<path class=\"grid\" d=\"M%.1f %dv4\"/>"
                    "<text class=\"tick mid\" x=\"%.1f\" y=\"%d\">",
                    x_of(f, tick[i]), TOP + PLOT_H, x_of(f, tick[i]),
                    HEIGHT - 12);
        add_number(f->out, tick[i], false);
        tt_str_add(f->out, "</text>\n");
    }
    tt_str_addf(f->out, "<path class=\"axis\" d=\"M%d %dH%d\"/>\n", LEFT,
                TOP + PLOT_H, LEFT + PLOT_W);
}

typedef struct pen { // a line, at most two points for every column of pixels
    const frame *f;
    bool is_down; // a point was drawn before
    int64_t column;
    int n;             // values kept of this column
    double x[2], y[2]; // lowest and highest, in the order they came
} pen;

static void pen_flush(pen *p)
{
    for (int i = 0; i < p->n; i++) {
        tt_str_addf(p->f->out, "%s%.1f %.1f", p->is_down ? "L" : "M", p->x[i],
                    p->y[i]);
        p->is_down = true;
    }
    p->n = 0;
}

static void pen_keep(pen *p, double x, double y)
{
    if (p->n < 2) {
        p->x[p->n] = x;
        p->y[p->n++] = y;
        return;
    }
    const int low = p->y[0] < p->y[1] ? 0 : 1;
    const bool is_outside = y < p->y[low] || y > p->y[1 - low];
    if (!is_outside)
        return;
    const int gone = y < p->y[low] ? low : 1 - low;
    if (gone == 0) { // the newest stays last
        p->x[0] = p->x[1];
        p->y[0] = p->y[1];
    }
    p->x[1] = x;
    p->y[1] = y;
}

static void pen_add(pen *p, double step, double value)
{
    if (!is_usable(value)) {
        pen_flush(p);
        p->is_down = false;
        return;
    }
    const double x = x_of(p->f, step);
    const int64_t column = (int64_t)x;
    if (column != p->column)
        pen_flush(p);
    p->column = column;
    pen_keep(p, x, y_of(p->f, value));
}

static void add_line(const frame *f, const tt_metric_series *s,
                     const double *value, const char *kind, int curve)
{
    pen p = {.f = f, .column = -1};
    tt_str_addf(f->out, "<path class=\"%s c%d\" d=\"", kind, curve);
    for (int64_t i = 0; i < s->n; i++)
        pen_add(&p, (double)s->step[i], value[i]);
    pen_flush(&p);
    tt_str_add(f->out, "\"/>\n");
}

// Values that are no numbers are shown as crosses on the axis.
static void add_marks(const frame *f, const tt_metric_series *s, int curve)
{
    double last = -1e9;
    for (int64_t i = 0; i < s->n; i++) {
        const double x = x_of(f, (double)s->step[i]);
        const bool is_bad = !isfinite(s->value[i]);
        if ((!is_bad && s->n > FEW) || (is_bad && x - last < 4))
            continue;
        if (is_bad)
            tt_str_addf(f->out,
                        "<path class=\"bad\" d=\"M%.1f %dl6 6m0 -6l-6 6\">"
                        "<title>not finite at step %.0f</title></path>\n",
                        x - 3, TOP + PLOT_H - 8, (double)s->step[i]);
        else if (is_usable(s->value[i]))
            tt_str_addf(f->out,
                        "<circle class=\"dot c%d\" cx=\"%.1f\" cy=\"%.1f\" "
                        "r=\"2.5\"/>\n",
                        curve, x, y_of(f, s->value[i]));
        last = is_bad ? x : last;
    }
}

static int64_t best_index(const tt_chart *c, const tt_metric_series *s)
{
    int64_t best = -1;
    for (int64_t i = 0; s != NULL && i < s->n; i++)
        if (is_usable(s->value[i]) &&
            (best < 0 || c->best * (s->value[i] - s->value[best]) > 0))
            best = i;
    return best;
}

static void add_best(const frame *f)
{
    const tt_metric_series *s = f->chart->curve[TT_CHART_CURVES - 1].series;
    const int64_t i = best_index(f->chart, s);
    if (f->chart->best == 0 || i < 0)
        return;
    const double x = x_of(f, (double)s->step[i]), y = y_of(f, s->value[i]);
    const bool is_right = x > LEFT + PLOT_W * 0.75;
    const double below = f->chart->best < 0 ? -10 : 18;
    tt_str_addf(f->out,
                "<circle class=\"best\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>"
                "<text class=\"best%s\" x=\"%.1f\" y=\"%.1f\">best ",
                x, y, is_right ? " end" : "", x + (is_right ? 4 : -4),
                y + below);
    tt_str_addf(f->out, f->chart->is_percent ? "%.2f%%" : "%.4g",
                f->chart->is_percent ? 100 * s->value[i] : s->value[i]);
    tt_str_add(f->out, "</text>\n");
}

static tt_status add_curve(const frame *f, int curve)
{
    const tt_metric_series *s = f->chart->curve[curve].series;
    if (s == NULL || s->n == 0)
        return TT_OK;
    if (s->n <= FEW) {
        add_line(f, s, s->value, "line", curve);
        add_marks(f, s, curve);
        return TT_OK;
    }
    double *smooth = tt_alloc(s->n * (int64_t)sizeof(double));
    if (smooth == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the report's curves");
    const int64_t window = s->n / 25;
    tt__series_smooth(s, window > 4 ? window : 4, smooth);
    add_line(f, s, s->value, "raw", curve);
    add_line(f, s, smooth, "line", curve);
    add_marks(f, s, curve);
    tt_free(smooth);
    return TT_OK;
}

// The last value of the series at or before `step`, or NaN.
static double value_at(const tt_metric_series *s, double step, int64_t *at)
{
    while (s != NULL && *at < s->n && (double)s->step[*at] <= step + 1e-9)
        ++*at;
    return s != NULL && *at > 0 ? s->value[*at - 1] : (double)NAN;
}

// Without any script: a column that shows its line and text when pointed at.
static void add_readings(const frame *f)
{
    int64_t at[TT_CHART_CURVES] = {0};
    const double width = (double)PLOT_W / READINGS;
    for (int i = 0; i < READINGS; i++) {
        const double step =
            f->x.low + (f->x.high - f->x.low) * (i + 1) / READINGS;
        const double x = LEFT + width * (i + 1);
        tt_str_addf(f->out,
                    "<g class=\"at\"><rect x=\"%.1f\" y=\"%d\" width=\"%.2f\" "
                    "height=\"%d\"/><path d=\"M%.1f %dv%d\"/>"
                    "<text class=\"end\" x=\"%d\" y=\"20\">step %.0f",
                    x - width / 2, TOP, width, PLOT_H, x, TOP, PLOT_H,
                    WIDTH - RIGHT, step);
        for (int c = 0; c < TT_CHART_CURVES; c++) {
            const double v = value_at(f->chart->curve[c].series, step, &at[c]);
            if (!isfinite(v))
                continue;
            tt_str_addf(f->out, " <tspan class=\"c%d\">", c);
            tt_str_addf(f->out, f->chart->is_percent ? "%.2f%%" : "%.4g",
                        f->chart->is_percent ? 100 * v : v);
            tt_str_add(f->out, "</tspan>");
        }
        tt_str_add(f->out, "</text></g>\n");
    }
}

static void add_caption(const frame *f)
{
    tt_str_add(f->out, "<figcaption>");
    tt__html_add(f->out, f->chart->title);
    if (f->y.is_log)
        tt_str_add(f->out, " <small>log scale</small>");
    for (int c = 0; c < TT_CHART_CURVES; c++) {
        const tt_curve *curve = &f->chart->curve[c];
        if (curve->series == NULL || curve->label == NULL)
            continue;
        tt_str_addf(f->out, " <span class=\"key k%d\">", c);
        tt__html_add(f->out, curve->label);
        tt_str_add(f->out, "</span>");
    }
    tt_str_add(f->out, "</figcaption>\n");
}

tt_status tt__chart_add(const tt_chart *chart, tt_str *out)
{
    frame f = {.chart = chart, .out = out};
    if (!make_scales(&f))
        return TT_OK;
    tt_str_add(out, "<figure>");
    add_caption(&f);
    tt_str_addf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
                WIDTH, HEIGHT);
    tt__html_add(out, chart->title);
    tt_str_add(out, "\">\n");
    add_axes(&f);
    for (int c = 0; c < TT_CHART_CURVES; c++)
        TT_TRY(add_curve(&f, c));
    add_best(&f);
    add_readings(&f);
    tt_str_add(out, "</svg></figure>\n");
    return tt_str_status(out);
}
