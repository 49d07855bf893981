// plan_schedule - the schedule of a job's stages: a picture, figures, and the table in the
// form that pipe.schedule=FILE reads. All but the table are comments in that form, so what
// is printed is such a file as it is.

#include "base/figures.h"
#include "base/file.h"
#include "cli/columns.h"
#include "cli/planning/plan_show.h"
#include "cli/table.h"
#include "config/pace.h"
#include "job/cut.h"
#include "pipe/draw.h"
#include "pipe/text.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

tt_status tt_show_schedule_check(const tt_job *job)
{
    return job->pipe != NULL
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "--schedule: the model is not cut into stages; "
                         "mesh.pipe=2 cuts it into two");
}

// Of weights: how many are kept, the bytes of all but the newest, and how late updates are.
static void add_versions(const tt_stage *stage, tt_columns *c)
{
    tt_str cell = {0};
    tt_columns_addf(c, "%d", stage->n_versions);
    tt_add_bytes(&cell, stage->old_bytes);
    tt_columns_add(c, tt_str_text(&cell));
    tt_columns_addf(c, "%d", stage->staleness);
    tt_str_fini(&cell);
}

static void add_figures(const tt_timetable *s, tt_arena *arena,
                        const tt_term *term, tt_str *out)
{
    static const char *const heading[] = {
        "stage", "computing", "waiting",  "bubble", "slots",
        "each",  "memory",    "versions", "old",    "staleness"};
    enum { N = 7, N_ENDLESS = 10 };
    const bool is_endless = s->pipe->rule != TT_PIPE_FLUSH;
    tt_columns c = {.arena = arena,
                    .n = is_endless ? N_ENDLESS : N,
                    .right = 0x3fe,
                    .width = 200};
    for (int i = 0; i < c.n; i++)
        tt_columns_add(&c, heading[i]);
    for (int32_t r = 0; r < s->pipe->n_ranks; r++) {
        const tt_pipe_rank_times *t = &s->times->rank[r];
        const double bubble = t->bubble > 1e-9 * t->busy ? t->bubble : 0;
        const double seconds[] = {t->busy, bubble};
        const int64_t bytes[] = {s->stage[r].slot_bytes,
                                 s->stage[r].peak_bytes};
        tt_str cell = {0};
        tt_columns_addf(&c, "%d", r);
        for (int i = 0; i < 2; i++) {
            tt_str_clear(&cell);
            tt_pipe_add_seconds(seconds[i], &cell);
            tt_columns_add(&c, tt_str_text(&cell));
        }
        tt_columns_addf(&c, "%.1f %%", tt_timetable_percent(t));
        tt_columns_addf(&c, "%d", s->stage[r].n_slots);
        for (int i = 0; i < 2; i++) {
            tt_str_clear(&cell);
            if (bytes[i] > 0)
                tt_add_bytes(&cell, bytes[i]);
            else
                tt_str_add(&cell, "-"); // one slot: packed with scratch
            tt_columns_add(&c, tt_str_text(&cell));
        }
        if (is_endless)
            add_versions(&s->stage[r], &c);
        tt_str_fini(&cell);
    }
    (void)tt_columns_print(&c, term, out); // no memory: no table
}

static double largest_percent(const tt_timetable *s)
{
    double most = 0;
    for (int32_t r = 0; r < s->pipe->n_ranks; r++)
        most = fmax(most, tt_timetable_percent(&s->times->rank[r]));
    return most;
}

static void add_sum(const tt_job *job, const tt_timetable *s, tt_str *out)
{
    tt_str_addf(out, "\nbubble %.1f %% at most", largest_percent(s));
    if (s->formula >= 0) {
        tt_str_add(out, "; by the formula, for chunks that are even, ");
        tt_pipe_add_seconds(s->formula, out);
    }
    if (s->pipe->n_steps > 1)
        tt_str_addf(out, "\n%d steps take ", s->pipe->n_steps);
    else
        tt_str_add(out, "\na step takes ");
    tt_pipe_add_seconds(s->times->makespan, out);
    tt_str_add(out, " on a machine of 10 GFLOP and 1 GB per second, 10 us per "
                    "kernel and messages that take no time");
    if (tt_pace_is_set(job->distribution.pace))
        tt_str_addf(out, ",\nat the speeds trial.pace=%s",
                    job->distribution.pace);
    tt_str_add(out, "\n");
}

// Appends text as lines of a comment.
static void add_comment(const tt_str *text, tt_str *out)
{
    for (const char *p = tt_str_text(text); *p != '\0';) {
        const size_t n = strcspn(p, "\n");
        tt_str_add(out, n > 0 ? "# " : "#");
        tt_str_add_bytes(out, p, (int64_t)n);
        tt_str_add(out, "\n");
        p += n + (p[n] == '\n');
    }
    tt_str_inherit(out, text);
}

tt_status tt_show_schedule(const tt_job *job, tt_arena *arena, tt_str *out)
{
    tt_timetable s = {0};
    tt_term term;
    tt_str text = {0};
    TT_TRY(tt_timetable_make(job, arena, &s));
    tt_term_init(&term, STDOUT_FILENO);
    tt_pipe_draw(s.pipe, s.times,
                 &(tt_pipe_look){tt_term_width(&term) - 2, term.has_color},
                 &text);
    tt_str_add(&text, "\n");
    add_figures(&s, arena, &term, &text);
    add_sum(job, &s, &text);
    tt_term_fini(&term);
    add_comment(&text, out);
    tt_str_add(out, "\n");
    tt_pipe_print(s.pipe, out);
    tt_str_fini(&text);
    tt_timetable_fini(&s);
    return tt_str_status(out);
}

tt_status tt_show_schedule_svg(const tt_job *job, tt_arena *arena,
                               const char *path)
{
    tt_timetable s = {0};
    tt_str svg = {0};
    TT_TRY(tt_timetable_make(job, arena, &s));
    tt_pipe_draw_svg(s.pipe, s.times, &svg);
    tt_status status = tt_str_status(&svg);
    if (status == TT_OK)
        status = tt_file_replace(path, tt_str_text(&svg), svg.n);
    tt_str_fini(&svg);
    tt_timetable_fini(&s);
    return status;
}

static void add_stage(const tt_timetable *s, int32_t r, tt_json *json)
{
    const tt_pipe_rank_times *t = &s->times->rank[r];
    tt_json_open(json, NULL, '{');
    tt_json_f64(json, "computing", t->busy);
    tt_json_f64(json, "waiting", fmax(0, t->bubble));
    tt_json_f64(json, "bubble_percent", tt_timetable_percent(t));
    tt_json_i64(json, "slots", s->stage[r].n_slots);
    tt_json_i64(json, "slot_bytes", s->stage[r].slot_bytes);
    tt_json_i64(json, "peak_bytes", s->stage[r].peak_bytes);
    tt_json_i64(json, "versions", s->stage[r].n_versions);
    tt_json_i64(json, "old_bytes", s->stage[r].old_bytes);
    tt_json_i64(json, "staleness", s->stage[r].staleness);
    tt_json_open(json, "rows", '[');
    for (int32_t i = 0; i < s->pipe->rank[r].n; i++) {
        const tt_pipe_row *row = &s->pipe->rank[r].row[i];
        tt_json_open(json, NULL, '{');
        tt_json_str(json, "phase", tt_pipe_phase_name(row->phase));
        tt_json_i64(json, "chunk", row->chunk);
        tt_json_i64(json, "micro", row->micro);
        tt_json_i64(json, "slot", row->slot);
        tt_json_f64(json, "start", t->start[i]);
        tt_json_f64(json, "finish", t->finish[i]);
        tt_json_close(json, '}');
    }
    tt_json_close(json, ']');
    tt_json_close(json, '}');
}

static void add_cut(const tt_cut_shares *cut, tt_json *json)
{
    tt_str names = {0};
    tt_cut_names(cut, &names);
    tt_json_str(json, "cut", tt_str_text(&names));
    tt_str_inherit(json->out, &names);
    tt_str_fini(&names);
    tt_json_f64(json, "slowest_excess_percent", 100 * cut->excess);
    tt_json_open(json, "cut_chunks", '[');
    for (int32_t c = 0; c < cut->n; c++) {
        tt_json_open(json, NULL, '{');
        tt_json_str(json, "begins", cut->chunk[c].name);
        tt_json_f64(json, "share_percent", 100 * cut->share[c]);
        tt_json_i64(json, "bytes_in", cut->chunk[c].bytes);
        tt_json_close(json, '}');
    }
    tt_json_close(json, ']');
}

tt_status tt_show_schedule_json(const tt_job *job, tt_arena *arena,
                                tt_json *json)
{
    tt_timetable s = {0};
    tt_cut_shares cut = {0};
    if (job->pipe == NULL)
        return TT_OK;
    double *seconds =
        tt_arena_alloc(arena, job->pipe->n_chunks * (int64_t)sizeof *seconds);
    if (seconds == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_timetable_make(job, arena, &s));
    tt_cut_seconds(&s, seconds);
    tt_cut_make(job, seconds, &cut);
    tt_json_open(json, "pipe", '{');
    add_cut(&cut, json);
    tt_json_str(json, "schedule", s.pipe->name);
    tt_json_i64(json, "chunks", s.pipe->n_chunks);
    tt_json_i64(json, "micro", s.pipe->n_micro);
    tt_json_f64(json, "bubble", fmax(0, s.times->bubble));
    tt_json_f64(json, "bubble_percent", largest_percent(&s));
    if (s.formula >= 0)
        tt_json_f64(json, "formula", s.formula);
    tt_json_i64(json, "steps", s.pipe->n_steps);
    tt_json_f64(json, "step_seconds", s.times->makespan / s.pipe->n_steps);
    if (tt_pace_is_set(job->distribution.pace))
        tt_json_str(json, "pace", job->distribution.pace);
    tt_json_open(json, "stages", '[');
    for (int32_t r = 0; r < s.pipe->n_ranks; r++)
        add_stage(&s, r, json);
    tt_json_close(json, ']');
    tt_json_close(json, '}');
    tt_timetable_fini(&s);
    return TT_OK;
}
