// runs_chart - one metric of several runs on one scale, drawn with letters.
//
//    4.2 | ab
//        |  aab
//        |    aabb
//    1.4 |       aaaa
//        +-----------
//         0       300

#include "cli/runs/runs.h"
#include "cli/table.h"

#include <math.h>
#include <string.h>

enum { NOBODY = -1, ROWS = 12, MARGIN = 9, WIDEST = 100, NARROWEST = 20 };

typedef struct chart {
    double low, high; // of the values, or of their logarithms
    bool is_log;
    int64_t first, last; // steps
    int columns;
    char cell[ROWS][WIDEST];
    signed char owner[ROWS][WIDEST]; // the run whose letter it is
} chart;

// Finds the range of values and steps; false: there is nothing to draw. A range of
// more than a factor of four is drawn on a logarithmic scale, as losses fall fast and
// then slowly.
static bool measure(const tt_runs_one *one, int n, const char *name, chart *c)
{
    double low = HUGE_VAL, high = -HUGE_VAL;
    c->first = INT64_MAX;
    c->last = INT64_MIN;
    for (int i = 0; i < n; i++) {
        const tt_metric_series *s =
            one[i].has_metrics ? tt_metrics_find(&one[i].metrics, name) : NULL;
        for (int64_t k = 0; s != NULL && k < s->n; k++) {
            if (!isfinite(s->value[k]))
                continue;
            low = fmin(low, s->value[k]);
            high = fmax(high, s->value[k]);
            c->first = s->step[k] < c->first ? s->step[k] : c->first;
            c->last = s->step[k] > c->last ? s->step[k] : c->last;
        }
    }
    c->is_log = low > 0 && high / low > 4;
    c->low = c->is_log ? log10(low) : low;
    c->high = c->is_log ? log10(high) : high;
    if (c->high <= c->low)
        c->high = c->low + 1;
    return low <= high && high - low < 1e300;
}

static double height_of(const chart *c, double value)
{
    const double v = c->is_log ? log10(value) : value;
    return (v - c->low) / (c->high - c->low);
}

// The value for a range of steps: the mean of the points in it, else the straight line
// between the neighbours.
static double value_at(const tt_metric_series *s, double from, double to)
{
    double sum = 0;
    int64_t count = 0, before = -1, after = -1;
    for (int64_t i = 0; i < s->n; i++) {
        const double step = (double)s->step[i];
        if (!isfinite(s->value[i]))
            continue;
        if (step < from)
            before = i;
        else if (step >= to && after < 0)
            after = i;
        else if (step < to) {
            sum += s->value[i];
            count++;
        }
    }
    if (count > 0)
        return sum / (double)count;
    if (before < 0 || after < 0)
        return (double)NAN;
    const double a = (double)s->step[before], b = (double)s->step[after];
    const double part = b > a ? ((from + to) / 2 - a) / (b - a) : 0;
    return s->value[before] + part * (s->value[after] - s->value[before]);
}

static void draw(chart *c, const tt_metric_series *s, int run)
{
    const double span = (double)(c->last - c->first) / c->columns;
    for (int i = 0; i < c->columns; i++) {
        const double from = (double)c->first + span * i;
        const bool is_last = i == c->columns - 1;
        const double v =
            value_at(s, from, is_last ? (double)c->last + 1 : from + span);
        if (!isfinite(v) || (c->is_log && v <= 0))
            continue;
        int row = (int)((1 - height_of(c, v)) * (ROWS - 1) + 0.5);
        row = row < 0 ? 0 : row >= ROWS ? ROWS - 1 : row;
        const bool is_taken = c->cell[row][i] != ' ';
        c->cell[row][i] = is_taken ? '*' : (char)('a' + run % 26);
        c->owner[row][i] = (signed char)(is_taken ? NOBODY : run);
    }
}

static tt_style style_of(int run)
{
    static const tt_style styles[] = {TT_STYLE_BAR, TT_STYLE_WARNING,
                                      TT_STYLE_GOOD, TT_STYLE_BOLD};
    return run == NOBODY ? TT_STYLE_NONE : styles[run % 4];
}

static void print_row(const chart *c, const tt_term *term, int row, tt_str *out)
{
    const bool has_label = row == 0 || row == ROWS - 1 || row == ROWS / 2;
    const double v = c->high - (c->high - c->low) * row / (ROWS - 1);
    if (has_label)
        tt_str_addf(out, "%7.4g |", c->is_log ? pow(10, v) : v);
    else
        tt_str_addf(out, "%7s |", "");
    int end = c->columns;
    while (end > 0 && c->cell[row][end - 1] == ' ')
        end--;
    for (int i = 0; i < end; i++) {
        const char text[2] = {c->cell[row][i], '\0'};
        tt_term_add(term,
                    text[0] == ' ' ? TT_STYLE_NONE : style_of(c->owner[row][i]),
                    text, out);
    }
    tt_str_add(out, "\n");
}

static void print_axis(const chart *c, tt_str *out)
{
    tt_str left = {0}, right = {0};
    tt_str_addf(out, "%7s +", "");
    for (int i = 0; i < c->columns; i++)
        tt_str_add(out, "-");
    tt_add_grouped(&left, c->first);
    tt_add_grouped(&right, c->last);
    tt_str_addf(out, "\n%9s%s%*s%s\n", "", tt_str_text(&left),
                (int)(c->columns - left.n - right.n > 1
                          ? c->columns - left.n - right.n
                          : 1),
                "", tt_str_text(&right));
    tt_str_fini(&left);
    tt_str_fini(&right);
}

void tt__runs_chart(const tt_runs *runs, const tt_runs_one *one, int n,
                    const char *name, tt_str *out)
{
    chart c = {.low = 0};
    const int width = tt_term_width(&runs->term) - MARGIN - 1;
    c.columns = width < NARROWEST ? NARROWEST : width > WIDEST ? WIDEST : width;
    memset(c.cell, ' ', sizeof c.cell);
    if (!measure(one, n, name, &c))
        return;
    for (int i = 0; i < n; i++) {
        const tt_metric_series *s =
            one[i].has_metrics ? tt_metrics_find(&one[i].metrics, name) : NULL;
        if (s != NULL)
            draw(&c, s, i);
    }
    tt_str_addf(out, "%s over steps%s: ", name, c.is_log ? ", log scale" : "");
    for (int i = 0; i < n; i++) {
        tt_str key = {0};
        tt_str_addf(&key, "%c ", 'a' + i % 26);
        tt_term_add_foreign(one[i].name, false, &key);
        tt_term_add(&runs->term, style_of(i), tt_str_text(&key), out);
        tt_str_add(out, i + 1 < n ? ", " : "; * several\n");
        tt_str_fini(&key);
    }
    for (int row = 0; row < ROWS; row++)
        print_row(&c, &runs->term, row, out);
    print_axis(&c, out);
    tt_str_add(out, "\n");
}
