// coded - see coded.h.

#include "pass/coded.h"

#include "base/rng.h"
#include "ops/codec/packet.h"
#include "ops/comm/comm.h"
#include "ops/comm/replicas.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

#include <stdio.h>
#include <string.h>

// ---- placements ----------------------------------------------------------

// A result is own along an axis where something that the node reads is. Where that lies
// at some stages only, so does the result.
static tt_place place_of(const tt_graph *g, const tt_node *node, int axis)
{
    tt_place place = tt_place_replicate();
    for (int i = 0; i < node->n_in; i++) {
        if (!tt_is(node->in[i]) ||
            (i < 32 && (node->op->shape_only >> i & 1) != 0))
            continue;
        const tt_place *in = &g->value[node->in[i].id].type.place[axis];
        if (in->kind != TT_REPLICATE)
            return tt_place_own();
        if (in->at != 0)
            place.at = place.at == 0 ? in->at : place.at & in->at;
    }
    return place;
}

// Nodes from `first` on run on what each rank has.
void tt__coded_place(const tt__coded_by *by, int32_t first)
{
    tt_graph *g = by->b->graph;
    for (int32_t n = first; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        for (int a = 0; a < g->mesh.n_axes; a++) {
            const tt_place place = place_of(g, node, a);
            for (int i = 0; i < node->n_out; i++)
                tt_place_set(by->b, node->out[i], a, place);
        }
    }
}

// The value as the rank has it, for itself.
static tt_val take_own(const tt__coded_by *by, tt_val x, int64_t drop)
{
    const int32_t first = by->b->graph->n_nodes;
    const tt_val own = tt_own(by->b, x, drop);
    tt__coded_place(by, first);
    return own;
}

// What ranks have for themselves as a value of all of them: dims `dims` at the front
// ("": none).
static tt_val stack(const tt__coded_by *by, tt_val x, const char *dims)
{
    return dims[0] == '\0' ? tt_own(by->b, x, 0) : tt_stack(by->b, x, dims);
}

// The new version of a state, placed as the state is.
static tt_val stack_state(const tt__coded_by *by, tt_val x, tt_val state)
{
    const tt_shape *shape = &tt_type_of(by->b, state)->shape;
    const int more = shape->ndim - tt_type_of(by->b, x)->shape.ndim;
    tt_str dims = {0};
    for (int d = 0; d < more; d++)
        tt_str_addf(&dims, "%s%s:%lld", d > 0 ? " " : "", shape->factor[d].name,
                    (long long)shape->factor[d].size);
    const char *text = tt_str_keep(&dims, by->b->graph->arena);
    const tt_val all = text == NULL ? tt_builder_fail(by->b, TT_ERR_NOMEM)
                                    : stack(by, x, text);
    for (int a = 0; a < by->b->graph->mesh.n_axes && tt_is(all); a++)
        tt_place_set(by->b, all, a, tt_type_of(by->b, state)->place[a]);
    return all;
}

// The codes of all replicas, of which this rank has its own.
static tt_val stack_codes(const tt__coded_by *by, tt_val code)
{
    char dims[32];
    snprintf(dims, sizeof dims, "%s:%lld", TT_REPLICA, (long long)by->replicas);
    const tt_val all = stack(by, code, dims);
    for (int a = 0; a < by->b->graph->mesh.n_axes && tt_is(all); a++)
        tt_place_set(by->b, all, a,
                     a == by->axis ? tt_place_split(0)
                                   : tt_type_of(by->b, code)->place[a]);
    return all;
}

// ---- states --------------------------------------------------------------

// A state, of all replicas or the same in all. Where an axis cuts a factor of x that the state does not have,
// ranks along it have states of their own: a further dim, with the axis's name.
static tt_val add_state(const tt__coded_by *by, const tt_type *type,
                        const tt_codec_state *s, int64_t *drop_out)
{
    const tt_mesh *mesh = &by->b->graph->mesh;
    tt_place place[TT_MAX_AXES] = {{0}};
    tt_shape shape = {0};
    tt_status status =
        s->is_common ? TT_OK : tt_shape_push(&shape, TT_REPLICA, by->replicas);
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
        return tt_builder_fail(by->b, status);
    for (int a = 0; a < mesh->n_axes; a++) {
        if (type->place[a].kind == TT_REPLICATE)
            place[a].at = type->place[a].at;
        if (type->place[a].kind != TT_SPLIT || place[a].kind == TT_SPLIT)
            continue;
        place[a] = type->place[a];
        place[a].factor = tt_shape_find(
            &shape, type->shape.factor[type->place[a].factor].name);
    }
    place[by->axis] = s->is_common ? tt_place_replicate() : tt_place_split(0);
    const tt_val state =
        tt_state(by->b, TT_ROLE_OPTIM, s->name, s->dtype, &shape, s->init);
    for (int a = 0; a < mesh->n_axes && tt_is(state); a++)
        tt_place_set(by->b, state, a, place[a]);
    return state;
}

static tt_status add_states(const tt__coded_by *by, tt__coded *p)
{
    const tt_type type = p->like;
    const tt_codec_state residual = {
        .name = "residual",
        .dtype = tt_dtype_master(type.dtype),
        .shape = type.shape,
        .init = {.kind = TT_INIT_CONST, .of = TT_NONE}};
    tt_codec_state state[TT_CODEC_STATES];
    int64_t drop = 0;
    const bool wants = by->feedback && !by->is_kept && !by->codec->is_lossless;
    p->residual = p->c.residual = TT_NONE;
    if (wants) {
        p->residual = add_state(by, &type, &residual, &drop);
        p->c.residual = take_own(by, p->residual, drop);
    }
    TT_TRY(tt_codec_states(by->codec, by->params, &type, state, &p->n_states));
    for (int i = 0; i < p->n_states; i++) {
        state[i].is_common &= !by->is_alone;
        p->state[i] = add_state(by, &type, &state[i], &drop);
        p->c.state[i] = take_own(by, p->state[i], drop);
    }
    return by->b->status;
}

// The new version of a state, once there is one.
static void settle(const tt__coded_by *by, tt_val *state, tt_val before,
                   tt_val now)
{
    if (!tt_is(*state) || !tt_is(now))
        return;
    if (now.id != before.id)
        tt_update(by->b, *state, stack_state(by, now, *state));
    *state = TT_NONE;
}

// As early as can be: a state that waits needs memory for both versions.
void tt__coded_settle(const tt__coded_by *by, tt__coded *p)
{
    settle(by, &p->residual, p->c.residual, p->c.residual_out);
    for (int i = 0; i < p->n_states; i++)
        settle(by, &p->state[i], p->c.state[i], p->c.state_out[i]);
}

// ---- sending -------------------------------------------------------------

static void add_seeds(const tt__coded_by *by, tt__coded *p, const char *name)
{
    tt_builder *b = by->b;
    tt_replica_seed_params params = {
        .replicas = by->replicas,
        .salt = (int64_t)(tt_hash(name, (int64_t)strlen(name)) >> 12)};
    const tt_val seed = tt_scalar(b, "seed", TT_I64);
    const tt_val each = tt_replica_seed(b, seed, &params);
    tt_place_set(b, each, by->axis, tt_place_split(0));
    p->c.seed = take_own(by, each, 1);
    params.replicas = 0;
    p->c.common_seed = tt_replica_seed(b, seed, &params);
    p->c.step = tt_scalar(b, "step", TT_I64);
}

static bool is_merged(const tt__coded_by *by, const tt_type *x)
{
    if (by->ranks < 2 || by->codec->list == NULL)
        return false;
    return by->sparse == TT_SPARSE_AUTO
               ? tt_codec_merges(by->codec, by->params, x, by->replicas,
                                 by->ranks)
               : by->sparse == TT_SPARSE_MERGE;
}

static tt_status join_one(const tt__coded_by *by, const tt_coding *c,
                          tt_val code, tt_val *joined_out)
{
    const tt_type *x = tt_type_of(by->b, c->x);
    tt_comm_params how = {.packets = true};
    if (c->is_merged) {
        how.merge = tt_shape_count(&x->shape);
        how.value_bytes = tt_packet_value_bytes(x->dtype);
    }
    if (c->join == TT_CODEC_ADDED) {
        // own is another word for a term; of a value that is read elsewhere too
        const tt_val term = tt_own(by->b, code, 0);
        for (int a = 0; a < by->b->graph->mesh.n_axes && tt_is(term); a++)
            tt_place_set(by->b, term, a, tt_type_of(by->b, code)->place[a]);
        tt_place_set(by->b, term, by->axis, tt_place_partial(TT_SUM));
        *joined_out = tt_all_reduce_each(by->b, term, by->axis);
    } else {
        *joined_out =
            tt_all_gather_packets(by->b, stack_codes(by, code), by->axis, &how);
    }
    return by->b->status;
}

// Encodes once more and joins.
static tt_status send_round(const tt__coded_by *by, tt__coded *p, bool is_first)
{
    const int32_t first = by->b->graph->n_nodes;
    TT_TRY(tt_codec_encode(by->b, &p->c, is_first ? NULL : p->joined));
    tt__coded_place(by, first);
    tt__coded_settle(by, p);
    for (int i = 0; i < p->c.n_codes; i++)
        TT_TRY(join_one(by, &p->c, p->c.code[i], &p->joined[i]));
    return TT_OK;
}

// Along other axes a rank decodes its part of the sum. So it is placed as the gradient
// is.
static tt_val give_back(const tt__coded_by *by, const tt__coded *p, tt_val sum)
{
    bool is_own = false;
    for (int a = 0; a < by->b->graph->mesh.n_axes; a++)
        is_own |= tt_type_of(by->b, sum)->place[a].kind == TT_OWN;
    const tt_val part = is_own ? tt_own(by->b, sum, 0) : sum;
    for (int a = 0; a < by->b->graph->mesh.n_axes && tt_is(part); a++)
        if (a != by->axis)
            tt_place_set(by->b, part, a, tt_type_of(by->b, p->x)->place[a]);
    return part;
}

// ---- a value  ------------------------------------------------------------

// Placed as x is, of which it has the shape.
static tt_val zeros(const tt__coded_by *by, tt_val x)
{
    const tt_val zero = tt_fill(by->b, x, 0);
    for (int a = 0; a < by->b->graph->mesh.n_axes && tt_is(zero); a++)
        tt_place_set(by->b, zero, a, tt_type_of(by->b, x)->place[a]);
    return zero;
}

tt_status tt__coded_prepare(const tt__coded_by *by, tt__coded *p, tt_val x,
                            const tt_type *like, const char *name)
{
    *p = (tt__coded){.x = x,
                     .like = *like,
                     .c = {.def = by->codec,
                           .params = by->params,
                           .peers = by->is_alone ? 1 : by->replicas}};
    const int scope = tt_scope_push(by->b, "%s.codec", name);
    TT_TRY(by->b->status);
    TT_TRY(add_states(by, p));
    tt_scope_pop(by->b, scope);
    add_seeds(by, p, name);
    p->c.x = take_own(by, p->x, 0);
    TT_TRY(by->b->status);
    if (by->is_kept && !by->codec->is_lossless)
        p->c.residual = zeros(by, p->c.x);
    p->c.is_merged = is_merged(by, tt_type_of(by->b, p->c.x));
    return TT_OK;
}

tt_status tt__coded_begin(const tt__coded_by *by, tt__coded *p, tt_val x,
                          const tt_type *like, const char *name)
{
    TT_TRY(tt__coded_prepare(by, p, x, like, name));
    return send_round(by, p, true);
}

tt_status tt__coded_again(const tt__coded_by *by, tt__coded *p)
{
    return p->c.is_last ? TT_OK : send_round(by, p, false);
}

tt_status tt__coded_end(const tt__coded_by *by, tt__coded *p, tt_val *sum_out)
{
    const int32_t first = by->b->graph->n_nodes;
    tt_val sum = TT_NONE;
    TT_TRY(tt_codec_decode(by->b, &p->c, p->joined, &sum));
    tt__coded_place(by, first);
    tt__coded_settle(by, p);
    *sum_out = give_back(by, p, sum);
    return by->b->status;
}
