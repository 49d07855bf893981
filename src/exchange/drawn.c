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
    const int asked = d->rules.has_proxies ? 2 : 1;
    const int hops = 1 + (d->rules.is_eager ? 0 : asked);
    w->turn = (tt_turn){.worker = worker,
                        .began = t,
                        .moved = hops * d->rules.delay,
                        .computed = seconds_of(d, worker)};
    w->due = t + w->turn.computed + w->turn.moved;
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
    TT_TRY(tt_diary_init(&drawn->diary, rules->workers, arena));
    for (int32_t i = 0; i < rules->workers; i++) {
        tt_drawn_worker *w = &drawn->worker[i];
        const double part = 2 * draw(drawn, i, 0, 2) - 1;
        w->speed =
            rules->speed != NULL ? rules->speed[i] : 1 + rules->spread * part;
        begin_at(drawn, i, 0);
    }
    return TT_OK;
}

static void arrive(tt_drawn *d, int32_t worker, double now)
{
    tt_drawn_worker *w = &d->worker[worker];
    d->now = now;
    w->since = now;
    w->due = HUGE_VAL;
    w->longest = fmax(w->longest, w->turn.computed);
    tt_diary_turn(&d->diary, &w->turn);
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
    arrive(drawn, next, drawn->worker[next].due);
    return next;
}

double tt_drawn_due(const tt_drawn *drawn)
{
    double due = HUGE_VAL;
    for (int32_t i = 0; i < drawn->rules.workers; i++)
        due = fmin(due, drawn->worker[i].due);
    return due;
}

void tt_drawn_hop(tt_drawn *drawn, int32_t worker, double sent, double now)
{
    tt_drawn_worker *w = &drawn->worker[worker];
    tt_diary_add(&drawn->diary, worker, TT_CAUSE_HELD, w->since, sent);
    tt_diary_add(&drawn->diary, worker, TT_CAUSE_MESSAGES, sent, now);
    w->since = drawn->now = now;
}

void tt_drawn_arrived(tt_drawn *drawn, int32_t worker, double now,
                      double waited, double computed)
{
    tt_turn *t = &drawn->worker[worker].turn;
    const double all = fmax(0, now - t->began);
    t->computed = fmin(fmax(0, computed), all);
    t->waited = fmin(fmax(0, waited), all - t->computed);
    t->moved = all - t->computed - t->waited;
    arrive(drawn, worker, now);
}

double tt_drawn_hurry(tt_drawn *drawn, int32_t worker)
{
    const tt_turn turn = drawn->worker[worker].turn;
    const double got = turn.began + turn.moved / 2; // its weights
    const double done = fmin(fmax(0, drawn->now - got), turn.computed);
    tt_drawn_arrived(drawn, worker, drawn->now, 0, done);
    return done / turn.computed;
}

void tt_drawn_begin(tt_drawn *drawn, int32_t worker)
{
    tt_drawn_worker *w = &drawn->worker[worker];
    tt_diary_add(&drawn->diary, worker, TT_CAUSE_HELD, w->since, drawn->now);
    w->number++;
    begin_at(drawn, worker, drawn->now);
}

tt_status tt_drawn_diary(const tt_drawn *drawn, tt_arena *arena, tt_diary *out)
{
    const int32_t n = drawn->rules.workers;
    double *all =
        tt_arena_alloc(arena, tt_diary_count(n) * (int64_t)sizeof *all);
    if (all == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d workers", n);
    TT_TRY(tt_diary_init(out, n, arena));
    tt_diary_save(&drawn->diary, all);
    tt_diary_load(out, all);
    for (int32_t i = 0; i < n; i++) {
        const tt_drawn_worker *w = &drawn->worker[i];
        const bool waits = !isfinite(w->due);
        tt_diary_add(out, i, waits ? TT_CAUSE_HELD : TT_CAUSE_COMPUTING,
                     waits ? w->since : w->turn.began, drawn->now);
    }
    return TT_OK;
}

// ---- as numbers ----------------------------------------------------------

enum { OF_WORKER = 5 };

int64_t tt_drawn_count(const tt_drawn_rules *rules)
{
    return 1 + (int64_t)rules->workers * OF_WORKER +
           tt_diary_count(rules->workers);
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
        *p++ = w->turn.began;
        *p++ = w->longest;
    }
    tt_diary_save(&drawn->diary, p);
}

// Times from 0 on; `due` may be -1, a number is whole.
static bool are_good(const tt_drawn *drawn, const double *v)
{
    const int32_t n = drawn->rules.workers;
    for (int64_t i = 0; i < tt_drawn_count(&drawn->rules); i++)
        if (!isfinite(v[i]))
            return false;
    if (v[0] < 0)
        return false;
    for (const double *p = v + 1; p < v + 1 + (int64_t)n * OF_WORKER;
         p += OF_WORKER)
        if ((p[0] < 0 && p[0] != -1) || p[1] < 0 || p[2] < 0 || p[2] > 1e15 ||
            p[2] != floor(p[2]) || p[3] < 0 || p[4] < 0)
            return false;
    return v[1 + (int64_t)n * OF_WORKER] > 0; // the diary's width
}

tt_status tt_drawn_load(tt_drawn *drawn, const double *numbers)
{
    const double *p = numbers;
    if (!are_good(drawn, numbers))
        return tt_fail(TT_ERR_ARG, "the times of workers are damaged");
    drawn->now = *p++;
    for (int32_t i = 0; i < drawn->rules.workers; i++, p += OF_WORKER) {
        tt_drawn_worker *w = &drawn->worker[i];
        w->number = (int64_t)p[2];
        begin_at(drawn, i, p[3]);
        w->due = p[0] < 0 ? HUGE_VAL : p[0];
        w->since = p[1];
        w->longest = p[4];
    }
    tt_diary_load(&drawn->diary, p);
    return TT_OK;
}
