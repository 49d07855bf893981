// report_pipe - the section about stages, from "pipe" in RUN/ranks.json: a table of what
// each rank waited, and one step as a picture, ranks against time.
//
//   rank 0  |F0|F1|F2|......|  B0 |F3| ...      a lane per rank; waiting has a colour too
//   rank 1  |...|F0|F1| B0  |F2|  B1 | ...

#include "store/report/report_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LANES_MAX = 64,   // ranks that are drawn
    ROWS_MAX = 20000, // rows of all of them
    TABLE_MAX = 256,  // ranks in the table
    WIDTH = 1100,     // of the picture, in its own units
    LEFT = 62,
    RIGHT = 18,
    LANE = 24,
    GAP = 6,
    AXIS = 26,
    LETTER = 7,
};

// A row of ranks.json: an array in this order.
typedef struct row {
    const char *phase;
    double chunk, micro, start, end, waited, peer;
} row;

typedef struct kind { // of a piece of the picture
    const char *phase, *color, *name, *name_apart;
} kind;

static const kind kinds[] = {
    {"forward", "p-f", "forward", "forward"},
    {"backward", "p-b", "backward", "input gradient"},
    {"weight_grad", "p-w", "weight gradient", "weight gradient"},
    {"update", "p-u", "update", "update"},
    {"", "p-x", "waiting", "waiting"},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0], WAITING = N_KINDS - 1 };

typedef struct picture {
    const tt_json_value *ranks;
    bool is_apart; // input and weight gradients
    bool has_chunks;
    double seconds; // of the step
    int lanes;
    tt_str *out;
} picture;

static double number(const tt_json_value *value)
{
    const double v = tt_json_number(value, 0);
    return isfinite(v) && fabs(v) < 1e12 ? v : 0;
}

static double member(const tt_json_value *owner, const char *key)
{
    return number(tt_json_get(owner, key));
}

static bool is_array(const tt_json_value *value)
{
    return value != NULL && value->type == TT_JSON_ARRAY;
}

// Whether the value is a row whose times can be drawn.
static bool read_row(const tt_json_value *value, row *out)
{
    const tt_json_value *v = is_array(value) ? value->first : NULL;
    double *const to[] = {&out->chunk, &out->micro,  &out->start,
                          &out->end,   &out->waited, &out->peer};
    *out = (row){.phase = tt_json_text(v, ""), .peer = -1};
    for (int i = 0; i < 6; i++) {
        v = v != NULL ? v->next : NULL;
        if (v == NULL)
            return false;
        *to[i] = number(v);
    }
    out->waited = fmin(fmax(0, out->waited), out->end - out->start);
    return out->start >= 0 && out->end >= out->start;
}

static int kind_of(const char *phase)
{
    for (int i = 0; i < WAITING; i++)
        if (strcmp(kinds[i].phase, phase) == 0)
            return i;
    return WAITING;
}

static const char *kind_name(const picture *p, int k)
{
    return p->is_apart ? kinds[k].name_apart : kinds[k].name;
}

static void add_seconds(tt_str *out, double s)
{
    if (s < 0.9995e-3)
        tt_str_addf(out, "%.3g \xc2\xb5s", s * 1e6); // micro
    else if (s < 0.9995)
        tt_str_addf(out, "%.3g ms", s * 1e3);
    else
        tt_str_addf(out, "%.3g s", s);
}

// ---- the picture ---------------------------------------------------------

static double place(const picture *p, double seconds)
{
    return LEFT + seconds / p->seconds * (WIDTH - LEFT - RIGHT);
}

static void begin_box(const picture *p, int lane, int k, double from, double to)
{
    const double x = place(p, from), width = place(p, to) - x;
    tt_str_addf(p->out,
                "<rect class=\"%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" "
                "height=\"%d\"><title>",
                kinds[k].color, x, lane * (LANE + GAP),
                width > 3 ? width - 1 : fmax(width, 0.2), LANE);
}

static void end_box(const picture *p, double from, double to)
{
    tt_str_add(p->out, ", from ");
    add_seconds(p->out, from);
    tt_str_add(p->out, " to ");
    add_seconds(p->out, to);
    tt_str_add(p->out, "</title></rect>");
}

static void add_label(const picture *p, int lane, const row *r, double from)
{
    char label[48];
    const double x = place(p, from), width = place(p, r->end) - x;
    const int n =
        p->has_chunks
            ? snprintf(label, sizeof label, "%.0f.%.0f", r->chunk, r->micro)
            : snprintf(label, sizeof label, "%.0f", r->micro);
    if (strcmp(r->phase, "update") != 0 && n * LETTER + 2 < width)
        tt_str_addf(p->out, "<text class=\"p-n\" x=\"%.2f\" y=\"%d\">%s</text>",
                    x + width / 2 - 0.5, lane * (LANE + GAP) + LANE / 2 + 4,
                    label);
}

static void add_row(const picture *p, int lane, const row *r)
{
    const double from = r->start + r->waited;
    const int k = kind_of(r->phase);
    if (r->waited > 0) {
        begin_box(p, lane, WAITING, r->start, from);
        tt_str_add(p->out, "waiting");
        if (r->peer >= 0)
            tt_str_addf(p->out, " for rank %.0f", r->peer);
        end_box(p, r->start, from);
    }
    if (r->end <= from || k == WAITING)
        return;
    begin_box(p, lane, k, from, r->end);
    tt_str_addf(p->out, "%s of chunk %.0f, micro-batch %.0f", kind_name(p, k),
                r->chunk, r->micro);
    end_box(p, from, r->end);
    add_label(p, lane, r, from);
}

static void add_lane(const picture *p, const tt_json_value *rank, int lane)
{
    const tt_json_value *rows = tt_json_get(rank, "rows");
    row r;
    tt_str_addf(p->out, "<text class=\"p-s\" x=\"0\" y=\"%d\">rank %.0f</text>",
                lane * (LANE + GAP) + LANE / 2 + 4, member(rank, "rank"));
    for (const tt_json_value *v = rows->first; v != NULL; v = v->next)
        if (read_row(v, &r))
            add_row(p, lane, &r);
    tt_str_add(p->out, "\n");
}

static void add_axis(const picture *p)
{
    double tick[TT_TICKS_MAX];
    const tt_scale scale = {.low = 0, .high = p->seconds};
    const int n = tt__scale_ticks(&scale, 8, tick);
    const int y = p->lanes * (LANE + GAP);
    for (int i = 0; i < n; i++) {
        const double x = place(p, tick[i]);
        tt_str_addf(p->out,
                    "<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%d\"/>"
                    "<text class=\"p-s\" x=\"%.2f\" y=\"%d\" "
                    "text-anchor=\"middle\">",
                    x, y, x, y + 5, x, y + 19);
        if (tick[i] <= 0)
            tt_str_add(p->out, "0");
        else
            add_seconds(p->out, tick[i]);
        tt_str_add(p->out, "</text>");
    }
}

static void add_keys(const picture *p, const bool *is_used)
{
    tt_str_add(p->out, "<p class=\"keys\">");
    for (int k = 0; k < N_KINDS; k++)
        if (is_used[k])
            tt_str_addf(p->out, "<span class=\"key box %s\">%s</span> ",
                        kinds[k].color, kind_name(p, k));
    tt_str_add(p->out, "</p>\n");
}

// Looks how long the step is and what there is to see; returns the number of rows.
static int64_t look(picture *p, bool *is_used)
{
    int64_t n = 0;
    row r;
    for (const tt_json_value *rank = p->ranks->first;
         rank != NULL && p->lanes < LANES_MAX; rank = rank->next, p->lanes++) {
        const tt_json_value *rows = tt_json_get(rank, "rows");
        if (!is_array(rows))
            return 0;
        for (const tt_json_value *v = rows->first; v != NULL; v = v->next, n++)
            if (read_row(v, &r)) {
                p->seconds = fmax(p->seconds, r.end);
                is_used[kind_of(r.phase)] = true;
                is_used[WAITING] |= r.waited > 0;
            }
    }
    return n;
}

static void add_picture(const tt_json_value *pipe, tt_str *out)
{
    bool is_used[N_KINDS] = {false};
    picture p = {.ranks = tt_json_get(pipe, "ranks"),
                 .is_apart = tt_json_truth(tt_json_get(pipe, "split"), false),
                 .has_chunks = member(pipe, "chunks") > member(pipe, "stages"),
                 .out = out};
    const int64_t n = look(&p, is_used);
    if (n == 0 || n > ROWS_MAX || p.seconds <= 0)
        return;
    tt_str_addf(out,
                "<h2>%s <small>the last one%s</small></h2>\n"
                "<div class=\"rows\"><svg class=\"step\" viewBox=\"0 0 %d %d\" "
                "role=\"img\" aria-label=\"what each rank did in the last "
                "step\">\n",
                tt_json_truth(tt_json_get(pipe, "endless"), false)
                    ? "Beginning of a stretch of steps"
                    : "One step",
                p.lanes == LANES_MAX ? ", of the first 64 ranks" : "", WIDTH,
                p.lanes * (LANE + GAP) + AXIS);
    int lane = 0;
    for (const tt_json_value *rank = p.ranks->first; lane < p.lanes;
         rank = rank->next)
        add_lane(&p, rank, lane++);
    add_axis(&p);
    tt_str_add(out, "</svg></div>\n");
    add_keys(&p, is_used);
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

static void add_rank(const tt_json_value *rank, bool is_endless, tt_str *out)
{
    const tt_json_value *waited = tt_json_get(rank, "waited_seconds");
    tt_str_addf(out,
                "<tr><th scope=\"row\">%.0f</th><td>%.0f</td><td>%.1f%%</td>"
                "<td>%.1f%%</td><td>%.0f</td><td>",
                member(rank, "rank"), member(rank, "stage"),
                100 * member(rank, "bubble"), 100 * member(rank, "expected"),
                member(rank, "slots"));
    if (is_endless)
        tt_str_addf(out, "%.0f</td><td>%.0f</td><td>", member(rank, "versions"),
                    member(rank, "staleness"));
    add_bytes(out, fmax(0, member(rank, "peak_bytes")));
    tt_str_add(out, "</td><td>");
    const bool has_any = waited != NULL && waited->type == TT_JSON_OBJECT;
    for (const tt_json_value *v = has_any ? waited->first : NULL; v != NULL;
         v = v->next) {
        tt_str_add(out, v == waited->first ? "rank " : ", rank ");
        tt__html_add(out, v->key);
        tt_str_add(out, " ");
        add_seconds(out, fmax(0, number(v)));
    }
    tt_str_add(out, "</td></tr>\n");
}

static void add_table(const tt_json_value *ranks, bool is_endless, tt_str *out)
{
    int n = 0;
    tt_str_addf(out,
                "<div class=\"rows\"><table>\n<tr><th>rank</th>"
                "<th>stage</th><th>bubble</th><th>by the schedule</th>"
                "<th>slots</th>%s<th>memory</th><th>waits in a step for</th>"
                "</tr>\n",
                is_endless ? "<th>versions</th><th>staleness</th>" : "");
    for (const tt_json_value *v = ranks->first; v != NULL && n < TABLE_MAX;
         v = v->next, n++)
        add_rank(v, is_endless, out);
    tt_str_add(out, "</table></div>\n");
    if (is_endless)
        tt_str_add(out, "<p class=\"keys\">Staleness: updates between the "
                        "weights that a gradient was computed at and the "
                        "update that it goes into.</p>\n");
}

void tt__report_pipe(const tt_json_value *all, tt_str *out)
{
    const tt_json_value *pipe = tt_json_get(all, "pipe");
    const tt_json_value *ranks = tt_json_get(pipe, "ranks");
    if (!is_array(ranks) || ranks->first == NULL)
        return;
    tt_str_add(out, "<section><h2>Stages</h2>\n<p>");
    tt__html_add(out, tt_json_text(tt_json_get(pipe, "sentence"), ""));
    tt_str_add(out, ".</p>\n");
    add_picture(pipe, out);
    add_table(ranks, tt_json_truth(tt_json_get(pipe, "endless"), false), out);
    tt_str_add(out, "</section>\n");
}
