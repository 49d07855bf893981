#include "job/timetable.h"

#include "config/pace.h"
#include "plan/seconds.h"

#include <math.h>

double tt_timetable_percent(const tt_pipe_rank_times *rank)
{
    const double span = rank->last - rank->first;
    return span > 0 ? 100 * fmax(0, rank->bubble) / span : 0;
}

static double mean(const double *x, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; i < n; i++)
        sum += x[i] / n;
    return sum;
}

tt_status tt_timetable_formula(const tt_pipe *p, const tt_pipe_seconds *s,
                               double *bubble_out)
{
    const tt_pipe_def *def = tt_pipe_find(p->name);
    const int32_t n = p->n_chunks;
    const tt_pipe_shape shape = {.ranks = p->n_ranks,
                                 .chunks = n / p->n_ranks,
                                 .micro = p->n_micro,
                                 .steps = p->n_steps};
    const tt_pipe_even even = {mean(s->row[TT_PIPE_FORWARD], n),
                               mean(s->row[TT_PIPE_INPUT_GRAD], n),
                               mean(s->row[TT_PIPE_WEIGHT_GRAD], n)};
    *bubble_out = -1;
    return def == NULL ? TT_OK
                       : tt_pipe_bubble(def, &shape, NULL, &even, bubble_out);
}

// ---- one stage -----------------------------------------------------------

static tt_status speed_of(const tt_job *job, int32_t rank, double *speed_out)
{
    const char *pace = job->distribution.pace;
    *speed_out = 1;
    return tt_pace_is_set(pace)
               ? tt_pace_speed(pace, job->peers.size, rank, speed_out)
               : TT_OK;
}

// Adds the segments of stage `r` to the seconds of its chunks. The update of all of them
// is one segment, and counts for the first, which is chunk `r`. The second copy of a chunk
// takes as long as the first.
static void add_segments(const tt_plan *plan, int32_t r, const tt_pipe *pipe,
                         double speed, double *row[TT_N_PIPE_PHASES])
{
    static const tt_pipe_phase phase[TT_N_PHASES] = {
        [TT_FORWARD] = TT_PIPE_FORWARD,
        [TT_BACKWARD] = TT_PIPE_INPUT_GRAD,
        [TT_WEIGHT_GRAD] = TT_PIPE_WEIGHT_GRAD,
        [TT_UPDATE] = TT_PIPE_UPDATE};
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_segment *x = &plan->segment[i];
        double seconds = tt_plan_seconds(plan, i) / speed;
        if (x->stage >= pipe->n_chunks)
            continue;
        if (x->phase == TT_UPDATE) // a row for each copy
            seconds /= pipe->n_copies;
        row[phase[x->phase]][x->phase == TT_UPDATE ? r : x->stage] += seconds;
        if (x->phase == TT_BACKWARD || x->phase == TT_WEIGHT_GRAD)
            row[TT_PIPE_BACKWARD][x->stage] += seconds;
    }
}

static tt_status add_stage(const tt_job *job, int32_t r,
                           double *row[TT_N_PIPE_PHASES], tt_stage *stage)
{
    const tt_mesh *mesh = &job->graph->mesh;
    const int32_t rank = tt_mesh_rank_at(mesh, 0, tt_mesh_pipe(mesh), r);
    tt_plan *plan = NULL;
    double speed = 1;
    TT_TRY(speed_of(job, rank, &speed));
    TT_TRY(tt_job_plan_rank(job, rank, &plan));
    add_segments(plan, r, job->pipe, speed, row);
    *stage = (tt_stage){.n_slots = plan->n_slots,
                        .slot_bytes = plan->slot_bytes,
                        .peak_bytes = plan->peak_bytes,
                        .n_versions = job->pipe->n_versions[r],
                        .old_bytes = plan->stash_bytes,
                        .staleness = tt_pipe_staleness(job->pipe, r)};
    tt_plan_destroy(plan);
    return TT_OK;
}

// ---- all of them ---------------------------------------------------------

tt_status tt_timetable_make(const tt_job *job, tt_arena *arena,
                            tt_timetable *table_out)
{
    const tt_pipe *p = job->pipe;
    tt_timetable s = {.pipe = p};
    double *row[TT_N_PIPE_PHASES];
    s.stage = tt_arena_alloc(arena, p->n_ranks * (int64_t)sizeof(*s.stage));
    if (s.stage == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < TT_N_PIPE_PHASES; i++) {
        row[i] = tt_arena_alloc(arena, p->n_chunks * (int64_t)sizeof(double));
        if (row[i] == NULL)
            return TT_ERR_NOMEM;
        s.seconds.row[i] = row[i];
    }
    for (int32_t r = 0; r < p->n_ranks; r++)
        TT_TRY(add_stage(job, r, row, &s.stage[r]));
    TT_TRY(tt_timetable_formula(p, &s.seconds, &s.formula));
    TT_TRY(tt_pipe_measure(p, &s.seconds, &s.times));
    *table_out = s;
    return TT_OK;
}

void tt_timetable_fini(tt_timetable *table)
{
    tt_pipe_times_destroy(table->times);
    table->times = NULL;
}
