// draw - a table in the terminal, see draw.h.
//
// The shortest row gets as many columns as its label needs, if the picture then fits
// into the width; if not, labels are shortened, and in the end all is scaled to the
// width.

#include "pipe/draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LEAST_WIDTH = 40, LABEL_MAX = 32 };

// How much of a label is shown.
typedef enum detail { WHOLE, MICRO, LETTER } detail;

typedef struct drawer {
    const tt_pipe *p;
    const tt_pipe_times *times;
    const tt_pipe_look *look;
    bool has_chunks; // some rank has several chunks of a copy
    int name_columns;
    double scale; // columns per second
    tt_str *out;
} drawer;

static const char *const colors[TT_N_PIPE_PHASES][2] = {
    [TT_PIPE_FORWARD] = {"97;44", "30;104"},
    [TT_PIPE_BACKWARD] = {"30;42", "30;102"},
    [TT_PIPE_INPUT_GRAD] = {"30;46", "30;106"},
    [TT_PIPE_WEIGHT_GRAD] = {"30;43", "30;103"},
    [TT_PIPE_UPDATE] = {"97;45", "30;105"},
};

void tt_pipe_add_seconds(double seconds, tt_str *out)
{
    static const char *const units[] = {"s", "ms", "us", "ns"};
    int i = 0;
    for (; i < 3 && seconds > 0 && seconds < 0.9995; i++)
        seconds *= 1e3;
    tt_str_addf(out, "%.*f %s",
                seconds == floor(seconds) || seconds >= 99.95 ? 0
                : seconds >= 9.995                            ? 1
                                                              : 2,
                seconds, units[i]);
}

static int write_label(const drawer *d, const tt_pipe_row *row, detail how,
                       char label[LABEL_MAX])
{
    const char letter = (row->copy == 0 ? "FBIWU" : "fbiwu")[row->phase];
    if (how == LETTER)
        return snprintf(label, LABEL_MAX, "%c", letter);
    if (d->has_chunks && how == WHOLE)
        return snprintf(label, LABEL_MAX, "%c%d.%d", letter, row->chunk,
                        row->micro);
    return snprintf(label, LABEL_MAX, "%c%d", letter, row->micro);
}

static double length(const drawer *d, int32_t rank, int32_t i)
{
    return d->times->rank[rank].finish[i] - d->times->rank[rank].start[i];
}

// The scale at which every row that takes time has its label and a column beside it.
static double scale_for(const drawer *d, detail how)
{
    double scale = 0;
    char label[LABEL_MAX];
    for (int32_t r = 0; r < d->p->n_ranks; r++)
        for (int32_t i = 0; i < d->p->rank[r].n; i++) {
            const int n = write_label(d, &d->p->rank[r].row[i], how, label) +
                          (how == WHOLE);
            if (length(d, r, i) > 0)
                scale = fmax(scale, n / length(d, r, i));
        }
    return scale;
}

static void find_scale(drawer *d)
{
    const int32_t width =
        d->look->width < LEAST_WIDTH ? LEAST_WIDTH : d->look->width;
    const double room = width - d->name_columns;
    const double span = d->times->makespan;
    d->scale = scale_for(d, WHOLE);
    if (span <= 0 || d->scale * span <= room + 1e-9)
        return;
    // As many whole columns for a letter as there are.
    const double letter = scale_for(d, LETTER);
    const double times = floor(room / (letter * span) + 1e-9);
    d->scale = times >= 1 ? times * letter : room / span;
}

static int64_t column(const drawer *d, double seconds)
{
    return llround(seconds * d->scale);
}

static void add_many(tt_str *out, char c, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        tt_str_add_bytes(out, &c, 1);
}

static void add_waiting(const drawer *d, int64_t n)
{
    if (n <= 0)
        return;
    tt_str_add(d->out, d->look->has_color ? "\x1b[2m" : "");
    add_many(d->out, '.', n);
    tt_str_add(d->out, d->look->has_color ? "\x1b[0m" : "");
}

static void add_cell(const drawer *d, const tt_pipe_row *row, int64_t n)
{
    char label[LABEL_MAX];
    int length = write_label(d, row, WHOLE, label);
    for (int how = MICRO; how <= LETTER && length > n; how++)
        length = write_label(d, row, (detail)how, label);
    if (d->look->has_color)
        tt_str_addf(d->out, "\x1b[%sm", colors[row->phase][row->copy]);
    tt_str_add(d->out, label);
    add_many(d->out, d->look->has_color ? ' ' : '-', n - length - 1);
    // A gap, so that neighbours are seen as two.
    add_many(d->out, ' ', n > length);
    tt_str_add(d->out, d->look->has_color ? "\x1b[0m" : "");
}

static void draw_rank(const drawer *d, int32_t rank)
{
    const tt_pipe_rank_times *t = &d->times->rank[rank];
    int64_t at = 0;
    tt_str_addf(d->out, "rank %-*d", d->name_columns - 5, rank);
    for (int32_t i = 0; i < d->p->rank[rank].n; i++) {
        const int64_t from = column(d, t->start[i]);
        const int64_t to = column(d, t->finish[i]);
        if (to <= at || to == from)
            continue;
        add_waiting(d, from - at);
        at = from > at ? from : at;
        add_cell(d, &d->p->rank[rank].row[i], to - at);
        at = to;
    }
    add_waiting(d, column(d, d->times->makespan) - at);
    tt_str_add(d->out, "\n");
}

static void draw_legend(const drawer *d)
{
    bool is_used[TT_N_PIPE_PHASES] = {false};
    for (int32_t r = 0; r < d->p->n_ranks; r++)
        for (int32_t i = 0; i < d->p->rank[r].n; i++)
            is_used[d->p->rank[r].row[i].phase] |= length(d, r, i) > 0;
    add_many(d->out, ' ', d->name_columns);
    for (int i = 0; i < TT_N_PIPE_PHASES; i++)
        if (is_used[i]) {
            if (d->look->has_color)
                tt_str_addf(d->out, "\x1b[%sm", colors[i][0]);
            tt_str_addf(d->out, "%c", "FBIWU"[i]);
            tt_str_addf(d->out, "%s %s  ", d->look->has_color ? "\x1b[0m" : "",
                        tt_pipe_phase_name((tt_pipe_phase)i));
        }
    tt_str_addf(d->out, ". waiting%s%s\n",
                d->has_chunks ? "  F2.0: chunk 2, micro-batch 0" : "",
                d->p->n_copies > 1 ? "  small letters: second copy" : "");
}

static bool has_chunks(const tt_pipe *p)
{
    for (int32_t c = 0; c < p->n_chunks; c++)
        for (int32_t i = 0; i < c; i++)
            if (p->place[i] == p->place[c])
                return true;
    return false;
}

void tt_pipe_draw(const tt_pipe *p, const tt_pipe_times *times,
                  const tt_pipe_look *look, tt_str *out)
{
    char number[LABEL_MAX];
    drawer d = {.p = p,
                .times = times,
                .look = look,
                .has_chunks = p->n_chunks > p->n_ranks || has_chunks(p),
                .out = out};
    d.name_columns = 7 + snprintf(number, sizeof(number), "%d", p->n_ranks - 1);
    find_scale(&d);
    for (int32_t r = 0; r < p->n_ranks; r++)
        draw_rank(&d, r);
    draw_legend(&d);
}

// ---- figures -------------------------------------------------------------

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void add_column(const char *text, tt_str *out)
{
    tt_str_addf(out, "%11s", text);
}

void tt_pipe_draw_figures(const tt_pipe *p, const tt_pipe_times *times,
                          tt_str *out)
{
    tt_str_add(out, "rank   computing    waiting     bubble  in flight      "
                    "slots   versions\n");
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const tt_pipe_rank_times *t = &times->rank[r];
        tt_str cell = {0};
        int32_t versions = 0;
        for (int32_t i = 0; i < p->n_copies * p->n_chunks; i++)
            if (p->place[i] == r && p->n_versions[i] > versions)
                versions = p->n_versions[i];
        tt_str_addf(out, "%-5d", r);
        tt_pipe_add_seconds(t->busy, &cell);
        add_column(tt_str_text(&cell), out);
        tt_str_clear(&cell);
        tt_pipe_add_seconds(t->bubble > 0 ? t->bubble : 0, &cell);
        add_column(tt_str_text(&cell), out);
        tt_str_addf(out, "%9.1f %%%11d%11d%11d\n",
                    fabs(percent(t->bubble, t->last - t->first)), t->n_live,
                    t->n_slots, versions);
        tt_str_inherit(out, &cell);
        tt_str_fini(&cell);
    }
}
