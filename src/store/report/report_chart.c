// report_chart - one figure of the report: curves, a mean over noisy values, the
// best value, and a choice of axes.
//
// The page must work as a single file, without a script and without a library, on a
// phone and on a large screen. So lines are SVG with preserveAspectRatio="none",
// stretched to the plot; and all text is HTML beside it, placed in per cent, so
// that letters are not stretched.
//
// A choice of axes (steps, time, tokens; log or linear) without a script: every
// combination is drawn, each with a class, and radio buttons show one of them by
// CSS.
//
// A run of a million steps must not make a huge page. A plot is COLUMNS wide,
// so per column only the lowest and the highest value are drawn. The picture is the
// same as with all values: spikes stay visible, which they would not if every n-th
// value was taken.

#include "store/report/report_parts.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    WIDTH = 2000, // of the plot, in units of the SVG
    HEIGHT = 1000,
    COLUMNS = 500, // of a wide plot; at most two values in each
    FEW = 40,      // points that are shown one by one
};

// ---- lines ---------------------------------------------------------------

typedef struct pen { // a line, at most two points for every column
    const tt_frame *f;
    int columns;
    bool is_down;      // the path has begun
    int n_drawn;       // points since the pen went down
    int64_t column;    // that the kept values belong to
    int n;             // values kept of this column
    double x[2], y[2]; // lowest and highest, in the order they came
    int64_t at_x, at_y;
} pen;

const char *const tt__stroke_class[TT_STROKES] = {
    [TT_DASHED] = " dash", [TT_DOTTED] = " dots", [TT_SOLID] = ""};

static void pen_dot(pen *p)
{
    if (p->n_drawn == 1) // makes a line of one point visible
        tt_str_add(p->f->out, "h0");
    p->n_drawn = 0;
}

static void pen_flush(pen *p)
{
    for (int i = 0; i < p->n; i++) {
        const int64_t x = llround(WIDTH * p->x[i] / 100);
        const int64_t y = llround(HEIGHT * p->y[i] / 100);
        if (!p->is_down)
            tt_str_addf(p->f->out, "M%lld %lldl", (long long)x, (long long)y);
        else if (x == p->at_x && y == p->at_y)
            continue;
        else
            tt_str_addf(p->f->out, "%lld %lld ", (long long)(x - p->at_x),
                        (long long)(y - p->at_y));
        p->is_down = true;
        p->n_drawn++;
        p->at_x = x;
        p->at_y = y;
    }
    p->n = 0;
}

static void pen_lift(pen *p)
{
    pen_flush(p);
    pen_dot(p);
    p->is_down = false;
}

// Keeps the lowest and the highest value of a column, in the order they came.
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

// Adds a value to the line. One that is not finite makes a gap.
static void pen_add(pen *p, double x, double value)
{
    if (!tt__is_usable(x))
        return;
    if (!tt__is_usable(value)) {
        pen_lift(p);
        return;
    }
    const double left = tt__frame_left(p->f, x);
    const int64_t column = (int64_t)(left * p->columns / 100);
    if (column != p->column)
        pen_flush(p);
    p->column = column;
    pen_keep(p, left, tt__frame_top(p->f, value));
}

static int columns_of(const tt_chart *chart)
{
    return chart->is_wide ? COLUMNS : COLUMNS / 2;
}

// Draws a line of the values, or of means over `window` values. Means are computed
// at as many places as the plot has columns; the first and last value are among
// these.
static void add_line(const tt_frame *f, const tt_curve *c, int64_t window,
                     const char *kind)
{
    const tt_metric_series *s = c->series;
    pen p = {.f = f, .columns = columns_of(f->chart), .column = -1};
    const int64_t places =
        window > 1 && s->n > p.columns ? (int64_t)p.columns : s->n;
    tt_str_addf(f->out, "<path class=\"%s%s %s\" d=\"", kind,
                tt__stroke_class[c->stroke], c->color);
    for (int64_t k = 0; k < places; k++) {
        const int64_t i = places == s->n ? k : k * (s->n - 1) / (places - 1);
        const double x = tt__curve_x(c, f->kind, i);
        pen_add(&p, x,
                window > 1 && isfinite(s->value[i])
                    ? tt__series_mean(s, window, i)
                    : s->value[i]);
    }
    pen_lift(&p);
    tt_str_add(f->out, "\"/>\n");
}

static void add_dots(const tt_frame *f, const tt_curve *c)
{
    const tt_metric_series *s = c->series;
    tt_str_addf(f->out, "<path class=\"dot %s\" d=\"", c->color);
    for (int64_t i = 0; i < s->n; i++) {
        const double x = tt__curve_x(c, f->kind, i);
        if (tt__is_usable(x) && tt__is_usable(s->value[i]))
            tt_str_addf(f->out, "M%.0f %.0fh0",
                        WIDTH * tt__frame_left(f, x) / 100,
                        HEIGHT * tt__frame_top(f, s->value[i]) / 100);
    }
    tt_str_add(f->out, "\"/>\n");
}

static int64_t window_of(const tt_curve *c)
{
    const int64_t n = c->series != NULL ? c->series->n : 0;
    if (!c->is_noisy || n <= FEW)
        return 1;
    const int64_t window = n / 25 < 5 ? 5 : n / 25;
    return window | 1; // odd: as many on either side
}

static void add_curve(const tt_frame *f, const tt_curve *c)
{
    const tt_metric_series *s = c->series;
    const int64_t window = window_of(c);
    if (s == NULL || s->n == 0 || isnan(tt__curve_x(c, f->kind, s->n - 1)))
        return;
    if (window > 1 && !c->is_quiet)
        add_line(f, c, 1, "raw");
    add_line(f, c, window, "line");
    if (s->n <= FEW)
        add_dots(f, c);
}

// ---- marks ---------------------------------------------------------------

static int64_t best_index(const tt_curve *c)
{
    const tt_metric_series *s = c->series;
    int64_t best = -1;
    for (int64_t i = 0; s != NULL && c->best != 0 && i < s->n; i++)
        if (tt__is_usable(s->value[i]) &&
            (best < 0 || c->best * (s->value[i] - s->value[best]) > 0))
            best = i;
    return best;
}

static void add_best(const tt_frame *f, const tt_curve *c, const char *kind)
{
    const int64_t i = best_index(c);
    if (i < 0)
        return;
    const double x = tt__curve_x(c, f->kind, i);
    if (!tt__is_usable(x))
        return;
    const double left = tt__frame_left(f, x);
    tt_str_addf(f->out,
                "<span class=\"best %s %s%s%s\" style=\"left:%.1f%%;"
                "top:%.1f%%\"><b>best ",
                c->color, kind, left > 75 ? " lefts" : "",
                c->best < 0 ? " up" : "", left,
                tt__frame_top(f, c->series->value[i]));
    tt_str_addf(f->out, f->chart->is_percent ? "%.2f%%" : "%.4g",
                f->chart->is_percent ? 100 * c->series->value[i]
                                     : c->series->value[i]);
    tt_str_add(f->out, "</b></span>\n");
}

// Values that are no numbers are shown as crosses on the axis.
static void add_bad(const tt_frame *f, const tt_curve *c, const char *kind)
{
    const tt_metric_series *s = c->series;
    double last = -1e9;
    for (int64_t i = 0; s != NULL && i < s->n; i++) {
        const double x = tt__curve_x(c, f->kind, i);
        if (isfinite(s->value[i]) || !tt__is_usable(x) ||
            tt__frame_left(f, x) - last < 1)
            continue;
        last = tt__frame_left(f, x);
        tt_str_addf(f->out,
                    "<span class=\"bad %s\" style=\"left:%.1f%%\" "
                    "title=\"not finite at step %lld\">\xc3\x97</span>\n",
                    kind, last, (long long)s->step[i]);
    }
}

// ---- what it is ----------------------------------------------------------

static void add_keys(const tt_chart *chart, tt_str *out)
{
    bool has_raw = false;
    for (int c = 0; c < chart->n; c++) {
        const tt_curve *curve = &chart->curve[c];
        const int64_t window = window_of(curve);
        if (curve->series == NULL || (curve->label == NULL && window == 1))
            continue;
        tt_str_addf(out, " <span class=\"key %s%s\">", curve->color,
                    tt__stroke_class[curve->stroke]);
        tt__html_add(out, curve->label != NULL ? curve->label : "");
        if (window > 1 && !curve->is_quiet)
            tt_str_addf(out, "%smean of %lld logged values",
                        curve->label != NULL ? ", " : "", (long long)window);
        tt_str_add(out, "</span>");
        has_raw |= window > 1 && !curve->is_quiet;
    }
    if (has_raw)
        tt_str_add(out, " <span class=\"key faint\">faint: each logged "
                        "value</span>");
}

// The picture in words, for screen readers: "Loss: training from 4.2 to 1.4, ...".
static void add_words(const tt_chart *chart, tt_str *out)
{
    const char *between = ": ";
    const char *at = chart->is_bytes ? " at " : " at step ";
    tt__html_add(out, chart->title);
    for (int c = 0; c < chart->n; c++) {
        const tt_curve *curve = &chart->curve[c];
        const tt_metric_series *s = curve->series;
        if (s == NULL || s->n == 0)
            continue;
        tt_str_add(out, between);
        if (curve->label != NULL)
            tt__html_add(out, curve->label);
        tt_str_add(out, curve->label != NULL ? " from " : "from ");
        tt__number_add(out, s->value[0], chart->is_percent);
        tt_str_add(out, at);
        tt__place_add(chart, out, (double)s->step[0]);
        tt_str_add(out, " to ");
        tt__number_add(out, s->value[s->n - 1], chart->is_percent);
        tt_str_add(out, at);
        tt__place_add(chart, out, (double)s->step[s->n - 1]);
        const int64_t best = best_index(curve);
        if (best >= 0) {
            tt_str_add(out, ", best ");
            tt__number_add(out, s->value[best], chart->is_percent);
        }
        between = "; ";
    }
}

typedef struct choice { // one way to draw the chart
    const char *kind;   // its class
    const char *text;
    bool is_there;
} choice;

// ---- the figure ----------------------------------------------------------

enum { N_Y = 2 };

typedef struct figure {
    const tt_chart *chart;
    tt_frame frame[TT_N_X][N_Y]; // y: log first where it is wide
    choice x[TT_N_X], y[N_Y];
    tt_str *out;
} figure;

static void choose(figure *g)
{
    const tt_chart *c = g->chart;
    const choice x[TT_N_X] = {{"x0", c->steps != NULL ? c->steps : "steps"},
                              {"x1", "time"},
                              {"x2", c->units != NULL ? c->units : ""},
                              {"x3", "bytes"}};
    const choice y[N_Y] = {{"y0", "log"}, {"y1", "linear"}};
    memcpy(g->x, x, sizeof x);
    memcpy(g->y, y, sizeof y);
    for (int i = 0; i < TT_N_X; i++)
        for (int k = 0; k < N_Y; k++) {
            tt_frame *f = &g->frame[i][k];
            if ((!c->is_wide && (i > 0 || k == 0)) ||
                (i > 0 && c->steps != NULL) ||
                (i == TT_X_UNITS && c->units == NULL) ||
                !tt__frame_make(c, (tt_x)i, k == 0, f))
                continue;
            f->out = g->out;
            g->x[i].is_there = g->y[k].is_there = true;
        }
}

// `axis`: "x" or "y".
static void add_choice(const figure *g, const char *axis, const choice *v,
                       int n)
{
    tt_str *out = g->out;
    bool is_first = true;
    int n_there = 0;
    for (int i = 0; i < n; i++)
        n_there += v[i].is_there;
    if (n_there < 2)
        return;
    tt_str_addf(out, "<fieldset class=\"switch\"><legend>%s</legend>",
                axis[0] == 'x' ? "over" : "scale");
    for (int i = 0; i < n; i++) {
        if (!v[i].is_there)
            continue;
        tt_str_addf(out,
                    "<label><input type=\"radio\" name=\"%s-%s\" "
                    "class=\"s%s\"%s><span>",
                    g->chart->id, axis, v[i].kind, is_first ? " checked" : "");
        tt__html_add(out, v[i].text);
        tt_str_add(out, "</span></label>");
        is_first = false;
    }
    tt_str_add(out, "</fieldset>\n");
}

static void add_lines(const figure *g)
{
    tt_str_addf(g->out,
                "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
                "aria-hidden=\"true\">\n",
                WIDTH, HEIGHT);
    for (int k = 0; k < N_Y; k++) {
        const tt_frame *of_steps = &g->frame[TT_X_STEP][k];
        if (of_steps->out == NULL)
            continue;
        tt_str_addf(g->out, "<g class=\"%s\">", g->y[k].kind);
        tt__frame_grid(of_steps);
        tt_str_add(g->out, "</g>");
        for (int i = 0; i < TT_N_X; i++) {
            const tt_frame *f = &g->frame[i][k];
            if (f->out == NULL)
                continue;
            tt_str_addf(g->out, "<g class=\"%s %s\">\n", g->x[i].kind,
                        g->y[k].kind);
            for (int c = 0; c < g->chart->n; c++)
                add_curve(f, &g->chart->curve[c]);
            tt_str_add(g->out, "</g>\n");
        }
    }
    tt_str_add(g->out, "</svg>\n");
}

static void add_marks(const figure *g, int i, int k)
{
    char kind[16] = "";
    const tt_frame *f = &g->frame[i][k];
    memcpy(kind, g->x[i].kind, 2);
    kind[2] = ' ';
    memcpy(kind + 3, g->y[k].kind, 2);
    for (int c = 0; c < g->chart->n; c++) {
        add_best(f, &g->chart->curve[c], kind);
        add_bad(f, &g->chart->curve[c], kind);
    }
}

static void add_texts(const figure *g)
{
    bool has_y[N_Y] = {0};
    for (int i = 0; i < TT_N_X; i++) {
        const tt_frame *any = NULL;
        for (int k = 0; k < N_Y; k++) {
            const tt_frame *f = &g->frame[i][k];
            if (f->out == NULL)
                continue;
            if (!has_y[k])
                tt__frame_y_ticks(f, g->y[k].kind);
            has_y[k] = true;
            add_marks(g, i, k);
            any = f;
        }
        if (any == NULL)
            continue;
        tt__frame_x_ticks(any, g->x[i].kind);
        tt__frame_readings(any, g->x[i].kind);
    }
}

tt_status tt__chart_add(const tt_chart *chart, tt_str *out)
{
    figure g = {.chart = chart, .out = out};
    choose(&g);
    if (g.frame[TT_X_STEP][N_Y - 1].out == NULL)
        return tt_str_status(out);
    tt_str_addf(out, "<figure%s><figcaption><b>",
                chart->is_wide ? " class=\"wide\"" : "");
    tt__html_add(out, chart->title);
    tt_str_add(out, "</b>");
    add_keys(chart, out);
    tt_str_add(out, "</figcaption>\n");
    if (chart->is_wide) {
        tt_str_add(out, "<div class=\"switches\">\n");
        add_choice(&g, "x", g.x, TT_N_X);
        add_choice(&g, "y", g.y, N_Y);
        tt_str_add(out, "</div>\n");
    }
    tt_str_add(out, "<div class=\"plot\" role=\"img\" tabindex=\"0\" "
                    "aria-label=\"");
    add_words(chart, out);
    tt_str_add(out, "\">\n");
    add_lines(&g);
    add_texts(&g);
    tt_str_add(out, "</div></figure>\n");
    return tt_str_status(out);
}
