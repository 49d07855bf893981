// check - everything that a table promises, before it runs.
//
// First each rank's rows by themselves, in order: what they need on the same rank comes
// before; flags, slots and versions are right. Then all ranks together: the table is
// carried out without doing the work (walk.c), which shows a deadlock.

#include "pipe/inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// State of a chunk while its rank's rows are gone through.
typedef struct chunk {
    int32_t made;  // updates
    bool is_whole; // has backward rows
    bool is_split; // has input and weight gradients apart
    int32_t *slot; // per slot: the micro-batch in it, plus 1
    int32_t n_live;
    struct {
        int32_t step, n;
    } seen[TT_N_PIPE_PHASES]; // rows of the step so far
} chunk;

typedef struct checker {
    const tt_pipe *p;
    tt__pipe_index index;
    chunk *chunk;      // per tt_pipe_at
    int32_t *per_step; // micro-batches of each copy in each step
    int32_t rank, i;   // of the row being looked at
} checker;

__attribute__((format(printf, 2, 3))) static tt_status
refuse(const checker *k, const char *why, ...)
{
    tt_str text = {0};
    char line[256];
    va_list args;
    va_start(args, why);
    vsnprintf(line, sizeof(line), why, args);
    va_end(args);
    tt__pipe_say(k->p, k->rank, k->i, &text);
    tt_str_addf(&text, " %s", line);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status = tt_fail(TT_ERR_ARG, "%s", tt_str_text(&text));
    tt_str_fini(&text);
    return status;
}

// ---- rows of one rank ----------------------------------------------------

// Comes first: flags are counted by form.
static tt_status check_form(const checker *k, const tt_pipe_row *row)
{
    chunk *c = &k->chunk[tt_pipe_at(k->p, row->copy, row->chunk)];
    c->is_whole |= row->phase == TT_PIPE_BACKWARD;
    c->is_split |=
        row->phase == TT_PIPE_INPUT_GRAD || row->phase == TT_PIPE_WEIGHT_GRAD;
    if (c->is_whole && c->is_split)
        return refuse(k, "and other gradients of this chunk differ in form: "
                         "all are whole (backward), or input and weight "
                         "gradients are all apart");
    return TT_OK;
}

static tt_status check_needs(const checker *k, const tt_pipe_row *row)
{
    const tt_pipe *p = k->p;
    tt__pipe_need need[2];
    const int n = tt__pipe_needs(&k->index, row, need);
    for (int i = 0; i < n; i++) {
        if (need[i].rank != k->rank || need[i].row < k->i)
            continue;
        const tt_pipe_row *other = &p->rank[k->rank].row[need[i].row];
        if (other->chunk == row->chunk)
            return refuse(k, "comes before its %s, which is row %d",
                          tt_pipe_phase_name(other->phase), need[i].row + 1);
        return refuse(k, "comes before the %s of chunk %d, which is row %d",
                      tt_pipe_phase_name(other->phase), other->chunk,
                      need[i].row + 1);
    }
    if (row->phase != TT_PIPE_UPDATE)
        return TT_OK;
    for (int32_t m = row->micro - p->n_micro + 1; m <= row->micro; m++) {
        const int32_t other =
            tt__pipe_row_of(&k->index, TT__PIPE_WEIGHT, row->chunk, m);
        if (k->index.copy[m] == row->copy && other > k->i)
            return refuse(k,
                          "comes before the weight gradient of micro-batch %d, "
                          "which is row %d",
                          m, other + 1);
    }
    return TT_OK;
}

static tt_status check_flags(const checker *k, const tt_pipe_row *row, chunk *c)
{
    const int32_t step = row->micro / k->p->n_micro;
    const int32_t of_step = row->phase == TT_PIPE_UPDATE
                                ? 1
                                : k->per_step[row->copy * k->p->n_steps + step];
    if (c->seen[row->phase].step != step) {
        if (c->seen[row->phase].n != 0 || c->seen[row->phase].step > step)
            return refuse(k, "stands among such rows of another step; steps "
                             "come one after another");
        c->seen[row->phase].step = step;
    }
    const int32_t n = c->seen[row->phase].n;
    const bool is_first = n == 0, is_last = n + 1 == of_step;
    c->seen[row->phase].n = is_last ? 0 : n + 1;
    if (row->is_first != is_first)
        return refuse(k, row->is_first
                             ? "is marked as the first of its step, but is not"
                             : "is the first of its step, but not marked so");
    if (row->is_last != is_last)
        return refuse(k, row->is_last
                             ? "is marked as the last of its step, but is not"
                             : "is the last of its step, but not marked so");
    return TT_OK;
}

// Backward or weight gradient: the last that a micro-batch needs of a chunk.
static bool ends_slot(tt_pipe_phase phase)
{
    return phase == TT_PIPE_BACKWARD || phase == TT_PIPE_WEIGHT_GRAD;
}

static tt_status check_slot(const checker *k, const tt_pipe_row *row, chunk *c)
{
    const tt_pipe *p = k->p;
    const int32_t n_slots = p->n_slots[tt_pipe_at(p, row->copy, row->chunk)];
    if (row->phase == TT_PIPE_UPDATE)
        return row->slot == -1
                   ? TT_OK
                   : refuse(k, "has slot %d; an update has none", row->slot);
    if (row->slot < 0 || row->slot >= n_slots)
        return refuse(k, "has slot %d; the chunk has slots 0 to %d", row->slot,
                      n_slots - 1);
    int32_t *held = &c->slot[row->slot];
    if (row->phase == TT_PIPE_FORWARD) {
        if (*held != 0)
            return refuse(k, "takes slot %d, which micro-batch %d still holds",
                          row->slot, *held - 1);
        *held = row->micro + 1;
        if (p->bound > 0 && ++c->n_live > p->bound)
            return refuse(k, "is number %d in flight; the bound is %d",
                          c->n_live, p->bound);
        return TT_OK;
    }
    if (*held != row->micro + 1)
        return refuse(k, "has slot %d, which is not that of its forward",
                      row->slot);
    if (ends_slot(row->phase)) {
        *held = 0;
        c->n_live--;
    }
    return TT_OK;
}

static tt_status check_version(const checker *k, const tt_pipe_row *row,
                               chunk *c)
{
    const tt_pipe *p = k->p;
    const int32_t n = p->n_versions[tt_pipe_at(p, row->copy, row->chunk)];
    const int32_t step = row->micro / p->n_micro;
    if (ends_slot(row->phase) && c->made != step)
        return refuse(k,
                      "adds to the gradient before update %d of the chunk has "
                      "used the sum of the step before",
                      c->made + 1);
    const tt_pipe_row *forward =
        row->phase == TT_PIPE_UPDATE
            ? NULL
            : &p->rank[k->rank].row[tt__pipe_row_of(&k->index, TT__PIPE_OUT,
                                                    row->chunk, row->micro)];
    int32_t version = 0, ahead = 0;
    tt__pipe_version(p, row, c->made, forward, &version, &ahead);
    if (row->version != version || row->ahead != ahead)
        return refuse(k,
                      "reads version %d, %d ahead; by the rule %s it is "
                      "version %d, %d ahead",
                      row->version, row->ahead, tt_pipe_rule_name(p->rule),
                      version, ahead);
    if (version > c->made)
        return refuse(k, "reads version %d before the update that makes it",
                      version);
    if (version <= c->made - n)
        return refuse(k,
                      "reads version %d, which is overwritten: the newest is "
                      "%d and the chunk keeps %d",
                      version, c->made, n);
    if (row->phase == TT_PIPE_UPDATE)
        c->made++;
    return TT_OK;
}

static tt_status check_row(checker *k, const tt_pipe_row *row)
{
    chunk *c = &k->chunk[tt_pipe_at(k->p, row->copy, row->chunk)];
    TT_TRY(check_needs(k, row));
    TT_TRY(check_flags(k, row, c));
    TT_TRY(check_slot(k, row, c));
    return check_version(k, row, c);
}

// ---- all ranks together --------------------------------------------------

static void say_wait(const tt__pipe_walk *w, int32_t rank, tt_str *out)
{
    bool is_room = false;
    const tt__pipe_need other = tt__pipe_walk_blame(w, rank, &is_room);
    tt__pipe_say(w->index->p, rank, w->at[rank], out);
    if (is_room)
        tt_str_addf(out,
                    " waits for room for its message to rank %d (capacity %d), "
                    "which stands at row %d",
                    other.rank, w->capacity, other.row + 1);
    else
        tt_str_addf(out, " waits for row %d of rank %d", other.row + 1,
                    other.rank);
}

// Every rank that stands waits for one that stands. So following the waits ends in a
// circle; it is told from its smallest rank on.
static tt_status fail_deadlock(const tt__pipe_walk *w, tt_arena *arena)
{
    const tt_pipe *p = w->index->p;
    bool *is_on = tt_arena_alloc(arena, p->n_ranks), is_room = false;
    tt_str text = {0};
    int32_t rank = 0, least = p->n_ranks;
    if (is_on == NULL)
        return TT_ERR_NOMEM;
    while (w->at[rank] == p->rank[rank].n)
        rank++;
    for (; !is_on[rank]; rank = tt__pipe_walk_blame(w, rank, &is_room).rank)
        is_on[rank] = true;
    for (int32_t i = rank; least > i || i != rank;) {
        least = i < least ? i : least;
        i = tt__pipe_walk_blame(w, i, &is_room).rank;
    }
    rank = least;
    enum { TOLD = 4 };
    int n = 0;
    do {
        if (n > 0)
            tt_str_add(&text, "; ");
        if (n == TOLD) {
            tt_str_add(&text, "and so on");
            break;
        }
        say_wait(w, rank, &text);
        rank = tt__pipe_walk_blame(w, rank, &is_room).rank;
        n++;
    } while (rank != least);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status = tt_fail(TT_ERR_ARG, "deadlock: %s", tt_str_text(&text));
    tt_str_fini(&text);
    return status;
}

static tt_status check_deadlock(const tt__pipe_index *x, int32_t capacity,
                                tt_arena *arena)
{
    tt__pipe_walk walk;
    TT_TRY(tt__pipe_walk_make(x, capacity, arena, &walk));
    return tt__pipe_walk_on(&walk) ? TT_OK : fail_deadlock(&walk, arena);
}

// ---- the whole -----------------------------------------------------------

static tt_status make_checker(checker *k, tt_arena *arena)
{
    const tt_pipe *p = k->p;
    const int64_t n = (int64_t)p->n_copies * p->n_chunks;
    k->chunk = tt_arena_alloc(arena, n * (int64_t)sizeof(*k->chunk));
    k->per_step = tt_arena_alloc(arena, (int64_t)p->n_copies * p->n_steps *
                                            (int64_t)sizeof(*k->per_step));
    if (k->chunk == NULL || k->per_step == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        const int32_t slots = p->n_slots[i];
        if (slots < 0 || slots > tt__pipe_all_micro(p) || p->n_versions[i] < 1)
            return tt_fail(TT_ERR_ARG,
                           "chunk %d has %d slots and %d versions of weights: "
                           "at most one slot per micro-batch, and at least one "
                           "version",
                           (int)(i % p->n_chunks), slots, p->n_versions[i]);
        k->chunk[i].slot = tt_arena_alloc(
            arena, (slots + 1) * (int64_t)sizeof(*k->chunk[i].slot));
        if (k->chunk[i].slot == NULL)
            return TT_ERR_NOMEM;
    }
    for (int32_t m = 0; m < tt__pipe_all_micro(p); m++)
        k->per_step[k->index.copy[m] * p->n_steps + m / p->n_micro]++;
    for (int32_t i = 0; i < p->n_copies * p->n_steps; i++)
        if (k->per_step[i] == 0)
            return tt_fail(TT_ERR_ARG,
                           "no micro-batch of step %d goes through copy %d of "
                           "the model; each copy needs one",
                           i % p->n_steps, i / p->n_steps);
    return TT_OK;
}

static tt_status check(const tt_pipe *p, int32_t capacity, tt_arena *arena)
{
    checker k = {.p = p};
    TT_TRY(tt__pipe_index_make(p, arena, &k.index));
    TT_TRY(make_checker(&k, arena));
    for (k.rank = 0; k.rank < p->n_ranks; k.rank++)
        for (k.i = 0; k.i < p->rank[k.rank].n; k.i++)
            TT_TRY(check_form(&k, &p->rank[k.rank].row[k.i]));
    for (k.rank = 0; k.rank < p->n_ranks; k.rank++)
        for (k.i = 0; k.i < p->rank[k.rank].n; k.i++)
            TT_TRY(check_row(&k, &p->rank[k.rank].row[k.i]));
    return check_deadlock(&k.index, capacity, arena);
}

tt_status tt_pipe_check(const tt_pipe *p, int32_t capacity)
{
    tt_arena *arena = tt_arena_create();
    const tt_status status = arena ? check(p, capacity, arena) : TT_ERR_NOMEM;
    tt_arena_destroy(arena);
    return status == TT_OK ? TT_OK
                           : tt_fail_context(status, "schedule %s", p->name);
}

static tt_status least_capacity(const tt_pipe *p, tt_arena *arena,
                                int32_t *capacity_out)
{
    tt__pipe_index x;
    tt__pipe_walk walk;
    TT_TRY(tt__pipe_index_make(p, arena, &x));
    TT_TRY(tt__pipe_walk_make(&x, 0, arena, &walk));
    if (!tt__pipe_walk_on(&walk))
        return fail_deadlock(&walk, arena);
    // More room never stops anybody, so it can be found by halving.
    int32_t low = 1, high = walk.most > 0 ? walk.most : 1;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        TT_TRY(tt__pipe_walk_make(&x, middle, arena, &walk));
        if (tt__pipe_walk_on(&walk))
            high = middle;
        else
            low = middle + 1;
    }
    *capacity_out = low;
    return TT_OK;
}

tt_status tt_pipe_least_capacity(const tt_pipe *p, int32_t *capacity_out)
{
    tt_arena *arena = tt_arena_create();
    const tt_status status =
        arena ? least_capacity(p, arena, capacity_out) : TT_ERR_NOMEM;
    tt_arena_destroy(arena);
    return status;
}
