// report_workers - the section about workers at their own pace, from RUN/workers.json: what
// they did in words, how old gradients were, and where the time of each worker went.
//
//   worker 0  |##########::::####==|    a lane per worker, a bar per stretch of time,
//   worker 1  |######..####..######|    in each bar causes stacked
//
// Both pictures stretch with the page, since their texts are not part of them. They have a
// reading under the pointer and for arrow keys, as curves have, and the table says the same.

#include "store/report/report_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LANES_MAX = 32, // workers that are drawn
    BARS_MAX = 96,
    BINS_MAX = 64,
    COLUMNS_MAX = 32, // bins that are drawn; more are joined
    COLUMNS_MIN = 6,  // the axis has room for
    TABLE_MAX = 256,
    LANE = 22, // pixels
    FULL = 1000,
};

// In the order of workers.json.
static const struct {
    const char *key, *color, *name;
} causes[] = {
    {"computing", "t-compute", "computing"},
    {"wasted", "t-waste", "wasted"},
    {"messages", "t-net", "messages"},
    {"held", "t-data", "held by the clock"},
    {"turn", "t-save", "waiting for its turn"},
};
enum { N_CAUSES = sizeof causes / sizeof causes[0] };

static double number(const tt_json_value *value)
{
    const double v = tt_json_number(value, 0);
    return isfinite(v) && v > 0 && v < 1e15 ? v : 0;
}

static double member(const tt_json_value *owner, const char *key)
{
    return number(tt_json_get(owner, key));
}

static bool is_array(const tt_json_value *value)
{
    return value != NULL && value->type == TT_JSON_ARRAY;
}

// ---- words ---------------------------------------------------------------

static void add_sentence(const tt_json_value *all, const char *key, bool is_bad,
                         tt_str *out)
{
    const char *text = tt_json_text(tt_json_get(all, key), "");
    if (text[0] == '\0')
        return;
    const bool is_small = text[0] >= 'a' && text[0] <= 'z';
    tt_str_add(out, is_bad ? "<p class=\"is-bad\">" : "<p>");
    if (is_small)
        tt_str_addf(out, "%c", text[0] - 'a' + 'A');
    tt__html_add(out, text + is_small);
    tt_str_add(out, ".</p>\n");
}

// ---- the histogram -------------------------------------------------------

typedef struct bins {
    double count[COLUMNS_MAX], most, sum;
    int n, each;  // of these; how many numbers are in one
    bool is_open; // the last has all above
} bins;

static bins read_bins(const tt_json_value *histogram)
{
    bins b = {.each = 1};
    double count[BINS_MAX] = {0};
    int n = 0;
    for (const tt_json_value *v = histogram->first; v != NULL && n < BINS_MAX;
         v = v->next)
        count[n++] = number(v);
    while ((n + b.each - 1) / b.each > COLUMNS_MAX)
        b.each++;
    b.is_open = n == BINS_MAX;
    for (int i = 0; i < n; i++)
        b.count[i / b.each] += count[i];
    b.n = (n + b.each - 1) / b.each;
    if (b.n < COLUMNS_MIN)
        b.n = COLUMNS_MIN;
    for (int i = 0; i < b.n; i++) {
        b.most = fmax(b.most, b.count[i]);
        b.sum += b.count[i];
    }
    return b;
}

// "3", "4 to 5", "62 or more".
static void add_bin_name(const bins *b, int i, tt_str *out)
{
    tt_str_addf(out, "%d", i * b->each);
    if (b->is_open && i == b->n - 1)
        tt_str_add(out, " or more");
    else if (b->each > 1)
        tt_str_addf(out, " to %d", (i + 1) * b->each - 1);
}

static void add_bin_rects(const bins *b, const tt_scale *y, tt_str *out)
{
    double tick[TT_TICKS_MAX];
    const int n = tt__scale_ticks(y, 4, tick);
    tt_str_addf(out,
                "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
                "aria-hidden=\"true\"><path class=\"grid\" d=\"",
                100 * b->n, FULL);
    for (int i = 0; i < n; i++)
        tt_str_addf(out, "M0 %.1fh%d", FULL * (1 - tick[i] / y->high),
                    100 * b->n);
    tt_str_add(out, "\"/><path class=\"full train\" d=\"");
    for (int i = 0; i < b->n; i++) {
        const double high = FULL * b->count[i] / y->high;
        if (high > 0)
            tt_str_addf(out, "M%d %dv-%.1fh80v%.1fz", 100 * i + 10, FULL, high,
                        high);
    }
    tt_str_add(out, "\"/></svg>\n<div class=\"yt\">");
    for (int i = 0; i < n; i++) {
        tt_str_addf(out, "<span style=\"top:%.1f%%\">",
                    100 * (1 - tick[i] / y->high));
        tt__number_add(out, tick[i], false);
        tt_str_add(out, "</span>");
    }
    tt_str_add(out, "<em>gradients</em></div>\n");
}

static void add_histogram(const tt_json_value *all, tt_str *out)
{
    const tt_json_value *histogram = tt_json_get(all, "histogram");
    if (!is_array(histogram) || histogram->first == NULL)
        return;
    const bins b = read_bins(histogram);
    if (!(b.sum > 0))
        return;
    const tt_scale y = {.low = 0, .high = 1.05 * b.most};
    const int every = (b.n + 7) / 8;
    tt_str_addf(out,
                "<figure><figcaption><b>Staleness</b> <small>mean %.2f"
                "</small></figcaption>\n<div class=\"plot\" role=\"img\" "
                "tabindex=\"0\" aria-label=\"staleness of %.0f gradients, mean "
                "%.2f updates\">\n",
                member(all, "staleness"), b.sum, member(all, "staleness"));
    add_bin_rects(&b, &y, out);
    tt_str_add(out, "<div class=\"xt\">");
    for (int i = 0; i < b.n; i += every)
        tt_str_addf(out, "<span style=\"left:%.2f%%\">%d</span>",
                    100 * (i + 0.5) / b.n, i * b.each);
    tt_str_add(out, "<em>updates since the weights were read</em></div>\n"
                    "<div class=\"at\">");
    for (int i = 0; i < b.n; i++) {
        tt_str_add(out, "<i><b>staleness ");
        add_bin_name(&b, i, out);
        tt_str_addf(out, " <s class=train>%.0f gradients, %.1f%%</s></b></i>",
                    b.count[i], 100 * b.count[i] / b.sum);
    }
    tt_str_add(out, "</div>\n</div></figure>\n");
}

// ---- the timeline --------------------------------------------------------

typedef struct timeline {
    int lanes, bars;
    int16_t part[LANES_MAX][BARS_MAX][N_CAUSES]; // thousandths of a bar
    bool is_used[N_CAUSES];
    double width; // of a bar
    const char *unit;
} timeline;

static void read_bar(const tt_json_value *bar, timeline *t, int b)
{
    int left = FULL;
    const tt_json_value *v = is_array(bar) ? bar->first : NULL;
    for (int c = 0; c < N_CAUSES && v != NULL; c++, v = v->next) {
        const int part = (int)fmin(number(v), left);
        t->part[t->lanes][b][c] = (int16_t)part;
        t->is_used[c] |= part > 0;
        left -= part;
    }
}

static void read_timeline(const tt_json_value *all, timeline *t)
{
    const tt_json_value *workers = tt_json_get(all, "workers");
    t->width = member(all, "bar");
    t->unit = tt_json_text(tt_json_get(all, "unit"), "");
    for (const tt_json_value *w = workers->first;
         w != NULL && t->lanes < LANES_MAX; w = w->next) {
        const tt_json_value *bars = tt_json_get(w, "bars");
        int b = 0;
        if (!is_array(bars))
            break;
        for (const tt_json_value *v = bars->first; v != NULL && b < BARS_MAX;
             v = v->next)
            read_bar(v, t, b++);
        t->bars = b > t->bars ? b : t->bars;
        t->lanes++;
    }
}

// Where a cause begins in a stack that grows from the bottom.
static int below(const timeline *t, int lane, int bar, int cause)
{
    int sum = 0;
    for (int c = 0; c < cause; c++)
        sum += t->part[lane][bar][c];
    return sum;
}

// One shape for each cause of a lane; bars that go on as they were are one box.
static void add_lane(const timeline *t, int lane, tt_str *out)
{
    const int bottom = (lane + 1) * FULL;
    for (int c = 0; c < N_CAUSES; c++) {
        bool is_open = false;
        for (int b = 0; b < t->bars; b++) {
            const int part = t->part[lane][b][c], from = below(t, lane, b, c);
            int n = 1;
            while (b + n < t->bars && t->part[lane][b + n][c] == part &&
                   below(t, lane, b + n, c) == from)
                n++;
            if (part > 0) {
                if (!is_open)
                    tt_str_addf(out, "<path class=\"full %s\" d=\"",
                                causes[c].color);
                is_open = true;
                // A little air between lanes.
                tt_str_addf(out, "M%d %.0fv-%.0fh%dv%.0fz", b,
                            bottom - 80 - 0.84 * from, 0.84 * part, n,
                            0.84 * part);
            }
            b += n - 1;
        }
        if (is_open)
            tt_str_add(out, "\"/>");
    }
    tt_str_add(out, "\n");
}

static void add_time(const timeline *t, double time, tt_str *out)
{
    if (strcmp(t->unit, "seconds") == 0) {
        tt__time_add(out, time);
        return;
    }
    tt_str_addf(out, "%.4g", time);
}

static void add_readings(const timeline *t, tt_str *out)
{
    tt_str_add(out, "<div class=\"at\">");
    for (int b = 0; b < t->bars; b++) {
        tt_str_add(out, "<i><b>");
        add_time(t, b * t->width, out);
        tt_str_add(out, " to ");
        add_time(t, (b + 1) * t->width, out);
        for (int c = 0; c < N_CAUSES; c++) {
            double sum = 0;
            for (int lane = 0; lane < t->lanes; lane++)
                sum += t->part[lane][b][c];
            if (sum > 0)
                tt_str_addf(out, " <s class=%s>%s %.0f%%</s>", causes[c].color,
                            causes[c].key, 100 * sum / FULL / t->lanes);
        }
        tt_str_add(out, "</b></i>");
    }
    tt_str_add(out, "</div>\n");
}

static void add_axes(const timeline *t, tt_str *out)
{
    double tick[TT_TICKS_MAX];
    const bool is_real = strcmp(t->unit, "seconds") == 0;
    const double all = t->bars * t->width;
    const tt_scale x = {.low = 0, .high = all};
    const int n = tt__scale_ticks(&x, 7, tick), every = (t->lanes + 15) / 16;
    tt_str_add(out, "<div class=\"yt\">");
    for (int i = 0; i < t->lanes; i += every)
        tt_str_addf(out, "<span style=\"top:%.2f%%\">%d</span>",
                    100 * (i + 0.5) / t->lanes, i);
    tt_str_add(out, "<em>worker</em></div>\n<div class=\"xt\">");
    for (int i = 0; i < n; i++) {
        tt_str_addf(out, "<span style=\"left:%.2f%%\">", 100 * tick[i] / all);
        tt__number_add(out, tick[i], false);
        tt_str_add(out, "</span>");
    }
    tt_str_addf(out, "<em>%s</em></div>\n",
                is_real ? "seconds in steps"
                        : "drawn time, in gradients at speed 1");
}

static void add_picture(const timeline *t, tt_str *out)
{
    tt_str_add(out, "<figure class=\"wide\"><figcaption><b>Where the time of "
                    "workers went</b>");
    for (int c = 0; c < N_CAUSES; c++)
        if (t->is_used[c])
            tt_str_addf(out, "<span class=\"key box %s\">%s</span> ",
                        causes[c].color, causes[c].name);
    tt_str_addf(out,
                "</figcaption>\n<div class=\"plot\" role=\"img\" "
                "tabindex=\"0\" style=\"height:%dpx\" aria-label=\"what each "
                "worker did along time; the table below has the sums\">\n"
                "<svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" "
                "aria-hidden=\"true\">\n",
                t->lanes * LANE, t->bars, t->lanes * FULL);
    for (int lane = 0; lane < t->lanes; lane++)
        add_lane(t, lane, out);
    tt_str_add(out, "</svg>\n");
    add_axes(t, out);
    add_readings(t, out);
    tt_str_add(out, "</div></figure>\n");
}

static void add_timeline(const tt_json_value *all, tt_str *out)
{
    timeline t = {0};
    read_timeline(all, &t);
    if (t.lanes > 0 && t.bars > 0 && t.width > 0)
        add_picture(&t, out);
}

// ---- the table -----------------------------------------------------------

static void add_bytes(tt_str *out, double bytes)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    int i = 0;
    for (; bytes >= 999.5 && i < 5; i++)
        bytes /= 1000;
    tt_str_addf(out, i == 0 ? "%.0f %s" : "%.3g %s", bytes, unit[i]);
}

static void add_times(const tt_json_value *w, tt_str *out)
{
    const tt_json_value *time = tt_json_get(w, "time");
    double sum = 0;
    for (int c = 0; c < N_CAUSES; c++)
        sum += member(time, causes[c].key);
    for (int c = 0; c < N_CAUSES; c++)
        tt_str_addf(out, "<td>%.0f%%</td>",
                    sum > 0 ? 100 * member(time, causes[c].key) / sum : 0);
    tt_str_addf(out, "<td>%.2f</td>", member(w, "slow"));
}

static void add_worker(const tt_json_value *w, bool has_times, tt_str *out)
{
    tt_str_addf(out,
                "<tr><th scope=\"row\">%.0f</th><td>%.0f</td><td>%.0f</td>"
                "<td>%.2f</td><td>%.0f</td><td>%.0f</td><td>",
                member(w, "worker"), member(w, "rank"), member(w, "gradients"),
                member(w, "staleness"), member(w, "dropped"),
                member(w, "refused"));
    add_bytes(out, member(w, "bytes_up"));
    tt_str_add(out, "</td><td>");
    add_bytes(out, member(w, "bytes_down"));
    tt_str_add(out, "</td>");
    if (has_times)
        add_times(w, out);
    tt_str_add(out, "</tr>\n");
}

static void add_table(const tt_json_value *all, tt_str *out)
{
    static const char *const heading[] = {"worker",    "rank",    "gradients",
                                          "staleness", "dropped", "refused",
                                          "pushed",    "fetched"};
    const tt_json_value *workers = tt_json_get(all, "workers");
    const bool has_times = tt_json_get(all, "unit") != NULL;
    int n = 0;
    tt_str_add(out, "<div class=\"rows\" tabindex=\"0\"><table>\n<tr>");
    for (size_t i = 0; i < sizeof heading / sizeof heading[0]; i++)
        tt_str_addf(out, "<th scope=\"col\">%s</th>", heading[i]);
    for (int c = 0; has_times && c < N_CAUSES; c++)
        tt_str_addf(out, "<th scope=\"col\">%s</th>", causes[c].key);
    if (has_times)
        tt_str_add(out, "<th scope=\"col\">slower by</th>");
    tt_str_add(out, "</tr>\n");
    for (const tt_json_value *w = workers->first; w != NULL && n < TABLE_MAX;
         w = w->next, n++)
        add_worker(w, has_times, out);
    tt_str_add(out, "</table></div>\n<p class=\"keys\">Staleness: updates "
                    "between the weights that a gradient was computed at and "
                    "the update that it goes into. Slower by: time of a "
                    "gradient over the median worker's.</p>\n");
}

void tt__report_workers(const tt_json_value *all, tt_str *out)
{
    const tt_json_value *workers = tt_json_get(all, "workers");
    if (!is_array(workers) || workers->first == NULL)
        return;
    tt_str_add(out, "<section><h2>Workers</h2>\n");
    add_sentence(all, "sentence", false, out);
    add_sentence(all, "load", false, out);
    add_sentence(all, "slow", true, out);
    add_sentence(all, "bad", true, out);
    tt_str_add(out, "<div class=\"charts\">\n");
    add_timeline(all, out);
    add_histogram(all, out);
    tt_str_add(out, "</div>\n");
    add_table(all, out);
    tt_str_add(out, "</section>\n");
}
