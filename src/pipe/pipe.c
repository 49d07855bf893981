// pipe - tables: made empty, filled by a def, completed (slots, versions, flags).

#include "pipe/inside.h"

#include <string.h>

static const char *const phase_names[] = {
    [TT_PIPE_FORWARD] = "forward",
    [TT_PIPE_BACKWARD] = "backward",
    [TT_PIPE_INPUT_GRAD] = "input gradient",
    [TT_PIPE_WEIGHT_GRAD] = "weight gradient",
    [TT_PIPE_UPDATE] = "update",
};

static const char *const rule_names[] = {
    [TT_PIPE_FLUSH] = "flush",
    [TT_PIPE_STASH] = "stash",
    [TT_PIPE_DOUBLE] = "double",
    [TT_PIPE_PREDICT] = "predict",
};

const char *tt_pipe_phase_name(tt_pipe_phase phase)
{
    return phase_names[phase];
}

const char *tt_pipe_rule_name(tt_pipe_rule rule)
{
    return rule_names[rule];
}

void tt__pipe_say(const tt_pipe *p, int32_t rank, int32_t row, tt_str *out)
{
    const tt_pipe_row *r = &p->rank[rank].row[row];
    tt_str_addf(out, "rank %d, row %d: %s of chunk %d", rank, row + 1,
                phase_names[r->phase], r->chunk);
    if (p->n_copies > 1)
        tt_str_addf(out, " (copy %d)", r->copy);
    tt_str_addf(out, ", micro-batch %d", r->micro);
}

// ---- messages ------------------------------------------------------------

// The rank of the chunk that is `way` further, if that is another one.
static int32_t neighbour(const tt_pipe *p, const tt_pipe_row *row, int32_t way)
{
    const int32_t chunk = row->chunk + way;
    if (chunk < 0 || chunk >= p->n_chunks)
        return -1;
    const int32_t rank = p->place[tt_pipe_at(p, row->copy, chunk)];
    return rank == p->place[tt_pipe_at(p, row->copy, row->chunk)] ? -1 : rank;
}

// Outputs go to the next chunk, gradients to the one before.
static int32_t way_of(tt_pipe_phase phase)
{
    return phase == TT_PIPE_FORWARD                                   ? 1
           : phase == TT_PIPE_BACKWARD || phase == TT_PIPE_INPUT_GRAD ? -1
                                                                      : 0;
}

int32_t tt_pipe_source(const tt_pipe *p, const tt_pipe_row *row)
{
    return neighbour(p, row, -way_of(row->phase));
}

int32_t tt_pipe_target(const tt_pipe *p, const tt_pipe_row *row)
{
    return neighbour(p, row, way_of(row->phase));
}

int32_t tt_pipe_staleness(const tt_pipe *p, int32_t rank)
{
    int32_t most = 0;
    for (int32_t i = 0; i < p->rank[rank].n; i++) {
        const tt_pipe_row *row = &p->rank[rank].row[i];
        const int32_t late = row->micro / p->n_micro - row->version;
        if (row->phase == TT_PIPE_FORWARD && late > most)
            most = late;
    }
    return most;
}

// ---- an empty table ------------------------------------------------------

static tt_status check_size(const char *what, int64_t n, int64_t most)
{
    if (n >= 1 && n <= most)
        return TT_OK;
    return tt_fail(TT_ERR_ARG, "%lld %s: a schedule has 1 to %lld",
                   (long long)n, what, (long long)most);
}

static tt_status check_sizes(const tt_pipe *p)
{
    TT_TRY(check_size("ranks", p->n_ranks, TT_PIPE_RANKS_MAX));
    TT_TRY(check_size("copies of the model", p->n_copies, TT_PIPE_COPIES_MAX));
    TT_TRY(check_size("chunks", p->n_chunks, TT_PIPE_CHUNKS_MAX / p->n_copies));
    TT_TRY(check_size("micro-batches per step", p->n_micro, TT_PIPE_MICRO_MAX));
    TT_TRY(check_size("steps", p->n_steps, TT_PIPE_MICRO_MAX / p->n_micro));
    if (p->n_copies > 1 && p->rule != TT_PIPE_FLUSH)
        return tt_fail(TT_ERR_ARG,
                       "rule %s with %d copies of the model: copies need the "
                       "rule flush, for they share each update",
                       rule_names[p->rule], p->n_copies);
    if (p->bound > 0 && p->n_chunks > p->n_ranks)
        return tt_fail(TT_ERR_ARG,
                       "an order by arrival with %d chunks on %d ranks: each "
                       "rank can have one chunk",
                       p->n_chunks, p->n_ranks);
    return TT_OK;
}

tt_status tt__pipe_new(const tt_pipe *sizes, tt_pipe **pipe_out)
{
    TT_TRY(check_sizes(sizes));
    tt_arena *arena = tt_arena_create();
    tt_pipe *p = arena ? tt_arena_copy(arena, sizes, sizeof(*p)) : NULL;
    const int64_t n = (int64_t)sizes->n_copies * sizes->n_chunks;
    if (p != NULL) {
        p->arena = arena;
        p->name = tt_arena_strdup(arena, sizes->name);
        p->place = tt_arena_alloc(arena, n * (int64_t)sizeof(*p->place));
        p->n_versions =
            tt_arena_alloc(arena, n * (int64_t)sizeof(*p->n_versions));
        p->n_slots = tt_arena_alloc(arena, n * (int64_t)sizeof(*p->n_slots));
        p->rank = tt_arena_alloc(arena, p->n_ranks * (int64_t)sizeof(*p->rank));
    }
    if (p == NULL || p->name == NULL || p->place == NULL ||
        p->n_versions == NULL || p->n_slots == NULL || p->rank == NULL) {
        tt_arena_destroy(arena);
        return TT_ERR_NOMEM;
    }
    *pipe_out = p;
    return TT_OK;
}

void tt_pipe_destroy(tt_pipe *p)
{
    if (p != NULL)
        tt_arena_destroy(p->arena);
}

tt_status tt__pipe_add_row(tt_pipe *p, int32_t rank, const tt_pipe_row *row)
{
    enum { LEAST = 16 };
    tt_pipe_rank *r = &p->rank[rank];
    if (r->n == r->capacity) {
        const int32_t capacity = r->n < LEAST ? LEAST : 2 * r->n;
        tt_pipe_row *more =
            tt_arena_alloc(p->arena, capacity * (int64_t)sizeof(*more));
        if (more == NULL)
            return TT_ERR_NOMEM;
        if (r->n > 0)
            memcpy(more, r->row, (size_t)r->n * sizeof(*more));
        r->row = more;
        r->capacity = capacity;
    }
    r->row[r->n++] = *row;
    return TT_OK;
}

tt_status tt__pipe_add(tt_pipe *p, int32_t rank, tt_pipe_phase phase,
                       int32_t chunk, int32_t micro)
{
    const tt_pipe_row row = {.phase = phase, .chunk = chunk, .micro = micro};
    return tt__pipe_add_row(p, rank, &row);
}

// ---- slots, versions, flags ----------------------------------------------

void tt__pipe_version(const tt_pipe *p, const tt_pipe_row *row, int32_t made,
                      const tt_pipe_row *forward, int32_t *version_out,
                      int32_t *ahead_out)
{
    const int32_t step = row->micro / p->n_micro;
    *ahead_out = 0;
    *version_out = made;
    if (row->phase == TT_PIPE_UPDATE || p->rule == TT_PIPE_FLUSH) {
        *version_out = step;
        return;
    }
    if (p->rule == TT_PIPE_STASH && row->phase != TT_PIPE_FORWARD)
        *version_out = forward->version;
    if (p->rule == TT_PIPE_DOUBLE)
        *version_out = step > 0 ? step - 1 : 0;
    // A stage has made chunk / 2 more updates when the gradient of the micro-batch has
    // come back to the first stage: the weights of that time are aimed at (Chen et al.
    // 2018, equations 5 and 6).
    if (p->rule == TT_PIPE_PREDICT)
        *ahead_out = step + row->chunk / 2 - made;
}

static bool ends_slot(tt_pipe_phase phase)
{
    return phase == TT_PIPE_BACKWARD || phase == TT_PIPE_WEIGHT_GRAD;
}

// State of a chunk while its rank's rows are gone through.
typedef struct chunk {
    int32_t made;    // updates
    int32_t n_slots; // so far
    int32_t *next;   // free slots, last given back on top
    int32_t n_free;
} chunk;

static tt_status finish_row(tt_pipe *p, const tt__pipe_index *x, chunk *c,
                            tt_pipe_row *row)
{
    const tt_pipe_row *forward = NULL;
    if (row->phase == TT_PIPE_UPDATE) {
        row->slot = -1;
    } else if (row->phase == TT_PIPE_FORWARD) {
        row->slot = c->n_free > 0 ? c->next[--c->n_free] : c->n_slots++;
    } else {
        const int32_t rank = tt__pipe_rank_of(x, row->chunk, row->micro);
        forward =
            &p->rank[rank]
                 .row[tt__pipe_row_of(x, TT__PIPE_OUT, row->chunk, row->micro)];
        row->slot = forward->slot;
        if (ends_slot(row->phase) && c->n_free < tt__pipe_all_micro(p))
            c->next[c->n_free++] = row->slot;
    }
    tt__pipe_version(p, row, c->made, forward, &row->version, &row->ahead);
    if (row->phase == TT_PIPE_UPDATE)
        c->made++;
    return TT_OK;
}

// First and last: seen[at * phases + phase] is the row of the latest, plus 1, in the
// step whose number is in `step`.
static void flag_rows(tt_pipe *p, tt_pipe_rank *rank, int32_t *seen,
                      int32_t *step)
{
    for (int32_t i = 0; i < rank->n; i++) {
        tt_pipe_row *row = &rank->row[i];
        const int64_t k =
            (int64_t)tt_pipe_at(p, row->copy, row->chunk) * TT_N_PIPE_PHASES +
            row->phase;
        const int32_t now = row->micro / p->n_micro;
        row->is_first = seen[k] == 0 || step[k] != now;
        row->is_last = true;
        if (!row->is_first)
            rank->row[seen[k] - 1].is_last = false;
        seen[k] = i + 1;
        step[k] = now;
    }
}

static tt_status finish(tt_pipe *p, tt_arena *arena)
{
    tt__pipe_index x;
    TT_TRY(tt__pipe_index_make(p, arena, &x));
    const int64_t n_at = (int64_t)p->n_copies * p->n_chunks;
    const int64_t n_keys = n_at * TT_N_PIPE_PHASES;
    chunk *c = tt_arena_alloc(arena, n_at * (int64_t)sizeof(*c));
    int32_t *seen = tt_arena_alloc(arena, n_keys * (int64_t)sizeof(*seen));
    int32_t *step = tt_arena_alloc(arena, n_keys * (int64_t)sizeof(*step));
    if (c == NULL || seen == NULL || step == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < n_at; i++) {
        c[i].next = tt_arena_alloc(arena, tt__pipe_all_micro(p) *
                                              (int64_t)sizeof(*c[i].next));
        if (c[i].next == NULL)
            return TT_ERR_NOMEM;
    }
    for (int32_t r = 0; r < p->n_ranks; r++) {
        tt_pipe_rank *rank = &p->rank[r];
        for (int32_t i = 0; i < rank->n; i++)
            TT_TRY(finish_row(
                p, &x, &c[tt_pipe_at(p, rank->row[i].copy, rank->row[i].chunk)],
                &rank->row[i]));
        flag_rows(p, rank, seen, step);
    }
    for (int64_t i = 0; i < n_at; i++)
        p->n_slots[i] = c[i].n_slots;
    return TT_OK;
}

tt_status tt__pipe_finish(tt_pipe *p)
{
    tt_arena *arena = tt_arena_create();
    const tt_status status = arena ? finish(p, arena) : TT_ERR_NOMEM;
    tt_arena_destroy(arena);
    return status;
}
