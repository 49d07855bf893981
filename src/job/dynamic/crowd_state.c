// crowd_state - the model of workers with weights of their own, and what a checkpoint has of
// them: weights, states of optimisers, messages that nobody has read yet.
//
//   magic, n doubles | rules | weights of each worker | fetched | boxes that are full |
//   centre | its momentum

#include "base/alloc.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/hog.h"

#include <string.h>

// ---- the model -----------------------------------------------------------

// States of optimisers: the mean over workers, behind the model's weights.
static tt_status mean_states(tt_dynamic *d)
{
    const tt_vector_span n = {d->all.is_wide, d->crowd->whole.n - d->all.n};
    void *model = tt__crowd_at(d, (tt_peer_place){TT_PEER_MODEL, 0});
    for (int32_t i = 0; i < d->workers; i++) {
        const tt_peer_place from = {TT_PEER_WEIGHTS, i};
        char *x = tt__crowd_at(d, from);
        if (x != NULL)
            x = tt__element_at(d, x, d->all.n);
        const tt__post post = {tt__crowd_rank(d, from), 0, x, d->crowd->room,
                               tt_vector_bytes(&n)};
        TT_TRY(tt__post_all(d, &post, 1));
        if (model == NULL)
            continue;
        char *to = tt__element_at(d, model, d->all.n);
        if (i == 0)
            memset(to, 0, (size_t)tt_vector_bytes(&n));
        tt_vector_add(&n, 1.0 / d->workers, x != NULL ? x : d->crowd->room, to);
    }
    return TT_OK;
}

static tt_status write_model(tt_dynamic *d, void *model)
{
    int64_t at = d->all.n;
    for (int32_t i = 0; i < d->n_parts; i++)
        TT_TRY(tt__dynamic_write_part(d, d->job->exec, &d->part[i].tensor,
                                      tt__element_at(d, model, d->part[i].at)));
    for (int32_t i = 0; i < d->crowd->n_states; i++) {
        TT_TRY(tt__dynamic_write_part(d, d->job->exec, &d->crowd->state[i],
                                      tt__element_at(d, model, at)));
        at += d->crowd->state[i].count;
    }
    return TT_OK;
}

tt_status tt__crowd_model(tt_dynamic *d)
{
    void *model = tt__crowd_at(d, (tt_peer_place){TT_PEER_MODEL, 0});
    if (d->hog == NULL) {
        tt_peer_model(&d->crowd->rules);
        TT_TRY(tt__crowd_run(d, &d->all));
    } else if (model != NULL) {
        tt__hog_model(d, model);
    }
    TT_TRY(mean_states(d));
    return model != NULL ? write_model(d, model) : TT_OK;
}

// ---- saving --------------------------------------------------------------

static const double magic = 7461737932; // of this layout

enum { HEAD = 4 };

static bool is_kept(const tt_peer_state *p, tt_peer_place place)
{
    if (place.what == TT_PEER_SPARE || place.what == TT_PEER_GRADIENT ||
        place.what == TT_PEER_MODEL || !tt_peer_has(p, place.what))
        return false;
    return place.what != TT_PEER_BOX || p->box[place.of] > 0;
}

static int32_t places(const tt_peer_state *p, tt_peer_vector what)
{
    return what == TT_PEER_BOX      ? p->rules.workers * p->boxes
           : what >= TT_PEER_MIDDLE ? 1
                                    : p->rules.workers;
}

// Calls fn for every vector that is kept, in one order.
typedef tt_status visit_fn(tt_dynamic *d, tt_peer_place place, void *user);

static tt_status visit(tt_dynamic *d, visit_fn *fn, void *user)
{
    const tt_peer_state *p = &d->crowd->rules;
    for (tt_peer_vector what = 0; what < TT_PEER_VECTORS; what++)
        for (int32_t i = 0; i < places(p, what); i++)
            if (is_kept(p, (tt_peer_place){what, i}))
                TT_TRY(fn(d, (tt_peer_place){what, i}, user));
    return TT_OK;
}

static tt_status count_one(tt_dynamic *d, tt_peer_place place, void *user)
{
    (void)d;
    (void)place;
    ++*(int64_t *)user;
    return TT_OK;
}

static tt_status save_one(tt_dynamic *d, tt_peer_place place, void *user)
{
    const int64_t bytes = tt_vector_bytes(&d->crowd->whole);
    void *x = tt__crowd_at(d, place);
    const tt__post post = {tt__crowd_rank(d, place), 0, x, d->crowd->room,
                           bytes};
    TT_TRY(tt__post_all(d, &post, 1));
    if (tt_peers_is_first(&d->job->peers))
        tt_str_add_bytes(user, x != NULL ? x : d->crowd->room, bytes);
    return TT_OK;
}

tt_status tt__crowd_save(tt_dynamic *d, tt_str *out)
{
    const int64_t n = HEAD + tt_peer_count(&d->crowd->rules);
    double *v = tt_alloc(n * (int64_t)sizeof *v);
    int64_t vectors = 0;
    if (v == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to save %d workers",
                       d->workers);
    if (d->hog != NULL)
        tt__hog_note_ages(d);
    TT_TRY(visit(d, count_one, &vectors));
    v[0] = magic;
    v[1] = (double)n;
    v[2] = (double)vectors;
    v[3] = (double)d->crowd->whole.n;
    tt_peer_save(&d->crowd->rules, v + HEAD);
    if (tt_peers_is_first(&d->job->peers))
        tt_str_add_bytes(out, (const char *)v, n * (int64_t)sizeof *v);
    tt_free(v);
    TT_TRY(visit(d, save_one, out));
    if (d->hog != NULL && tt_peers_is_first(&d->job->peers))
        tt__hog_save(d, out);
    return TT_OK;
}

// ---- loading -------------------------------------------------------------

static tt_status load_one(tt_dynamic *d, tt_peer_place place, void *user)
{
    const char **from = user;
    const int64_t bytes = tt_vector_bytes(&d->crowd->whole);
    void *x = tt__crowd_at(d, place);
    if (x != NULL)
        memcpy(x, *from, (size_t)bytes);
    *from += bytes;
    return TT_OK;
}

tt_status tt__crowd_load(tt_dynamic *d, const char *bytes, int64_t n)
{
    const int64_t numbers = HEAD + tt_peer_count(&d->crowd->rules);
    const int64_t head = numbers * (int64_t)sizeof(double);
    int64_t vectors = 0;
    double *v = tt_alloc(head);
    if (v == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for workers");
    if (n >= head)
        memcpy(v, bytes, (size_t)head);
    tt_status status = n >= head && v[0] == magic && v[1] == (double)numbers &&
                               v[3] == (double)d->crowd->whole.n
                           ? tt_peer_load(&d->crowd->rules, v + HEAD)
                           : TT_ERR_ARG;
    if (status == TT_OK)
        status = visit(d, count_one, &vectors);
    const char *from = bytes + head;
    const int64_t words = d->hog != NULL ? tt__hog_bytes(d) : 0;
    if (status == TT_OK &&
        n == head + vectors * tt_vector_bytes(&d->crowd->whole) + words)
        status = visit(d, load_one, &from);
    else
        status =
            tt_fail(TT_ERR_ARG,
                    "the checkpoint's exchange.bin is not that of %d "
                    "workers under exchange.policy=%s",
                    d->workers, tt_exchange_policy(&d->job->exchange)->name);
    tt_free(v);
    if (status == TT_OK && d->hog != NULL)
        status = tt__hog_load(d, from);
    return status;
}
