// replicas_aside - what replicas do between steps, as segments of their own.
//
//   agree.i   variant i of the policy's agreement, for every weight of its part
//   meet.0    the model from the replicas: means, unless agreements keep the weights; and
//             how far the replicas are from it
//   spread.0  the replicas from the model: at the beginning, or with other replicas
//
// Each reads states through leaves of its own (TT_ROLE_AGAIN), and leaves new ones. All
// weights are sent before the first that came is used, so that they travel while others
// are made ready.
//
//   memory   an agreement holds what all weights of its part have sent
//   layouts  a weight that other axes cut is taken as the rank holds it: an agreement is
//            arithmetic on elements

#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "ops/comm/replicas.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/optim/clip.h"
#include "ops/shape/move.h"
#include "pass/coded.h"
#include "pass/replicas.h"

#include <stdio.h>

// One state on its way through a segment.
typedef struct parcel {
    const tt__replica_state *s;
    tt_val x, model;                // leaves
    tt_val state[TT_POLICY_STATES]; // leaves
    tt_agreement a;
    tt__coded coded;
} parcel;

static bool is_coded(const tt__replicas *w)
{
    return w->params->codec != NULL;
}

static tt__coded_by coded_by(tt__replicas *w)
{
    return (tt__coded_by){.b = &w->r.b,
                          .codec = w->params->codec,
                          .params = w->params->codec_params,
                          .feedback = w->params->feedback,
                          .axis = w->axis,
                          .replicas = w->replicas};
}

// ---- placements ----------------------------------------------------------

// Nodes from `first` on run on what each rank has: a result is own along an axis where
// something that the node reads is.
static void place_own(tt__replicas *w, int32_t first)
{
    tt_graph *g = w->r.b.graph;
    for (int32_t n = first; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        for (int a = 0; a < g->mesh.n_axes; a++) {
            bool is_own = false;
            for (int i = 0; i < node->n_in; i++)
                is_own |=
                    tt_is(node->in[i]) &&
                    g->value[node->in[i].id].type.place[a].kind != TT_REPLICATE;
            for (int i = 0; i < node->n_out; i++)
                tt_place_set(&w->r.b, node->out[i], a,
                             is_own ? tt_place_own() : tt_place_replicate());
        }
    }
}

static tt_val scaled(tt__replicas *w, tt_val x, double by)
{
    const int32_t first = w->r.b.graph->n_nodes;
    const tt_val y = tt_scale(&w->r.b, x, by);
    place_own(w, first);
    return y;
}

static tt_val cast(tt__replicas *w, tt_val x, tt_dtype dtype)
{
    const int32_t first = w->r.b.graph->n_nodes;
    if (tt_type_of(&w->r.b, x)->dtype == dtype)
        return x;
    const tt_val y = tt_cast(&w->r.b, x, dtype);
    place_own(w, first);
    return y;
}

// ---- states --------------------------------------------------------------

static tt_val again(tt__replicas *w, tt_val state)
{
    tt_builder *b = &w->r.b;
    if (!tt_is(state))
        return TT_NONE;
    const tt_value value = *tt_graph_value(b->graph, state);
    const char *name = tt_arena_printf(b->graph->arena, "%s.%s%d", value.name,
                                       tt_phase_name(b->phase), b->stage);
    if (name == NULL)
        return tt_builder_fail(b, TT_ERR_NOMEM);
    const tt_val leaf =
        tt_state(b, TT_ROLE_AGAIN, name, value.type.dtype, &value.type.shape,
                 (tt_init){.kind = TT_INIT_COPY, .of = state});
    for (int a = 0; a < b->graph->mesh.n_axes && tt_is(leaf); a++)
        tt_place_set(b, leaf, a, value.type.place[a]);
    return leaf;
}

// What a replica has of a state, in a precision that can be added.
static tt_val take(tt__replicas *w, tt_val leaf)
{
    const tt_type *type = tt_type_of(&w->r.b, leaf);
    const bool is_wide = type->place[w->axis].kind == TT_SPLIT;
    const tt_dtype dtype = tt_dtype_master(type->dtype);
    return cast(w, tt__replicas_take(w, leaf, is_wide ? 1 : 0), dtype);
}

static void settle(tt__replicas *w, tt_val leaf, tt_val x)
{
    if (!tt_is(leaf) || !tt_is(x))
        return;
    x = cast(w, x, tt_type_of(&w->r.b, leaf)->dtype);
    tt_update(&w->r.b, leaf, tt__replicas_stack(w, x, leaf));
}

// ---- sending -------------------------------------------------------------

static tt_val mean_of(tt__replicas *w, tt_val x)
{
    tt_builder *b = &w->r.b;
    const tt_val term = tt_own(b, x, 0); // another word for a term
    for (int a = 0; a < b->graph->mesh.n_axes && tt_is(term); a++)
        tt_place_set(b, term, a, tt_type_of(b, x)->place[a]);
    tt_place_set(b, term, w->axis, tt_place_partial(TT_SUM));
    return scaled(w, tt_all_reduce(b, term, w->axis, TT_SUM),
                  1 / (double)w->replicas);
}

// What replica r - by has, for replica r.
static tt_val from_neighbour(tt__replicas *w, tt_val x, int64_t by)
{
    tt_builder *b = &w->r.b;
    char dims[32];
    snprintf(dims, sizeof dims, "%s:%lld", TT_REPLICA, (long long)w->replicas);
    const tt_val all = tt_stack(b, x, dims);
    for (int a = 0; a < b->graph->mesh.n_axes && tt_is(all); a++)
        tt_place_set(b, all, a,
                     a == w->axis ? tt_place_split(0)
                                  : tt_type_of(b, x)->place[a]);
    return tt__replicas_take(w, tt_shift(b, all, w->axis, (int)by), 1);
}

static tt_status join(tt__replicas *w, parcel *p)
{
    const tt_replicas_params *o = w->params;
    int64_t from[TT_POLICY_GOT];
    const int n = tt_policy_neighbours(o->policy, o->policy_params, w->replicas,
                                       p->a.variant, from);
    for (int i = 0; i < n; i++)
        p->a.got[i] = from_neighbour(w, p->a.sent, from[i]);
    if (n > 0)
        return w->r.b.status;
    if (is_coded(w)) {
        const tt__coded_by by = coded_by(w);
        return tt__coded_begin(&by, &p->coded, p->a.sent,
                               w->r.old->value[p->s->old].name);
    }
    p->a.got[0] = mean_of(w, p->a.sent);
    return w->r.b.status;
}

// ---- agreements ----------------------------------------------------------

static tt_status begin(tt__replicas *w, parcel *p, int variant)
{
    tt_builder *b = &w->r.b;
    const tt_replicas_params *o = w->params;
    const tt_policy_state *state = NULL;
    TT_TRY(tt__copy_aim(b, TT_AGREE, variant, w->r.old->value[p->s->old].name));
    p->x = again(w, p->s->replica);
    p->model = again(w, p->s->model);
    p->a = (tt_agreement){.params = o->policy_params,
                          .replicas = w->replicas,
                          .variant = variant,
                          .is_coded = is_coded(w),
                          .x = take(w, p->x),
                          .model = take(w, p->model),
                          .x_out = TT_NONE,
                          .model_out = TT_NONE};
    const int n = tt_policy_states(o->policy, o->policy_params, &state);
    for (int i = 0; i < TT_POLICY_STATES; i++) {
        p->state[i] = i < n ? again(w, p->s->state[i]) : TT_NONE;
        p->a.state[i] = i < n ? take(w, p->state[i]) : TT_NONE;
        p->a.state_out[i] = TT_NONE;
    }
    p->a.sent = p->a.x;
    const int32_t first = b->graph->n_nodes;
    if (o->policy->send != NULL)
        TT_TRY(o->policy->send(b, &p->a));
    place_own(w, first);
    return join(w, p);
}

// States first: the policy may have kept what the model was.
static tt_status end(tt__replicas *w, parcel *p, int variant)
{
    tt_builder *b = &w->r.b;
    TT_TRY(tt__copy_aim(b, TT_AGREE, variant, w->r.old->value[p->s->old].name));
    if (is_coded(w)) {
        const tt__coded_by by = coded_by(w);
        tt_val sum = TT_NONE;
        TT_TRY(tt__coded_end(&by, &p->coded, &sum));
        p->a.got[0] = scaled(w, sum, 1 / (double)w->replicas);
    }
    const int32_t first = b->graph->n_nodes;
    TT_TRY(w->params->policy->take(b, &p->a));
    place_own(w, first);
    for (int i = 0; i < TT_POLICY_STATES; i++)
        settle(w, p->state[i], p->a.state_out[i]);
    settle(w, p->x, p->a.x_out);
    if (tt_is(p->a.x_out))
        settle(w, again(w, p->s->work), p->a.x_out);
    settle(w, p->model, p->a.model_out);
    return b->status;
}

static bool is_in(const tt__replicas *w, const tt__replica_state *s,
                  int variant)
{
    return s->is_weight &&
           (w->params->policy->parts == NULL || s->part == variant);
}

static tt_status add_agreement(tt__replicas *w, parcel *parcels, int variant)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->n_states; i++)
        if (is_in(w, &w->state[i], variant)) {
            parcels[n].s = &w->state[i];
            TT_TRY(begin(w, &parcels[n++], variant));
        }
    const tt__coded_by by = coded_by(w);
    for (int32_t i = 0; i < n && is_coded(w); i++) {
        TT_TRY(tt__copy_aim(&w->r.b, TT_AGREE, variant,
                            w->r.old->value[parcels[i].s->old].name));
        TT_TRY(tt__coded_again(&by, &parcels[i].coded));
    }
    for (int32_t i = 0; i < n; i++)
        TT_TRY(end(w, &parcels[i], variant));
    return TT_OK;
}

static int64_t bytes_of(const tt__replicas *w, const tt__replica_state *s)
{
    const tt_type *type = &w->r.old->value[s->old].type;
    return s->is_weight
               ? tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype)
               : 0;
}

// Parts of about as many bytes, in the order of the weights.
static void divide(tt__replicas *w, int parts)
{
    int64_t all = 1, before = 0;
    for (int32_t i = 0; i < w->n_states; i++)
        all += bytes_of(w, &w->state[i]);
    for (int32_t i = 0; i < w->n_states; i++) {
        const int64_t bytes = bytes_of(w, &w->state[i]);
        w->state[i].part = (int32_t)(((double)before + 0.5 * (double)bytes) *
                                     parts / (double)all);
        before += bytes;
    }
}

static tt_status add_policy_states(tt__replicas *w)
{
    const tt_replicas_params *o = w->params;
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    const tt_policy_state *state = NULL;
    const int n = tt_policy_states(o->policy, o->policy_params, &state);
    char name[64];
    for (int32_t i = 0; i < w->n_states; i++)
        for (int k = 0; k < n && w->state[i].is_weight; k++) {
            snprintf(name, sizeof name, "%s.%s", o->policy->name,
                     state[k].name);
            w->state[i].state[k] = tt__replicas_state(w, w->state[i].old, name,
                                                      state[k].is_common, zero);
        }
    return w->r.b.status;
}

// ---- the model -----------------------------------------------------------

// Ranks along other axes that have the same as this one.
static double copies(const tt__replicas *w, int32_t old)
{
    double n = 1;
    for (int a = 0; a < w->r.old->mesh.n_axes; a++)
        if (a != w->axis &&
            w->r.old->value[old].type.place[a].kind == TT_REPLICATE)
            n *= w->r.old->mesh.axis[a].size;
    return n;
}

static tt_val squares(tt__replicas *w, tt_val x, int32_t old)
{
    const int32_t first = w->r.b.graph->n_nodes;
    const tt_val sum = tt_sum_squares(&w->r.b, x);
    place_own(w, first);
    return copies(w, old) == 1 ? sum : scaled(w, sum, 1 / copies(w, old));
}

static tt_val total(tt__replicas *w, const tt_val *x, int n)
{
    const int32_t first = w->r.b.graph->n_nodes;
    const tt_val sum = tt_total(&w->r.b, x, n);
    place_own(w, first);
    return sum;
}

// How far each replica is from the model, and how long that is: squares, of this rank's
// parts.
static tt_status add_distance(tt__replicas *w, const tt_val *distance,
                              const tt_val *length, int n)
{
    tt_builder *b = &w->r.b;
    char dims[32];
    snprintf(dims, sizeof dims, "%s:%lld", TT_REPLICA, (long long)w->replicas);
    TT_TRY(tt__copy_aim(b, TT_MEET, 0, "distance"));
    const tt_val own = total(w, distance, n);
    const tt_val all = tt_stack(b, own, dims);
    for (int a = 0; a < b->graph->mesh.n_axes && tt_is(all); a++)
        tt_place_set(b, all, a,
                     a == w->axis ? tt_place_split(0)
                                  : tt_type_of(b, own)->place[a]);
    tt_output(b, "distance", all);
    tt_output(b, "length", total(w, length, n));
    return b->status;
}

// The model's version of a state: the mean, or what agreements have left.
static void begin_meeting(tt__replicas *w, parcel *p)
{
    const tt_replicas_params *o = w->params;
    p->x = again(w, p->s->replica);
    p->model = again(w, p->s->model);
    p->a.x = take(w, p->x);
    p->a.model_out = TT_NONE;
    if (p->s->is_weight &&
        (is_coded(w) || tt_policy_keeps_model(o->policy, o->policy_params)))
        p->a.model = take(w, p->model);
    else
        p->a.model = p->a.model_out = mean_of(w, p->a.x);
}

static tt_status add_meeting(tt__replicas *w, parcel *parcels)
{
    tt_builder *b = &w->r.b;
    tt_val *distance = tt__rewrite_vals(&w->r, w->n_states + 1);
    tt_val *length = tt__rewrite_vals(&w->r, w->n_states + 1);
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
        settle(w, p->model, p->a.model_out);
        if (!s->is_weight)
            continue;
        const int32_t first = b->graph->n_nodes;
        const tt_val apart = tt_policy_add(b, p->a.x, -1, p->a.model);
        place_own(w, first);
        distance[n] = squares(w, apart, s->old);
        length[n++] = squares(w, p->a.model, s->old);
    }
    TT_TRY(b->status);
    return add_distance(w, distance, length, n);
}

// ---- the replicas from the model -----------------------------------------

static tt_status add_spread(tt__replicas *w)
{
    tt_builder *b = &w->r.b;
    const tt_replicas_params *o = w->params;
    const tt_policy_state *state = NULL;
    const int n = tt_policy_states(o->policy, o->policy_params, &state);
    for (int32_t i = 0; i < w->n_states; i++) {
        const tt__replica_state *s = &w->state[i];
        if (!tt_is(s->model))
            continue;
        TT_TRY(tt__copy_aim(b, TT_SPREAD, 0, w->r.old->value[s->old].name));
        const tt_val model = take(w, again(w, s->model));
        settle(w, again(w, s->replica), model);
        settle(w, again(w, s->work), model);
        for (int k = 0; k < n && s->is_weight; k++)
            if (state[k].from_model)
                settle(w, again(w, s->state[k]), model);
    }
    return b->status;
}

tt_status tt__replicas_asides(tt__replicas *w)
{
    const tt_replicas_params *o = w->params;
    parcel *parcels =
        tt__rewrite_array(&w->r, w->n_states + 1, sizeof *parcels);
    TT_TRY(w->r.b.status);
    TT_TRY(add_policy_states(w));
    if (o->policy->parts != NULL)
        divide(w, o->policy->parts(o->policy_params));
    const int n = tt_policy_variants(o->policy, o->policy_params, w->replicas);
    for (int i = 0; i < n; i++)
        TT_TRY(add_agreement(w, parcels, i));
    TT_TRY(add_meeting(w, parcels));
    return add_spread(w);
}
