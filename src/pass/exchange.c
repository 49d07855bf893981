// exchange - replicas send codes of their gradients, not the gradients.
//
// The problem. Along the axis of the replicas every gradient is a sum of terms, and the
// partition pass has put a collective where the update reads it. All bytes of all
// gradients are sent in every step.
//
// The idea. Each such collective is replaced: the replica encodes its term, codes are
// joined, and each replica decodes the sum (codec/codec.h).
//
//   before   g  P(sum)/data  -- all_reduce --------------------------------> sum
//
//   after    g -> own -> encode -> code O/data -> all_reduce, or stack and all_gather
//            residual, state -^                    -> decode -> sum
//
// A code is added (numbers, a plain all-reduce) or gathered, as the codec says. What
// replicas keep for themselves is a state with a first dim `replica`, split along the
// axis; so checkpoints, slices and other numbers of ranks need nothing new.
//
//   layouts    a gradient that other axes cut is encoded as the rank holds it. One that is
//              terms along other axes too is summed there first
//   ZeRO       parts of the sum are taken from the decoded whole. Gradients stay whole
//              until then (own_gradients of the partition pass)
//   order      all tensors are encoded before the first is decoded, so that codes travel
//              while others are made
//   needs      pass partition before; pass blocks may follow: then a rank has several
//              replicas
//   left       encoding in backward. It waits for the update now

#include "pass/exchange.h"

#include "base/rng.h"
#include "ops/comm/comm.h"
#include "ops/comm/replicas.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "pass/copy.h"
#include "pass/pass.h"

#include <stdio.h>
#include <string.h>

// One gradient on its way.
typedef struct parcel {
    int32_t old; // the terms, in the old graph
    tt_val x;    // the same in the new graph, summed over other axes
    tt_coding c;
    tt_val residual, state[TT_CODEC_STATES]; // the stacked states; or TT_NONE
    int n_states;
    tt_val joined[TT_CODEC_CODES];
    tt_val sum; // of all replicas
} parcel;

typedef struct work {
    tt__rewrite r;
    const tt_exchange_params *params;
    int axis;
    int64_t replicas;
    int32_t *parcel_of; // old value -> index; -1: is not exchanged
    parcel *parcel;
    int32_t n_parcels;
    bool is_sent;
} work;

// ---- which collectives ---------------------------------------------------

static const tt_node *producer(const tt_graph *g, int32_t v)
{
    return g->value[v].node < 0 ? NULL : &g->node[g->value[v].node];
}

// The offer that made a value, maybe on the way through collectives; NULL: none.
static const tt_node *offer_of(const tt_graph *g, int32_t v)
{
    const tt_node *node = producer(g, v);
    while (node != NULL &&
           (node->op->flags & (TT_OP_COLLECTIVE | TT_OP_ALIAS)) != 0)
        node = producer(g, node->in[0].id);
    return node != NULL && node->op == &tt_op_offer ? node : NULL;
}

static bool is_sum(const tt_node *node)
{
    return node->op == &tt_op_all_reduce || node->op == &tt_op_reduce_scatter;
}

static bool is_exchange(const work *w, const tt_node *node)
{
    if (!is_sum(node) || !tt_is(node->in[0]) ||
        ((const tt_comm_params *)node->params)->axis != w->axis)
        return false;
    const int32_t v = node->in[0].id;
    return w->r.old->value[v].type.place[w->axis].kind == TT_PARTIAL &&
           offer_of(w->r.old, v) != NULL;
}

static tt_status find_parcels(work *w)
{
    const tt_graph *g = w->r.old;
    for (int32_t v = 0; v < g->n_values; v++)
        w->parcel_of[v] = -1;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        if (!is_exchange(w, node) || w->parcel_of[node->in[0].id] >= 0)
            continue;
        if (node->phase != TT_UPDATE)
            return tt_fail(TT_ERR_UNSUPPORTED,
                           "%s: its gradient is summed over replicas before "
                           "the update, where no codec can be",
                           node->origin);
        w->parcel_of[node->in[0].id] = w->n_parcels;
        w->parcel[w->n_parcels++].old = node->in[0].id;
    }
    return TT_OK;
}

// ---- placements ----------------------------------------------------------

// Nodes from `first` on run on what each rank has: a result is own along an axis where
// something that the node reads is.
static void place_own(work *w, int32_t first)
{
    tt_graph *g = w->r.b.graph;
    for (int32_t n = first; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        for (int a = 0; a < g->mesh.n_axes; a++) {
            bool is_own = false;
            for (int i = 0; i < node->n_in; i++)
                is_own |=
                    tt_is(node->in[i]) &&
                    (i >= 32 || !(node->op->shape_only >> i & 1)) &&
                    g->value[node->in[i].id].type.place[a].kind != TT_REPLICATE;
            for (int i = 0; i < node->n_out; i++)
                tt_place_set(&w->r.b, node->out[i], a,
                             is_own ? tt_place_own() : tt_place_replicate());
        }
    }
}

// The value as the rank has it, for itself.
static tt_val take_own(work *w, tt_val x, int64_t drop)
{
    const int32_t first = w->r.b.graph->n_nodes;
    const tt_val own = tt_own(&w->r.b, x, drop);
    place_own(w, first);
    return own;
}

// What ranks have for themselves as a value of all of them: dims `dims` at the front
// ("": none).
static tt_val stack(work *w, tt_val x, const char *dims)
{
    return dims[0] == '\0' ? tt_own(&w->r.b, x, 0) : tt_stack(&w->r.b, x, dims);
}

// The new version of a state, placed as the state is.
static tt_val stack_state(work *w, tt_val x, tt_val state)
{
    const tt_shape *shape = &tt_type_of(&w->r.b, state)->shape;
    const int more = shape->ndim - tt_type_of(&w->r.b, x)->shape.ndim;
    tt_str dims = {0};
    for (int d = 0; d < more; d++)
        tt_str_addf(&dims, "%s%s:%lld", d > 0 ? " " : "", shape->factor[d].name,
                    (long long)shape->factor[d].size);
    const char *text = tt_str_keep(&dims, w->r.b.graph->arena);
    const tt_val all = text == NULL ? tt_builder_fail(&w->r.b, TT_ERR_NOMEM)
                                    : stack(w, x, text);
    for (int a = 0; a < w->r.b.graph->mesh.n_axes && tt_is(all); a++)
        tt_place_set(&w->r.b, all, a, tt_type_of(&w->r.b, state)->place[a]);
    return all;
}

// The codes of all replicas, of which this rank has its own.
static tt_val stack_codes(work *w, tt_val code)
{
    char dims[32];
    snprintf(dims, sizeof dims, "%s:%lld", TT_REPLICA, (long long)w->replicas);
    const tt_val all = stack(w, code, dims);
    for (int a = 0; a < w->r.b.graph->mesh.n_axes && tt_is(all); a++)
        tt_place_set(&w->r.b, all, a,
                     a == w->axis ? tt_place_split(0)
                                  : tt_type_of(&w->r.b, code)->place[a]);
    return all;
}

// ---- states --------------------------------------------------------------

// A state, of all replicas or the same in all. Where an axis cuts a factor of x that the state does not have,
// ranks along it have states of their own: a further dim, with the axis's name.
static tt_val add_state(work *w, tt_val x, const tt_codec_state *s,
                        int64_t *drop_out)
{
    const tt_mesh *mesh = &w->r.b.graph->mesh;
    const tt_type *type = tt_type_of(&w->r.b, x);
    tt_place place[TT_MAX_AXES] = {{0}};
    tt_shape shape = {0};
    tt_status status =
        s->is_common ? TT_OK : tt_shape_push(&shape, TT_REPLICA, w->replicas);
    for (int a = 0; a < mesh->n_axes && status == TT_OK; a++) {
        if (type->place[a].kind != TT_SPLIT ||
            tt_shape_find(&s->shape,
                          type->shape.factor[type->place[a].factor].name) >= 0)
            continue;
        place[a] = tt_place_split(shape.n_factors);
        status = tt_shape_push(&shape, mesh->axis[a].name, mesh->axis[a].size);
    }
    *drop_out = shape.ndim;
    for (int d = 0; d < s->shape.ndim && status == TT_OK; d++)
        status = tt_shape_push_dim(&shape, &s->shape, d);
    if (status != TT_OK)
        return tt_builder_fail(&w->r.b, status);
    for (int a = 0; a < mesh->n_axes; a++) {
        if (type->place[a].kind != TT_SPLIT || place[a].kind == TT_SPLIT)
            continue;
        place[a] = type->place[a];
        place[a].factor = tt_shape_find(
            &shape, type->shape.factor[type->place[a].factor].name);
    }
    place[w->axis] = s->is_common ? tt_place_replicate() : tt_place_split(0);
    const tt_val state =
        tt_state(&w->r.b, TT_ROLE_OPTIM, s->name, s->dtype, &shape, s->init);
    for (int a = 0; a < mesh->n_axes && tt_is(state); a++)
        tt_place_set(&w->r.b, state, a, place[a]);
    return state;
}

static tt_status add_states(work *w, parcel *p)
{
    const tt_type type = *tt_type_of(&w->r.b, p->x);
    const tt_codec_state residual = {
        .name = "residual",
        .dtype = tt_dtype_master(type.dtype),
        .shape = type.shape,
        .init = {.kind = TT_INIT_CONST, .of = TT_NONE}};
    tt_codec_state state[TT_CODEC_STATES];
    int64_t drop = 0;
    const bool wants = w->params->feedback && !w->params->codec->is_lossless;
    p->residual = p->c.residual = TT_NONE;
    if (wants) {
        p->residual = add_state(w, p->x, &residual, &drop);
        p->c.residual = take_own(w, p->residual, drop);
    }
    TT_TRY(tt_codec_states(w->params->codec, w->params->codec_params, &type,
                           state, &p->n_states));
    for (int i = 0; i < p->n_states; i++) {
        p->state[i] = add_state(w, p->x, &state[i], &drop);
        p->c.state[i] = take_own(w, p->state[i], drop);
    }
    return w->r.b.status;
}

// The new version of a state, once there is one.
static void settle(work *w, tt_val *state, tt_val before, tt_val now)
{
    if (!tt_is(*state) || !tt_is(now))
        return;
    if (now.id != before.id)
        tt_update(&w->r.b, *state, stack_state(w, now, *state));
    *state = TT_NONE;
}

// As early as can be: a state that waits needs memory for both versions.
static void settle_all(work *w, parcel *p)
{
    settle(w, &p->residual, p->c.residual, p->c.residual_out);
    for (int i = 0; i < p->n_states; i++)
        settle(w, &p->state[i], p->c.state[i], p->c.state_out[i]);
}

// ---- sending -------------------------------------------------------------

static void add_seeds(work *w, parcel *p, const char *name)
{
    tt_builder *b = &w->r.b;
    tt_replica_seed_params params = {
        .replicas = w->replicas,
        .salt = (int64_t)(tt_hash(name, (int64_t)strlen(name)) >> 12)};
    const tt_val seed = tt_scalar(b, "seed", TT_I64);
    const tt_val each = tt_replica_seed(b, seed, &params);
    tt_place_set(b, each, w->axis, tt_place_split(0));
    p->c.seed = take_own(w, each, 1);
    params.replicas = 0;
    p->c.common_seed = tt_replica_seed(b, seed, &params);
    p->c.step = tt_scalar(b, "step", TT_I64);
}

static tt_status join_one(work *w, const tt_coding *c, tt_val code,
                          tt_val *joined_out)
{
    if (c->join == TT_CODEC_ADDED) {
        // own is another word for a term; of a value that is read elsewhere too
        const tt_val term = tt_own(&w->r.b, code, 0);
        for (int a = 0; a < w->r.b.graph->mesh.n_axes && tt_is(term); a++)
            tt_place_set(&w->r.b, term, a, tt_type_of(&w->r.b, code)->place[a]);
        tt_place_set(&w->r.b, term, w->axis, tt_place_partial(TT_SUM));
        *joined_out = tt_all_reduce_each(&w->r.b, term, w->axis);
    } else {
        *joined_out = tt_all_gather(&w->r.b, stack_codes(w, code), w->axis);
    }
    return w->r.b.status;
}

// Encodes once more and joins.
static tt_status send_round(work *w, parcel *p, bool is_first)
{
    const int32_t first = w->r.b.graph->n_nodes;
    TT_TRY(tt_codec_encode(&w->r.b, &p->c, is_first ? NULL : p->joined));
    place_own(w, first);
    settle_all(w, p);
    for (int i = 0; i < p->c.n_codes; i++)
        TT_TRY(join_one(w, &p->c, p->c.code[i], &p->joined[i]));
    return TT_OK;
}

// The weight whose gradient it is: the name of states, and the key of random numbers.
static const char *name_of(const work *w, const parcel *p)
{
    const tt_node *offer = offer_of(w->r.old, p->old);
    int32_t v = offer->in[0].id;
    for (const tt_node *n = producer(w->r.old, v);
         n != NULL && (n->op->flags & (TT_OP_ALIAS | TT_OP_COLLECTIVE)) != 0;
         n = producer(w->r.old, v))
        v = n->in[0].id;
    if (w->r.old->value[v].role == TT_ROLE_WORK)
        v = w->r.old->value[v].init.of.id;
    return w->r.old->value[v].name;
}

static tt_status aim(work *w, const parcel *p)
{
    const char *name = name_of(w, p);
    TT_TRY(tt__copy_aim(&w->r.b, TT_UPDATE, 0, name));
    return TT_OK;
}

static tt_status begin(work *w, parcel *p)
{
    const int n_axes = w->r.b.graph->mesh.n_axes;
    const char *name = name_of(w, p);
    TT_TRY(aim(w, p));
    p->x = w->r.kept[p->old];
    for (int a = 0; a < n_axes && tt_is(p->x); a++)
        if (a != w->axis &&
            tt_type_of(&w->r.b, p->x)->place[a].kind == TT_PARTIAL)
            p->x = tt_all_reduce(&w->r.b, p->x, a, TT_SUM);
    p->c = (tt_coding){.def = w->params->codec,
                       .params = w->params->codec_params,
                       .peers = w->replicas};
    const int scope = tt_scope_push(&w->r.b, "%s.codec", name);
    TT_TRY(w->r.b.status);
    TT_TRY(add_states(w, p));
    tt_scope_pop(&w->r.b, scope);
    add_seeds(w, p, name);
    p->c.x = take_own(w, p->x, 0);
    return send_round(w, p, true);
}

// Along other axes a rank decodes its part of the sum. So it is placed as the gradient
// is.
static tt_val give_back(work *w, const parcel *p, tt_val sum)
{
    bool is_own = false;
    for (int a = 0; a < w->r.b.graph->mesh.n_axes; a++)
        is_own |= tt_type_of(&w->r.b, sum)->place[a].kind == TT_OWN;
    const tt_val part = is_own ? tt_own(&w->r.b, sum, 0) : sum;
    for (int a = 0; a < w->r.b.graph->mesh.n_axes && tt_is(part); a++)
        if (a != w->axis)
            tt_place_set(&w->r.b, part, a, tt_type_of(&w->r.b, p->x)->place[a]);
    return part;
}

static tt_status end(work *w, parcel *p)
{
    const int32_t first = w->r.b.graph->n_nodes;
    tt_val sum = TT_NONE;
    TT_TRY(aim(w, p));
    TT_TRY(tt_codec_decode(&w->r.b, &p->c, p->joined, &sum));
    place_own(w, first);
    settle_all(w, p);
    p->sum = give_back(w, p, sum);
    return w->r.b.status;
}

static tt_status send_all(work *w)
{
    for (int32_t i = 0; i < w->n_parcels; i++)
        TT_TRY(begin(w, &w->parcel[i]));
    for (int32_t i = 0; i < w->n_parcels; i++)
        if (!w->parcel[i].c.is_last) {
            TT_TRY(aim(w, &w->parcel[i]));
            TT_TRY(send_round(w, &w->parcel[i], false));
        }
    for (int32_t i = 0; i < w->n_parcels; i++)
        TT_TRY(end(w, &w->parcel[i]));
    w->is_sent = true;
    return TT_OK;
}

// ---- the graph -----------------------------------------------------------

// Whether a sum along another axis has been taken already.
static bool is_done(const work *w, const tt_node *node)
{
    const tt_comm_params *p = node->params;
    return is_sum(node) && tt_is(node->in[0]) &&
           w->r.old->value[node->in[0].id].type.place[p->axis].kind ==
               TT_PARTIAL &&
           tt_type_of(&w->r.b, w->r.kept[node->in[0].id])
                   ->place[p->axis]
                   .kind == TT_REPLICATE;
}

// What readers of a sum read instead.
static tt_val sum_of(work *w, const tt_node *node, tt_val sum)
{
    const tt_comm_params *p = node->params;
    return node->op == &tt_op_all_reduce
               ? sum
               : tt_take(&w->r.b, sum, (int)p->axis, p->factor);
}

static tt_status do_node(void *pass, int32_t n)
{
    work *w = pass;
    const tt_node *node = &w->r.old->node[n];
    if (node->phase == TT_UPDATE && !w->is_sent)
        TT_TRY(send_all(w));
    tt__rewrite_inputs(&w->r, node->in, node->n_in);
    const bool is_coded = is_exchange(w, node);
    if (!is_coded && !is_done(w, node))
        return tt__copy_node(&w->r.b, w->r.old, node, w->r.in, node->n_in,
                             w->r.kept);
    TT_TRY(tt__copy_aim(&w->r.b, node->phase, node->stage, node->origin));
    w->r.kept[node->out[0].id] = sum_of(
        w, node,
        is_coded ? w->parcel[w->parcel_of[node->in[0].id]].sum : w->r.in[0]);
    return w->r.b.status;
}

static tt_status find_axis(work *w)
{
    const tt_mesh *mesh = &w->r.old->mesh;
    const char *name = w->params->axis == NULL ? "data" : w->params->axis;
    for (w->axis = 0; w->axis < mesh->n_axes; w->axis++)
        if (strcmp(mesh->axis[w->axis].name, name) == 0) {
            w->replicas = mesh->axis[w->axis].size;
            return TT_OK;
        }
    return tt_fail(TT_ERR_ARG, "the mesh has no axis %s", name);
}

static tt_status allocate(work *w)
{
    const tt_graph *g = w->r.old;
    int64_t sums = 1;
    for (int32_t n = 0; n < g->n_nodes; n++)
        sums += is_sum(&g->node[n]);
    w->parcel_of = tt__rewrite_array(&w->r, g->n_values, sizeof *w->parcel_of);
    w->parcel = tt__rewrite_array(&w->r, sums, sizeof *w->parcel);
    return w->r.b.status;
}

// Leaves come first: codecs read scalars that may come late.
static tt_status rewrite(work *w)
{
    TT_TRY(find_axis(w));
    TT_TRY(allocate(w));
    TT_TRY(find_parcels(w));
    TT_TRY(tt__rewrite_leaves(&w->r));
    TT_TRY(tt__rewrite_nodes(&w->r, w, do_node));
    return tt__copy_ends(&w->r.b, w->r.old, w->r.kept);
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    work w = {.params = params};
    tt_status status = tt__rewrite_begin(&w.r, in, 0);
    if (status == TT_OK)
        status = rewrite(&w);
    return tt__rewrite_end(&w.r, status, out);
}

const tt_pass_def tt_pass_exchange = {
    .name = "exchange",
    .doc = "Send codes of gradients instead of gradients.",
    .params_bytes = sizeof(tt_exchange_params),
    .apply = apply,
    .tested_by = "tests/train/test_exchange.c",
};
