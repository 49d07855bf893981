// partition - splits a whole graph over a mesh by one propagation.
//
// The problem. Data, tensor, sequence, context, expert and spatial parallelism and
// ZeRO could each be a pass of its own. Every pair of them would then have to be
// made to work together.
//
// The idea. All of them are statements about where parts of values lie. `layout`
// (dimension names to mesh axes) and `zero` place the leaves: inputs, weights and
// state. The rest follows, node by node: each node takes the signature that sends
// the fewest bytes, given where its inputs are. Where a placement must change, a
// collective is inserted.
//
//   for each axis of the mesh, `pipe` first:      split_axis
//     mark weights, and what ZeRO splits          stay.c, zero.c
//     for each value of the old graph, in order:  rewrite
//       a leaf      place it                      leaves.c
//       a node      choose a signature            choose.c; of a pipeline: stages.c
//                   convert its inputs            versions.c
//                   emit it, or its expand        emit
//     outputs are whole on every rank             mark_outputs
//
// One axis at a time keeps it simple: a signature speaks of one axis, and the graph
// of one axis is the input of the next. A collective of an earlier axis is then an
// ordinary node, which moves whatever part this axis has.
//
// Ring attention, vocabulary-parallel loss and synchronised batch norm are
// signatures whose operators emit their own communication (`expand`).
//
// Data parallelism is the layout batch:data. Gradients are then terms of a sum over
// ranks. They stay terms over all micro-batches and are reduced where the update
// reads them, once a step. So are the outputs, which the host reads whole.
//
//   needs    a graph with forward, backward and update, placed on no axis yet
//   cost     of the pass: one visit per node and axis; of the result: what
//            placement.c says of each conversion
//   left     a search over several nodes at once. The choice is greedy; choose.c has
//            the two corrections that make it find the known good layouts

#include "pass/partition/partition.h"

#include "base/alloc.h"
#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "pass/copy.h"
#include "pass/partition/cut.h"
#include "pass/pass.h"

#include <string.h>

static tt_status copy_leaf(tt__cut *c, int32_t id)
{
    tt_place place;
    const tt_val val = tt_leaf_copy(&c->b, c->old, (tt_val){id});
    TT_TRY(c->b.status);
    tt_value *value = &c->b.graph->value[val.id];
    if (value->init.kind == TT_INIT_COPY && tt_role_is_state(value->role))
        value->init.of = tt__original(c, value->init.of.id);
    TT_TRY(tt__leaf_place(c, id, &place));
    tt_place_set(&c->b, val, c->axis, place);
    return tt__version_add(c, id, val);
}

// ---- one node ------------------------------------------------------------

static void place_outputs(tt__cut *c, const tt_node *node, const tt_sig *sig,
                          const tt_val *out)
{
    for (int i = 0; i < node->n_out; i++) {
        const tt_value *old = &c->old->value[node->out[i].id];
        for (int a = 0; a < c->b.graph->mesh.n_axes; a++)
            tt_place_set(&c->b, out[i], a, old->type.place[a]);
        tt_place_set(&c->b, out[i], c->axis, sig->out[i]);
    }
}

// All that an expand emitted runs where the node runs.
static void keep_at(tt__cut *c, const tt_node *node, int32_t first)
{
    tt_graph *g = c->b.graph;
    const tt_type *like = &c->old->value[node->out[0].id].type;
    for (int32_t n = first; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_out; i++)
            for (int a = 0; a < g->mesh.n_axes; a++)
                if (a != c->axis && like->place[a].at != 0)
                    g->value[g->node[n].out[i].id].type.place[a] =
                        like->place[a];
}

static tt_status emit(tt__cut *c, const tt_node *node, const tt_sig *sig,
                      int n_in, tt_val *out)
{
    if (sig->expand != NULL) {
        const int32_t first = c->b.graph->n_nodes;
        TT_TRY(sig->expand(&c->b, node, sig, c->axis, c->val, out));
        keep_at(c, node, first);
        return TT_OK;
    }
    (void)tt_call(&c->b, node->op, node->params, c->val, n_in, out);
    TT_TRY(c->b.status);
    place_outputs(c, node, sig, out);
    return TT_OK;
}

// The new version of a state lies where the state lies.
static tt_status settle_updates(tt__cut *c, const tt_node *node)
{
    for (int i = 0; i < node->n_out; i++) {
        const tt_val state = c->old->value[node->out[i].id].updates;
        if (!tt_is(state))
            continue;
        tt_val val;
        const tt_val home = tt__original(c, state.id);
        const tt_place place = *tt__place_of(c, home);
        TT_TRY(tt__version_convert(c, node->out[i].id, &place, &val));
        tt_update(&c->b, home, val);
    }
    return TT_OK;
}

// Whether both lie at the same stages. A weight that two stages read has terms at each.
static bool lie_together(const tt__cut *c, tt_val a, tt_val b)
{
    const tt_type *x = &c->old->value[a.id].type;
    const tt_type *y = &c->old->value[b.id].type;
    for (int axis = 0; axis < c->old->mesh.n_axes; axis++)
        if (x->place[axis].at != y->place[axis].at)
            return false;
    return true;
}

// Several terms of a gradient that is summed in the backward pass are added
// before that, so that it is sent once.
static bool can_add_terms(const tt__cut *c, const tt_node *node)
{
    if (!tt__must_finish(c, node) || node->n_in <= 2)
        return false; // others may lack inputs
    for (int i = 1; i < node->n_in; i++)
        if (tt__place_of(c, tt__original(c, node->in[i].id))->kind !=
                TT_PARTIAL ||
            !lie_together(c, node->in[1], node->in[i]))
            return false;
    return true;
}

static tt_status add_terms(tt__cut *c, const tt_node *node, const tt_sig *sig)
{
    tt_val sum = tt__original(c, node->in[1].id);
    for (int i = 2; i < node->n_in; i++) {
        const tt_val like = sum;
        sum = tt_add(&c->b, sum, tt__original(c, node->in[i].id));
        tt_place_as(&c->b, sum, c->axis, tt_place_partial(TT_SUM), like);
    }
    c->val[0] = tt__original(c, node->in[0].id);
    c->val[1] = tt_place_convert(&c->b, sum, c->axis, *tt__sig_in(sig, 1));
    return c->b.status;
}

static tt_status read_inputs(tt__cut *c, const tt_node *node, const tt_sig *sig)
{
    for (int i = 0; i < node->n_in; i++) {
        const tt_place *want = tt__sig_in(sig, i);
        const int32_t old = node->in[i].id;
        c->val[i] = TT_NONE;
        if (tt_is(node->in[i]) && tt__is_shape_only(node, i))
            c->val[i] = tt__version_shaped(c, old, want);
        else if (tt_is(node->in[i]))
            TT_TRY(tt__version_convert(c, old, want, &c->val[i]));
    }
    return TT_OK;
}

// Chooses how the node is placed and brings its inputs (c->val) there.
static tt_status prepare(tt__cut *c, const tt_node *node, tt_sig *sig,
                         int *n_in_out)
{
    *n_in_out = node->n_in;
    if (c->is_pipe)
        return tt__stages_inputs(c, node, sig);
    const tt_sig *chosen = tt__choose(c, node);
    if (chosen == NULL)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s (%s) has no placement that fits its inputs",
                       node->origin, node->op->name);
    *sig = *chosen;
    if (!can_add_terms(c, node))
        return read_inputs(c, node, sig);
    *n_in_out = 2;
    return add_terms(c, node, sig);
}

static tt_status do_node(tt__cut *c, const tt_node *node)
{
    tt_val out[TT_MAX_OUT];
    tt_sig sig;
    int n_in = 0;
    TT_TRY(tt__copy_aim(&c->b, node->phase, node->stage, node->origin));
    TT_TRY(prepare(c, node, &sig, &n_in));
    for (int i = 0; i < TT_MAX_OUT; i++)
        out[i] = TT_NONE;
    tt_node emitted;
    TT_TRY(tt__widen(c, node, &sig, &emitted));
    TT_TRY(emit(c, &emitted, &sig, n_in, out));
    for (int i = 0; i < node->n_out; i++) {
        if (!tt_is(out[i]))
            return tt_fail(TT_ERR_STATE, "%s (%s) left output %d out",
                           node->origin, node->op->name, i);
        TT_TRY(tt__version_add(c, node->out[i].id, out[i]));
    }
    return settle_updates(c, node);
}

// ---- one axis ------------------------------------------------------------

static bool is_whole(const tt_place *place)
{
    return place->kind != TT_PARTIAL && place->at == 0;
}

// What the host reads is whole on every rank. Tallies are sums over micro-batches,
// so sums over ranks are taken once, after the last of them.
static tt_status mark_outputs(tt__cut *c)
{
    const tt_place whole = tt_place_replicate();
    for (int32_t o = 0; o < c->old->n_outputs; o++) {
        const tt_graph_output *output = &c->old->output[o];
        tt_val val = tt__original(c, output->val.id);
        if (!is_whole(tt__place_of(c, val)) &&
            !(c->is_pipe && c->params->stage_outputs)) {
            TT_TRY(tt__copy_aim(&c->b, TT_UPDATE, 0, output->name));
            TT_TRY(tt__version_convert(c, output->val.id, &whole, &val));
        }
        tt_output(&c->b, output->name, val);
    }
    return c->b.status;
}

static tt_status rewrite(tt__cut *c)
{
    const tt_graph *old = c->old;
    for (int32_t v = 0; v < old->n_values; v++) {
        const tt_value *value = &old->value[v];
        if (value->node < 0)
            TT_TRY(copy_leaf(c, v));
        else if (value->slot == 0)
            TT_TRY(do_node(c, &old->node[value->node]));
    }
    for (int32_t v = 0; v < old->n_values; v++)
        if (tt_is(old->value[v].grad))
            c->b.graph->value[tt__original(c, v).id].grad =
                tt__finished(c, old->value[v].grad.id);
    return mark_outputs(c);
}

static tt_status allocate(tt__cut *c)
{
    const tt_graph *old = c->old;
    const int64_t values = old->n_values;
    int64_t widest = 2;
    for (int32_t n = 0; n < old->n_nodes; n++)
        widest = old->node[n].n_in > widest ? old->node[n].n_in : widest;
    c->first = tt_alloc((int64_t)sizeof *c->first * values);
    c->shard = tt_alloc((int64_t)sizeof *c->shard * values);
    c->is_held = tt_alloc(values);
    c->is_weight = tt_alloc(values);
    c->at = tt_alloc((int64_t)sizeof *c->at * values);
    c->in = tt_alloc((int64_t)sizeof *c->in * widest);
    c->val = tt_alloc((int64_t)sizeof *c->val * widest);
    if (!c->first || !c->shard || !c->is_held || !c->is_weight || !c->at ||
        !c->in || !c->val)
        return tt_fail(TT_ERR_NOMEM, "no memory to partition a graph");
    for (int32_t v = 0; v < old->n_values; v++)
        c->first[v] = -1;
    return TT_OK;
}

static const char *zero_axis(const tt_partition_params *p)
{
    return p->zero_axis == NULL ? "data" : p->zero_axis;
}

static tt_status split_axis(const tt_graph *old, const tt_mesh *mesh, int axis,
                            const tt_partition_params *p,
                            const tt_layout *layout, tt_graph **out)
{
    static const tt_grad_ops none = {0};
    static const tt_layout no_rules = {0};
    const int size = mesh->axis[axis].size;
    tt__cut *c = tt_alloc(sizeof *c);
    if (c == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to partition a graph");
    *c = (tt__cut){.old = old,
                   .params = p,
                   .layout = size > 1 ? layout : &no_rules,
                   .axis = axis,
                   .size = size,
                   .is_pipe = axis == tt_mesh_pipe(mesh)};
    if (size > 1 && strcmp(mesh->axis[axis].name, zero_axis(p)) == 0) {
        c->zero = p->zero;
        c->is_canonical = p->canonical;
    }
    tt_status status = tt_builder_init(&c->b, &none);
    if (status == TT_OK) {
        c->b.graph->mesh = *mesh;
        status = allocate(c);
    }
    if (status == TT_OK) {
        tt__weights_mark(c);
        c->cuts_weights = tt__axis_cuts_weights(c);
        tt__zero_mark(c);
        if (c->is_pipe)
            tt__stages_mark(c);
        status = rewrite(c);
    }
    if (status == TT_OK)
        status = tt_builder_take(&c->b, out);
    tt_builder_fini(&c->b);
    tt_free(c->versions);
    tt_free(c->first);
    tt_free(c->shard);
    tt_free(c->is_held);
    tt_free(c->is_weight);
    tt_free(c->at);
    tt_free(c->in);
    tt_free(c->val);
    tt_free(c);
    return status;
}

// ---- the pass ------------------------------------------------------------

static tt_status parse_mesh(const char *text, tt_mesh *mesh)
{
    tt_shape shape;
    const tt_status status = tt_shape_parse(text, &shape);
    if (status != TT_OK)
        return tt_fail_context(status, "mesh");
    if (shape.ndim != shape.n_factors || shape.ndim > TT_MAX_AXES)
        return tt_fail(TT_ERR_ARG, "mesh \"%s\" is not like data:2 tensor:4",
                       text);
    *mesh = (tt_mesh){.n_axes = shape.ndim};
    for (int a = 0; a < shape.ndim; a++) {
        memcpy(mesh->axis[a].name, shape.factor[a].name, TT_NAME_BYTES);
        mesh->axis[a].size = (int32_t)shape.factor[a].size;
    }
    return TT_OK;
}

static tt_status check_mesh(const tt_mesh *mesh, const tt_partition_params *p)
{
    if (mesh->n_axes == 0)
        return tt_fail(TT_ERR_ARG, "the mesh has no axis");
    for (int a = 0; a < mesh->n_axes; a++)
        if (strcmp(mesh->axis[a].name, zero_axis(p)) == 0)
            return TT_OK;
    return p->zero == 0 ? TT_OK
                        : tt_fail(TT_ERR_ARG,
                                  "zero splits over axis %s, which the mesh "
                                  "%s does not have",
                                  zero_axis(p), p->mesh);
}

// The axis of stages comes first: no other axis has changed yet what the terms of a
// weight's gradient are.
static tt_status split_all(const tt_graph *in, const tt_mesh *mesh,
                           const tt_partition_params *p,
                           const tt_layout *layout, tt_graph **out)
{
    tt_graph *last = NULL;
    for (int turn = 0; turn < 2; turn++)
        for (int a = 0; a < mesh->n_axes; a++) {
            tt_graph *next = NULL;
            if ((a == tt_mesh_pipe(mesh)) != (turn == 0))
                continue;
            const tt_status status =
                split_axis(last == NULL ? in : last, mesh, a, p, layout, &next);
            tt_graph_destroy(last);
            if (status != TT_OK)
                return tt_fail_context(status, "axis %s", mesh->axis[a].name);
            last = next;
        }
    *out = last;
    return TT_OK;
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    const tt_partition_params *p = params;
    tt_mesh mesh;
    tt_layout layout = {0};
    TT_TRY(parse_mesh(p->mesh, &mesh));
    TT_TRY(check_mesh(&mesh, p));
    if (p->rules != NULL)
        return split_all(in, &mesh, p, p->rules, out);
    tt_arena *arena = tt_arena_create();
    tt_status status =
        arena == NULL ? tt_fail(TT_ERR_NOMEM, "no memory for a layout")
                      : tt_layout_parse(p->layout, "layout", arena, &layout);
    if (status == TT_OK)
        status = split_all(in, &mesh, p, &layout, out);
    tt_arena_destroy(arena);
    return status;
}

static const tt_opt options[] = {
    {"mesh", "", "axes and sizes: data:2 tensor:4", TT_OPT_STR,
     offsetof(tt_partition_params, mesh)},
    {"layout", "", "dimension names to axes: batch:data heads:tensor",
     TT_OPT_STR, offsetof(tt_partition_params, layout)},
    {"zigzag", "", "the axis along which seq goes zigzag", TT_OPT_STR,
     offsetof(tt_partition_params, zigzag)},
    {"way", "any", "how attention to a split sequence is computed; any is ring",
     TT_OPT_CHOICE, offsetof(tt_partition_params, way), "any|ring|exchange"},
    {"zero", "0",
     "what is split over the replicas: 1 the optimiser's state, 2 gradients "
     "too, 3 weights too",
     TT_OPT_I64, offsetof(tt_partition_params, zero), .min = 0, .max = 3},
    {"zero_axis", "data", "the axis of the replicas", TT_OPT_STR,
     offsetof(tt_partition_params, zero_axis)},
    {"zero_small", "0.02",
     "tensors that together are this share of a rank's weights stay whole",
     TT_OPT_F64, offsetof(tt_partition_params, zero_small), .min = 0, .max = 1},
    {"canonical", "false",
     "gradients are summed over replicas before micro-batches", TT_OPT_BOOL,
     offsetof(tt_partition_params, canonical)},
    {"own_gradients", "false",
     "gradients are not summed over replicas before the update", TT_OPT_BOOL,
     offsetof(tt_partition_params, own_gradients)},
    {"wide", "false", "terms of 16-bit sums in the forward pass are in 32 bits",
     TT_OPT_BOOL, offsetof(tt_partition_params, wide)},
    {0},
};

static const char *const samples[] = {"mesh=data:2 layout=batch:data", NULL};

const tt_pass_def tt_pass_partition = {
    .name = "partition",
    .doc = "Split a graph over a mesh by a layout of named dimensions.",
    .options = options,
    .params_bytes = sizeof(tt_partition_params),
    .apply = apply,
    .samples = samples,
};
