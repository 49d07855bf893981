// replicas_model - the model from the replicas, and these from the model.
//
//   meet.0    the model: means, unless agreements keep its weights; and how far the
//             replicas are from it
//   spread.0  the replicas, the models of groups and what policies keep, from the model: at
//             the beginning, or with other replicas

#include "ops/arith.h"
#include "ops/comm/replicas.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/optim/clip.h"
#include "pass/replicas_mix.h"

#include <string.h>

// One state on its way through a meeting.
typedef struct parcel {
    const tt__replica_state *s;
    tt_val leaf;     // the model's
    tt_val x, model; // the replica's, and the model's
    tt_val out;      // TT_NONE: the model stays as it is
} parcel;

// ---- the model -----------------------------------------------------------

// Whether ranks along an axis have other replicas, or the same ones and are not asked.
static bool is_replicas(const tt__replicas *w, int axis)
{
    const char *name = w->r.old->mesh.axis[axis].name;
    for (int i = 0; i < w->n_levels; i++)
        if (w->level[i].axis == axis)
            return true;
    return w->params->shared != NULL && strcmp(name, w->params->shared) == 0;
}

// Ranks along other axes that have the same as this one.
static double copies(const tt__replicas *w, int32_t old)
{
    double n = 1;
    for (int a = 0; a < w->r.old->mesh.n_axes; a++)
        if (!is_replicas(w, a) &&
            w->r.old->value[old].type.place[a].kind == TT_REPLICATE)
            n *= w->r.old->mesh.axis[a].size;
    return n;
}

static tt_val squares(tt__replicas *w, tt_val x, int32_t old)
{
    const int32_t first = w->r.b.graph->n_nodes;
    const tt_val sum = tt_sum_squares(&w->r.b, x);
    tt__replicas_place(w, first);
    return copies(w, old) == 1
               ? sum
               : tt__replicas_scaled(w, sum, 1 / copies(w, old));
}

static tt_val total(tt__replicas *w, const tt_val *x, int n)
{
    const int32_t first = w->r.b.graph->n_nodes;
    const tt_val sum = tt_total(&w->r.b, x, n);
    tt__replicas_place(w, first);
    return sum;
}

// How far each replica is from the model, and how long that is: squares, of this rank's
// parts.
static tt_status add_distance(tt__replicas *w, const tt_val *distance,
                              const tt_val *length, int n)
{
    tt_builder *b = &w->r.b;
    TT_TRY(tt__copy_aim(b, TT_MEET, 0, "distance"));
    tt_output(b, "distance", tt__replicas_number(w, total(w, distance, n)));
    tt_output(b, "length", total(w, length, n));
    return b->status;
}

// Whether agreements leave the model's weights.
static bool is_kept(const tt__replicas *w)
{
    const tt__level *top = &w->level[w->n_levels - 1];
    return (tt__replicas_is_coded(w) && top->policy->mix == NULL) ||
           tt_policy_keeps_model(top->policy, top->params);
}

tt_val tt__replicas_counted(tt__replicas *w, const tt__replica_state *s,
                            int level, tt_val x)
{
    const tt__level *l = &w->level[level];
    const tt_policy_state *state = NULL;
    tt_agreement a = {.params = l->params, .x = x};
    if (l->policy->counts == NULL || !s->is_weight)
        return x;
    const int n = tt_policy_states(l->policy, l->params, &state);
    for (int i = 0; i < n; i++)
        a.state[i] =
            tt__replicas_read(w, tt__replicas_again(w, s->state[level][i]));
    const int32_t first = w->r.b.graph->n_nodes;
    const tt_val y = l->policy->counts(&w->r.b, &a);
    tt__replicas_place(w, first);
    return y;
}

// The model's version of a state: what agreements have left, or the mean of the groups'
// models, or that of all replicas.
static void begin_meeting(tt__replicas *w, parcel *p)
{
    const tt__replica_state *s = p->s;
    p->leaf = tt__replicas_again(w, s->model);
    p->x = tt__replicas_read(w, tt__replicas_again(w, s->replica));
    p->out = TT_NONE;
    if (s->is_weight && is_kept(w)) {
        p->model = tt__replicas_read(w, p->leaf);
        return;
    }
    const bool has_group = tt_is(s->group);
    tt_val mean = has_group
                      ? tt__replicas_read(w, tt__replicas_again(w, s->group))
                      : p->x;
    for (int i = has_group ? 1 : 0; i < w->n_levels; i++)
        mean = tt__replicas_mean(w, i, tt__replicas_counted(w, s, i, mean));
    p->model = p->out = mean;
}

tt_status tt__replicas_meeting(tt__replicas *w)
{
    tt_builder *b = &w->r.b;
    tt_val *distance = tt__rewrite_vals(&w->r, w->n_states + 1);
    tt_val *length = tt__rewrite_vals(&w->r, w->n_states + 1);
    parcel *parcels =
        tt__rewrite_array(&w->r, w->n_states + 1, sizeof *parcels);
    int n = 0;
    for (int32_t i = 0; i < w->n_states && b->status == TT_OK; i++) {
        parcels[i].s = &w->state[i];
        TT_TRY(
            tt__copy_aim(b, TT_MEET, 0, w->r.old->value[w->state[i].old].name));
        if (tt_is(w->state[i].model))
            begin_meeting(w, &parcels[i]);
    }
    for (int32_t i = 0; i < w->n_states && b->status == TT_OK; i++) {
        const tt__replica_state *s = &w->state[i];
        const parcel *p = &parcels[i];
        TT_TRY(tt__copy_aim(b, TT_MEET, 0, w->r.old->value[s->old].name));
        if (!tt_is(s->model))
            continue;
        tt__replicas_settle(w, p->leaf, p->out);
        if (!s->is_weight)
            continue;
        const int32_t first = b->graph->n_nodes;
        const tt_val apart = tt_policy_add(b, p->x, -1, p->model);
        tt__replicas_place(w, first);
        distance[n] = squares(w, apart, s->old);
        length[n++] = squares(w, p->model, s->old);
    }
    TT_TRY(b->status);
    return add_distance(w, distance, length, n);
}

// ---- the replicas from the model -----------------------------------------

static void spread_states(tt__replicas *w, const tt__replica_state *s,
                          int level, tt_val model)
{
    const tt__level *l = &w->level[level];
    const tt_policy_state *state = NULL;
    const int n = tt_policy_states(l->policy, l->params, &state);
    for (int k = 0; k < n; k++)
        if (state[k].from_model)
            tt__replicas_settle(w, tt__replicas_again(w, s->state[level][k]),
                                model);
}

// Where all public copies are the model nobody pulls, unless the mix of equal ones is
// another.
static tt_val drift_of(tt__replicas *w, const tt__replica_shared *s,
                       tt_val model)
{
    if (!s->from_model || s->pull == NULL)
        return tt__replicas_scaled(w, model, 0);
    const tt_val pull = tt__mix_number(w, s->level, s->pull, model);
    const int32_t first = w->r.b.graph->n_nodes;
    const tt_val drift = tt_mul(&w->r.b, model, pull);
    tt__replicas_place(w, first);
    return drift;
}

// Public copies are the model, or nothing.
static void spread_shared(tt__replicas *w, const tt__replica_state *of,
                          tt_val model)
{
    for (int32_t i = 0; i < w->n_shared; i++) {
        const tt__replica_shared *s = &w->shared[i];
        if (s->old != of->old)
            continue;
        const tt_val none = tt__replicas_scaled(w, model, 0);
        tt__replicas_settle(w, tt__replicas_again(w, s->public),
                            s->from_model ? model : none);
        tt__replicas_settle(w, tt__replicas_again(w, s->drift),
                            drift_of(w, s, model));
    }
}

tt_status tt__replicas_spread(tt__replicas *w)
{
    tt_builder *b = &w->r.b;
    for (int32_t i = 0; i < w->n_states; i++) {
        const tt__replica_state *s = &w->state[i];
        if (!tt_is(s->model))
            continue;
        TT_TRY(tt__copy_aim(b, TT_SPREAD, 0, w->r.old->value[s->old].name));
        const tt_val model =
            tt__replicas_read(w, tt__replicas_again(w, s->model));
        tt__replicas_settle(w, tt__replicas_again(w, s->replica), model);
        tt__replicas_settle(w, tt__replicas_again(w, s->work), model);
        tt__replicas_settle(w, tt__replicas_again(w, s->group), model);
        for (int l = 0; l < w->n_levels && s->is_weight; l++)
            spread_states(w, s, l, model);
        spread_shared(w, s, model);
    }
    return b->status;
}
