#include "exchange/diary.h"

#include <math.h>
#include <string.h>

const char *const tt_cause_name[TT_N_CAUSES] = {
    [TT_CAUSE_COMPUTING] = "computing", [TT_CAUSE_WASTED] = "wasted",
    [TT_CAUSE_MESSAGES] = "messages",   [TT_CAUSE_HELD] = "held",
    [TT_CAUSE_TURN] = "turn",
};

static const double shortest = 1.0 / 4096; // bar: it only grows

static int32_t lanes_of(int32_t workers)
{
    return workers < TT_DIARY_LANES ? workers : TT_DIARY_LANES;
}

static int64_t n_bars(int32_t workers)
{
    return (int64_t)lanes_of(workers) * TT_DIARY_BARS * TT_N_CAUSES;
}

static int64_t n_sums(int32_t workers)
{
    return (int64_t)workers * TT_N_CAUSES;
}

tt_status tt_diary_init(tt_diary *d, int32_t workers, tt_arena *arena)
{
    *d = (tt_diary){
        .workers = workers, .lanes = lanes_of(workers), .width = shortest};
    d->bar = tt_arena_alloc(arena, n_bars(workers) * (int64_t)sizeof *d->bar);
    d->sum = tt_arena_alloc(arena, n_sums(workers) * (int64_t)sizeof *d->sum);
    return d->bar != NULL && d->sum != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for %d workers", workers);
}

// ---- bars ----------------------------------------------------------------

static double *at(const tt_diary *d, int32_t lane, int bar)
{
    return &d->bar[((int64_t)lane * TT_DIARY_BARS + bar) * TT_N_CAUSES];
}

static void join_neighbours(tt_diary *d)
{
    const int half = TT_DIARY_BARS / 2;
    for (int32_t lane = 0; lane < d->lanes; lane++) {
        for (int b = 0; b < half; b++)
            for (int c = 0; c < TT_N_CAUSES; c++)
                at(d, lane, b)[c] =
                    at(d, lane, 2 * b)[c] + at(d, lane, 2 * b + 1)[c];
        memset(at(d, lane, half), 0,
               (size_t)half * TT_N_CAUSES * sizeof *d->bar);
    }
    d->width *= 2;
}

// Adds `sign` times the span to the bars that it meets.
static void add(tt_diary *d, int32_t worker, tt_cause cause, double from,
                double to, double sign)
{
    if (!(to > from) || from < 0 || !isfinite(to))
        return;
    d->sum[(int64_t)worker * TT_N_CAUSES + cause] += sign * (to - from);
    if (worker >= d->lanes)
        return;
    while (to > d->width * TT_DIARY_BARS)
        join_neighbours(d);
    for (int b = (int)(from / d->width); b < TT_DIARY_BARS; b++) {
        const double left = fmax(from, b * d->width);
        const double right = fmin(to, (b + 1) * d->width);
        if (right > left)
            at(d, worker, b)[cause] += sign * (right - left);
        if (right >= to)
            break;
    }
}

void tt_diary_add(tt_diary *d, int32_t worker, tt_cause cause, double from,
                  double to)
{
    add(d, worker, cause, from, to, 1);
}

void tt_diary_turn(tt_diary *d, const tt_turn *t)
{
    const double here = t->began + t->moved / 2;
    const double start = here + t->waited, end = start + t->computed;
    add(d, t->worker, TT_CAUSE_MESSAGES, t->began, here, 1);
    add(d, t->worker, TT_CAUSE_TURN, here, start, 1);
    add(d, t->worker, t->is_wasted ? TT_CAUSE_WASTED : TT_CAUSE_COMPUTING,
        start, end, 1);
    add(d, t->worker, TT_CAUSE_MESSAGES, end, end + t->moved / 2, 1);
}

void tt_diary_waste(tt_diary *d, tt_turn *t)
{
    const double start = t->began + t->moved / 2 + t->waited;
    if (t->is_wasted)
        return;
    t->is_wasted = true;
    add(d, t->worker, TT_CAUSE_COMPUTING, start, start + t->computed, -1);
    add(d, t->worker, TT_CAUSE_WASTED, start, start + t->computed, 1);
}

int tt_diary_used(const tt_diary *d)
{
    int used = 0;
    for (int32_t lane = 0; lane < d->lanes; lane++)
        for (int b = used; b < TT_DIARY_BARS; b++)
            for (int c = 0; c < TT_N_CAUSES; c++)
                if (at(d, lane, b)[c] > 0)
                    used = b + 1;
    return used;
}

// ---- as numbers ----------------------------------------------------------

int64_t tt_diary_count(int32_t workers)
{
    return 1 + n_bars(workers) + n_sums(workers);
}

void tt_diary_save(const tt_diary *d, double *numbers)
{
    const int64_t bars = n_bars(d->workers);
    numbers[0] = d->width;
    memcpy(numbers + 1, d->bar, (size_t)bars * sizeof *numbers);
    memcpy(numbers + 1 + bars, d->sum,
           (size_t)n_sums(d->workers) * sizeof *numbers);
}

void tt_diary_load(tt_diary *d, const double *numbers)
{
    const int64_t bars = n_bars(d->workers);
    d->width = numbers[0] > 0 ? numbers[0] : shortest;
    memcpy(d->bar, numbers + 1, (size_t)bars * sizeof *numbers);
    memcpy(d->sum, numbers + 1 + bars,
           (size_t)n_sums(d->workers) * sizeof *numbers);
}
