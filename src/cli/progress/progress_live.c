// progress_live - the two lines that are redrawn.
//
// Each line is made of pieces in the order of their worth. A piece that does not fit
// the width is left out, so a narrow terminal shows the loss and the time left, and a
// wide one everything.

#include "cli/progress/progress_parts.h"
#include "cli/table.h"
#include "store/metrics.h"

#include <math.h>

enum { MIN_BAR = 8, MAX_BAR = 60 };

// Moves the cursor to the first live line. The cursor is in the last row of the
// second. If the terminal has become narrower since, it may have wrapped both lines
// (most do) or cut them (xterm), and does not say which. The row above is ours in
// either case, and only that one is touched. A wrapped line leaves a piece of the old
// text behind, and the new lines begin on a row of their own. Nothing else is ever
// erased.
static void go_to_first(const tt_live *live, int width, tt_str *out)
{
    tt_str_add(out, width < live->width ? "\r\033[1A\033[J\n" : "\r\033[1A");
}

void tt__live_clear(tt_live *live, int width, tt_str *out)
{
    if (!live->is_drawn)
        return;
    go_to_first(live, width, out);
    tt_str_add(out, "\033[J");
    live->is_drawn = false;
}

// From the estimate of the last point, or else from the pace since the start.
static double seconds_left(const tt_live *live, double now)
{
    if (live->has_point && isfinite(live->point.eta))
        return fmax(0, live->point.eta - (now - live->pointed_at));
    const int64_t done = live->step - live->first_step;
    if (done < 1)
        return (double)NAN;
    return (now - live->started) / (double)done *
           (double)(live->steps - live->step);
}

// Drawn in half cells: the end of the full part may be half a cell wide.
static void add_bar(const tt_term *term, double fraction, int64_t columns,
                    tt_str *out)
{
    tt_str full = {0}, empty = {0};
    const int64_t halves = (int64_t)(fraction * (double)(2 * columns) + 0.5);
    for (int64_t i = 0; i < columns; i++) {
        if (2 * i + 1 < halves)
            tt_str_add(&full, term->has_utf8 ? "━" : "#");
        else if (2 * i < halves)
            tt_str_add(&full, term->has_utf8 ? "╸" : "#");
        else
            tt_str_add(&empty, term->has_utf8 ? "─" : "-");
    }
    tt_term_add(term, TT_STYLE_BAR, tt_str_text(&full), out);
    tt_term_add(term, TT_STYLE_DIM, tt_str_text(&empty), out);
    tt_str_fini(&full);
    tt_str_fini(&empty);
}

// "  620/2,000  31%  ━━━━━━╸─────────────  0:36 left".
static void draw_first(const tt_live *live, const tt_term *term, int width,
                       double now, tt_str *out)
{
    tt_str left = {0}, right = {0};
    const double fraction = live->steps > 0 && live->step < live->steps
                                ? (double)live->step / (double)live->steps
                                : 1;
    tt_str_addf(&left, "%lld/%lld", (long long)live->step,
                (long long)live->steps);
    if (width > 40)
        tt_str_addf(&left, "  %d%%", (int)(fraction * 100));
    tt_add_left(&right, seconds_left(live, now));
    if (width > 30)
        tt_str_add(&right, " left");
    int64_t columns = tt_term_columns(tt_str_text(&left));
    int64_t bar = width - columns - tt_term_columns(tt_str_text(&right)) - 4;
    if (columns <= width)
        tt_term_add(term, TT_STYLE_BOLD, tt_str_text(&left), out);
    else
        columns = 0;
    if (bar >= MIN_BAR) {
        bar = bar > MAX_BAR ? MAX_BAR : bar;
        tt_str_add(out, "  ");
        add_bar(term, fraction, bar, out);
        columns += bar + 2;
    }
    if (columns + 2 + tt_term_columns(tt_str_text(&right)) <= width)
        tt_str_addf(out, "  %s", tt_str_text(&right));
    tt_str_fini(&left);
    tt_str_fini(&right);
}

// The second line while it is filled: what fits, and the next piece.
typedef struct line {
    const tt_term *term;
    tt_str *out;
    int64_t columns, width;
    tt_str piece;
} line;

// Adds the piece if there is room, and empties it.
static void add_piece(line *l, tt_style style)
{
    const char *text = tt_str_text(&l->piece);
    const int64_t gap = l->columns > 0 ? 2 : 0;
    const int64_t columns = tt_term_columns(text);
    if (columns > 0 && l->columns + gap + columns <= l->width) {
        tt_str_add(l->out, gap > 0 ? "  " : "");
        tt_term_add(l->term, style, text, l->out);
        l->columns += gap + columns;
    }
    tt_str_clear(&l->piece);
}

static void add_rates(line *l, const tt_live *live)
{
    const tt_run_point *p = &live->point;
    if (p->trouble != NULL)
        tt_str_add(&l->piece, p->trouble);
    add_piece(l, TT_STYLE_WARNING);
    tt_add_count(&l->piece, p->rate);
    tt_str_addf(&l->piece, " %s/s%s", live->unit, p->is_paced ? " paced" : "");
    add_piece(l, TT_STYLE_NONE);
    if (isfinite(p->mfu))
        tt_str_addf(&l->piece, "MFU %.1f%%", 100 * p->mfu);
    add_piece(l, TT_STYLE_NONE);
    tt_add_bytes(&l->piece, p->memory_bytes);
    add_piece(l, TT_STYLE_NONE);
    tt_add_seconds(&l->piece, p->step_seconds);
    add_piece(l, TT_STYLE_NONE);
    tt_str_addf(&l->piece, "lr %.2e", p->lr);
    add_piece(l, TT_STYLE_DIM);
    if (isfinite(p->accuracy) && live->unit[0] == 'i')
        tt_str_addf(&l->piece, "accuracy %.1f%%", 100 * p->accuracy);
    add_piece(l, TT_STYLE_DIM);
    if (isfinite(p->norm) && p->norm > 0)
        tt_str_addf(&l->piece, "norm %.2f", p->norm);
    add_piece(l, TT_STYLE_DIM);
    tt_str_addf(&l->piece, "epoch %.2f", p->epoch);
    add_piece(l, TT_STYLE_DIM);
}

static void draw_second(const tt_live *live, const tt_term *term, int width,
                        tt_str *out)
{
    line l = {.term = term, .out = out, .width = width};
    const bool is_bad = !isfinite(live->loss);
    tt_str_add(&l.piece, "loss ");
    tt_add_loss(&l.piece, live->loss);
    add_piece(&l, is_bad ? TT_STYLE_WARNING : TT_STYLE_BOLD);
    if (live->spark.n > 1)
        tt_spark_draw(&live->spark, width >= 70 ? 16 : 8, term->has_utf8,
                      &l.piece);
    add_piece(&l, TT_STYLE_BAR);
    if (isfinite(live->val)) {
        tt_str_add(&l.piece, "val ");
        tt_add_loss(&l.piece, live->val);
    }
    add_piece(&l, TT_STYLE_GOOD);
    if (live->has_point)
        add_rates(&l, live);
    tt_str_fini(&l.piece);
}

void tt__live_draw(tt_live *live, const tt_term *term, double now, tt_str *out)
{
    // The last column stays free, since some terminals wrap as soon as it is written.
    // The cursor waits after the second line, where the terminal shows Ctrl-C as ^C.
    const int width = tt_term_width(term);
    if (live->is_drawn)
        go_to_first(live, width, out);
    live->width = width;
    draw_first(live, term, width - 1, now, out);
    tt_str_add(out, "\033[K\n");
    draw_second(live, term, width - 3, out);
    tt_str_add(out, "\033[J");
    live->is_drawn = true;
}

// A logged point is the mean of several steps. It counts as that many, because later
// steps are added one by one.
void tt__live_take_up(tt_live *live, const char *folder)
{
    tt_metrics metrics;
    tt_arena *arena = tt_arena_create();
    if (arena != NULL && tt_metrics_read(folder, arena, &metrics) == TT_OK) {
        const tt_metric_series *s = tt_metrics_find(&metrics, "train/loss");
        for (int64_t i = 0; s != NULL && i < s->n; i++) {
            const int64_t before = i > 0 ? s->step[i - 1] : 0;
            tt_spark_add_many(&live->spark, s->value[i], s->step[i] - before);
        }
        live->loss = tt_metrics_last(&metrics, "train/loss");
        live->val = tt_metrics_last(&metrics, "val/loss");
    }
    tt_arena_destroy(arena);
}
