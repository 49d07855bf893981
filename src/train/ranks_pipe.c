// ranks_pipe - gathers what the stages measured. See the header.
//
// A rank's block: a few sums, the seconds that it waited for each rank, and its rows. All
// blocks are as long as the longest rank's, which every rank knows from the schedule.
//
//   block:  | sums ... | waited for rank 0, 1, ... | row | row | ...

#include "train/ranks_pipe.h"

#include "base/alloc.h"
#include "config/pace.h"
#include "job/timetable.h"
#include "train/ranks_parts.h"

#include <math.h>

enum { // sums of a block
    ROWS,
    RUNS,
    BUBBLE,
    SPAN,
    SLOTS,
    SLOT_BYTES,
    PEAK_BYTES,
    OLD_BYTES,
    STEPS,
    PACED,
    LATE,
    N_SUMS,
};

enum { // numbers of a row
    PHASE,
    CHUNK,
    MICRO,
    START,
    END,
    WAITED,
    PEER,
    COMPUTED,
    N_NUMBERS,
};

typedef struct gathered {
    const tt_ranks_report *r;
    const tt_pipe *pipe;
    int64_t most, block; // rows of a rank; numbers of a block
    double *all;
} gathered;

// A row of the table is two of a plan at most; the update comes last.
static int64_t most_rows(const tt_pipe *p)
{
    int64_t most = 0;
    for (int32_t i = 0; i < p->n_ranks; i++)
        if (2 * (int64_t)p->rank[i].n + 1 > most)
            most = 2 * (int64_t)p->rank[i].n + 1;
    return most;
}

static const double *block_of(const gathered *g, int32_t rank)
{
    return &g->all[rank * g->block];
}

static const double *row_of(const gathered *g, int32_t rank, int64_t i)
{
    return block_of(g, rank) + N_SUMS + g->r->size + i * N_NUMBERS;
}

// ---- this rank's block ---------------------------------------------------

static void fill_row(const gathered *g, int32_t i, double *to)
{
    const tt_exec *exec = g->r->options.exec;
    const tt_plan *plan = tt_exec_plan(exec);
    const tt_order *order = &plan->order[i];
    const tt_segment *segment = &plan->segment[order->segment];
    const tt_row_time *time = &tt_exec_rows(exec)[i];
    const tt_row_sums *sums = tt_exec_row_sums(exec);
    to[PHASE] = segment->phase;
    to[CHUNK] = tt_mesh_stage_chunk(g->pipe->n_chunks, segment->stage);
    to[MICRO] = order->micro;
    to[START] = time->start;
    to[END] = time->end;
    // An update begins when all stages have come to the norm of the gradients.
    to[WAITED] = segment->phase == TT_UPDATE ? time->idle : time->waited;
    to[PEER] = time->peer;
    to[COMPUTED] =
        sums->n_runs > 0 ? sums->computed[i] / (double)sums->n_runs : 0;
}

static void fill_block(const gathered *g, double *to)
{
    const tt_exec *exec = g->r->options.exec;
    const tt_plan *plan = tt_exec_plan(exec);
    const tt_row_sums *sums = tt_exec_row_sums(exec);
    const int64_t n = plan->n_order < g->most ? plan->n_order : g->most;
    if (sums == NULL)
        return;
    to[ROWS] = (double)n;
    to[RUNS] = (double)sums->n_runs;
    to[BUBBLE] = sums->bubble;
    to[SPAN] = sums->span;
    to[SLOTS] = plan->n_slots;
    to[SLOT_BYTES] = (double)plan->slot_bytes;
    to[PEAK_BYTES] = (double)plan->peak_bytes;
    to[OLD_BYTES] = (double)plan->stash_bytes;
    to[STEPS] = (double)sums->n_steps;
    to[PACED] = (double)sums->n_paced;
    to[LATE] = (double)sums->n_late;
    for (int32_t i = 0; i < g->r->size; i++)
        to[N_SUMS + i] = sums->waited[i];
    for (int32_t i = 0; i < n; i++)
        fill_row(g, i, to + N_SUMS + g->r->size + (int64_t)i * N_NUMBERS);
}

// ---- on rank 0 -----------------------------------------------------------

static double share_of(double part, double whole)
{
    return whole > 0 ? fmin(1, fmax(0, part / whole)) : 0;
}

static int32_t stage_of(const gathered *g, int32_t rank)
{
    const tt_mesh *mesh = &tt_exec_plan(g->r->options.exec)->graph->mesh;
    return tt_mesh_coord(mesh, rank, tt_mesh_pipe(mesh));
}

// Mean seconds of every phase and chunk, over micro-batches and ranks. Updates count for
// the stage's first chunk.
static tt_status mean_seconds(const gathered *g, tt_arena *arena,
                              tt_pipe_seconds *out)
{
    static const tt_pipe_phase phase[TT_N_PHASES] = {
        [TT_FORWARD] = TT_PIPE_FORWARD,
        [TT_BACKWARD] = TT_PIPE_INPUT_GRAD,
        [TT_WEIGHT_GRAD] = TT_PIPE_WEIGHT_GRAD,
        [TT_UPDATE] = TT_PIPE_UPDATE};
    const int64_t n = g->pipe->n_chunks;
    double *sum[TT_N_PIPE_PHASES];
    double *count =
        tt_arena_alloc(arena, TT_N_PIPE_PHASES * n * (int64_t)sizeof(double));
    for (int i = 0; i < TT_N_PIPE_PHASES; i++) {
        sum[i] = tt_arena_alloc(arena, n * (int64_t)sizeof(double));
        if (sum[i] == NULL || count == NULL)
            return TT_ERR_NOMEM;
        out->row[i] = sum[i];
    }
    for (int32_t r = 0; r < g->r->size; r++)
        for (int64_t i = 0; i < (int64_t)block_of(g, r)[ROWS]; i++) {
            const double *row = row_of(g, r, i);
            const tt_pipe_phase p = phase[(int)row[PHASE]];
            const int64_t c =
                p == TT_PIPE_UPDATE ? stage_of(g, r) : (int64_t)row[CHUNK];
            sum[p][c] += row[COMPUTED];
            count[p * n + c]++;
        }
    for (int i = 0; i < TT_N_PIPE_PHASES; i++)
        for (int64_t c = 0; c < n; c++)
            sum[i][c] = fmax(0, sum[i][c]) / fmax(1, count[i * n + c]);
    for (int64_t c = 0; c < n; c++)
        sum[TT_PIPE_BACKWARD][c] =
            sum[TT_PIPE_INPUT_GRAD][c] + sum[TT_PIPE_WEIGHT_GRAD][c];
    return TT_OK;
}

static double earliest(const gathered *g)
{
    double first = HUGE_VAL;
    for (int32_t r = 0; r < g->r->size; r++)
        if (block_of(g, r)[ROWS] > 0)
            first = fmin(first, tt__ranks_report_clock_common(
                                    &g->r->clock, r, row_of(g, r, 0)[START]));
    return first;
}

// Rows of a few more steps than stages: after that they are alike.
static int32_t rows_shown(const gathered *g, int32_t r)
{
    const tt_pipe *p = g->pipe;
    const int32_t n = (int32_t)block_of(g, r)[ROWS];
    const int32_t most = p->n_micro * (p->n_ranks + 4);
    int32_t shown = 0;
    while (shown < n && (p->rule == TT_PIPE_FLUSH ||
                         row_of(g, r, shown)[MICRO] < (double)most))
        shown++;
    return shown;
}

static tt_status take_rows(const gathered *g, int32_t r, tt_arena *arena,
                           tt_rank_stage *to)
{
    const double zero = earliest(g);
    const tt_ranks_clock *clock = &g->r->clock;
    const int32_t n = rows_shown(g, r);
    tt_stage_row *row = tt_arena_alloc(arena, (n + 1) * (int64_t)sizeof *row);
    if (row == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < n; i++) {
        const double *x = row_of(g, r, i);
        row[i] = (tt_stage_row){
            .phase = tt_phase_name((tt_phase)x[PHASE]),
            .chunk = (int32_t)x[CHUNK],
            .micro = (int32_t)x[MICRO],
            .peer = (int32_t)x[PEER],
            .start = tt__ranks_report_clock_common(clock, r, x[START]) - zero,
            .end = tt__ranks_report_clock_common(clock, r, x[END]) - zero,
            .waited = x[WAITED]};
    }
    to->n_rows = n;
    to->row = row;
    return TT_OK;
}

static tt_status take_rank(const gathered *g, int32_t r, tt_arena *arena,
                           tt_rank_stage *to)
{
    const double *block = block_of(g, r);
    const double steps = fmax(1, block[STEPS]);
    double *waited =
        tt_arena_alloc(arena, g->r->size * (int64_t)sizeof(double));
    if (waited == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < g->r->size; i++)
        waited[i] = block[N_SUMS + i] / steps;
    to->stage = stage_of(g, r);
    to->n_versions = g->pipe->n_versions[to->stage];
    to->staleness = tt_pipe_staleness(g->pipe, to->stage);
    to->old_bytes = (int64_t)block[OLD_BYTES];
    to->bubble = share_of(block[BUBBLE], block[SPAN]);
    to->bubble_seconds = block[BUBBLE] / steps;
    to->waited = waited;
    to->n_slots = (int32_t)block[SLOTS];
    to->slot_bytes = (int64_t)block[SLOT_BYTES];
    to->peak_bytes = (int64_t)block[PEAK_BYTES];
    return take_rows(g, r, arena, to);
}

// What the table says for the measured seconds. Updates at the end take none, since the
// measured span ends before them.
static tt_status add_expected(const gathered *g, tt_arena *arena,
                              tt_rank_stage *rank, tt_ranks_pipe *out)
{
    tt_pipe_seconds seconds = {0};
    tt_pipe_times *times = NULL;
    double formula = -1, busy = 0;
    TT_TRY(mean_seconds(g, arena, &seconds));
    if (g->pipe->rule == TT_PIPE_FLUSH)
        seconds.row[TT_PIPE_UPDATE] = NULL;
    TT_TRY(tt_timetable_formula(g->pipe, &seconds, &formula));
    TT_TRY(tt_pipe_measure(g->pipe, &seconds, &times));
    for (int32_t s = 0; s < g->pipe->n_ranks; s++)
        busy += times->rank[s].busy / g->pipe->n_ranks;
    for (int32_t r = 0; r < g->r->size; r++) {
        rank[r].expected =
            tt_timetable_percent(&times->rank[rank[r].stage]) / 100;
        out->bubble = fmax(out->bubble, rank[r].bubble);
        out->expected = fmax(out->expected, rank[r].expected);
    }
    out->formula = formula < 0 ? -1 : share_of(formula, formula + busy);
    tt_pipe_times_destroy(times);
    return TT_OK;
}

static bool has_split(const gathered *g)
{
    const tt_plan *plan = tt_exec_plan(g->r->options.exec);
    for (int32_t i = 0; i < plan->n_segments; i++)
        if (plan->segment[i].phase == TT_WEIGHT_GRAD)
            return true;
    return false;
}

static tt_status sum_up(const gathered *g, tt_arena *arena,
                        const tt_ranks_pipe **pipe_out)
{
    const int32_t n = g->r->size;
    tt_ranks_pipe *out = tt_arena_alloc(arena, sizeof *out);
    tt_rank_stage *rank = tt_arena_alloc(arena, n * (int64_t)sizeof *rank);
    if (out == NULL || rank == NULL)
        return TT_ERR_NOMEM;
    *out = (tt_ranks_pipe){.schedule = g->pipe->name,
                           .n_ranks = n,
                           .n_stages = g->pipe->n_ranks,
                           .n_chunks = g->pipe->n_chunks,
                           .n_micro = g->pipe->n_micro,
                           .n_steps = (int64_t)block_of(g, 0)[STEPS],
                           .is_split = has_split(g),
                           .is_endless = g->pipe->rule != TT_PIPE_FLUSH,
                           .is_paced = g->r->options.is_paced,
                           .rank = rank};
    for (int32_t r = 0; r < n; r++) {
        TT_TRY(take_rank(g, r, arena, &rank[r]));
        out->n_paced += (int64_t)block_of(g, r)[PACED];
        out->n_late += (int64_t)block_of(g, r)[LATE];
    }
    TT_TRY(add_expected(g, arena, rank, out));
    *pipe_out = out;
    return TT_OK;
}

tt_status tt__ranks_report_pipe(const tt_ranks_report *r, tt_arena *arena,
                                const tt_ranks_pipe **pipe_out)
{
    gathered g = {.r = r, .pipe = r->options.pipe};
    *pipe_out = NULL;
    if (g.pipe == NULL || r->options.exec == NULL)
        return TT_OK;
    g.most = most_rows(g.pipe);
    g.block = N_SUMS + r->size + g.most * N_NUMBERS;
    double *mine = tt_alloc(g.block * (int64_t)sizeof(double));
    g.all = tt_alloc((r->rank == 0 ? r->size : 1) * g.block *
                     (int64_t)sizeof(double));
    tt_status status = mine != NULL && g.all != NULL
                           ? TT_OK
                           : tt_fail(TT_ERR_NOMEM, "no memory for the report "
                                                   "about stages");
    if (status == TT_OK) {
        fill_block(&g, mine);
        status = tt__ranks_report_gather(r, TT_NUM_F64, mine, g.all, g.block);
    }
    if (status == TT_OK && r->rank == 0)
        status = sum_up(&g, arena, pipe_out);
    tt_free(g.all);
    tt_free(mine);
    return status;
}
