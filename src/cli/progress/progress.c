#include "cli/progress/progress.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "cli/progress/progress_parts.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// progress - the watch: sends each event to the live lines, to the plain lines, or
// both.
//
// Live lines are drawn at most ten times a second. Text that stays is printed above
// them: clear the live lines, print, draw them again below, all in one write, so that
// nothing flickers.

struct tt_progress {
    tt_watch watch;
    tt_term live_term, plain_term;
    bool has_plain;
    tt_live live;
    double drawn_at;
    // NULL, or the flag of the signal handler.
    const volatile sig_atomic_t *stop;
    tt_str text; // what is written next
};

static const double seconds_between = 0.1;

// ---- where things go -----------------------------------------------------

static int live_width(const tt_progress *p)
{
    return tt_term_width(&p->live_term);
}

// Starts text above the live lines: clears them. The caller then appends to p->text
// and draws or flushes.
static void begin_above(tt_progress *p)
{
    tt_str_clear(&p->text);
    tt__live_clear(&p->live, live_width(p), &p->text);
}

static void flush(tt_progress *p, tt_term *term)
{
    if (tt_str_status(&p->text) == TT_OK)
        tt_term_write(term, &p->text);
    tt_str_clear(&p->text);
}

static void draw(tt_progress *p, bool is_forced)
{
    const double now = tt_clock_seconds();
    if (!p->live_term.is_live ||
        (!is_forced && now - p->drawn_at < seconds_between))
        return;
    p->drawn_at = now;
    // The handler has just printed a line: do not overwrite it.
    if (p->stop != NULL && *p->stop != 0) {
        p->live.is_drawn = false;
        p->stop = NULL;
    }
    tt__live_draw(&p->live, &p->live_term, now, &p->text);
    flush(p, &p->live_term);
}

// ---- what the loop says --------------------------------------------------

static void on_start(void *user, const tt_run_facts *facts)
{
    tt_progress *p = user;
    tt_live *live = &p->live;
    *live = (tt_live){.step = facts->first_step,
                      .steps = facts->steps,
                      .first_step = facts->first_step,
                      .loss = (double)NAN,
                      .val = (double)NAN,
                      .started = tt_clock_seconds()};
    snprintf(live->unit, sizeof live->unit, "%s",
             facts->unit == NULL ? "samples" : facts->unit);
    if (facts->first_step > 0)
        tt__live_take_up(live, facts->folder);
    if (p->live_term.is_live) {
        begin_above(p);
        tt__progress_text_facts(&p->live_term, facts, live_width(p), &p->text);
        flush(p, &p->live_term);
    }
    if (p->has_plain) {
        tt__progress_text_facts(&p->plain_term, facts, 0, &p->text);
        flush(p, &p->plain_term);
    }
}

static void on_first(void *user, double loss)
{
    tt_progress *p = user;
    if (p->live_term.is_live) {
        begin_above(p);
        tt__progress_text_first(loss, p->live.steps, live_width(p), &p->text);
        draw(p, true);
    }
    if (p->has_plain) {
        tt__progress_text_first(loss, p->live.steps, 0, &p->text);
        flush(p, &p->plain_term);
    }
}

static void on_step(void *user, int64_t step, double loss)
{
    tt_progress *p = user;
    p->live.step = step;
    p->live.loss = loss;
    tt_spark_add(&p->live.spark, loss);
    draw(p, false);
}

static void on_point(void *user, const tt_run_point *point)
{
    tt_progress *p = user;
    tt_live *live = &p->live;
    if (live->step < point->step) // a loop that reports points only, no steps
        tt_spark_add(&live->spark, point->loss);
    live->step = point->step > live->step ? point->step : live->step;
    live->steps = point->steps;
    live->loss = point->loss;
    live->point = *point;
    live->pointed_at = tt_clock_seconds();
    const bool is_first = !live->has_point;
    live->has_point = true;
    draw(p, is_first);
    if (p->has_plain) {
        tt__progress_text_point(point, live->unit, &p->text);
        flush(p, &p->plain_term);
    }
}

static void on_eval(void *user, const tt_run_eval *eval)
{
    tt_progress *p = user;
    p->live.val = eval->loss;
    if (p->live_term.is_live) {
        begin_above(p);
        tt__progress_text_eval(&p->live_term, eval, p->live.steps,
                               live_width(p), &p->text);
        draw(p, true);
    }
    if (p->has_plain) {
        tt__progress_text_eval(&p->plain_term, eval, p->live.steps, 0,
                               &p->text);
        flush(p, &p->plain_term);
    }
}

static void on_text(void *user, tt_run_text kind, int64_t step,
                    const char *text)
{
    tt_progress *p = user;
    const tt_told told = {kind, step, text};
    if (p->live_term.is_live) {
        const bool was_drawn = p->live.is_drawn;
        begin_above(p);
        tt__progress_text_note(&p->live_term, &told, live_width(p), &p->text);
        if (was_drawn)
            draw(p, true);
        flush(p, &p->live_term);
    }
    if (p->has_plain) {
        tt__progress_text_note(&p->plain_term, &told, 0, &p->text);
        flush(p, &p->plain_term);
    }
}

static void leave_live(tt_progress *p)
{
    if (p->live.is_drawn)
        tt_str_add(&p->text, "\n");
    p->live.is_drawn = false;
}

static void on_end(void *user, const tt_run_end *end)
{
    tt_progress *p = user;
    if (p->live_term.is_live) {
        if (p->live.is_drawn)
            draw(p, true);
        leave_live(p);
        tt__progress_text_end(&p->live_term, end, &p->live, live_width(p),
                              &p->text);
        flush(p, &p->live_term);
    }
    if (p->has_plain) {
        tt__progress_text_end(&p->plain_term, end, &p->live, 0, &p->text);
        flush(p, &p->plain_term);
    }
}

// ---- open and close ------------------------------------------------------

tt_status tt_progress_open(bool wants_stdout, tt_progress **progress_out)
{
    tt_progress *p = tt_alloc((int64_t)sizeof *p);
    if (p == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the progress display");
    tt_term_init(&p->live_term, STDERR_FILENO);
    tt_term_init(&p->plain_term, wants_stdout ? STDOUT_FILENO : STDERR_FILENO);
    // A terminal that shows the live lines needs no plain ones.
    p->has_plain =
        !p->live_term.is_live || (wants_stdout && isatty(STDOUT_FILENO) == 0);
    p->plain_term.has_color = false;
    p->watch = (tt_watch){.user = p,
                          .start = on_start,
                          .first = on_first,
                          .step = on_step,
                          .point = on_point,
                          .eval = on_eval,
                          .text = on_text,
                          .end = on_end};
    // Whoever reads the log may end before the run. That is no reason to stop
    // training.
    signal(SIGPIPE, SIG_IGN);
    *progress_out = p;
    return TT_OK;
}

void tt_progress_heed(tt_progress *p, const volatile sig_atomic_t *stop)
{
    p->stop = stop;
}

void tt_progress_close(tt_progress *p)
{
    if (p == NULL)
        return;
    leave_live(p);
    if (p->live_term.is_live)
        flush(p, &p->live_term);
    tt_term_fini(&p->live_term);
    tt_term_fini(&p->plain_term);
    tt_str_fini(&p->text);
    tt_free(p);
}

const tt_watch *tt_progress_watch(const tt_progress *p)
{
    return &p->watch;
}
