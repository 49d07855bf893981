// report_lanes - one step of each system: what every rank computed and, in the thin
// lane below it, what it sent. All pictures have the same scale, so that a longer step
// is longer.

#include "store/report/report_parts.h"
#include "store/report/report_systems.h"

#include <math.h>

enum {
    WIDTH = 1000,
    LEFT = 60,
    RIGHT = 20,
    THICK = 16,
    THIN = 7,
    GAP = 6,
    AXIS = 26
};

static const struct {
    const char *color, *name;
} kinds[TT_N_LANE_KINDS] = {
    [TT_LANE_FORWARD] = {"p-f", "forward"},
    [TT_LANE_BACKWARD] = {"p-b", "backward"},
    [TT_LANE_WEIGHTS] = {"p-w", "gradients of weights"},
    [TT_LANE_UPDATE] = {"p-u", "update"},
    [TT_LANE_NETWORK] = {"t-net", "network"},
};

static double place(double seconds, double longest)
{
    return LEFT + seconds / longest * (WIDTH - LEFT - RIGHT);
}

static double busy(const tt_lane *lane)
{
    double sum = 0;
    for (int64_t i = 0; i < lane->n; i++)
        if (lane->box[i].kind != TT_LANE_NETWORK)
            sum += lane->box[i].to - lane->box[i].from;
    return sum;
}

static void add_lane(const tt_lane *lane, int y, double longest, tt_str *out)
{
    tt_str_addf(out, "<text class=\"p-s\" x=\"0\" y=\"%d\">rank %d</text>",
                y + 13, lane->rank);
    for (int64_t i = 0; i < lane->n; i++) {
        const tt_lane_box *b = &lane->box[i];
        const bool is_thin = b->kind == TT_LANE_NETWORK;
        const double x = place(b->from, longest);
        tt_str_addf(out,
                    "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                    "height=\"%d\"/>",
                    kinds[b->kind].color, x, is_thin ? y + THICK + 1 : y,
                    fmax(0.3, place(b->to, longest) - x),
                    is_thin ? THIN : THICK);
    }
    tt_str_add(out, "\n");
}

static void add_words(const tt_compared_system *s, tt_str *out)
{
    tt_str_add(out, "one step of ");
    tt__html_add(out, s->name);
    tt_str_add(out, ", ");
    tt__systems_seconds(out, s->lane_seconds);
    for (int i = 0; i < s->n_lanes; i++)
        tt_str_addf(out, "; rank %d computes %.0f%% of it", s->lane[i].rank,
                    100 * busy(&s->lane[i]) / s->lane_seconds);
}

static void add_system(const tt_compared_system *s, double longest, tt_str *out)
{
    const int high = THICK + THIN + GAP;
    tt_str_add(out, "<h3>");
    tt__html_add(out, s->name);
    tt_str_add(out, " <small>");
    tt__systems_seconds(out, s->lane_seconds);
    tt_str_add(out, "</small></h3>\n<div class=\"rows\" tabindex=\"0\" "
                    "role=\"group\" aria-label=\"timeline of ");
    tt__html_add(out, s->name);
    tt_str_addf(out,
                "\"><svg class=\"step\" viewBox=\"0 0 %d %d\" role=\"img\" "
                "aria-label=\"",
                WIDTH, s->n_lanes * high + AXIS);
    add_words(s, out);
    tt_str_add(out, "\">\n");
    for (int i = 0; i < s->n_lanes; i++)
        add_lane(&s->lane[i], i * high, longest, out);
    double tick[TT_TICKS_MAX];
    const tt_scale scale = {.low = 0, .high = longest};
    const int n = tt__scale_ticks(&scale, 8, tick), y = s->n_lanes * high;
    for (int i = 0; i < n; i++) {
        const double x = place(tick[i], longest);
        tt_str_addf(out,
                    "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/><text "
                    "class=\"p-s\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                    x, y, x, y + 5, x, y + 18);
        if (tick[i] > 0)
            tt__systems_seconds(out, tick[i]);
        else
            tt_str_add(out, "0");
        tt_str_add(out, "</text>");
    }
    tt_str_add(out, "</svg></div>\n");
}

void tt__systems_lanes(const tt_compared *compared, tt_str *out)
{
    double longest = 0;
    for (int i = 0; i < compared->n; i++)
        if (compared->system[i].n_lanes > 0)
            longest = fmax(longest, compared->system[i].lane_seconds);
    if (!(longest > 0))
        return;
    tt_str_add(out, "<section><h2>One step of each <small>on one scale"
                    "</small></h2>\n<p class=\"keys\">");
    for (int k = 0; k < TT_N_LANE_KINDS; k++)
        tt_str_addf(out, "<span class=\"key box %s\">%s</span> ",
                    kinds[k].color, kinds[k].name);
    tt_str_add(out, "</p>\n");
    for (int i = 0; i < compared->n; i++)
        if (compared->system[i].n_lanes > 0)
            add_system(&compared->system[i], longest, out);
    tt_str_add(out, "</section>\n");
}
