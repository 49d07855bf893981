// measure - see measure.h.

#include "pipe/measure.h"

#include "pipe/inside.h"

#include <math.h>

typedef struct meter {
    const tt_pipe *p;
    const tt__pipe_index *index;
    const tt_pipe_seconds *seconds;
    tt_pipe_times *times;
} meter;

static double seconds_of(const meter *k, const tt_pipe_row *row)
{
    const double *const *s = k->seconds->row;
    double sum = 0;
    if (s[row->phase] != NULL)
        return s[row->phase][row->chunk];
    if (row->phase == TT_PIPE_BACKWARD)
        for (int i = TT_PIPE_INPUT_GRAD; i <= TT_PIPE_WEIGHT_GRAD; i++)
            sum += s[i] != NULL ? s[i][row->chunk] : 0;
    return sum;
}

// When the result of a row is on this rank.
static double arrival(const meter *k, int32_t rank, tt__pipe_need need,
                      const tt_pipe_row *row)
{
    const tt_pipe_row *other = &k->p->rank[need.rank].row[need.row];
    const double over = k->times->rank[need.rank].finish[need.row];
    if (need.rank == rank || k->seconds->move == NULL ||
        other->chunk == row->chunk)
        return over;
    const int32_t cut = other->chunk < row->chunk ? other->chunk : row->chunk;
    return over + k->seconds->move[cut];
}

// A row's start, and the rank that it waited for.
typedef struct wait {
    double start;
    int32_t rank;
} wait;

static void wait_for(const meter *k, int32_t rank, tt__pipe_need need,
                     const tt_pipe_row *row, wait *w)
{
    const double at = arrival(k, rank, need, row);
    if (at > w->start)
        *w = (wait){at, need.rank};
}

static void time_row(void *user, int32_t rank, int32_t i)
{
    const meter *k = user;
    const tt_pipe_row *row = &k->p->rank[rank].row[i];
    tt_pipe_rank_times *t = &k->times->rank[rank];
    const double free_at = i > 0 ? t->finish[i - 1] : 0;
    wait w = {free_at, rank};
    tt__pipe_need need[2];
    const int n = tt__pipe_needs(k->index, row, need);
    for (int j = 0; j < n; j++)
        wait_for(k, rank, need[j], row, &w);
    if (row->phase == TT_PIPE_UPDATE)
        for (int32_t m = row->micro - k->p->n_micro + 1; m <= row->micro; m++) {
            const tt__pipe_need sum = {
                tt__pipe_rank_of(k->index, row->chunk, m),
                tt__pipe_row_of(k->index, TT__PIPE_WEIGHT, row->chunk, m)};
            wait_for(k, rank, sum, row, &w);
        }
    if (i > 0)
        t->waits[w.rank] += w.start - free_at;
    t->start[i] = w.start;
    t->finish[i] = w.start + seconds_of(k, row);
}

static void sum_rank(const meter *k, int32_t rank)
{
    const tt_pipe *p = k->p;
    tt_pipe_rank_times *t = &k->times->rank[rank];
    const int32_t n = p->rank[rank].n;
    int32_t live = 0;
    for (int32_t i = 0; i < n; i++) {
        const tt_pipe_row *row = &p->rank[rank].row[i];
        t->busy += seconds_of(k, row);
        if (row->phase == TT_PIPE_FORWARD && ++live > t->n_live)
            t->n_live = live;
        live -=
            row->phase == TT_PIPE_BACKWARD || row->phase == TT_PIPE_WEIGHT_GRAD;
    }
    for (int32_t at = 0; at < p->n_copies * p->n_chunks; at++)
        if (p->place[at] == rank)
            t->n_slots += p->n_slots[at];
    if (n == 0)
        return;
    t->first = t->start[0];
    t->last = t->finish[n - 1];
    t->bubble = t->last - t->first - t->busy;
    k->times->makespan = fmax(k->times->makespan, t->last);
    k->times->bubble = fmax(k->times->bubble, t->bubble);
}

static tt_status check_seconds(const tt_pipe *p, const tt_pipe_seconds *s)
{
    for (int i = 0; i <= TT_N_PIPE_PHASES; i++) {
        const double *list = i < TT_N_PIPE_PHASES ? s->row[i] : s->move;
        const int32_t n = p->n_chunks - (i == TT_N_PIPE_PHASES);
        for (int32_t c = 0; list != NULL && c < n; c++)
            if (!isfinite(list[c]) || list[c] < 0)
                return tt_fail(
                    TT_ERR_ARG, "%s of chunk %d takes %g s: not a time",
                    i < TT_N_PIPE_PHASES ? tt_pipe_phase_name((tt_pipe_phase)i)
                                         : "sending the output",
                    c, list[c]);
    }
    return TT_OK;
}

static tt_status make_times(const tt_pipe *p, tt_arena *arena,
                            tt_pipe_times **times_out)
{
    tt_pipe_times *t = tt_arena_alloc(arena, sizeof(*t));
    if (t == NULL)
        return TT_ERR_NOMEM;
    t->arena = arena;
    t->rank = tt_arena_alloc(arena, p->n_ranks * (int64_t)sizeof(*t->rank));
    if (t->rank == NULL)
        return TT_ERR_NOMEM;
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const int64_t bytes = (p->rank[r].n + 1) * (int64_t)sizeof(double);
        t->rank[r].start = tt_arena_alloc(arena, bytes);
        t->rank[r].finish = tt_arena_alloc(arena, bytes);
        t->rank[r].waits =
            tt_arena_alloc(arena, p->n_ranks * (int64_t)sizeof(double));
        if (t->rank[r].start == NULL || t->rank[r].finish == NULL ||
            t->rank[r].waits == NULL)
            return TT_ERR_NOMEM;
    }
    *times_out = t;
    return TT_OK;
}

static tt_status measure(meter *k, tt_arena *scratch)
{
    tt__pipe_index *index = tt_arena_alloc(scratch, sizeof(*index));
    tt__pipe_walk walk;
    if (index == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt__pipe_index_make(k->p, scratch, index));
    TT_TRY(tt__pipe_walk_make(index, 0, scratch, &walk));
    k->index = index;
    walk.on_row = time_row;
    walk.user = k;
    if (!tt__pipe_walk_on(&walk))
        return tt_fail(TT_ERR_ARG,
                       "schedule %s: ranks wait for each other, so there are "
                       "no times; check the table first",
                       k->p->name);
    for (int32_t r = 0; r < k->p->n_ranks; r++)
        sum_rank(k, r);
    return TT_OK;
}

tt_status tt_pipe_measure(const tt_pipe *p, const tt_pipe_seconds *seconds,
                          tt_pipe_times **times_out)
{
    TT_TRY(check_seconds(p, seconds));
    meter k = {.p = p, .seconds = seconds};
    tt_arena *arena = tt_arena_create(), *scratch = tt_arena_create();
    tt_status status =
        arena && scratch ? make_times(p, arena, &k.times) : TT_ERR_NOMEM;
    if (status == TT_OK)
        status = measure(&k, scratch);
    tt_arena_destroy(scratch);
    if (status != TT_OK)
        tt_arena_destroy(arena);
    else
        *times_out = k.times;
    return status;
}

void tt_pipe_times_destroy(tt_pipe_times *times)
{
    if (times != NULL)
        tt_arena_destroy(times->arena);
}

tt_status tt_pipe_measure_even(const tt_pipe *p, const tt_pipe_even *seconds,
                               tt_pipe_times **times_out)
{
    tt_arena *arena = tt_arena_create();
    double *list = arena ? tt_arena_alloc(arena, INT64_C(3) * p->n_chunks *
                                                     (int64_t)sizeof(*list))
                         : NULL;
    tt_status status = TT_ERR_NOMEM;
    if (list != NULL) {
        const int64_t n = p->n_chunks;
        for (int64_t c = 0; c < n; c++) {
            list[c] = seconds->forward;
            list[n + c] = seconds->input_grad;
            list[2 * n + c] = seconds->weight_grad;
        }
        const tt_pipe_seconds all = {.row = {
                                         [TT_PIPE_FORWARD] = list,
                                         [TT_PIPE_INPUT_GRAD] = list + n,
                                         [TT_PIPE_WEIGHT_GRAD] = list + 2 * n,
                                     }};
        status = tt_pipe_measure(p, &all, times_out);
    }
    tt_arena_destroy(arena);
    return status;
}
