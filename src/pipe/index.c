// index - where each piece of work is, and that each is there once.

#include "pipe/inside.h"

#include <stdio.h>
#include <string.h>

static tt_status fail_row(const tt_pipe *p, int32_t rank, int32_t row,
                          const char *why)
{
    tt_str text = {0};
    tt__pipe_say(p, rank, row, &text);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status = tt_fail(TT_ERR_ARG, "%s %s", tt_str_text(&text), why);
    tt_str_fini(&text);
    return status;
}

static tt_status check_range(const tt_pipe *p, int32_t rank, int32_t i)
{
    const tt_pipe_row *row = &p->rank[rank].row[i];
    if (row->chunk < 0 || row->chunk >= p->n_chunks)
        return tt_fail(TT_ERR_ARG,
                       "rank %d, row %d: there is no chunk %d; the last is %d",
                       rank, i + 1, row->chunk, p->n_chunks - 1);
    if (row->copy < 0 || row->copy >= p->n_copies)
        return tt_fail(TT_ERR_ARG,
                       "rank %d, row %d: there is no copy %d; the last is %d",
                       rank, i + 1, row->copy, p->n_copies - 1);
    if (row->micro < 0 || row->micro >= tt__pipe_all_micro(p))
        return tt_fail(
            TT_ERR_ARG,
            "rank %d, row %d: there is no micro-batch %d; the last is %d", rank,
            i + 1, row->micro, tt__pipe_all_micro(p) - 1);
    const int32_t home = p->place[tt_pipe_at(p, row->copy, row->chunk)];
    if (home != rank)
        return tt_fail(TT_ERR_ARG,
                       "rank %d, row %d: chunk %d of copy %d lies on rank %d",
                       rank, i + 1, row->chunk, row->copy, home);
    if (row->phase == TT_PIPE_UPDATE && (row->micro + 1) % p->n_micro != 0)
        return fail_row(p, rank, i, "is not that of a step's last micro-batch");
    return TT_OK;
}

static tt_status check_places(const tt_pipe *p)
{
    for (int32_t copy = 0; copy < p->n_copies; copy++)
        for (int32_t c = 0; c < p->n_chunks; c++) {
            const int32_t rank = p->place[tt_pipe_at(p, copy, c)];
            if (rank < 0 || rank >= p->n_ranks)
                return tt_fail(TT_ERR_ARG,
                               "chunk %d lies on rank %d, which is not there; "
                               "the last rank is %d",
                               c, rank, p->n_ranks - 1);
            if (copy == 1 && rank == p->place[tt_pipe_at(p, 0, c)])
                return tt_fail(TT_ERR_ARG,
                               "both copies of chunk %d lie on rank %d; they "
                               "must lie on different ranks",
                               c, rank);
        }
    return TT_OK;
}

// ---- work that is missing ------------------------------------------------

static bool does(tt_pipe_phase phase, tt__pipe_work work)
{
    switch (phase) {
    case TT_PIPE_FORWARD:
        return work == TT__PIPE_OUT;
    case TT_PIPE_BACKWARD:
        return work != TT__PIPE_OUT;
    case TT_PIPE_INPUT_GRAD:
        return work == TT__PIPE_INPUT;
    case TT_PIPE_WEIGHT_GRAD:
        return work == TT__PIPE_WEIGHT;
    default:
        return false;
    }
}

static const char *const work_names[] = {
    [TT__PIPE_OUT] = "forward",
    [TT__PIPE_INPUT] = "backward (or input gradient)",
    [TT__PIPE_WEIGHT] = "backward (or weight gradient)",
};

// Names a micro-batch that no row of the chunk does this work for, if there is one.
static tt_status find_missing(const tt_pipe *p, int32_t chunk,
                              tt__pipe_work work, bool *has)
{
    memset(has, 0, (size_t)tt__pipe_all_micro(p));
    for (int32_t r = 0; r < p->n_ranks; r++)
        for (int32_t i = 0; i < p->rank[r].n; i++) {
            const tt_pipe_row *row = &p->rank[r].row[i];
            if (row->chunk == chunk && does(row->phase, work))
                has[row->micro] = true;
        }
    for (int32_t m = 0; m < tt__pipe_all_micro(p); m++)
        if (!has[m])
            return p->n_copies == 1
                       ? tt_fail(
                             TT_ERR_ARG,
                             "rank %d has no %s of chunk %d, micro-batch %d",
                             p->place[chunk], work_names[work], chunk, m)
                       : tt_fail(TT_ERR_ARG,
                                 "no rank has a %s of chunk %d, micro-batch %d",
                                 work_names[work], chunk, m);
    return TT_OK;
}

// A table with few rows may claim to have many chunks and micro-batches. So rows are
// counted before memory is taken for all of the work.
static tt_status check_counts(const tt_pipe *p, tt_arena *arena)
{
    int32_t *n = tt_arena_alloc(arena, (int64_t)TT__PIPE_N_WORKS * p->n_chunks *
                                           (int64_t)sizeof(*n));
    bool *has = tt_arena_alloc(arena, tt__pipe_all_micro(p));
    if (n == NULL || has == NULL)
        return TT_ERR_NOMEM;
    for (int32_t r = 0; r < p->n_ranks; r++)
        for (int32_t i = 0; i < p->rank[r].n; i++) {
            TT_TRY(check_range(p, r, i));
            const tt_pipe_row *row = &p->rank[r].row[i];
            for (int w = 0; w < TT__PIPE_N_WORKS; w++)
                if (does(row->phase, (tt__pipe_work)w))
                    n[w * p->n_chunks + row->chunk]++;
        }
    for (int w = 0; w < TT__PIPE_N_WORKS; w++)
        for (int32_t c = 0; c < p->n_chunks; c++)
            if (n[w * p->n_chunks + c] < tt__pipe_all_micro(p))
                TT_TRY(find_missing(p, c, (tt__pipe_work)w, has));
    return TT_OK;
}

// ---- the index -----------------------------------------------------------

static tt_status enter(const tt_pipe *p, int32_t rank, int32_t i, int32_t *at)
{
    if (*at < 0) {
        *at = i;
        return TT_OK;
    }
    char why[64];
    snprintf(why, sizeof(why), "is there already: row %d", *at + 1);
    return fail_row(p, rank, i, why);
}

static tt_status enter_row(const tt_pipe *p, int32_t rank, int32_t i,
                           tt__pipe_index *x)
{
    const tt_pipe_row *row = &p->rank[rank].row[i];
    const int32_t all = tt__pipe_all_micro(p);
    if (row->phase == TT_PIPE_UPDATE)
        return enter(p, rank, i,
                     &x->update[tt_pipe_at(p, row->copy, row->chunk) *
                                    (int64_t)p->n_steps +
                                row->micro / p->n_micro]);
    if (x->copy[row->micro] < 0)
        x->copy[row->micro] = row->copy;
    if (x->copy[row->micro] != row->copy)
        return fail_row(p, rank, i,
                        "is of another copy than other rows of this "
                        "micro-batch");
    for (int w = 0; w < TT__PIPE_N_WORKS; w++)
        if (does(row->phase, (tt__pipe_work)w))
            TT_TRY(enter(p, rank, i,
                         &x->row[w][row->chunk * (int64_t)all + row->micro]));
    return TT_OK;
}

static int32_t *new_list(tt_arena *arena, int64_t n)
{
    int32_t *list = tt_arena_alloc(arena, n * (int64_t)sizeof(*list));
    if (list != NULL)
        memset(list, -1, (size_t)n * sizeof(*list));
    return list;
}

static tt_status check_updates(const tt_pipe *p, const tt__pipe_index *x)
{
    for (int32_t copy = 0; copy < p->n_copies; copy++)
        for (int32_t c = 0; c < p->n_chunks; c++)
            for (int32_t step = 0; step < p->n_steps; step++) {
                const int32_t at = tt_pipe_at(p, copy, c);
                if (x->update[at * (int64_t)p->n_steps + step] < 0)
                    return tt_fail(TT_ERR_ARG,
                                   "rank %d has no update of chunk %d after "
                                   "micro-batch %d",
                                   p->place[at], c,
                                   (step + 1) * p->n_micro - 1);
            }
    return TT_OK;
}

tt_status tt__pipe_index_make(const tt_pipe *p, tt_arena *arena,
                              tt__pipe_index *x)
{
    const int64_t all = tt__pipe_all_micro(p);
    *x = (tt__pipe_index){.p = p};
    TT_TRY(check_places(p));
    TT_TRY(check_counts(p, arena));
    for (int w = 0; w < TT__PIPE_N_WORKS; w++)
        if ((x->row[w] = new_list(arena, p->n_chunks * all)) == NULL)
            return TT_ERR_NOMEM;
    x->update =
        new_list(arena, (int64_t)p->n_copies * p->n_chunks * p->n_steps);
    x->copy = new_list(arena, all);
    if (x->update == NULL || x->copy == NULL)
        return TT_ERR_NOMEM;
    for (int32_t r = 0; r < p->n_ranks; r++)
        for (int32_t i = 0; i < p->rank[r].n; i++)
            TT_TRY(enter_row(p, r, i, x));
    // Each piece of work is there as often as it must be, and none twice: all are.
    return check_updates(p, x);
}
