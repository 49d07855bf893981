// report_axes - the scales of a chart, their ticks, and the values under the
// pointer.
//
// All combinations of axes of a chart share the same range of y, so that switching
// from steps to time moves the curves sideways only.

#include "store/report/report_parts.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    CELLS = 60,
    CELLS_WIDE = 120
}; // columns that show values when pointed at

bool tt__is_usable(double v)
{
    return isfinite(v) && fabs(v) < 1e300;
}

// ---- numbers -------------------------------------------------------------

// "1.5k", "0.0004", "2e-05": short, for an axis.
void tt__number_add(tt_str *out, double v, bool is_percent)
{
    const double size = fabs(v);
    if (is_percent)
        tt_str_addf(out, "%.4g%%", 100 * v);
    else if (size >= 999.5e9)
        tt_str_addf(out, "%.4gT", v / 1e12);
    else if (size >= 999.5e6)
        tt_str_addf(out, "%.4gG", v / 1e9);
    else if (size >= 999.5e3)
        tt_str_addf(out, "%.4gM", v / 1e6);
    else if (size >= 9999.5)
        tt_str_addf(out, "%.4gk", v / 1e3);
    else
        tt_str_addf(out, "%.4g", v);
}

// "12 MB".
void tt__axis_bytes_add(tt_str *out, double bytes)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    int i = 0;
    for (; bytes >= 999.5 && i < 5; i++)
        bytes /= 1000;
    tt_str_addf(out, i == 0 ? "%.0f %s" : "%.3g %s", bytes, unit[i]);
}

void tt__place_add(const tt_chart *chart, tt_str *out, double step)
{
    if (chart->is_bytes)
        tt__axis_bytes_add(out, step);
    else
        tt_str_addf(out, "%.0f", floor(step));
}

// ---- scales --------------------------------------------------------------

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

static tt_scale y_scale(const tt_chart *c, const range *r, bool is_log)
{
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

// The largest unit of which the axis has more than two.
static double time_unit(double seconds)
{
    return seconds > 2 * 86400 ? 86400
           : seconds > 7200    ? 3600
           : seconds > 120     ? 60
                               : 1;
}

static void measure(const tt_chart *chart, tt_x kind, range *x, range *y)
{
    for (int c = 0; c < chart->n; c++) {
        const tt_curve *curve = &chart->curve[c];
        const tt_metric_series *s = curve->series;
        if (s == NULL)
            continue;
        for (int64_t i = 0; i < s->n; i++) {
            const double at = tt__curve_x(curve, kind, i);
            if (!tt__is_usable(at))
                continue;
            widen(x, at);
            if (tt__is_usable(s->value[i]))
                widen(y, s->value[i]);
        }
    }
}

bool tt__frame_make(const tt_chart *chart, tt_x kind, bool is_log,
                    tt_frame *out)
{
    range x = {HUGE_VAL, -HUGE_VAL, 0};
    range y = {HUGE_VAL, -HUGE_VAL,
               0}; // of all steps: the same for every x axis
    range every = y, some = y;
    measure(chart, TT_X_STEP, &every, &y);
    measure(chart, kind, &x, &some);
    if (some.n == 0 || (is_log && y.low <= 0) ||
        ((kind == TT_X_TIME || kind == TT_X_BYTES) && x.high <= 0))
        return false;
    const double per = kind == TT_X_TIME ? time_unit(x.high) : 1;
    *out =
        (tt_frame){chart, kind, x_scale(&x), y_scale(chart, &y, is_log), per};
    if (!chart->is_wide && chart->log_above > 0 && y.low > 0 &&
        y.high / y.low > chart->log_above)
        out->y = y_scale(chart, &y, true);
    return true;
}

double tt__frame_left(const tt_frame *f, double x)
{
    return 100 * tt__scale_place(&f->x, x);
}

double tt__frame_top(const tt_frame *f, double y)
{
    return 100 * (1 - tt__scale_place(&f->y, y));
}

// ---- ticks ---------------------------------------------------------------

const char *tt__frame_x_name(const tt_frame *f)
{
    if (f->kind == TT_X_STEP)
        return f->chart->steps != NULL ? f->chart->steps : "step";
    if (f->kind == TT_X_UNITS)
        return f->chart->units;
    if (f->kind == TT_X_BYTES)
        return "bytes sent by a rank";
    return f->per == 86400  ? "days of training"
           : f->per == 3600 ? "hours of training"
           : f->per == 60   ? "minutes of training"
                            : "seconds of training";
}

void tt__frame_grid(const tt_frame *f)
{
    double tick[TT_TICKS_MAX];
    const int n = tt__scale_ticks(&f->y, 5, tick);
    tt_str_add(f->out, "<path class=\"grid\" d=\"");
    for (int i = 0; i < n; i++) {
        const double top = tt__frame_top(f, tick[i]);
        if (top > -0.3 && top < 100.3)
            tt_str_addf(f->out, "M0 %.0fh2000", 10 * top);
    }
    tt_str_add(f->out, "\"/>\n");
}

void tt__frame_y_ticks(const tt_frame *f, const char *kind)
{
    double tick[TT_TICKS_MAX];
    const int n = tt__scale_ticks(&f->y, 5, tick);
    tt_str_addf(f->out, "<div class=\"yt %s\">", kind);
    for (int i = 0; i < n; i++) {
        const double top = tt__frame_top(f, tick[i]);
        if (top <= -0.3 || top >= 100.3)
            continue;
        tt_str_addf(f->out, "<span style=\"top:%.1f%%\">", top);
        tt__number_add(f->out, tick[i], f->chart->is_percent);
        tt_str_add(f->out, "</span>");
    }
    tt_str_add(f->out, "<em>");
    tt__html_add(f->out, f->chart->y_name);
    tt_str_add(f->out,
               f->y.is_log ? ", log scale</em></div>\n" : "</em></div>\n");
}

void tt__frame_x_ticks(const tt_frame *f, const char *kind)
{
    double tick[TT_TICKS_MAX];
    const tt_scale x = {f->x.low / f->per, f->x.high / f->per};
    const int n = tt__scale_ticks(&x, f->chart->is_wide ? 9 : 5, tick);
    tt_str_addf(f->out, "<div class=\"xt %s\">", kind);
    for (int i = 0; i < n; i++) {
        tt_str_addf(f->out, "<span style=\"left:%.1f%%\">",
                    tt__frame_left(f, tick[i] * f->per));
        if (f->kind == TT_X_BYTES || f->chart->is_bytes)
            tt__axis_bytes_add(f->out, tick[i]);
        else
            tt__number_add(f->out, tick[i], false);
        tt_str_add(f->out, "</span>");
    }
    tt_str_add(f->out, "<em>");
    tt__html_add(f->out, tt__frame_x_name(f));
    tt_str_add(f->out, "</em></div>\n");
}

// ---- readings ------------------------------------------------------------

// The last value at or before `x`, or NaN. `at` is where the last search ended:
// calls come with growing x.
static double value_at(const tt_curve *c, tt_x kind, double x, int64_t *at)
{
    const tt_metric_series *s = c->series;
    if (s == NULL || s->n == 0 || isnan(tt__curve_x(c, kind, s->n - 1)))
        return (double)NAN;
    while (*at < s->n && !(tt__curve_x(c, kind, *at) > x))
        ++*at;
    return *at > 0 ? s->value[*at - 1] : (double)NAN;
}

static void add_place(const tt_frame *f, double x)
{
    if (f->kind == TT_X_BYTES)
        tt__axis_bytes_add(f->out, x);
    else if (f->kind == TT_X_STEP) {
        tt_str_add(f->out, f->chart->is_bytes ? "" : "step ");
        tt__place_add(f->chart, f->out, x);
    } else if (f->kind == TT_X_TIME)
        tt__time_add(f->out, x);
    else
        tt__number_add(f->out, x, false);
}

enum { AT_ONCE = 24 }; // curves that are read

// The values under the pointer, without a script: the plot is covered with narrow
// columns, each of which shows its line and text when the pointer is over it.
void tt__frame_readings(const tt_frame *f, const char *kind)
{
    const int cells = f->chart->is_wide ? CELLS_WIDE : CELLS;
    int64_t at[AT_ONCE] = {0};
    tt_str_addf(f->out, "<div class=\"at %s\">", kind);
    for (int i = 0; i < cells; i++) {
        const double x = f->x.low + (f->x.high - f->x.low) * (i + 1) / cells;
        tt_str_add(f->out, "<i><b>");
        add_place(f, x);
        for (int c = 0; c < f->chart->n && c < AT_ONCE; c++) {
            const tt_curve *curve = &f->chart->curve[c];
            const double v =
                value_at(curve, f->kind, x + 1e-9 * fabs(x), &at[c]);
            if (!isfinite(v))
                continue;
            tt_str_addf(f->out, " <s class=%s>", curve->color);
            if (f->chart->is_wide && curve->label != NULL) {
                tt__html_add(f->out, curve->label);
                tt_str_add(f->out, " ");
            }
            tt_str_addf(f->out, f->chart->is_percent ? "%.2f%%" : "%.4g",
                        f->chart->is_percent ? 100 * v : v);
            tt_str_add(f->out, "</s>");
        }
        tt_str_add(f->out, "</b></i>");
    }
    tt_str_add(f->out, "</div>\n");
}
