// crowd_open - settings and memory of workers with weights of their own.

#include "base/alloc.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/hog.h"

#include <string.h>

static const tt_peer_params *params_of(const tt_job *job)
{
    return (const tt_peer_params *)(const void *)job->exchange.policy_params;
}

bool tt__crowd_is(const tt_job *job)
{
    return tt_exchange_policy(&job->exchange)->peer != TT_PEER_NONE;
}

tt_status tt__crowd_check(const tt_job *job)
{
    return tt__hog_is(job) ? tt__hog_check(job) : TT_OK;
}

const tt_ps_params *tt__crowd_params(const tt_job *job, tt_arena *arena)
{
    tt_ps_params *p = tt_arena_alloc(arena, sizeof *p);
    if (p != NULL)
        *p = (tt_ps_params){.pace = params_of(job)->pace,
                            .bound = -1,
                            .limit = params_of(job)->limit,
                            .local_steps = 1};
    return p;
}

// ---- memory --------------------------------------------------------------

static bool is_state(const tt_tensor *t)
{
    return t->role == TT_TENSOR_OPTIM || t->role == TT_TENSOR_EMA;
}

static tt_status list_states(tt_dynamic *d)
{
    const tt_tensors *all = &d->job->tensors;
    tt__crowd *p = d->crowd;
    int64_t longest = 0;
    p->state =
        tt_arena_alloc(d->arena, (all->n + 1) * (int64_t)sizeof *p->state);
    if (p->state == NULL)
        return TT_ERR_NOMEM;
    p->whole = d->all;
    for (int64_t i = 0; i < all->n; i++) {
        if (!is_state(&all->v[i]) || all->v[i].count == 0)
            continue;
        p->state[p->n_states++] = all->v[i];
        p->whole.n += all->v[i].count;
        longest = all->v[i].count > longest ? all->v[i].count : longest;
    }
    tt_free(d->x);
    for (int32_t i = 0; i < d->n_parts; i++)
        if (d->part[i].tensor.count > longest)
            longest = d->part[i].tensor.count;
    d->x = tt_alloc(8 * longest + 8);
    return d->x != NULL ? TT_OK
                        : tt_fail(TT_ERR_NOMEM, "no memory for a tensor");
}

static int64_t how_many(const tt_dynamic *d, tt_peer_vector what)
{
    const bool is_first = tt_peers_is_first(&d->job->peers);
    if (what == TT_PEER_GRADIENT || !tt_peer_has(&d->crowd->rules, what))
        return 0;
    if (what == TT_PEER_BOX)
        return (int64_t)d->per_rank * d->crowd->rules.boxes;
    return what >= TT_PEER_MIDDLE ? is_first : d->per_rank;
}

static tt_status make_vectors(tt_dynamic *d)
{
    tt__crowd *p = d->crowd;
    for (tt_peer_vector what = 0; what < TT_PEER_VECTORS; what++) {
        p->n[what] = how_many(d, what);
        p->v[what] = tt_arena_alloc(d->arena, (p->n[what] + 1) *
                                                  (int64_t)sizeof *p->v[what]);
        if (p->v[what] == NULL)
            return TT_ERR_NOMEM;
        for (int64_t i = 0; i < p->n[what]; i++) {
            p->v[what][i] = tt_alloc(tt_vector_bytes(&p->whole) + 8);
            if (p->v[what][i] == NULL)
                return tt_fail(TT_ERR_NOMEM, "no memory for %d workers",
                               d->per_rank);
        }
    }
    p->room = tt_alloc(tt_vector_bytes(&p->whole) + 8);
    return p->room != NULL ? TT_OK
                           : tt_fail(TT_ERR_NOMEM, "no memory for workers");
}

// All begin with the model as it is.
static tt_status begin(tt_dynamic *d)
{
    static const tt_peer_vector same[] = {TT_PEER_WEIGHTS, TT_PEER_FETCHED,
                                          TT_PEER_MIDDLE};
    const tt__crowd *p = d->crowd;
    char *first = p->v[TT_PEER_WEIGHTS][0];
    int64_t at = d->all.n;
    memcpy(first, d->own[0].weights, (size_t)tt_vector_bytes(&d->all));
    for (int32_t i = 0; i < p->n_states; i++) {
        TT_TRY(tt__dynamic_read_part(d, d->job->exec, &p->state[i],
                                     tt__element_at(d, first, at)));
        at += p->state[i].count;
    }
    for (size_t k = 0; k < sizeof same / sizeof *same; k++)
        for (int64_t i = 0; i < p->n[same[k]]; i++)
            if (p->v[same[k]][i] != first)
                memcpy(p->v[same[k]][i], first,
                       (size_t)tt_vector_bytes(&p->whole));
    return TT_OK;
}

tt_status tt__crowd_open(tt_dynamic *d)
{
    const tt_job *job = d->job;
    const tt_peer_rules rules = {
        .kind = (tt_peer_kind)tt_exchange_policy(&job->exchange)->peer,
        .workers = d->workers,
        .seed = (uint64_t)job->options.seed,
        .params = params_of(job)};
    if (!tt__crowd_is(job))
        return TT_OK;
    d->crowd = tt_arena_alloc(d->arena, sizeof *d->crowd);
    if (d->crowd == NULL)
        return TT_ERR_NOMEM;
    d->crowd->count = tt_arena_alloc(
        d->arena, d->per_rank * (int64_t)sizeof *d->crowd->count);
    if (d->crowd->count == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_peer_init(&d->crowd->rules, &rules, d->arena));
    TT_TRY(list_states(d));
    TT_TRY(make_vectors(d));
    return begin(d);
}

void tt__crowd_close(tt_dynamic *d)
{
    if (d->crowd == NULL)
        return;
    for (int what = 0; what < TT_PEER_VECTORS; what++)
        for (int64_t i = 0; d->crowd->v[what] != NULL && i < d->crowd->n[what];
             i++)
            tt_free(d->crowd->v[what][i]);
    tt_free(d->crowd->room);
}
