#include "job/cut.h"

#include "base/figures.h"
#include "plan/seconds.h"

#include <math.h>
#include <string.h>

void tt_cut_seconds(const tt_timetable *table, double *seconds_out)
{
    const tt_pipe *p = table->pipe;
    const double *const *row = table->seconds.row;
    for (int32_t c = 0; c < p->n_chunks; c++)
        seconds_out[c] =
            p->n_micro * (row[TT_PIPE_FORWARD][c] + row[TT_PIPE_BACKWARD][c]) +
            row[TT_PIPE_UPDATE][tt_mesh_stage_coord(p->n_ranks, c)] *
                p->n_ranks / p->n_chunks;
}

void tt_cut_rank_seconds(const tt_plan *plan, const tt_pipe *pipe,
                         double *seconds_out)
{
    const tt_mesh *mesh = &plan->graph->mesh;
    const int32_t n = pipe->n_chunks;
    const int coord = tt_mesh_coord(mesh, plan->rank, tt_mesh_pipe(mesh));
    double update = 0;
    for (int32_t c = 0; c < n; c++)
        seconds_out[c] = 0;
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_segment *x = &plan->segment[i];
        const double seconds = tt_plan_seconds(plan, i);
        if (x->phase == TT_UPDATE)
            update += seconds;
        else if (x->stage < n) // of the first copy
            seconds_out[x->stage] += pipe->n_micro * seconds;
    }
    for (int32_t c = coord; c < n; c += pipe->n_ranks)
        seconds_out[c] += update * pipe->n_ranks / n;
}

void tt_cut_make(const tt_job *job, double *seconds, tt_cut_shares *cut_out)
{
    const int32_t n = job->pipe->n_chunks;
    tt_cut_shares cut = {.n = n,
                         .chunk = job->cut,
                         .share = seconds,
                         .is_by_hand =
                             strcmp(job->distribution.pipe_cut, "auto") != 0};
    double sum = 0;
    for (int32_t c = 0; c < n; c++)
        sum += seconds[c];
    for (int32_t c = 0; c < n; c++) {
        cut.share[c] /= sum > 0 ? sum : 1;
        if (cut.share[c] > cut.share[cut.slowest])
            cut.slowest = c;
    }
    cut.excess = fmax(0, cut.share[cut.slowest] * n - 1);
    *cut_out = cut;
}

void tt_cut_names(const tt_cut_shares *cut, tt_str *out)
{
    for (int32_t c = 1; c < cut->n; c++)
        tt_str_addf(out, "%s%s", c > 1 ? "," : "", cut->chunk[c].name);
}

static bool is_same_everywhere(const tt_cut_shares *cut)
{
    for (int32_t c = 2; c < cut->n; c++)
        if (cut->chunk[c].bytes != cut->chunk[1].bytes)
            return false;
    return true;
}

void tt_cut_line(const tt_cut_shares *cut, tt_str *out)
{
    const bool is_same = is_same_everywhere(cut);
    tt_cut_names(cut, out);
    tt_str_add(out, "; ");
    for (int32_t c = 0; c < cut->n; c++)
        tt_str_addf(out, "%s%.1f", c > 0 ? " + " : "", 100 * cut->share[c]);
    tt_str_add(out, " % of the modelled time; ");
    for (int32_t c = 1; c < (is_same ? 2 : cut->n); c++) {
        tt_str_add(out, c > 1 ? ", " : "");
        tt_add_bytes(out, cut->chunk[c].bytes);
    }
    tt_str_add(out, cut->n > 2 && is_same ? " cross each boundary"
                    : cut->n > 2          ? " cross the boundaries"
                                          : " cross");
    tt_str_addf(out, "; the slowest is %.1f %% above the mean",
                100 * cut->excess);
}

void tt_cut_note(const tt_cut_shares *cut, tt_str *out)
{
    static const double too_much = 0.1;
    if (cut->is_by_hand && cut->excess > too_much)
        tt_str_addf(out,
                    "pipe.cut: chunk %d of %d takes %.0f %% longer than the "
                    "mean, and the others wait for it; pipe.cut=auto makes "
                    "them as even as they can be",
                    cut->slowest, cut->n, 100 * cut->excess);
}

tt_status tt_cut_text(const tt_job *job, tt_arena *arena, tt_str *line,
                      tt_str *note)
{
    tt_timetable table = {0};
    tt_cut_shares cut;
    if (job->pipe == NULL)
        return TT_OK;
    double *seconds =
        tt_arena_alloc(arena, job->pipe->n_chunks * (int64_t)sizeof *seconds);
    if (seconds == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_timetable_make(job, arena, &table));
    tt_cut_seconds(&table, seconds);
    tt_timetable_fini(&table);
    tt_cut_make(job, seconds, &cut);
    tt_cut_line(&cut, line);
    tt_cut_note(&cut, note);
    return TT_OK;
}
