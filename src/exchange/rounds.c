#include "exchange/rounds.h"

#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

// Numbers that a client draws in a round.
enum { ASK, DROP, JITTER, PAUSE, DRAWS };

static double draw(const tt_round_rules *r, int64_t round, int32_t client,
                   int which)
{
    const uint64_t key =
        tt_rng_key(r->pace.seed, "exchange.round", (uint64_t)round);
    return tt_rng_uniform(key, (uint64_t)client * DRAWS + (uint64_t)which);
}

static double speed_of(const tt_round_rules *r, int32_t client)
{
    const uint64_t key = tt_rng_key(r->pace.seed, "exchange.client", 0);
    if (r->pace.speed != NULL)
        return r->pace.speed[client];
    return 1 + r->pace.spread * (2 * tt_rng_uniform(key, (uint64_t)client) - 1);
}

int32_t tt_round_eligible(const tt_round_rules *rules)
{
    int32_t n = 0;
    for (int32_t i = 0; i < rules->pace.workers; i++)
        n += rules->steps[i] > 0;
    return n;
}

static int32_t at_most(double n, int32_t most)
{
    return n < 1 ? 1 : n > most ? most : (int32_t)n;
}

int32_t tt_round_wanted(const tt_round_rules *rules)
{
    const int32_t n = tt_round_eligible(rules);
    return at_most(floor(rules->fraction * n + 0.5), n);
}

tt_status tt_round_init(tt_round *round, const tt_round_rules *rules,
                        tt_arena *arena)
{
    const int64_t n = rules->pace.workers;
    *round = (tt_round){
        .client = tt_arena_alloc(arena, n * (int64_t)sizeof *round->client),
        .order = tt_arena_alloc(arena, n * (int64_t)sizeof *round->order),
        .draw = tt_arena_alloc(arena, n * (int64_t)sizeof *round->draw)};
    return round->client != NULL && round->order != NULL && round->draw != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for %lld clients",
                         (long long)n);
}

// ---- who is asked --------------------------------------------------------

static int by_number(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Clients with a draw below the limit are asked, and so many of those at it: `n` in all.
typedef struct limit {
    double at;
    int32_t ties;
} limit;

static limit limit_of(tt_round *round, const tt_round_rules *r, int64_t number,
                      int32_t n)
{
    int32_t m = 0;
    for (int32_t i = 0; i < r->pace.workers; i++)
        if (r->steps[i] > 0)
            round->draw[m++] = draw(r, number, i, ASK);
    qsort(round->draw, (size_t)m, sizeof *round->draw, by_number);
    limit l = {.at = round->draw[n - 1]};
    while (l.ties < n && round->draw[n - 1 - l.ties] == l.at)
        l.ties++;
    return l;
}

static limit limit_by_chance(const tt_round_rules *r)
{
    return (limit){.at = r->fraction};
}

static void ask(tt_round *round, const tt_round_rules *r, int64_t number)
{
    const int32_t most = tt_round_eligible(r);
    const int32_t n = at_most(ceil(round->wanted * r->over - 1e-9), most);
    limit l =
        r->is_poisson ? limit_by_chance(r) : limit_of(round, r, number, n);
    round->n = 0;
    for (int32_t i = 0; i < r->pace.workers; i++) {
        const double u = draw(r, number, i, ASK);
        if (r->steps[i] == 0 || (u >= l.at && (u > l.at || l.ties-- <= 0)))
            continue;
        round->client[round->n++] = (tt_round_client){.client = i};
    }
}

// ---- who answers ---------------------------------------------------------

static double due_of(const tt_round_rules *r, int64_t number, int32_t client)
{
    const tt_drawn_rules *p = &r->pace;
    const double part = 2 * draw(r, number, client, JITTER) - 1;
    const bool pauses = draw(r, number, client, PAUSE) < p->pause;
    return (double)r->steps[client] * (1 + p->jitter * part) /
               speed_of(r, client) +
           (pauses ? p->length : 0) + 2 * p->delay;
}

static int by_time(const void *a, const void *b)
{
    const tt_round_client *x = *(tt_round_client *const *)a;
    const tt_round_client *y = *(tt_round_client *const *)b;
    return x->due != y->due ? (x->due > y->due) - (x->due < y->due)
                            : (x->client > y->client) - (x->client < y->client);
}

// The first who are wanted; a round that does not get them ends with its deadline, or
// when all have answered who can.
static void take(tt_round *round, const tt_round_rules *r)
{
    const double deadline = r->deadline > 0 ? r->deadline : HUGE_VAL;
    const int32_t wanted = r->is_poisson ? round->n : round->wanted;
    double last = 0;
    int32_t m = 0;
    for (int32_t i = 0; i < round->n; i++)
        if (round->client[i].fate != TT_FATE_DROPPED)
            round->order[m++] = &round->client[i];
    qsort(round->order, (size_t)m, sizeof(tt_round_client *), by_time);
    round->taken = 0;
    for (int32_t i = 0; i < m; i++) {
        tt_round_client *c = round->order[i];
        c->fate = round->taken < wanted && c->due <= deadline ? TT_FATE_TAKEN
                                                              : TT_FATE_LATE;
        if (c->fate != TT_FATE_TAKEN)
            continue;
        round->taken++;
        last = c->due;
    }
    round->seconds =
        round->taken < wanted && r->deadline > 0 ? r->deadline : last;
}

void tt_round_draw(tt_round *round, const tt_round_rules *rules, int64_t number)
{
    round->wanted = tt_round_wanted(rules);
    ask(round, rules, number);
    for (int32_t i = 0; i < round->n; i++) {
        tt_round_client *c = &round->client[i];
        c->due = due_of(rules, number, c->client);
        if (draw(rules, number, c->client, DROP) < rules->drop)
            c->fate = TT_FATE_DROPPED;
    }
    take(round, rules);
}
