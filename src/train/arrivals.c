// arrivals - which rank came last to the collectives, and what that cost. See
// arrivals.h.
//
// A collective ends when its last rank has arrived, so one slow rank slows down
// all, and the other ranks see it as "communication". To find it, the moments at
// which ranks were ready are compared, collective by collective, by one clock:
//
//   rank 0   ....ready|=====waited=====|--transfer--|
//   rank 1   ............ready|==waited=|--transfer--|
//   rank 2   .....................ready|--transfer--|    the straggler
//                     <---- spread ---->
//
// Sums are kept per rank and per name of a collective. Names repeat in every step,
// so memory does not grow with the run.

#include "train/arrivals.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 4096, SHOWN = 20 };

typedef struct entry { // one name
    const char *name;
    int64_t n;
    double sum, most;
    int64_t *n_last; // per rank
} entry;

struct tt_arrivals {
    tt_arena *arena;
    int32_t n_ranks;
    entry *entry;
    int n_entries, found; // found: where the last name was
    int64_t n, recent_n;
    double sum, recent_sum, most;
    double *waited, *late; // per rank: sums
    int64_t *n_last;
};

tt_status tt_arrivals_create(int32_t n_ranks, tt_arrivals **arrivals_out)
{
    tt_arena *arena = tt_arena_create();
    tt_arrivals *a = arena == NULL ? NULL : tt_arena_alloc(arena, sizeof *a);
    if (a != NULL) {
        a->arena = arena;
        a->n_ranks = n_ranks;
        a->entry = tt_arena_alloc(arena, NAMES * (int64_t)sizeof *a->entry);
        a->waited = tt_arena_alloc(arena, n_ranks * (int64_t)sizeof(double));
        a->late = tt_arena_alloc(arena, n_ranks * (int64_t)sizeof(double));
        a->n_last = tt_arena_alloc(arena, n_ranks * (int64_t)sizeof(int64_t));
    }
    if (a == NULL || a->entry == NULL || a->waited == NULL || a->late == NULL ||
        a->n_last == NULL) {
        tt_arena_destroy(arena);
        return tt_fail(TT_ERR_NOMEM, "no memory for arrivals");
    }
    *arrivals_out = a;
    return TT_OK;
}

void tt_arrivals_destroy(tt_arrivals *arrivals)
{
    if (arrivals != NULL)
        tt_arena_destroy(arrivals->arena);
}

// Collectives come in the same order in every step, so the entry after the last one
// is tried first; usually that is it.
static int find(const tt_arrivals *a, const char *name)
{
    for (int i = 1; i <= a->n_entries; i++) {
        const int at = (a->found + i) % a->n_entries;
        if (strcmp(a->entry[at].name, name) == 0)
            return at;
    }
    return -1;
}

static entry *entry_of(tt_arrivals *a, const char *name)
{
    const int at = find(a, name);
    if (at >= 0) {
        a->found = at;
        return &a->entry[at];
    }
    if (a->n_entries >= NAMES - 1 && strcmp(name, "others") != 0)
        return entry_of(a, "others");
    entry *e = &a->entry[a->n_entries];
    e->name = tt_arena_strdup(a->arena, name);
    e->n_last = tt_arena_alloc(a->arena, a->n_ranks * (int64_t)sizeof(int64_t));
    if (e->name == NULL || e->n_last == NULL)
        return NULL;
    a->found = a->n_entries++;
    return e;
}

// A rank waits from when it begins until the last rank is ready, at most until its
// own part is over.
tt_status tt_arrivals_add(tt_arrivals *a, const char *name,
                          const tt_arrival *at)
{
    int32_t first = 0, last = 0;
    entry *e = entry_of(a, name);
    if (e == NULL)
        return TT_ERR_NOMEM;
    for (int32_t r = 1; r < a->n_ranks; r++) {
        first = at[r].ready < at[first].ready ? r : first;
        last = at[r].ready > at[last].ready ? r : last;
    }
    const double spread = at[last].ready - at[first].ready;
    for (int32_t r = 0; r < a->n_ranks; r++)
        a->waited[r] +=
            fmax(0, fmin(at[last].ready, at[r].ended) - at[r].begun);
    e->n++;
    e->sum += spread;
    e->most = fmax(e->most, spread);
    e->n_last[last]++;
    a->n++;
    a->sum += spread;
    a->most = fmax(a->most, spread);
    a->n_last[last]++;
    a->late[last] += spread;
    return TT_OK;
}

double tt_arrivals_recent(tt_arrivals *a)
{
    const double n = (double)(a->n - a->recent_n);
    const double sum = a->sum - a->recent_sum;
    a->recent_n = a->n;
    a->recent_sum = a->sum;
    return n > 0 ? sum / n : (double)NAN;
}

static int32_t most_often(const int64_t *n_last, int32_t n_ranks)
{
    int32_t best = 0;
    for (int32_t r = 1; r < n_ranks; r++)
        best = n_last[r] > n_last[best] ? r : best;
    return best;
}

// The costliest first: mean spread times their number.
static int by_cost(const void *a, const void *b)
{
    const tt_collective_row *x = a, *y = b;
    const double cost_x = x->spread * (double)x->n;
    const double cost_y = y->spread * (double)y->n;
    return cost_x != cost_y ? (cost_x < cost_y) - (cost_x > cost_y)
                            : strcmp(x->name, y->name);
}

static tt_status sum_names(const tt_arrivals *a, tt_arena *arena,
                           tt_ranks *ranks)
{
    tt_collective_row *row =
        tt_arena_alloc(arena, (a->n_entries + 1) * (int64_t)sizeof *row);
    if (row == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < a->n_entries; i++) {
        const entry *e = &a->entry[i];
        const int32_t straggler = most_often(e->n_last, a->n_ranks);
        row[i] = (tt_collective_row){
            .name = tt_arena_strdup(arena, e->name),
            .n = e->n,
            .spread = e->sum / (double)e->n,
            .spread_max = e->most,
            .straggler = straggler,
            .n_last = e->n_last[straggler],
        };
        if (row[i].name == NULL)
            return TT_ERR_NOMEM;
    }
    qsort(row, (size_t)a->n_entries, sizeof *row, by_cost);
    ranks->name = row;
    ranks->n_names = a->n_entries < SHOWN ? a->n_entries : SHOWN;
    return TT_OK;
}

tt_status tt_arrivals_sum(const tt_arrivals *a, tt_arena *arena,
                          tt_rank_row *row, tt_ranks *ranks)
{
    TT_TRY(sum_names(a, arena, ranks));
    for (int32_t r = 0; r < a->n_ranks; r++) {
        row[r].waited = a->waited[r];
        row[r].n_last = a->n_last[r];
        row[r].late = a->n_last[r] > 0 ? a->late[r] / (double)a->n_last[r] : 0;
    }
    ranks->n_collectives = a->n;
    ranks->spread = a->n > 0 ? a->sum / (double)a->n : 0;
    ranks->spread_max = a->most;
    ranks->straggler = a->n > 0 ? most_often(a->n_last, a->n_ranks) : -1;
    return TT_OK;
}
