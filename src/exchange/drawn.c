#include "exchange/drawn.h"

#include "base/rng.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

enum { DRAWS = 4 };

static double draw(const tt_drawn *d, int32_t worker, int64_t number, int which)
{
    const uint64_t key =
        tt_rng_key(d->rules.seed, "exchange.worker", (uint64_t)worker);
    return tt_rng_uniform(key, (uint64_t)(number * DRAWS + which));
}

static double seconds_of(const tt_drawn *d, int32_t worker)
{
    const tt_drawn_rules *r = &d->rules;
    const tt_drawn_worker *w = &d->worker[worker];
    const double part = 2 * draw(d, worker, w->number + 1, 0) - 1;
    const bool pauses = draw(d, worker, w->number + 1, 1) < r->pause;
    return (1 + r->jitter * part) / w->speed + (pauses ? r->length : 0);
}

static void begin_at(tt_drawn *d, int32_t worker, double t)
{
    tt_drawn_worker *w = &d->worker[worker];
    const double seconds = seconds_of(d, worker);
    w->computed += seconds;
    w->moved += 2 * d->rules.delay;
    w->due = t + seconds + 2 * d->rules.delay;
}

tt_status tt_drawn_init(tt_drawn *drawn, const tt_drawn_rules *rules,
                        tt_arena *arena)
{
    *drawn = (tt_drawn){.rules = *rules};
    drawn->worker =
        tt_arena_alloc(arena, rules->workers * (int64_t)sizeof *drawn->worker);
    if (drawn->worker == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d workers",
                       rules->workers);
    for (int32_t i = 0; i < rules->workers; i++) {
        tt_drawn_worker *w = &drawn->worker[i];
        const double part = 2 * draw(drawn, i, 0, 2) - 1;
        w->speed =
            rules->speed != NULL ? rules->speed[i] : 1 + rules->spread * part;
        begin_at(drawn, i, 0);
    }
    return TT_OK;
}

int32_t tt_drawn_next(tt_drawn *drawn)
{
    int32_t next = -1;
    for (int32_t i = 0; i < drawn->rules.workers; i++)
        if (isfinite(drawn->worker[i].due) &&
            (next < 0 || drawn->worker[i].due < drawn->worker[next].due))
            next = i;
    if (next < 0)
        return next;
    drawn->now = drawn->worker[next].due;
    drawn->worker[next].since = drawn->now;
    drawn->worker[next].due = HUGE_VAL;
    return next;
}

void tt_drawn_begin(tt_drawn *drawn, int32_t worker)
{
    tt_drawn_worker *w = &drawn->worker[worker];
    w->held += drawn->now - w->since;
    w->number++;
    begin_at(drawn, worker, drawn->now);
}

// ---- as numbers ----------------------------------------------------------

enum { OF_WORKER = 6 };

int64_t tt_drawn_count(const tt_drawn_rules *rules)
{
    return 1 + (int64_t)rules->workers * OF_WORKER;
}

void tt_drawn_save(const tt_drawn *drawn, double *numbers)
{
    double *p = numbers;
    *p++ = drawn->now;
    for (int32_t i = 0; i < drawn->rules.workers; i++) {
        const tt_drawn_worker *w = &drawn->worker[i];
        *p++ = isfinite(w->due) ? w->due : -1;
        *p++ = w->since;
        *p++ = (double)w->number;
        *p++ = w->computed;
        *p++ = w->held;
        *p++ = w->moved;
    }
}

void tt_drawn_load(tt_drawn *drawn, const double *numbers)
{
    const double *p = numbers;
    drawn->now = *p++;
    for (int32_t i = 0; i < drawn->rules.workers; i++, p += OF_WORKER) {
        tt_drawn_worker *w = &drawn->worker[i];
        w->due = p[0] < 0 ? HUGE_VAL : p[0];
        w->since = p[1];
        w->number = (int64_t)p[2];
        w->computed = p[3];
        w->held = p[4];
        w->moved = p[5];
    }
}
