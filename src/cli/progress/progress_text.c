// progress_text - the lines of a run that stay: the table at its start, a line per
// point and evaluation, notes, samples, the summary.
//
// Everything is appended to a string, so the same functions serve the terminal (with a
// width and colours) and a log file (without).

#include "backend/cpu/isa.h"
#include "cli/progress/progress_parts.h"
#include "cli/table.h"
#include "config/pace.h"
#include "tutti/tutti.h"

#include <math.h>
#include <string.h>

// A table that is being written.
typedef struct rows {
    const tt_term *term;
    int width;
    tt_str *out;
    tt_str value;
} rows;

// Ends a row whose value has been built up in r->value.
static void row(rows *r, const char *name)
{
    tt_table_row(r->term, name, tt_str_text(&r->value), r->width, r->out);
    tt_str_clear(&r->value);
}

// A row whose value came from elsewhere (paths, notes): made safe for a terminal.
static void row_of(rows *r, const char *name, const char *value)
{
    tt_term_add_foreign(value == NULL ? "?" : value, false, &r->value);
    row(r, name);
}

static void batch_row(rows *r, const tt_run_facts *f)
{
    tt_str_addf(&r->value, "%lld", (long long)f->batch);
    if (f->seq > 0)
        tt_str_addf(&r->value, " x %lld tokens", (long long)f->seq);
    else if (f->image > 0)
        tt_str_addf(&r->value, " images of %lldx%lld", (long long)f->image,
                    (long long)f->image);
    if (f->accumulate > 1)
        tt_str_addf(&r->value, " (micro-batch %lld x accumulate %lld)",
                    (long long)f->micro, (long long)f->accumulate);
    row(r, "batch");
}

static void size_rows(rows *r, const tt_run_facts *f)
{
    tt_add_grouped(&r->value, f->parameters);
    if (f->frozen > 0) {
        tt_str_add(&r->value, " trained, ");
        tt_add_grouped(&r->value, f->frozen);
        tt_str_add(&r->value, " frozen");
    }
    row(r, "parameters");
    row_of(r, "data", f->data);
    batch_row(r, f);
    const char *each = f->ranks != NULL ? " per rank" : "";
    tt_str_addf(&r->value, "%s on %s, %lld thread%s%s", f->precision, f->device,
                (long long)f->threads, f->threads == 1 ? "" : "s", each);
    if (f->blocks > 0)
        tt_str_addf(&r->value, ", exact in %lld block%s", (long long)f->blocks,
                    f->blocks == 1 ? "" : "s");
    if (tt_isa_used() < tt_isa_here())
        tt_str_addf(&r->value, ", isa=%s of %s", tt_isa_name[tt_isa_used()],
                    tt_isa_name[tt_isa_here()]);
    row(r, "precision");
    if (f->ranks != NULL)
        row_of(r, "ranks", f->ranks);
    if (f->pace != NULL)
        row_of(r, "pace", f->pace);
    if (f->mesh != NULL && f->mesh[0] != '\0') {
        tt_term_add_foreign(f->mesh, false, &r->value);
        tt_str_addf(&r->value, ", zero=%lld", (long long)f->zero);
        row(r, "mesh");
        row_of(r, "layout", f->layout);
        if (f->cut != NULL)
            row_of(r, "cut", f->cut);
    }
    row_of(r, "optimiser", f->optim);
    tt_add_bytes(&r->value, f->peak_bytes);
    if (f->peak_rank >= 0)
        tt_str_addf(&r->value, " on rank %d, the most of %d ranks",
                    f->peak_rank, f->n_ranks);
    else
        tt_str_add(&r->value, each);
    row(r, "memory");
    if (f->flops_per_step > 0) {
        tt_add_unit(&r->value, f->flops_per_step, "FLOP per step");
        row(r, "work");
    }
}

void tt__progress_text_facts(const tt_term *term, const tt_run_facts *f,
                             int width, tt_str *out)
{
    rows r = {.term = term, .width = width, .out = out};
    tt_str_addf(&r.value, "Tutti %s", TUTTI_VERSION);
    tt_term_add(term, TT_STYLE_BOLD, tt_str_text(&r.value), out);
    tt_str_clear(&r.value);
    tt_str_add(out, "\n");
    row_of(&r, "model", f->model);
    size_rows(&r, f);
    tt_add_grouped(&r.value, f->steps);
    if (f->first_step > 0) {
        tt_str_add(&r.value, ", resumed at ");
        tt_add_grouped(&r.value, f->first_step);
    }
    row(&r, "steps");
    row_of(&r, "run", f->folder);
    if (f->note != NULL)
        row_of(&r, "note", f->note);
    tt_str_add(out, "\n");
    tt_str_fini(&r.value);
}

static void add_percent(tt_str *out, const char *name, double fraction)
{
    if (isfinite(fraction))
        tt_str_addf(out, "  %s %.2f%%", name, 100 * fraction);
}

void tt__progress_text_first(double loss, int64_t steps, int width, tt_str *out)
{
    tt_str line = {0};
    tt_str_addf(&line, "step 0/%lld  loss ", (long long)steps);
    tt_add_loss(&line, loss);
    tt_str_add(&line, "  before the first update");
    tt_add_wrapped(out, tt_str_text(&line),
                   &(tt_wrapping){.width = width, .indent = "  "});
    tt_str_add(out, "\n");
    tt_str_fini(&line);
}

void tt__progress_text_point(const tt_run_point *p, const char *unit,
                             tt_str *out)
{
    tt_str_addf(out, "step %lld/%lld  loss ", (long long)p->step,
                (long long)p->steps);
    tt_add_loss(out, p->loss);
    tt_str_addf(out, "  lr %.1e", p->lr);
    if (isfinite(p->epsilon) && p->epsilon > 0)
        tt_str_addf(out, "  epsilon %.3g", p->epsilon);
    if (isfinite(p->norm) && p->norm > 0)
        tt_str_addf(out, p->norm < 1e6 ? "  norm %.2f" : "  norm %.3g",
                    p->norm);
    if (unit[0] == 'i')
        add_percent(out, "accuracy", p->accuracy);
    tt_str_add(out, "  ");
    tt_add_seconds(out, p->step_seconds);
    tt_str_add(out, "  ");
    tt_add_count(out, p->rate);
    tt_str_addf(out, " %s/s%s", unit, p->is_paced ? " paced" : "");
    if (isfinite(p->mfu))
        tt_str_addf(out, "  MFU %.1f%%", 100 * p->mfu);
    tt_str_add(out, "  mem ");
    tt_add_bytes(out, p->memory_bytes);
    if (p->trouble != NULL)
        tt_str_addf(out, "  %s", p->trouble);
    tt_str_add(out, "\n");
}

void tt__progress_text_eval(const tt_term *term, const tt_run_eval *e,
                            int64_t steps, int width, tt_str *out)
{
    tt_str line = {0}, folded = {0};
    tt_str_addf(&line, "eval %lld/%lld  loss ", (long long)e->step,
                (long long)steps);
    tt_add_loss(&line, e->loss);
    add_percent(&line, "accuracy", e->accuracy);
    if (isfinite(e->perplexity))
        tt_str_addf(&line, "  perplexity %.4g", e->perplexity);
    tt_str_add(&line, "  ");
    tt_add_seconds(&line, e->seconds);
    tt_str_add(&line, e->is_best ? "  best" : "");
    tt_add_wrapped(&folded, tt_str_text(&line),
                   &(tt_wrapping){.width = width, .indent = "  "});
    tt_term_add(term, e->is_best ? TT_STYLE_GOOD : TT_STYLE_NONE,
                tt_str_text(&folded), out);
    tt_str_add(out, "\n");
    tt_str_fini(&line);
    tt_str_fini(&folded);
}

// A sample is set off by a bar, so that its lines are not taken for ours.
static void add_sample(const tt_term *term, const tt_told *told, int width,
                       tt_str *out)
{
    tt_str clean = {0}, bar = {0}, line = {0};
    tt_term_add_foreign(told->text, true, &clean);
    tt_str_addf(out, "sample at step %lld\n", (long long)told->step);
    tt_term_add(term, TT_STYLE_DIM, term->has_utf8 ? "  │ " : "  | ", &bar);
    const char *at = tt_str_text(&clean);
    while (*at != '\0') {
        const int64_t n = (int64_t)strcspn(at, "\n");
        tt_str_clear(&line);
        tt_str_add_bytes(&line, at, n);
        tt_str_add(out, tt_str_text(&bar));
        const int rest = width > 8 ? width - 4 : 0; // the bar takes 4
        tt_str folded = {0};
        tt_add_wrapped(&folded, tt_str_text(&line),
                       &(tt_wrapping){.width = rest, .indent = ""});
        for (const char *c = tt_str_text(&folded); *c != '\0'; c++) {
            tt_str_add_bytes(out, c, 1);
            tt_str_add(out, *c == '\n' ? tt_str_text(&bar) : "");
        }
        tt_str_fini(&folded);
        tt_str_add(out, "\n");
        at += n + (at[n] == '\n');
    }
    tt_str_fini(&clean);
    tt_str_fini(&bar);
    tt_str_fini(&line);
}

void tt__progress_text_note(const tt_term *term, const tt_told *told, int width,
                            tt_str *out)
{
    const bool is_warning = told->kind == TT_TEXT_WARNING;
    if (told->kind == TT_TEXT_SAMPLE) {
        add_sample(term, told, width, out);
        return;
    }
    tt_str line = {0}, folded = {0};
    tt_str_addf(&line, "%s at step %lld: ", is_warning ? "warning" : "note",
                (long long)told->step);
    tt_term_add_foreign(told->text, false, &line);
    tt_add_wrapped(&folded, tt_str_text(&line),
                   &(tt_wrapping){.width = width, .indent = "  "});
    tt_term_add(term, is_warning ? TT_STYLE_WARNING : TT_STYLE_DIM,
                tt_str_text(&folded), out);
    tt_str_add(out, "\n");
    tt_str_fini(&line);
    tt_str_fini(&folded);
}

static void end_line(const tt_run_end *e, const tt_live *live, tt_str *out)
{
    static const char *const how[] = {[TT_RUN_DONE] = "done",
                                      [TT_RUN_EARLY] = "stopped early",
                                      [TT_RUN_SIGNAL] = "stopped and saved",
                                      [TT_RUN_FAILED] = "failed"};
    const bool is_asked = e->reason == TT_RUN_DONE && e->step < live->steps;
    tt_str_addf(out, "%s at step %lld",
                is_asked ? "stopped as asked" : how[e->reason],
                (long long)e->step);
    // train.steps may have been lowered since: "30 of 20" says nothing.
    if (e->step <= live->steps)
        tt_str_addf(out, " of %lld", (long long)live->steps);
    tt_str_add(out, " after ");
    tt_add_seconds(out, e->seconds);
    if (e->reason == TT_RUN_SIGNAL)
        tt_str_add(out, "; the same command goes on from here");
}

static void loss_row(rows *r, const tt_run_end *e)
{
    if (isfinite(e->loss)) {
        tt_add_loss(&r->value, e->loss);
        tt_str_add(&r->value, " in training");
    }
    if (isfinite(e->val_loss)) {
        tt_str_add(&r->value, r->value.n > 0 ? ", " : "");
        tt_add_loss(&r->value, e->val_loss);
        tt_str_add(&r->value, " in validation");
    }
    if (isfinite(e->best_loss) && e->best_loss != e->val_loss) {
        tt_str_add(&r->value, " (best ");
        tt_add_loss(&r->value, e->best_loss);
        tt_str_add(&r->value, ")");
    }
    if (r->value.n > 0)
        row(r, "loss");
}

// The same shares that the report's bars show: where time was lost.
static void stalls_row(rows *r, const tt_report_time *time, bool has_network)
{
    const double all = time->total > 0 ? time->total : 1;
    tt_str_addf(&r->value, "%.1f%% waiting for data", 100 * time->data / all);
    if (has_network)
        tt_str_addf(&r->value, ", %.1f%% for the network",
                    100 * time->network / all);
    tt_str_addf(&r->value, ", %.1f%% for checkpoints",
                100 * time->checkpoints / all);
    row(r, "stalls");
    if (time->last < 0.5)
        return;
    tt_str_add(&r->value, "the last one was written in ");
    tt_add_seconds(&r->value, time->last);
    row(r, "checkpoint");
}

// What the user may want to do next, ready to be copied.
static void next_rows(rows *r, const char *folder, bool is_text)
{
    const char *const verbs[] = {"sample", "eval"};
    for (int i = is_text ? 0 : 1; i < 2; i++) {
        tt_str_addf(&r->value, "tutti %s ", verbs[i]);
        tt_add_word(&r->value, folder);
        row(r, i == (is_text ? 0 : 1) ? "next" : "");
    }
}

void tt__progress_text_end(const tt_term *term, const tt_run_end *e,
                           const tt_live *live, int width, tt_str *out)
{
    rows r = {.term = term, .width = width, .out = out};
    tt_str line = {0};
    end_line(e, live, &line);
    tt_add_wrapped(&r.value, tt_str_text(&line),
                   &(tt_wrapping){.width = width, .indent = "  "});
    tt_str_fini(&line);
    tt_term_add(term,
                e->reason == TT_RUN_FAILED ? TT_STYLE_WARNING : TT_STYLE_BOLD,
                tt_str_text(&r.value), out);
    tt_str_clear(&r.value);
    tt_str_add(out, "\n");
    loss_row(&r, e);
    if (isfinite(e->accuracy)) {
        tt_str_addf(&r.value, "%.2f%%", 100 * e->accuracy);
        row(&r, "accuracy");
    }
    if (e->is_paced)
        row_of(&r, "pace", tt_pace_note);
    stalls_row(&r, &e->time, e->ranks != NULL);
    if (e->ranks != NULL)
        tt__progress_text_ranks(term, e->ranks, width, out);
    if (e->workers != NULL)
        tt__progress_text_workers(term, e->workers, width, out);
    if (e->folder != NULL && e->reason != TT_RUN_FAILED) {
        tt_term_add_foreign(e->folder, false, &r.value);
        tt_str_add(&r.value, "/report.html");
        row(&r, "report");
        next_rows(&r, e->folder, live->unit[0] == 't');
    }
    tt_str_fini(&r.value);
}
