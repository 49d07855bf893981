// replicas - each replica has weights, optimiser state and statistics of its own.
//
// The problem. Policies that let replicas train by themselves for a while need a step in
// which replicas know nothing of each other, and agreements in between.
//
// The idea. The graph comes partitioned for one replica, with an axis of as many ranks as
// there are replicas, along which nothing is split. Everything that the step changes is
// made own along that axis. Pass blocks then gives each rank several replicas.
//
//   before   x   [batch]            w  [a b]      x, w -> step -> loss, new w
//
//   after    x   [replica batch]    w.replica  [replica a b]     S(replica) / data
//              own                    own                        O / data
//                \-------- step -------/ -> new w -> stack -> w.replica
//                             \-> loss -> stack -> loss [replica]
//            w   [a b]    stays, as the model
//
//   inputs     have a first dim `replica`: the samples of all replicas
//   states     NAME.replica, with a first dim `replica`. What the step does not change
//              (frozen weights) is shared
//   groups     of replicas are a second axis, and a dim `group` before the first; then
//              there are two levels of agreements
//   outputs    one number for each replica
//   model      weights, statistics and averages by their old names: replicas_aside.c makes
//              them of the replicas, and the replicas of them
//   sent       by a step: nothing along the axis
//   needs      pass partition before, with nothing split along the axis

#include "pass/replicas.h"

#include "ops/comm/replicas.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "pass/pass.h"

#include <string.h>

// ---- placements ----------------------------------------------------------

tt_val tt__replicas_take(tt__replicas *w, tt_val x, int64_t drop)
{
    tt_builder *b = &w->r.b;
    const tt_val own = tt_own(b, x, drop);
    for (int a = 0; a < b->graph->mesh.n_axes && tt_is(own); a++)
        tt_place_set(b, own, a,
                     tt_type_of(b, x)->place[a].kind == TT_REPLICATE
                         ? tt_place_replicate()
                         : tt_place_own());
    return own;
}

// The type of all replicas' values together: dims at the front, split along the axes of
// the highest `levels` levels.
static tt_status widen(const tt__replicas *w, const tt_type *type, int levels,
                       tt_type *wide_out)
{
    tt_type wide = {.dtype = type->dtype};
    for (int i = w->n_levels - 1; i >= w->n_levels - levels; i--)
        TT_TRY(tt_shape_push(&wide.shape, i > 0 ? TT_GROUP : TT_REPLICA,
                             w->level[i].n));
    for (int d = 0; d < type->shape.ndim; d++)
        TT_TRY(tt_shape_push_dim(&wide.shape, &type->shape, d));
    for (int a = 0; a < w->r.old->mesh.n_axes; a++) {
        wide.place[a] = type->place[a];
        if (wide.place[a].kind == TT_SPLIT)
            wide.place[a].factor += levels;
    }
    for (int i = 0; i < levels; i++)
        wide.place[w->level[w->n_levels - 1 - i].axis] = tt_place_split(i);
    *wide_out = wide;
    return TT_OK;
}

int tt__replicas_dims(const tt__replicas *w, const tt_type *type)
{
    int n = 0;
    for (int i = 0; i < w->n_levels; i++)
        n += type->place[w->level[i].axis].kind == TT_SPLIT;
    return n;
}

static void place(tt__replicas *w, tt_val v, const tt_place *places)
{
    for (int a = 0; a < w->r.b.graph->mesh.n_axes && tt_is(v); a++)
        tt_place_set(&w->r.b, v, a, places[a]);
}

// The first `n` dims of a shape, as text.
static const char *front(tt__replicas *w, const tt_shape *shape, int n)
{
    tt_str text = {0};
    for (int i = 0; i < n; i++)
        tt_str_addf(&text, "%s%s:%lld", i > 0 ? " " : "", shape->factor[i].name,
                    (long long)shape->factor[i].size);
    return tt_str_keep(&text, w->r.b.graph->arena);
}

static tt_val stack_as(tt__replicas *w, tt_val x, const tt_type *type)
{
    tt_builder *b = &w->r.b;
    const int n = tt__replicas_dims(w, type);
    const char *dims = front(w, &type->shape, n);
    if (dims == NULL)
        return tt_builder_fail(b, TT_ERR_NOMEM);
    const tt_val all = n > 0 ? tt_stack(b, x, dims) : tt_own(b, x, 0);
    place(w, all, type->place);
    return all;
}

tt_val tt__replicas_stack(tt__replicas *w, tt_val x, tt_val state)
{
    const tt_type type = *tt_type_of(&w->r.b, state);
    return stack_as(w, x, &type);
}

tt_val tt__replicas_number(tt__replicas *w, tt_val x)
{
    tt_type own = *tt_type_of(&w->r.b, x), wide;
    if (widen(w, &own, w->n_levels, &wide) != TT_OK)
        return tt_builder_fail(&w->r.b, TT_ERR_STATE);
    return stack_as(w, x, &wide);
}

tt_val tt__replicas_extra(tt__replicas *w, const char *name, const tt_type *own,
                          int levels, tt_init init)
{
    tt_type wide;
    if (widen(w, own, levels, &wide) != TT_OK)
        return tt_builder_fail(&w->r.b, TT_ERR_STATE);
    const tt_val v =
        tt_state(&w->r.b, TT_ROLE_OPTIM, name, own->dtype, &wide.shape, init);
    place(w, v, wide.place);
    return v;
}

tt_status tt__replicas_numbers(tt__replicas *w, const char *name, int64_t n)
{
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    tt_type own = {.dtype = TT_F64};
    TT_TRY(tt_shape_push(&own.shape, "number", n));
    (void)tt__replicas_extra(w, name, &own, w->n_levels, zero);
    return w->r.b.status;
}

tt_val tt__replicas_state(tt__replicas *w, int32_t old, const char *suffix,
                          int levels, tt_init init)
{
    tt_builder *b = &w->r.b;
    const tt_value *value = &w->r.old->value[old];
    tt_type type;
    if (widen(w, &value->type, levels, &type) != TT_OK)
        return tt_builder_fail(b, TT_ERR_STATE);
    if (strcmp(suffix, TT_REPLICA) != 0)
        type.dtype = tt_dtype_master(type.dtype);
    const char *name =
        tt_arena_printf(b->graph->arena, "%s.%s", value->name, suffix);
    if (name == NULL)
        return tt_builder_fail(b, TT_ERR_NOMEM);
    const tt_val v =
        tt_state(b, TT_ROLE_OPTIM, name, type.dtype, &type.shape, init);
    place(w, v, type.place);
    return v;
}

static void place_replica(tt__replicas *w, tt_val v)
{
    for (int i = 0; i < w->n_levels && tt_is(v); i++)
        tt_place_set(&w->r.b, v, w->level[i].axis, tt_place_own());
}

// The replica's own part of a value of all replicas, placed like an old value.
static tt_val own_like(tt__replicas *w, tt_val wide, int32_t old)
{
    const tt_val own = tt_own(&w->r.b, wide, w->n_levels);
    place(w, own, w->r.old->value[old].type.place);
    place_replica(w, own);
    return own;
}

// ---- leaves --------------------------------------------------------------

// The samples of all replicas; of first_sample, where those of each begin.
static tt_status add_input(tt__replicas *w, int32_t v)
{
    tt_builder *b = &w->r.b;
    const tt_value *value = &w->r.old->value[v];
    tt_graph from = {0};
    tt_value wide = *value;
    TT_TRY(widen(w, &value->type, w->n_levels, &wide.type));
    wide.role = TT_ROLE_INPUT;
    from.value = &wide;
    const tt_val leaf = tt_leaf_copy(b, &from, (tt_val){0});
    TT_TRY(tt__copy_aim(b, TT_FORWARD, 0, value->name));
    w->r.kept[v] = own_like(w, leaf, v);
    w->is_own[v] = true;
    return b->status;
}

static tt_status add_shared(tt__replicas *w, int32_t v)
{
    TT_TRY(tt__copy_leaf(&w->r.b, w->r.old, v, w->model_of));
    w->r.kept[v] = w->model_of[v];
    return TT_OK;
}

static bool has_model(tt_role role)
{
    return role == TT_ROLE_PARAM || role == TT_ROLE_BUFFER ||
           role == TT_ROLE_EMA;
}

// What the model has starts as ever; its replicas are made of it (spread).
static tt_status add_state(tt__replicas *w, int32_t v)
{
    tt_builder *b = &w->r.b;
    const tt_value *value = &w->r.old->value[v];
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    tt__replica_state *s = &w->state[w->state_of[v]];
    const bool is_made = has_model(value->role) || value->role == TT_ROLE_WORK;
    *s = (tt__replica_state){.old = v,
                             .model = TT_NONE,
                             .work = TT_NONE,
                             .group = TT_NONE,
                             .is_weight = value->role == TT_ROLE_PARAM};
    if (has_model(value->role)) {
        TT_TRY(tt__copy_leaf(b, w->r.old, v, w->model_of));
        s->model = w->model_of[v];
    }
    s->replica = tt__replicas_state(w, v, TT_REPLICA, w->n_levels,
                                    is_made ? zero : value->init);
    TT_TRY(b->status);
    TT_TRY(tt__copy_aim(b, TT_FORWARD, 0, value->name));
    w->r.kept[v] = own_like(w, s->replica, v);
    w->is_own[v] = true;
    if (value->role == TT_ROLE_WORK)
        w->state[w->state_of[value->init.of.id]].work = s->replica;
    return b->status;
}

static tt_status add_leaf(tt__replicas *w, int32_t v)
{
    const tt_value *value = &w->r.old->value[v];
    if (value->role == TT_ROLE_INPUT ||
        (value->role == TT_ROLE_SCALAR &&
         strcmp(value->name, "first_sample") == 0))
        return add_input(w, v);
    return w->state_of[v] >= 0 ? add_state(w, v) : add_shared(w, v);
}

// States that the step changes.
static void find_states(tt__replicas *w)
{
    const tt_graph *g = w->r.old;
    for (int32_t v = 0; v < g->n_values; v++)
        w->state_of[v] = -1;
    for (int32_t v = 0; v < g->n_values; v++)
        if (tt_is(g->value[v].updates))
            w->state_of[g->value[v].updates.id] = 0;
    for (int32_t v = 0; v < g->n_values; v++)
        if (w->state_of[v] == 0)
            w->state_of[v] = w->n_states++;
}

// ---- nodes ---------------------------------------------------------------

static bool reads_own(const tt__replicas *w, const tt_node *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (tt_is(node->in[i]) && w->is_own[node->in[i].id])
            return true;
    return false;
}

static tt_status do_node(void *pass, int32_t n)
{
    tt__replicas *w = pass;
    tt_builder *b = &w->r.b;
    const tt_node *node = &w->r.old->node[n];
    const bool is_own = reads_own(w, node);
    tt_val out[TT_MAX_OUT];
    tt__rewrite_inputs(&w->r, node->in, node->n_in);
    TT_TRY(tt__copy_aim(b, node->phase, node->stage, node->origin));
    (void)tt_call(b, node->op, node->params, w->r.in, node->n_in, out);
    TT_TRY(b->status);
    for (int i = 0; i < node->n_out; i++) {
        const int32_t v = node->out[i].id;
        const tt_val updates = w->r.old->value[v].updates;
        w->r.kept[v] = out[i];
        w->is_own[v] = is_own;
        place(w, out[i], w->r.old->value[v].type.place);
        if (is_own)
            place_replica(w, out[i]);
        if (!tt_is(updates))
            continue;
        const tt_val state = w->state[w->state_of[updates.id]].replica;
        tt_update(b, state, tt__replicas_stack(w, out[i], state));
    }
    return b->status;
}

// One number of each replica, made once, when all micro-batches are through.
static tt_status add_outputs(tt__replicas *w)
{
    tt_builder *b = &w->r.b;
    for (int32_t o = 0; o < w->r.old->n_outputs; o++) {
        const tt_graph_output *output = &w->r.old->output[o];
        const int32_t v = output->val.id;
        TT_TRY(tt__copy_aim(b, TT_UPDATE, 0, output->name));
        tt_output(b, output->name, tt__replicas_number(w, w->r.kept[v]));
    }
    return b->status;
}

// ---- the graph -----------------------------------------------------------

static tt_status check_leaf(const tt__replicas *w, int32_t v)
{
    const tt_value *value = &w->r.old->value[v];
    for (int i = 0; i < w->n_levels; i++) {
        const int axis = w->level[i].axis;
        if (value->type.place[axis].kind != TT_REPLICATE)
            return tt_fail(
                TT_ERR_UNSUPPORTED,
                "%s is split along %s, where replicas have all of it",
                value->name, w->r.old->mesh.axis[axis].name);
    }
    return TT_OK;
}

static tt_status find_level(tt__replicas *w, const tt_replicas_level *level,
                            int first)
{
    const tt_mesh *mesh = &w->r.old->mesh;
    for (int a = 0; a < mesh->n_axes; a++)
        if (strcmp(mesh->axis[a].name, level->axis) == 0) {
            w->level[w->n_levels++] = (tt__level){.axis = a,
                                                  .n = mesh->axis[a].size,
                                                  .policy = level->policy,
                                                  .params = level->params,
                                                  .first = first};
            return TT_OK;
        }
    return tt_fail(TT_ERR_ARG, "the mesh has no axis %s", level->axis);
}

// Agreements of the second level are numbered after those of the first.
static tt_status find_levels(tt__replicas *w)
{
    int first = 0;
    for (int i = 0; i < w->params->n_levels; i++) {
        TT_TRY(find_level(w, &w->params->level[i], first));
        first += tt_policy_variants(w->level[i].policy, w->level[i].params,
                                    w->level[i].n);
    }
    return TT_OK;
}

static tt_status rewrite(tt__replicas *w)
{
    const int64_t values = w->r.old->n_values;
    TT_TRY(find_levels(w));
    w->state_of = tt__rewrite_array(&w->r, values, sizeof *w->state_of);
    w->is_own = tt__rewrite_array(&w->r, values, sizeof *w->is_own);
    w->model_of = tt__rewrite_vals(&w->r, values);
    w->state = tt__rewrite_array(&w->r, values + 1, sizeof *w->state);
    TT_TRY(w->r.b.status);
    find_states(w);
    for (int32_t v = 0; v < values; v++)
        if (w->r.old->value[v].node < 0) {
            TT_TRY(check_leaf(w, v));
            TT_TRY(add_leaf(w, v));
        }
    TT_TRY(tt__rewrite_nodes(&w->r, w, do_node));
    TT_TRY(add_outputs(w));
    return tt__replicas_asides(w);
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    tt__replicas w = {.params = params};
    tt_status status = tt__rewrite_begin(&w.r, in, 0);
    if (status == TT_OK)
        status = rewrite(&w);
    return tt__rewrite_end(&w.r, status, out);
}

const tt_pass_def tt_pass_replicas = {
    .name = "replicas",
    .doc = "Give each replica weights and states of its own.",
    .params_bytes = sizeof(tt_replicas_params),
    .apply = apply,
    .tested_by = "tests/train/test_replicas.c",
};
