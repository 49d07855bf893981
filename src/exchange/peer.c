#include "exchange/peer.h"

#include "base/rng.h"

#include <math.h>

enum { UNITS = 1 << 30, DRAWS = 2 };

// ---- who with whom -------------------------------------------------------

static double draw(const tt_peer_state *p, int32_t worker, int which)
{
    const uint64_t key =
        tt_rng_key(p->rules.seed, "exchange.partner", (uint64_t)worker);
    return tt_rng_uniform(key,
                          (uint64_t)(p->worker[worker].number * DRAWS + which));
}

// One of n, drawn.
static int32_t one_of(const tt_peer_state *p, int32_t worker, int32_t n)
{
    const int32_t i = (int32_t)(draw(p, worker, 0) * n);
    return i < n ? i : n - 1;
}

static int32_t anybody(const tt_peer_state *p, int32_t worker)
{
    const int32_t i = one_of(p, worker, p->rules.workers - 1);
    return i < worker ? i : i + 1;
}

// -1: nobody.
static int32_t partner(const tt_peer_state *p, int32_t worker)
{
    const int32_t n = p->rules.workers;
    if (n == 1)
        return -1;
    switch ((tt_pairs_graph)p->rules.params->graph) {
    case TT_PAIRS_RING:
        return (worker + (one_of(p, worker, 2) == 0 ? 1 : n - 1)) % n;
    case TT_PAIRS_BIPARTITE:
        return worker % 2 == 1 ? -1 : 2 * one_of(p, worker, n / 2) + 1;
    default:
        return anybody(p, worker);
    }
}

static void add_shift(tt_peer_state *p, int64_t shift)
{
    for (int32_t i = 0; i < p->boxes; i++)
        if (p->by[i] == shift)
            return;
    if (shift > 0)
        p->by[p->boxes++] = shift;
}

// As graph=halton of the policy gossip, but for log2 of the workers.
static void add_halton(tt_peer_state *p, int64_t n)
{
    for (int64_t i = 1, most = 2; i < n && most <= 2 * n; i++, most *= 2) {
        double part = 0, digit = 0.5;
        for (int64_t k = i; k > 0; k /= 2, digit /= 2)
            part += digit * (double)(k % 2);
        add_shift(p, (int64_t)((double)n * part));
    }
    add_shift(p, 1 % n); // so that all hear of all
}

static void list_shifts(tt_peer_state *p)
{
    const int64_t n = p->rules.workers;
    switch ((tt_scatter_graph)p->rules.params->graph) {
    case TT_SCATTER_HALTON:
        add_halton(p, n);
        break;
    case TT_SCATTER_EXPONENTIAL:
        for (int64_t shift = 1; shift < n; shift *= 2)
            add_shift(p, shift);
        break;
    case TT_SCATTER_RING:
        add_shift(p, 1 % n);
        add_shift(p, n - 1);
        break;
    case TT_SCATTER_COMPLETE:
        for (int64_t shift = 1; shift < n; shift++)
            add_shift(p, shift);
        break;
    }
}

// ---- operations ----------------------------------------------------------

static tt_peer_place at(tt_peer_vector what, int32_t of)
{
    return (tt_peer_place){what, of};
}

static void add(tt_peer_state *p, tt_peer_op op)
{
    p->op[p->n_ops++] = op;
}

static void mix(tt_peer_state *p, tt_peer_place y, double a, tt_peer_place x,
                double b)
{
    add(p, (tt_peer_op){.what = TT_PEER_MIX, .y = y, .x = x, .a = a, .b = b});
}

static void copy(tt_peer_state *p, tt_peer_place y, tt_peer_place x)
{
    mix(p, y, 1, x, 0);
}

static void step(tt_peer_state *p, int32_t worker)
{
    add(p,
        (tt_peer_op){.what = TT_PEER_STEP, .y = at(TT_PEER_WEIGHTS, worker)});
}

enum { NOBODY = -1 }; // the centre

static void message(tt_peer_state *p, int32_t from, int32_t to)
{
    p->messages++;
    if (from != NOBODY)
        p->worker[from].sent++;
    if (to != NOBODY)
        p->worker[to].got++;
}

static bool is_time(const tt_peer_state *p, int64_t number)
{
    return number % p->rules.params->every == 0;
}

// ---- adpsgd --------------------------------------------------------------

static int64_t pair(tt_peer_state *p, int32_t i)
{
    const int32_t j = is_time(p, p->worker[i].number + 1) ? partner(p, i) : -1;
    const int64_t old = p->worker[i].since;
    if (j >= 0) {
        const tt_peer_place mine = at(TT_PEER_WEIGHTS, i);
        const tt_peer_place other = at(TT_PEER_WEIGHTS, j);
        const tt_peer_place spare = at(TT_PEER_SPARE, i);
        copy(p, spare, other);
        mix(p, other, 0.5, mine, 0.5);
        mix(p, mine, 0.5, spare, 0.5);
        p->worker[j].since++;
        message(p, i, j);
        message(p, j, i);
    }
    step(p, i);
    p->worker[i].since = 0;
    return old;
}

// ---- gosgd ---------------------------------------------------------------

// y has `own` units, x brings `more`: the mean by units.
static void join(tt_peer_state *p, tt_peer_place y, int64_t own,
                 tt_peer_place x, int64_t more)
{
    const double all = (double)(own + more);
    mix(p, y, (double)more / all, x, (double)own / all);
}

// Messages that nobody has read are joined to one.
static void send_share(tt_peer_state *p, int32_t i, int32_t j)
{
    const int64_t half = p->worker[i].share / 2;
    join(p, at(TT_PEER_BOX, j), p->box[j], at(TT_PEER_WEIGHTS, i), half);
    p->worker[i].share -= half;
    p->box[j] += half;
    message(p, i, j);
}

static int64_t share(tt_peer_state *p, int32_t i)
{
    tt_peer_worker *w = &p->worker[i];
    step(p, i);
    if (p->rules.workers > 1 && w->share > 1 &&
        draw(p, i, 1) < p->rules.params->probability)
        send_share(p, i, anybody(p, i));
    if (p->box[i] > 0) {
        join(p, at(TT_PEER_WEIGHTS, i), w->share, at(TT_PEER_BOX, i),
             p->box[i]);
        w->share += p->box[i];
        p->box[i] = 0;
    }
    return 0;
}

// ---- malt ----------------------------------------------------------------

static void scatter(tt_peer_state *p, int32_t i, tt_peer_vector what)
{
    if (!is_time(p, p->worker[i].number + 1))
        return;
    for (int32_t k = 0; k < p->boxes; k++) {
        const int64_t to = (i + p->by[k]) % p->rules.workers;
        const int32_t box = (int32_t)(to * p->boxes + k);
        copy(p, at(TT_PEER_BOX, box), at(what, i));
        p->box[box] = 1;
        message(p, i, (int32_t)to);
    }
}

// The mean of y and of what is in the worker's boxes.
static void fold(tt_peer_state *p, int32_t i, tt_peer_vector what)
{
    int64_t *box = &p->box[(int64_t)i * p->boxes];
    int32_t n = 1;
    for (int32_t k = 0; k < p->boxes; k++)
        n += box[k] > 0;
    double own = 1.0 / n;
    for (int32_t k = 0; k < p->boxes; k++) {
        if (box[k] == 0)
            continue;
        mix(p, at(what, i), 1.0 / n, at(TT_PEER_BOX, i * p->boxes + k), own);
        box[k] = 0;
        own = 1;
    }
}

static int64_t write_out(tt_peer_state *p, int32_t i)
{
    if (p->rules.params->push == TT_SCATTER_WEIGHTS) {
        step(p, i);
        scatter(p, i, TT_PEER_WEIGHTS);
        fold(p, i, TT_PEER_WEIGHTS);
        return 0;
    }
    add(p, (tt_peer_op){.what = TT_PEER_MEAN, .y = at(TT_PEER_GRADIENT, i)});
    scatter(p, i, TT_PEER_GRADIENT);
    fold(p, i, TT_PEER_GRADIENT);
    step(p, i);
    return 0;
}

// ---- easgd, local --------------------------------------------------------

static double pull_of(const tt_peer_state *p)
{
    const tt_peer_params *o = p->rules.params;
    return o->alpha >= 0 ? o->alpha : o->beta / p->rules.workers;
}

static int64_t pull(tt_peer_state *p, int32_t i)
{
    const tt_peer_place x = at(TT_PEER_WEIGHTS, i), d = at(TT_PEER_SPARE, i);
    const tt_peer_place centre = at(TT_PEER_MIDDLE, 0);
    if (is_time(p, p->worker[i].number)) {
        copy(p, d, centre);
        mix(p, d, 1, x, -1);
        mix(p, x, -pull_of(p), d, 1);
        mix(p, centre, pull_of(p), d, 1);
        message(p, NOBODY, i);
        message(p, i, NOBODY);
    }
    step(p, i);
    return 0;
}

static void move_centre(tt_peer_state *p, tt_peer_place d)
{
    const tt_peer_params *o = p->rules.params;
    const tt_peer_place centre = at(TT_PEER_MIDDLE, 0);
    const tt_peer_place speed = at(TT_PEER_SPEED, 0);
    if (o->outer != TT_PEER_PLAIN)
        mix(p, speed, 1, d, o->outer_momentum);
    if (o->outer == TT_PEER_NESTEROV)
        mix(p, centre, o->outer_lr * o->outer_momentum, speed, 1);
    mix(p, centre, o->outer_lr, o->outer == TT_PEER_MOMENTUM ? speed : d, 1);
}

static int64_t push(tt_peer_state *p, int32_t i)
{
    tt_peer_worker *w = &p->worker[i];
    const tt_peer_place x = at(TT_PEER_WEIGHTS, i), d = at(TT_PEER_SPARE, i);
    step(p, i);
    if (!is_time(p, w->number + 1))
        return -1;
    copy(p, d, x);
    mix(p, d, -1, at(TT_PEER_FETCHED, i), 1);
    move_centre(p, d);
    copy(p, x, at(TT_PEER_MIDDLE, 0));
    copy(p, at(TT_PEER_FETCHED, i), x);
    message(p, i, NOBODY);
    message(p, NOBODY, i);
    const int64_t old = p->version - w->since;
    w->since = ++p->version;
    return old;
}

// ---- hogwild -------------------------------------------------------------

// Who shares weights needs no messages; how old a gradient is, those know who count.
static int64_t go_on(tt_peer_state *p, int32_t i)
{
    step(p, i);
    return -1;
}

// ---- all -----------------------------------------------------------------

int64_t tt_peer_deliver(tt_peer_state *peer, int32_t worker)
{
    int64_t old = 0;
    peer->n_ops = 0;
    switch (peer->rules.kind) {
    case TT_PEER_PAIRS:
        old = pair(peer, worker);
        break;
    case TT_PEER_SHARES:
        old = share(peer, worker);
        break;
    case TT_PEER_SCATTER:
        old = write_out(peer, worker);
        break;
    case TT_PEER_CENTRE:
        old = pull(peer, worker);
        break;
    case TT_PEER_SHARED:
        old = go_on(peer, worker);
        break;
    default:
        old = push(peer, worker);
    }
    peer->worker[worker].number++;
    return old;
}

int64_t tt_peer_used(const tt_peer_state *peer, int32_t worker)
{
    const int64_t number = peer->worker[worker].number;
    return peer->rules.kind == TT_PEER_DELTAS
               ? number / peer->rules.params->every
               : number;
}

static void add_to_model(tt_peer_state *p, double part, tt_peer_place x)
{
    mix(p, at(TT_PEER_MODEL, 0), part, x, p->n_ops == 0 ? 0 : 1);
}

void tt_peer_model(tt_peer_state *peer)
{
    const int32_t n = peer->rules.workers;
    const double units = (double)n * UNITS;
    peer->n_ops = 0;
    if (tt_peer_has(peer, TT_PEER_MIDDLE)) {
        add_to_model(peer, 1, at(TT_PEER_MIDDLE, 0));
        return;
    }
    for (int32_t i = 0; i < n; i++)
        add_to_model(peer, (double)peer->worker[i].share / units,
                     at(TT_PEER_WEIGHTS, i));
    for (int32_t i = 0; peer->rules.kind == TT_PEER_SHARES && i < n; i++)
        if (peer->box[i] > 0)
            add_to_model(peer, (double)peer->box[i] / units,
                         at(TT_PEER_BOX, i));
}

bool tt_peer_has(const tt_peer_state *peer, tt_peer_vector what)
{
    const tt_peer_kind kind = peer->rules.kind;
    switch (what) {
    case TT_PEER_SPARE:
        return kind != TT_PEER_SHARES && kind != TT_PEER_SCATTER;
    case TT_PEER_FETCHED:
        return kind == TT_PEER_DELTAS;
    case TT_PEER_BOX:
        return kind == TT_PEER_SHARES || kind == TT_PEER_SCATTER;
    case TT_PEER_MIDDLE:
        return kind == TT_PEER_CENTRE || kind == TT_PEER_DELTAS;
    case TT_PEER_SPEED:
        return kind == TT_PEER_DELTAS &&
               peer->rules.params->outer != TT_PEER_PLAIN;
    default:
        return true;
    }
}

tt_status tt_peer_init(tt_peer_state *peer, const tt_peer_rules *rules,
                       tt_arena *arena)
{
    const int64_t n = rules->workers;
    *peer = (tt_peer_state){.rules = *rules};
    peer->worker = tt_arena_alloc(arena, n * (int64_t)sizeof *peer->worker);
    peer->by = tt_arena_alloc(arena, (n + 1) * (int64_t)sizeof *peer->by);
    if (peer->worker == NULL || peer->by == NULL)
        return TT_ERR_NOMEM;
    if (rules->kind == TT_PEER_SCATTER)
        list_shifts(peer);
    if (rules->kind == TT_PEER_SHARES)
        peer->boxes = 1;
    peer->box = tt_arena_alloc(arena, (n * peer->boxes + 1) *
                                          (int64_t)sizeof *peer->box);
    peer->op = tt_arena_alloc(arena, (2 * (n + peer->boxes) + 8) *
                                         (int64_t)sizeof *peer->op);
    for (int64_t i = 0; i < n; i++)
        peer->worker[i].share = UNITS;
    return peer->box != NULL && peer->op != NULL ? TT_OK : TT_ERR_NOMEM;
}

// ---- as numbers ----------------------------------------------------------

enum { HEAD = 2, OF_WORKER = 5 };

int64_t tt_peer_count(const tt_peer_state *peer)
{
    return HEAD + (int64_t)peer->rules.workers * (OF_WORKER + peer->boxes);
}

void tt_peer_save(const tt_peer_state *peer, double *numbers)
{
    double *v = numbers;
    *v++ = (double)peer->version;
    *v++ = (double)peer->messages;
    for (int32_t i = 0; i < peer->rules.workers; i++) {
        *v++ = (double)peer->worker[i].number;
        *v++ = (double)peer->worker[i].share;
        *v++ = (double)peer->worker[i].since;
        *v++ = (double)peer->worker[i].sent;
        *v++ = (double)peer->worker[i].got;
    }
    for (int64_t i = 0; i < (int64_t)peer->rules.workers * peer->boxes; i++)
        *v++ = (double)peer->box[i];
}

static bool is_count(double v)
{
    return v >= 0 && v < 9e15 && v == floor(v);
}

tt_status tt_peer_load(tt_peer_state *peer, const double *numbers)
{
    const int64_t n = tt_peer_count(peer);
    const double *v = numbers;
    for (int64_t i = 0; i < n; i++)
        if (!is_count(numbers[i]))
            return tt_fail(TT_ERR_ARG, "the state of the workers is damaged");
    peer->version = (int64_t)*v++;
    peer->messages = (int64_t)*v++;
    for (int32_t i = 0; i < peer->rules.workers; i++, v += OF_WORKER)
        peer->worker[i] =
            (tt_peer_worker){(int64_t)v[0], (int64_t)v[1], (int64_t)v[2],
                             (int64_t)v[3], (int64_t)v[4]};
    for (int64_t i = 0; i < (int64_t)peer->rules.workers * peer->boxes; i++)
        peer->box[i] = (int64_t)*v++;
    return TT_OK;
}
