// report_pareto - memory against speed: a point for each system. Those that no other
// beats in both are joined by a line; all others pay for something else, or for
// nothing.

#include "store/report/report_parts.h"
#include "store/report/report_systems.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum {
    WIDTH = 1000,
    HEIGHT = 380,
    LEFT = 70,
    RIGHT = 140,
    TOP = 16,
    FOOT = 46,
    LINE = 13,  // the height of a name
    LETTER = 8, // its width, of one letter
    DOT = 14,
    TAKEN = 1024, // places that names give way to
};

// What a name, or a point, takes of the picture: from x on, about the height of y.
typedef struct label {
    double x, y, width;
    bool is_left; // of its point
} label;

typedef struct plane {
    const tt_compared *of;
    tt_scale x, y; // bytes; samples per second
    label taken[TAKEN];
    int n_taken;
    tt_str *out;
} plane;

static bool is_there(const tt_compared_system *s)
{
    return s->refusal == NULL && s->memory > 0 && s->step.mid > 0;
}

static double speed(const tt_compared_system *s)
{
    return s->units / s->step.mid;
}

static bool is_best(const tt_compared *c, int i)
{
    const tt_compared_system *a = &c->system[i];
    for (int k = 0; k < c->n; k++) {
        const tt_compared_system *b = &c->system[k];
        if (k != i && is_there(b) && b->memory <= a->memory &&
            speed(b) >= speed(a) &&
            (b->memory < a->memory || speed(b) > speed(a) || k < i))
            return false;
    }
    return true;
}

static double left(const plane *p, double bytes)
{
    return LEFT + tt__scale_place(&p->x, bytes) * (WIDTH - LEFT - RIGHT);
}

static double top(const plane *p, double rate)
{
    return TOP + (1 - tt__scale_place(&p->y, rate)) * (HEIGHT - TOP - FOOT);
}

static int measure(plane *p)
{
    double memory = 0, rate = 0;
    int n = 0;
    for (int i = 0; i < p->of->n; i++) {
        const tt_compared_system *s = &p->of->system[i];
        if (!is_there(s))
            continue;
        memory = fmax(memory, s->memory);
        rate = fmax(rate, speed(s));
        n++;
    }
    p->x = (tt_scale){.low = 0, .high = memory * 1.08};
    p->y = (tt_scale){.low = 0, .high = rate * 1.08};
    return n;
}

static void add_axes(const plane *p)
{
    double tick[TT_TICKS_MAX];
    const int bottom = HEIGHT - FOOT;
    int n = tt__scale_ticks(&p->x, 6, tick);
    for (int i = 0; i < n; i++) {
        tt_str_addf(p->out,
                    "<line class=\"faint\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" "
                    "y2=\"%d\"/><text class=\"p-s\" x=\"%.1f\" y=\"%d\" "
                    "text-anchor=\"middle\">",
                    left(p, tick[i]), TOP, left(p, tick[i]), bottom,
                    left(p, tick[i]), bottom + 17);
        tt__systems_bytes(p->out, tick[i]);
        tt_str_add(p->out, "</text>");
    }
    n = tt__scale_ticks(&p->y, 5, tick);
    for (int i = 0; i < n; i++) {
        tt_str_addf(p->out,
                    "<line class=\"faint\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" "
                    "y2=\"%.1f\"/><text class=\"p-s\" x=\"%d\" y=\"%.1f\" "
                    "text-anchor=\"end\">",
                    LEFT, top(p, tick[i]), WIDTH - RIGHT, top(p, tick[i]),
                    LEFT - 8, top(p, tick[i]) + 4);
        tt__number_add(p->out, tick[i], false);
        tt_str_add(p->out, "</text>");
    }
    tt_str_addf(p->out,
                "<text class=\"p-s\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">"
                "memory of a rank</text>\n",
                (WIDTH + LEFT - RIGHT) / 2, HEIGHT - 8);
}

// The next one along the front, by memory; -1: there is none.
static int next_best(const tt_compared *c, double after)
{
    int best = -1;
    for (int i = 0; i < c->n; i++)
        if (is_there(&c->system[i]) && is_best(c, i) &&
            c->system[i].memory > after &&
            (best < 0 || c->system[i].memory < c->system[best].memory))
            best = i;
    return best;
}

static void add_front(const plane *p)
{
    double after = -1;
    const char *letter = "M";
    tt_str_add(p->out, "<path class=\"ink dash\" d=\"");
    for (int i; (i = next_best(p->of, after)) >= 0; letter = "L") {
        const tt_compared_system *s = &p->of->system[i];
        tt_str_addf(p->out, "%s%.1f %.1f", letter, left(p, s->memory),
                    top(p, speed(s)));
        after = s->memory;
    }
    tt_str_add(p->out, "\"/>\n");
}

static bool is_free(const plane *p, label l)
{
    for (int k = 0; k < p->n_taken; k++) {
        const label *o = &p->taken[k];
        if (l.x < o->x + o->width && o->x < l.x + l.width &&
            fabs(l.y - o->y) < LINE)
            return false;
    }
    return true;
}

static void take(plane *p, label l)
{
    if (p->n_taken < TAKEN)
        p->taken[p->n_taken++] = l;
}

// Right of the point, or left of it; where other names and points are, as little above or
// below it as will do.
static label place_name(plane *p, const char *name, double x, double y)
{
    const double width = LETTER * (double)strlen(name);
    const label right = {x + 10, y + 4, width, false};
    const label left_of = {x - 10 - width, y + 4, width, true};
    for (int k = 0; k <= p->n_taken; k++)
        for (int turn = 0; turn < 4; turn++) {
            label l = turn % 2 == 0 ? right : left_of;
            l.y += (turn < 2 ? k : -k) * LINE;
            if (l.x < LEFT || !is_free(p, l))
                continue;
            take(p, l);
            return l;
        }
    return right;
}

static void add_point(plane *p, int i)
{
    const tt_compared_system *s = &p->of->system[i];
    const double x = left(p, s->memory), y = top(p, speed(s));
    const label at = place_name(p, s->name, x, y);
    tt_str_addf(
        p->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%s\"><title>",
        tt__systems_color(i, NULL), x, y, is_best(p->of, i) ? "7" : "5");
    tt__html_add(p->out, s->name);
    tt_str_add(p->out, ": ");
    tt__systems_bytes(p->out, s->memory);
    tt_str_add(p->out, ", ");
    tt__number_add(p->out, speed(s), false);
    tt_str_addf(p->out, " %s/s</title></circle><text x=\"%.1f\" y=\"%.1f\"%s>",
                p->of->unit != NULL ? p->of->unit : "samples",
                at.x + (at.is_left ? at.width : 0), at.y,
                at.is_left ? " text-anchor=\"end\"" : "");
    tt__html_add(p->out, s->name);
    tt_str_add(p->out, "</text>\n");
}

// The picture in words.
static void add_words(const plane *p)
{
    const char *between = "systems that no other beats in memory and speed: ";
    double after = -1;
    for (int i; (i = next_best(p->of, after)) >= 0; between = ", ") {
        tt_str_add(p->out, between);
        tt__html_add(p->out, p->of->system[i].name);
        after = p->of->system[i].memory;
    }
}

void tt__systems_pareto(const tt_compared *compared, tt_str *out)
{
    plane p = {.of = compared, .out = out};
    if (measure(&p) < 2)
        return;
    tt_str_addf(out,
                "<section><h2>Memory against speed <small>%s per second; the "
                "line joins those that no other beats in both</small></h2>\n"
                "<div class=\"rows\" tabindex=\"0\" role=\"group\" "
                "aria-label=\"memory against speed\"><svg class=\"step\" "
                "viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"",
                compared->unit != NULL ? compared->unit : "samples", WIDTH,
                HEIGHT);
    add_words(&p);
    tt_str_add(out, "\">\n");
    add_axes(&p);
    add_front(&p);
    for (int i = 0; i < compared->n; i++) {
        const tt_compared_system *s = &compared->system[i];
        if (is_there(s))
            take(&p, (label){left(&p, s->memory) - DOT / 2.0,
                             top(&p, speed(s)) + 4, DOT, false});
    }
    for (int i = 0; i < compared->n; i++)
        if (is_there(&compared->system[i]))
            add_point(&p, i);
    tt_str_add(out, "</svg></div></section>\n");
}
