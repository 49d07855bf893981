// walk - carries a table out without doing the work: which rows need which, and
// whether ranks with finite room for messages all come to their end.

#include "pipe/inside.h"

static tt__pipe_need need_of(const tt__pipe_index *x, tt__pipe_work work,
                             int32_t chunk, int32_t micro)
{
    return (tt__pipe_need){tt__pipe_rank_of(x, chunk, micro),
                           tt__pipe_row_of(x, work, chunk, micro)};
}

static bool makes_input_grad(tt_pipe_phase phase)
{
    return phase == TT_PIPE_BACKWARD || phase == TT_PIPE_INPUT_GRAD;
}

int tt__pipe_needs(const tt__pipe_index *x, const tt_pipe_row *row,
                   tt__pipe_need need[2])
{
    int n = 0;
    const int32_t c = row->chunk, m = row->micro;
    if (row->phase == TT_PIPE_FORWARD && c > 0)
        need[n++] = need_of(x, TT__PIPE_OUT, c - 1, m);
    if (makes_input_grad(row->phase)) {
        need[n++] = need_of(x, TT__PIPE_OUT, c, m);
        if (c + 1 < x->p->n_chunks)
            need[n++] = need_of(x, TT__PIPE_INPUT, c + 1, m);
    }
    if (row->phase == TT_PIPE_WEIGHT_GRAD)
        need[n++] = need_of(x, TT__PIPE_INPUT, c, m);
    return n;
}

tt_status tt__pipe_walk_make(const tt__pipe_index *index, int32_t capacity,
                             tt_arena *arena, tt__pipe_walk *walk)
{
    const int64_t n = index->p->n_ranks;
    *walk = (tt__pipe_walk){.index = index, .capacity = capacity};
    walk->at = tt_arena_alloc(arena, n * (int64_t)sizeof(*walk->at));
    walk->is_begun = tt_arena_alloc(arena, n * (int64_t)sizeof(bool));
    walk->lying = tt_arena_alloc(arena, n * n * (int64_t)sizeof(*walk->lying));
    if (walk->at == NULL || walk->is_begun == NULL || walk->lying == NULL)
        return TT_ERR_NOMEM;
    return TT_OK;
}

static bool is_over(const tt__pipe_walk *w, tt__pipe_need need)
{
    return w->at[need.rank] > need.row;
}

// The first row that must be over before this one begins; false: it may begin.
static bool find_missing(const tt__pipe_walk *w, const tt_pipe_row *row,
                         tt__pipe_need *missing)
{
    const tt_pipe *p = w->index->p;
    tt__pipe_need need[2];
    const int n = tt__pipe_needs(w->index, row, need);
    for (int i = 0; i < n; i++)
        if (!is_over(w, need[i])) {
            *missing = need[i];
            return true;
        }
    if (row->phase != TT_PIPE_UPDATE)
        return false;
    for (int32_t m = row->micro - p->n_micro + 1; m <= row->micro; m++) {
        *missing = need_of(w->index, TT__PIPE_WEIGHT, row->chunk, m);
        if (!is_over(w, *missing))
            return true;
    }
    return false;
}

static int32_t *messages(const tt__pipe_walk *w, int32_t from, int32_t to)
{
    return &w->lying[(int64_t)from * w->index->p->n_ranks + to];
}

// Begins or ends the rank's next row; false: it cannot, or there is none.
static bool go_on(tt__pipe_walk *w, int32_t rank)
{
    const tt_pipe *p = w->index->p;
    if (w->at[rank] == p->rank[rank].n)
        return false;
    const tt_pipe_row *row = &p->rank[rank].row[w->at[rank]];
    tt__pipe_need missing;
    const int32_t from = tt_pipe_source(p, row), to = tt_pipe_target(p, row);
    if (!w->is_begun[rank]) {
        if (find_missing(w, row, &missing))
            return false;
        if (from >= 0)
            --*messages(w, from, rank);
        w->is_begun[rank] = true;
        if (w->on_row != NULL)
            w->on_row(w->user, rank, w->at[rank]);
    }
    if (to >= 0) {
        int32_t *n = messages(w, rank, to);
        if (w->capacity > 0 && *n >= w->capacity)
            return false;
        ++*n;
        if (*n > w->most)
            w->most = *n;
    }
    w->is_begun[rank] = false;
    w->at[rank]++;
    return true;
}

bool tt__pipe_walk_on(tt__pipe_walk *w)
{
    const tt_pipe *p = w->index->p;
    for (bool moves = true; moves;) {
        moves = false;
        for (int32_t r = 0; r < p->n_ranks; r++)
            while (go_on(w, r))
                moves = true;
    }
    for (int32_t r = 0; r < p->n_ranks; r++)
        if (w->at[r] < p->rank[r].n)
            return false;
    return true;
}

tt__pipe_need tt__pipe_walk_blame(const tt__pipe_walk *w, int32_t rank,
                                  bool *is_room_out)
{
    const tt_pipe *p = w->index->p;
    const tt_pipe_row *row = &p->rank[rank].row[w->at[rank]];
    tt__pipe_need other = {rank, w->at[rank]};
    *is_room_out = w->is_begun[rank];
    if (!w->is_begun[rank]) {
        (void)find_missing(w, row, &other);
        return other;
    }
    // No row of the receiver that would take a message has begun.
    other.rank = tt_pipe_target(p, row);
    other.row = w->at[other.rank];
    return other;
}
