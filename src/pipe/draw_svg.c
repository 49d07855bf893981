// draw_svg - a table as a picture for browsers, see draw.h.

#include "pipe/draw.h"

#include <math.h>
#include <stdio.h>

enum {
    LEFT = 64,   // of the first row
    RIGHT = 24,  // after the last
    TOP = 64,    // title and legend
    HEIGHT = 30, // of a rank
    GAP = 6,
    LEAST = 640, // width of the time axis
    MOST = 4000,
    CELL =
        26, // width of the shortest row, if the picture does not get too wide
    LETTER = 7,
};

static const char *const classes[] = {
    [TT_PIPE_FORWARD] = "f",    [TT_PIPE_BACKWARD] = "b",
    [TT_PIPE_INPUT_GRAD] = "i", [TT_PIPE_WEIGHT_GRAD] = "w",
    [TT_PIPE_UPDATE] = "u",
};

static const char *const style =
    "<style>"
    "svg{--bg:#fff;--fg:#1b1d21;--soft:#5f656e;--rule:#e1e3e6;--wait:#f1f2f4;"
    "--f:#93c5fd;--b:#86efac;--i:#5eead4;--w:#fcd34d;--u:#d8b4fe;--on:#111827}"
    "@media(prefers-color-scheme:dark){svg{--bg:#111316;--fg:#e6e7e9;"
    "--soft:#9aa0a8;--rule:#2b2f35;--wait:#1d2126;--f:#3b82f6;--b:#22c55e;"
    "--i:#14b8a6;--w:#eab308;--u:#a855f7;--on:#0b0d10}}"
    "text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',"
    "sans-serif;fill:var(--fg)}"
    ".t{font-size:15px;font-weight:600}.s{fill:var(--soft)}"
    ".n{text-anchor:middle;fill:var(--on);font-size:11px;pointer-events:none}"
    ".f{fill:var(--f)}.b{fill:var(--b)}.i{fill:var(--i)}.w{fill:var(--w)}"
    ".u{fill:var(--u)}.e{fill:var(--wait)}"
    ".c{stroke:var(--fg);stroke-width:1.5;stroke-dasharray:3 2}"
    "line{stroke:var(--rule)}rect.r:hover{stroke:var(--fg);stroke-width:2}"
    "</style>\n";

static void add_escaped(const char *text, tt_str *out)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '<':
            tt_str_add(out, "&lt;");
            break;
        case '>':
            tt_str_add(out, "&gt;");
            break;
        case '&':
            tt_str_add(out, "&amp;");
            break;
        case '"':
            tt_str_add(out, "&quot;");
            break;
        default:
            tt_str_add_bytes(out, text, 1);
        }
}

// Pixels per second.
static double find_scale(const tt_pipe *p, const tt_pipe_times *t)
{
    double shortest = (double)INFINITY;
    for (int32_t r = 0; r < p->n_ranks; r++)
        for (int32_t i = 0; i < p->rank[r].n; i++) {
            const double length = t->rank[r].finish[i] - t->rank[r].start[i];
            if (length > 0)
                shortest = fmin(shortest, length);
        }
    if (t->makespan <= 0)
        return 0;
    const double wanted = t->makespan / shortest * CELL;
    return fmax(LEAST, fmin(MOST, wanted)) / t->makespan;
}

static void add_title(const tt_pipe *p, const tt_pipe_times *t, int32_t rank,
                      int32_t i, tt_str *out)
{
    const tt_pipe_row *row = &p->rank[rank].row[i];
    tt_str_addf(out, "<title>rank %d, row %d: %s of chunk %d, micro-batch %d",
                rank, i + 1, tt_pipe_phase_name(row->phase), row->chunk,
                row->micro);
    if (p->n_copies > 1)
        tt_str_addf(out, "\ncopy %d of the model", row->copy);
    if (tt_pipe_source(p, row) >= 0)
        tt_str_addf(out, "\nneeds a message of rank %d",
                    tt_pipe_source(p, row));
    if (row->slot >= 0)
        tt_str_addf(out, "\nslot %d", row->slot);
    if (p->rule != TT_PIPE_FLUSH)
        tt_str_addf(out, "\nweights after %d updates", row->version);
    if (row->ahead > 0)
        tt_str_addf(out, ", carried %d ahead", row->ahead);
    tt_str_add(out, "\nfrom ");
    tt_pipe_add_seconds(t->rank[rank].start[i], out);
    tt_str_add(out, " to ");
    tt_pipe_add_seconds(t->rank[rank].finish[i], out);
    tt_str_add(out, "</title>");
}

static void add_row(const tt_pipe *p, const tt_pipe_times *t, int32_t rank,
                    int32_t i, double scale, tt_str *out)
{
    const tt_pipe_row *row = &p->rank[rank].row[i];
    const double x = LEFT + t->rank[rank].start[i] * scale;
    const double width =
        (t->rank[rank].finish[i] - t->rank[rank].start[i]) * scale;
    const int32_t y = TOP + rank * (HEIGHT + GAP);
    char label[32];
    if (width <= 0)
        return;
    tt_str_addf(out,
                "<rect class=\"r %s%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" "
                "height=\"%d\" rx=\"3\">",
                classes[row->phase], row->copy == 1 ? " c" : "", x + 0.5, y,
                width > 2 ? width - 1 : width, HEIGHT);
    add_title(p, t, rank, i, out);
    tt_str_add(out, "</rect>");
    const int n =
        p->n_chunks > p->n_ranks
            ? snprintf(label, sizeof(label), "%d.%d", row->chunk, row->micro)
            : snprintf(label, sizeof(label), "%d", row->micro);
    if (n * LETTER < width)
        tt_str_addf(out, "<text class=\"n\" x=\"%.2f\" y=\"%d\">%s</text>",
                    x + width / 2, y + HEIGHT / 2 + 4, label);
    tt_str_add(out, "\n");
}

static void add_rank(const tt_pipe *p, const tt_pipe_times *t, int32_t rank,
                     double scale, tt_str *out)
{
    const int32_t y = TOP + rank * (HEIGHT + GAP);
    tt_str_addf(out,
                "<text class=\"s\" x=\"8\" y=\"%d\">rank %d</text>"
                "<rect class=\"e\" x=\"%d\" y=\"%d\" width=\"%.2f\" "
                "height=\"%d\" rx=\"3\"><title>waiting</title></rect>\n",
                y + HEIGHT / 2 + 4, rank, LEFT, y, t->makespan * scale, HEIGHT);
    for (int32_t i = 0; i < p->rank[rank].n; i++)
        add_row(p, t, rank, i, scale, out);
}

static void add_legend(const tt_pipe *p, const tt_pipe_times *t, tt_str *out)
{
    bool is_used[TT_N_PIPE_PHASES] = {false};
    int32_t x = LEFT;
    for (int32_t r = 0; r < p->n_ranks; r++)
        for (int32_t i = 0; i < p->rank[r].n; i++)
            is_used[p->rank[r].row[i].phase] |=
                t->rank[r].finish[i] > t->rank[r].start[i];
    for (int i = 0; i <= TT_N_PIPE_PHASES + 1; i++) {
        const bool is_phase = i < TT_N_PIPE_PHASES;
        const bool is_copy = i == TT_N_PIPE_PHASES;
        if (is_phase ? !is_used[i] : is_copy && p->n_copies == 1)
            continue;
        tt_str_addf(out,
                    "<rect class=\"%s\" x=\"%d\" y=\"36\" width=\"14\" "
                    "height=\"14\" rx=\"2\"/><text x=\"%d\" y=\"47\">%s</text>",
                    is_phase  ? classes[i]
                    : is_copy ? "e c"
                              : "e",
                    x, x + 19,
                    is_phase  ? tt_pipe_phase_name((tt_pipe_phase)i)
                    : is_copy ? "second copy"
                              : "waiting");
        x += 132;
    }
    tt_str_add(out, "\n");
}

// Marks at round times: 1, 2 or 5 times a power of ten, about eight of them.
static void add_axis(const tt_pipe *p, const tt_pipe_times *t, double scale,
                     tt_str *out)
{
    const int32_t y = TOP + p->n_ranks * (HEIGHT + GAP);
    if (t->makespan <= 0)
        return;
    const double rough = t->makespan / 8;
    const double power = pow(10, floor(log10(rough)));
    const double step = rough > 5 * power   ? 10 * power
                        : rough > 2 * power ? 5 * power
                        : rough > power     ? 2 * power
                                            : power;
    for (int i = 0; i * step <= t->makespan * (1 + 1e-9); i++) {
        const double x = LEFT + i * step * scale;
        tt_str_addf(out,
                    "<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%d\"/>"
                    "<text class=\"s\" x=\"%.2f\" y=\"%d\" "
                    "text-anchor=\"middle\">",
                    x, y, x, y + 5, x, y + 18);
        tt_pipe_add_seconds(i * step, out);
        tt_str_add(out, "</text>");
    }
    tt_str_add(out, "\n");
}

void tt_pipe_draw_svg(const tt_pipe *p, const tt_pipe_times *times, tt_str *out)
{
    const double scale = find_scale(p, times);
    const double width = LEFT + times->makespan * scale + RIGHT;
    const int32_t height = TOP + p->n_ranks * (HEIGHT + GAP) + 30;
    // Seven entries of the legend fit.
    const double whole = fmax(width, LEFT + 5 * 132 + RIGHT);
    tt_str_addf(out,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f "
                "%d\" width=\"%.0f\" height=\"%d\" role=\"img\" "
                "aria-label=\"schedule ",
                whole, height, whole, height);
    add_escaped(p->name, out);
    tt_str_addf(out, " on %d ranks\">\n", p->n_ranks);
    tt_str_add(out, style);
    tt_str_addf(out,
                "<rect width=\"%.0f\" height=\"%d\" style=\"fill:var(--bg)\"/>"
                "<text class=\"t\" x=\"8\" y=\"22\">",
                whole, height);
    add_escaped(p->name, out);
    tt_str_addf(out,
                "</text><text class=\"s\" x=\"%d\" y=\"22\">%d ranks, %d "
                "chunks, %d micro-batches; ",
                LEFT + 96, p->n_ranks, p->n_chunks, p->n_micro * p->n_steps);
    tt_pipe_add_seconds(times->makespan, out);
    tt_str_add(out, ", bubble ");
    tt_pipe_add_seconds(fmax(times->bubble, 0), out);
    tt_str_add(out, "</text>\n");
    add_legend(p, times, out);
    for (int32_t r = 0; r < p->n_ranks; r++)
        add_rank(p, times, r, scale, out);
    add_axis(p, times, scale, out);
    tt_str_add(out, "</svg>\n");
}
