// replicas_aside - what replicas do between steps, as segments of their own.
//
//   agree.i   variant i of the policy's agreement, for every weight of its part; then those
//             of the policy between groups
//   land.i    what agreement i does with what came, if replicas go on before they have it
//   meet.0    the model from the replicas (replicas_model.c)
//   spread.0  the replicas from the model
//
// A group speaks to others through its model: the one that its policy keeps (a centre), or
// the mean of its replicas. What comes of it moves all of them by as much, or only the
// centre, if that is what its replicas follow:
//
//   replicas   x0 x1 x2 x3 | x4 x5 x6 x7      agree inside, every few steps
//   speaker         s0     |     s1           agree with each other, every many steps
//                     \___ s __/
//
// Each reads states through leaves of its own (TT_ROLE_AGAIN), and leaves new ones. All
// weights are sent before the first that came is used, so that they travel while others
// are made ready.
//
// Where a policy has late variants (average with a delay), an agreement is cut where it would
// wait: agree.i sends a copy of what the weights are, since the steps in between change
// them; land.i takes what came. Messages travel while these steps run:
//
//   agree.0 | step | step | land.0 agree.1      agree.1: the late variant
//      [ flights ---------- ]
//
//   memory   an agreement holds what all weights of its part have sent; one that is left on
//            its way holds it while steps run
//   layouts  a weight that other axes cut is taken as the rank holds it: an agreement is
//            arithmetic on elements

#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "ops/comm/replicas.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/optim/clip.h"
#include "ops/shape/move.h"
#include "pass/replicas_mass.h"

#include <stdio.h>

// One state on its way through a segment.
typedef struct parcel {
    const tt__replica_state *s;
    int level;
    tt_val x, group, model;         // leaves
    tt_val own;                     // what the replica has
    tt_val state[TT_POLICY_STATES]; // leaves
    tt_agreement a;
    tt__coded coded;
    tt__mixed mixed[TT_POLICY_GOT];
} parcel;

bool tt__replicas_is_coded(const tt__replicas *w)
{
    return w->params->codec != NULL;
}

static tt__coded_by coded_by(tt__replicas *w)
{
    return (tt__coded_by){.b = &w->r.b,
                          .codec = w->params->codec,
                          .params = w->params->codec_params,
                          .feedback = w->params->feedback,
                          .is_kept = w->level[0].policy->keeps_rest,
                          .axis = w->level[0].axis,
                          .replicas = w->level[0].n};
}

// ---- placements ----------------------------------------------------------

// Nodes from `first` on run on what each rank has: a result is own along an axis where
// something that the node reads is.
void tt__replicas_place(tt__replicas *w, int32_t first)
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

tt_val tt__replicas_scaled(tt__replicas *w, tt_val x, double by)
{
    const int32_t first = w->r.b.graph->n_nodes;
    const tt_val y = tt_scale(&w->r.b, x, by);
    tt__replicas_place(w, first);
    return y;
}

static tt_val cast(tt__replicas *w, tt_val x, tt_dtype dtype)
{
    const int32_t first = w->r.b.graph->n_nodes;
    if (tt_type_of(&w->r.b, x)->dtype == dtype)
        return x;
    const tt_val y = tt_cast(&w->r.b, x, dtype);
    tt__replicas_place(w, first);
    return y;
}

// ---- states --------------------------------------------------------------

tt_val tt__replicas_again(tt__replicas *w, tt_val state)
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
tt_val tt__replicas_read(tt__replicas *w, tt_val leaf)
{
    if (!tt_is(leaf))
        return TT_NONE;
    const tt_type *type = tt_type_of(&w->r.b, leaf);
    const tt_dtype dtype = tt_dtype_master(type->dtype);
    const int drop = tt__replicas_dims(w, type);
    return cast(w, tt__replicas_take(w, leaf, drop), dtype);
}

void tt__replicas_settle(tt__replicas *w, tt_val leaf, tt_val x)
{
    if (!tt_is(leaf) || !tt_is(x))
        return;
    x = cast(w, x, tt_type_of(&w->r.b, leaf)->dtype);
    tt_update(&w->r.b, leaf, tt__replicas_stack(w, x, leaf));
}

// ---- sending -------------------------------------------------------------

static tt_val sum_of(tt__replicas *w, int level, tt_val x)
{
    tt_builder *b = &w->r.b;
    const tt__level *l = &w->level[level];
    const tt_val term = tt_own(b, x, 0); // another word for a term
    for (int a = 0; a < b->graph->mesh.n_axes && tt_is(term); a++)
        tt_place_set(b, term, a, tt_type_of(b, x)->place[a]);
    tt_place_set(b, term, l->axis, tt_place_partial(TT_SUM));
    return tt_all_reduce(b, term, l->axis, TT_SUM);
}

static tt_val mean_of(tt__replicas *w, int level, tt_val sum)
{
    return tt__replicas_scaled(w, sum, 1 / (double)w->level[level].n);
}

tt_val tt__replicas_mean(tt__replicas *w, int level, tt_val x)
{
    return mean_of(w, level, sum_of(w, level, x));
}

// Whether replicas go on before they have what they agreed about.
static bool is_cut(const tt__level *l)
{
    return l->policy->late != NULL &&
           tt_policy_variants(l->policy, l->params, l->n) >
               l->policy->parts(l->params);
}

// Steps change the weights while the sum is on its way: what travels is a copy.
static tt_val as_sent(tt__replicas *w, const parcel *p, tt_val x)
{
    return is_cut(&w->level[p->level]) ? tt__replicas_scaled(w, x, 1) : x;
}

// By codes of the mean, or by numbers.
static tt_status send_to_all(tt__replicas *w, parcel *p)
{
    if (tt__replicas_is_coded(w)) {
        const tt__coded_by by = coded_by(w);
        tt_type like = w->r.old->value[p->s->old].type;
        like.dtype = tt_type_of(&w->r.b, p->a.sent)->dtype;
        return tt__coded_begin(&by, &p->coded, p->a.sent, &like,
                               w->r.old->value[p->s->old].name);
    }
    p->a.got[0] = sum_of(w, p->level, as_sent(w, p, p->a.sent));
    if (tt_is(p->a.also))
        p->a.got[1] = sum_of(w, p->level, as_sent(w, p, p->a.also));
    return w->r.b.status;
}

static tt_status send(tt__replicas *w, const tt__mix *mix, parcel *p)
{
    static const char *const label[TT_POLICY_GOT] = {"mix", "also"};
    const tt__level *l = &w->level[p->level];
    const bool is_one = tt_policy_variants(l->policy, l->params, l->n) == 1;
    if (mix->n == 0)
        return send_to_all(w, p);
    for (int i = 0; i < (tt_is(p->a.also) ? 2 : 1); i++) {
        char name[32];
        if (is_one)
            snprintf(name, sizeof name, "%s", label[i]);
        else
            snprintf(name, sizeof name, "%s%d", label[i], mix->variant);
        p->mixed[i] = (tt__mixed){.x = i == 0 ? p->a.sent : p->a.also,
                                  .old = p->s->old,
                                  .from_model = i == 0};
        TT_TRY(tt__mix_send(w, mix, &p->mixed[i], name));
    }
    return TT_OK;
}

static tt_status receive(tt__replicas *w, tt__mix *mix, parcel *p)
{
    if (mix->n > 0) {
        TT_TRY(tt__mix_take(w, mix, &p->mixed[0], &p->a.got[0]));
        return tt_is(p->a.also)
                   ? tt__mix_take(w, mix, &p->mixed[1], &p->a.got[1])
                   : TT_OK;
    }
    if (tt__replicas_is_coded(w)) {
        const tt__coded_by by = coded_by(w);
        tt_val sum = TT_NONE;
        TT_TRY(tt__coded_end(&by, &p->coded, &sum));
        p->a.got[0] = sum;
    }
    p->a.got[0] = mean_of(w, p->level, p->a.got[0]);
    if (tt_is(p->a.also))
        p->a.got[1] = mean_of(w, p->level, p->a.got[1]);
    return w->r.b.status;
}

// ---- agreements ----------------------------------------------------------

static tt_status aim(tt__replicas *w, const parcel *p)
{
    return tt__copy_aim(&w->r.b, TT_AGREE,
                        w->level[p->level].first + p->a.variant,
                        w->r.old->value[p->s->old].name);
}

// Where an agreement goes on once something has come.
static tt_status aim_end(tt__replicas *w, const parcel *p)
{
    const tt__level *l = &w->level[p->level];
    TT_TRY(aim(w, p));
    w->r.b.phase = is_cut(l) ? TT_LAND : TT_AGREE;
    return TT_OK;
}

// What speaks for the replica at its level: its weights; of a group its model, or the mean
// of its replicas.
static tt_val speaker(tt__replicas *w, parcel *p)
{
    const tt_val x = tt__replicas_read(w, p->x);
    p->own = x;
    if (p->level == 0)
        return x;
    return tt_is(p->group)
               ? tt__replicas_read(w, p->group)
               : tt__replicas_mean(w, 0, tt__replicas_counted(w, p->s, 0, x));
}

// The model's leaf and those of states, in the segment that is being made.
static tt_status open_states(tt__replicas *w, parcel *p)
{
    const tt__level *l = &w->level[p->level];
    const tt_policy_state *state = NULL;
    const bool is_top = p->level == w->n_levels - 1;
    p->group = tt__replicas_again(w, p->s->group);
    p->model = is_top ? tt__replicas_again(w, p->s->model) : p->group;
    p->a.model = tt__replicas_read(w, p->model);
    const int n = tt_policy_states(l->policy, l->params, &state);
    for (int i = 0; i < TT_POLICY_STATES; i++) {
        p->state[i] =
            i < n ? tt__replicas_again(w, p->s->state[p->level][i]) : TT_NONE;
        p->a.state[i] = tt__replicas_read(w, p->state[i]);
        p->a.state_out[i] = TT_NONE;
    }
    return w->r.b.status;
}

// Leaves, and what the policy reads of them.
static tt_status open_parcel(tt__replicas *w, parcel *p)
{
    const tt__level *l = &w->level[p->level];
    TT_TRY(aim(w, p));
    const bool is_led =
        p->level > 0 && tt_is(p->s->group) && w->level[0].policy->model_leads;
    p->x = is_led ? TT_NONE : tt__replicas_again(w, p->s->replica);
    TT_TRY(open_states(w, p));
    p->a.params = l->params;
    p->a.replicas = l->n;
    p->a.is_coded = tt__replicas_is_coded(w);
    p->a.x = speaker(w, p);
    p->a.x_out = p->a.model_out = p->a.also = TT_NONE;
    p->a.sent = p->a.x;
    return w->r.b.status;
}

static tt_status begin(tt__replicas *w, const tt__mix *mix, parcel *p)
{
    tt_builder *b = &w->r.b;
    const tt__level *l = &w->level[p->level];
    TT_TRY(open_parcel(w, p));
    const int32_t first = b->graph->n_nodes;
    if (l->policy->send != NULL)
        TT_TRY(l->policy->send(b, &p->a));
    tt__replicas_place(w, first);
    return send(w, mix, p);
}

static void settle_replica(tt__replicas *w, const parcel *p, tt_val x)
{
    tt__replicas_settle(w, p->x, x);
    tt__replicas_settle(w, tt__replicas_again(w, p->s->work), x);
}

// What groups agreed about moves the group's model, and by as much each of its replicas,
// unless they follow the model by themselves.
static void move_group(tt__replicas *w, const parcel *p)
{
    tt_builder *b = &w->r.b;
    tt__replicas_settle(w, p->group, p->a.x_out);
    if (!tt_is(p->own))
        return;
    const int32_t first = b->graph->n_nodes;
    const tt_val by = tt_policy_add(b, p->a.x_out, -1, p->a.x);
    const tt_val x = tt_add(b, p->own, by);
    tt__replicas_place(w, first);
    settle_replica(w, p, x);
}

// States first: the policy may have kept what the model was.
static tt_status close_parcel(tt__replicas *w, const parcel *p)
{
    for (int i = 0; i < TT_POLICY_STATES; i++)
        tt__replicas_settle(w, p->state[i], p->a.state_out[i]);
    if (tt_is(p->a.x_out) && p->level == 0)
        settle_replica(w, p, p->a.x_out);
    else if (tt_is(p->a.x_out))
        move_group(w, p);
    tt__replicas_settle(w, p->model, p->a.model_out);
    return w->r.b.status;
}

static tt_status end(tt__replicas *w, tt__mix *mix, tt_val per_mass, parcel *p)
{
    tt_builder *b = &w->r.b;
    const tt__level *l = &w->level[p->level];
    p->a.per_mass = per_mass;
    TT_TRY(aim_end(w, p));
    if (is_cut(l))
        TT_TRY(open_states(w, p));
    TT_TRY(receive(w, mix, p));
    const int32_t first = b->graph->n_nodes;
    TT_TRY(l->policy->take(b, &p->a));
    tt__replicas_place(w, first);
    return close_parcel(w, p);
}

// A weight of another part, of which nothing is sent.
static tt_status pass_by(tt__replicas *w, parcel *p)
{
    const tt_policy_def *policy = w->level[p->level].policy;
    if (policy->rest == NULL || !p->s->is_weight)
        return TT_OK;
    TT_TRY(open_parcel(w, p));
    const int32_t first = w->r.b.graph->n_nodes;
    TT_TRY(policy->rest(&w->r.b, &p->a));
    tt__replicas_place(w, first);
    return close_parcel(w, p);
}

static bool is_in(const tt__replicas *w, const tt__replica_state *s, int level,
                  int variant)
{
    return s->is_weight &&
           (w->level[level].policy->parts == NULL || s->part[level] == variant);
}

static bool is_late(const tt__level *l, int variant)
{
    return l->policy->late != NULL && variant >= l->policy->parts(l->params);
}

// Weights of a part get what was agreed about them before.
static tt_status add_late(tt__replicas *w, int level, int variant)
{
    const tt__level *l = &w->level[level];
    const int part = variant - l->policy->parts(l->params);
    for (int32_t i = 0; i < w->n_states; i++) {
        parcel p = {.s = &w->state[i], .level = level};
        p.a.variant = variant;
        if (!is_in(w, p.s, level, part))
            continue;
        TT_TRY(open_parcel(w, &p));
        const int32_t first = w->r.b.graph->n_nodes;
        TT_TRY(l->policy->late(&w->r.b, &p.a));
        tt__replicas_place(w, first);
        TT_TRY(close_parcel(w, &p));
    }
    return TT_OK;
}

static tt_status add_agreement(tt__replicas *w, parcel *parcels, int level,
                               int variant)
{
    if (is_late(&w->level[level], variant))
        return add_late(w, level, variant);
    int32_t n = 0;
    tt__mix mix;
    tt__mass mass;
    tt_val per_mass;
    TT_TRY(tt__mix_begin(w, &w->level[level], variant, &mix));
    TT_TRY(tt__copy_aim(&w->r.b, TT_AGREE, w->level[level].first + variant,
                        "exchange.mass"));
    TT_TRY(tt__mass_send(w, &mix, level, &mass));
    for (int32_t i = 0; i < w->n_states; i++) {
        parcel *p = &parcels[n];
        *p = (parcel){.s = &w->state[i], .level = level};
        p->a.variant = variant;
        if (is_in(w, &w->state[i], level, variant)) {
            TT_TRY(begin(w, &mix, p));
            n++;
        } else {
            TT_TRY(pass_by(w, p));
        }
    }
    const tt__coded_by by = coded_by(w);
    for (int32_t i = 0; i < n && tt__replicas_is_coded(w) && mix.n == 0; i++) {
        TT_TRY(aim_end(w, &parcels[i]));
        TT_TRY(tt__coded_again(&by, &parcels[i].coded));
    }
    TT_TRY(tt__copy_aim(&w->r.b, TT_AGREE, w->level[level].first + variant,
                        "exchange.mass"));
    TT_TRY(tt__mass_take(w, &mix, &mass, &per_mass));
    for (int32_t i = 0; i < n; i++)
        TT_TRY(end(w, &mix, per_mass, &parcels[i]));
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
static void divide(tt__replicas *w, int level, int parts)
{
    int64_t all = 1, before = 0;
    for (int32_t i = 0; i < w->n_states; i++)
        all += bytes_of(w, &w->state[i]);
    for (int32_t i = 0; i < w->n_states; i++) {
        const int64_t bytes = bytes_of(w, &w->state[i]);
        w->state[i].part[level] =
            (int32_t)(((double)before + 0.5 * (double)bytes) * parts /
                      (double)all);
        before += bytes;
    }
}

static tt_status add_policy_states(tt__replicas *w, int level)
{
    const tt__level *l = &w->level[level];
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    const tt_policy_state *state = NULL;
    const int n = tt_policy_states(l->policy, l->params, &state);
    const int above = w->n_levels - level - 1;
    char name[64];
    for (int32_t i = 0; i < w->n_states; i++)
        for (int k = 0; k < n && w->state[i].is_weight; k++) {
            snprintf(name, sizeof name, "%s%s.%s", level > 0 ? "outer." : "",
                     l->policy->name, state[k].name);
            w->state[i].state[level][k] =
                tt__replicas_state(w, w->state[i].old, name,
                                   above + (state[k].is_common ? 0 : 1), zero);
        }
    return w->r.b.status;
}

// The model of a group, where its policy keeps one.
static tt_status add_group_models(tt__replicas *w)
{
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    const tt__level *l = &w->level[0];
    if (w->n_levels == 1 || !tt_policy_keeps_model(l->policy, l->params))
        return TT_OK;
    for (int32_t i = 0; i < w->n_states; i++)
        if (w->state[i].is_weight)
            w->state[i].group =
                tt__replicas_state(w, w->state[i].old, TT_GROUP, 1, zero);
    return w->r.b.status;
}

// What the host keeps for each replica, where steps between agreements are not fixed.
static tt_status add_period(tt__replicas *w)
{
    const tt__level *top = &w->level[w->n_levels - 1];
    if (!tt_policy_is_retimed(top->policy, top->params))
        return TT_OK;
    return tt__replicas_numbers(w, TT_PERIOD, TT_PERIOD_NUMBERS);
}

tt_status tt__replicas_asides(tt__replicas *w)
{
    parcel *parcels =
        tt__rewrite_array(&w->r, w->n_states + 1, sizeof *parcels);
    int64_t values = 1;
    for (int i = 0; i < w->n_levels; i++)
        values += (int64_t)TT_POLICY_GOT * w->n_states *
                  tt_policy_variants(w->level[i].policy, w->level[i].params,
                                     w->level[i].n);
    w->shared = tt__rewrite_array(&w->r, values, sizeof *w->shared);
    TT_TRY(w->r.b.status);
    TT_TRY(add_group_models(w));
    TT_TRY(add_period(w));
    for (int i = 0; i < w->n_levels; i++) {
        const tt__level *l = &w->level[i];
        TT_TRY(add_policy_states(w, i));
        TT_TRY(tt__mass_begin(w, i));
        if (l->policy->parts != NULL)
            divide(w, i, l->policy->parts(l->params));
        const int n = tt_policy_variants(l->policy, l->params, l->n);
        for (int k = 0; k < n; k++)
            TT_TRY(add_agreement(w, parcels, i, k));
    }
    TT_TRY(tt__replicas_meeting(w));
    return tt__replicas_spread(w);
}
