// partition - splits a whole graph over a mesh by one propagation.
//
//   before   every value whole
//   after    every value placed; collectives where placements must change
//
// Leaves (inputs, weights, state) are placed by `layout`: dimension names to mesh
// axes. Axis after axis, each node takes the signature that moves the fewest bytes
// given where its inputs are; ring attention, vocabulary-parallel loss and the
// like come from the operators' expand. A converted value is kept for later users.
//
//   needs    a graph with forward, backward and update, placed on no axis yet

#include "base/alloc.h"
#include "ops/comm.h"
#include "ops/ops.h"
#include "pass/pass.h"
#include "pass/placement.h"

#include <string.h>

typedef struct params {
    const char *mesh;   // "data:2 tensor:4"
    const char *layout; // "batch:data heads:tensor vocab:tensor"
} params;

// One version of an old value in the new graph; versions form a list.
typedef struct version {
    tt_val val;
    int32_t next; // -1: last
} version;

typedef struct work {
    const tt_graph *old;
    tt_builder b;
    int axis, size;
    const char *layout;
    int32_t *first; // per old value: its versions
    version *versions;
    int32_t n_versions, capacity;
    tt_type *in; // room for one node's inputs
    tt_val *val;
    tt_sigs sigs;
} work;

static tt_status add_version(work *w, int32_t old, tt_val val)
{
    if (w->n_versions == w->capacity) {
        const int32_t capacity = w->capacity == 0 ? 64 : 2 * w->capacity;
        version *grown =
            tt_realloc(w->versions, (int64_t)sizeof *grown * w->capacity,
                       (int64_t)sizeof *grown * capacity);
        if (grown == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory to partition a graph");
        w->versions = grown;
        w->capacity = capacity;
    }
    w->versions[w->n_versions] = (version){val, w->first[old]};
    w->first[old] = w->n_versions++;
    return TT_OK;
}

static const tt_place *place_of(const work *w, tt_val val)
{
    return &w->b.graph->value[val.id].type.place[w->axis];
}

// The axis that a dimension name is mapped to by "name:axis name:axis".
static bool layout_maps(const char *layout, const char *name, const char *axis)
{
    const size_t n = strlen(name), m = strlen(axis);
    for (const char *p = layout; p != NULL && *p != '\0'; p = strchr(p, ' ')) {
        while (*p == ' ' || *p == ',')
            p++;
        if (strncmp(p, name, n) == 0 && p[n] == ':' &&
            strncmp(p + n + 1, axis, m) == 0 &&
            (p[n + 1 + m] == '\0' || p[n + 1 + m] == ' ' ||
             p[n + 1 + m] == ','))
            return true;
    }
    return false;
}

// Where the layout puts a leaf. Optimiser state and work copies have the shape
// of their weight, so they follow it. What is too small is everywhere; but too few
// samples would leave ranks without work.
static tt_status leaf_place(const work *w, const tt_value *value,
                            tt_place *place_out)
{
    const tt_mesh *mesh = &w->b.graph->mesh;
    const tt_shape *shape = &value->type.shape;
    *place_out = tt_place_replicate();
    for (int f = 0; f < shape->n_factors; f++) {
        const tt_factor *factor = &shape->factor[f];
        if (!layout_maps(w->layout, factor->name, mesh->axis[w->axis].name))
            continue;
        if (tt_can_split(&value->type, f, w->size)) {
            *place_out = tt_place_split(f);
            return TT_OK;
        }
        if (value->role == TT_ROLE_INPUT && f == 0)
            return tt_fail(
                TT_ERR_ARG,
                "%s has a %s of %lld, too few for %d ranks; nearest: %s %d, or "
                "%lld rank%s",
                value->name, factor->name, (long long)factor->size, w->size,
                factor->name, w->size, (long long)factor->size,
                factor->size == 1 ? "" : "s");
    }
    return TT_OK;
}

static tt_status copy_leaf(work *w, int32_t id)
{
    const tt_val val = tt_leaf_copy(&w->b, w->old, (tt_val){id});
    TT_TRY(w->b.status);
    tt_value *value = &w->b.graph->value[val.id];
    if (value->init.kind == TT_INIT_COPY && tt_role_is_state(value->role))
        value->init.of = w->versions[w->first[value->init.of.id]].val;
    tt_place place;
    TT_TRY(leaf_place(w, value, &place));
    tt_place_set(&w->b, val, w->axis, place);
    return add_version(w, id, val);
}

// Whether a version is a copy with a halo: its overlaps are the same entries twice,
// which converting it would add up. In an operator's own result they are terms.
static bool is_halo(const work *w, int32_t v)
{
    return w->versions[v].next >= 0 &&
           place_of(w, w->versions[v].val)->window.out != 0;
}

// The cheapest version of an old value for a wanted placement.
static int32_t best_version(const work *w, int32_t old, const tt_place *want,
                            double *bytes_out)
{
    int32_t best = -1;
    for (int32_t v = w->first[old]; v >= 0; v = w->versions[v].next) {
        const tt_val val = w->versions[v].val;
        if (is_halo(w, v) && !tt_place_equal(place_of(w, val), want))
            continue;
        const double bytes = tt_placement_bytes(
            place_of(w, val), want,
            tt_type_bytes(&w->b.graph->value[val.id].type), w->size);
        if (bytes >= 0 && (best < 0 || bytes < *bytes_out)) {
            best = v;
            *bytes_out = bytes;
        }
    }
    return best;
}

// Whether a value may be cut this way to please a signature: only along
// dimensions that the layout gives to this axis.
static bool may_split(const work *w, tt_val val, const tt_place *want)
{
    const tt_shape *shape = &w->b.graph->value[val.id].type.shape;
    return want->kind != TT_SPLIT || want->window.out != 0 ||
           layout_maps(w->layout, shape->factor[want->factor].name,
                       w->b.graph->mesh.axis[w->axis].name);
}

static bool is_shape_only(const tt_node *node, int i)
{
    return i < 32 && (node->op->shape_only >> i & 1) != 0;
}

static const tt_place *sig_in(const tt_sig *sig, int i)
{
    return &sig->in[i < TT_SIG_IN ? i : TT_SIG_IN - 1];
}

// The version that was made first: the operator's own result.
static tt_val original(const work *w, int32_t old)
{
    int32_t v = w->first[old];
    while (w->versions[v].next >= 0)
        v = w->versions[v].next;
    return w->versions[v].val;
}

// Whether a value of which only the shape is read has the wanted shape: terms of
// a sum are as large as the sum.
static bool has_shape(const work *w, int32_t old, const tt_place *want)
{
    const tt_place *place = place_of(w, original(w, old));
    if (place->kind == TT_PARTIAL || want->kind == TT_PARTIAL)
        return place->kind != TT_SPLIT && want->kind != TT_SPLIT;
    return tt_place_equal(place, want);
}

// Bytes moved to satisfy a signature, with a little for each conversion and for
// results that are not placed like their model, so that fewer win among equals;
// negative: impossible.
static double sig_cost(const work *w, const tt_node *node, const tt_sig *sig)
{
    double cost = 0;
    for (int i = 0; i < node->n_in; i++) {
        const tt_place *want = sig_in(sig, i);
        double bytes = 0;
        if (!tt_is(node->in[i]))
            continue;
        if (is_shape_only(node, i)) {
            cost += has_shape(w, node->in[i].id, want) ? 0 : 1e-3;
            continue;
        }
        const int32_t v = best_version(w, node->in[i].id, want, &bytes);
        if (v < 0)
            return -1;
        const tt_val val = w->versions[v].val;
        if (tt_place_equal(place_of(w, val), want))
            continue;
        if (!may_split(w, val, want))
            return -1;
        cost += bytes + 1e-2;
    }
    return cost;
}

// A collective along another axis moves whatever part this axis has.
static void pass_through(work *w, const tt_node *node)
{
    const tt_val val = w->versions[w->first[node->in[0].id]].val;
    tt_sig *sig = tt_sigs_add(&w->sigs);
    sig->in[0] = *place_of(w, val);
    sig->out[0] = *place_of(w, val);
}

static const tt_sig *choose(work *w, const tt_node *node)
{
    tt_type out[TT_MAX_OUT];
    tt_op_io io;
    double least = -1;
    const tt_sig *best = NULL;
    tt_node_io(w->old, node, w->in, out, &io);
    w->sigs.n = 0;
    if ((node->op->flags & TT_OP_COLLECTIVE) != 0)
        pass_through(w, node);
    else if (node->op->shard != NULL)
        node->op->shard(&io, w->size, &w->sigs);
    if ((node->op->flags & TT_OP_COLLECTIVE) == 0)
        (void)tt_sigs_add(&w->sigs); // all replicated
    for (int s = 0; s < w->sigs.n; s++) {
        const double cost = sig_cost(w, node, &w->sigs.sig[s]);
        if (cost >= 0 && (best == NULL || cost < least)) {
            best = &w->sigs.sig[s];
            least = cost;
        }
    }
    return best;
}

static tt_status convert(work *w, int32_t old, const tt_place *want,
                         tt_val *val_out)
{
    double bytes = 0;
    const int32_t v = best_version(w, old, want, &bytes);
    if (v < 0)
        return tt_fail(TT_ERR_UNSUPPORTED, "%s cannot be placed as wanted",
                       w->old->value[old].name);
    const tt_val from = w->versions[v].val;
    *val_out = from;
    if (tt_place_equal(place_of(w, from), want))
        return TT_OK;
    *val_out = tt_place_convert(&w->b, from, w->axis, *want);
    TT_TRY(w->b.status);
    return add_version(w, old, *val_out);
}

static void place_outputs(work *w, const tt_node *node, const tt_sig *sig,
                          const tt_val *out)
{
    for (int i = 0; i < node->n_out; i++) {
        const tt_value *old = &w->old->value[node->out[i].id];
        for (int a = 0; a < w->axis; a++)
            tt_place_set(&w->b, out[i], a, old->type.place[a]);
        tt_place_set(&w->b, out[i], w->axis, sig->out[i]);
    }
}

static tt_status emit(work *w, const tt_node *node, const tt_sig *sig,
                      tt_val *out)
{
    if (sig->expand != NULL)
        return sig->expand(&w->b, node, sig, w->axis, w->val, out);
    (void)tt_call(&w->b, node->op, node->params, w->val, node->n_in, out);
    TT_TRY(w->b.status);
    place_outputs(w, node, sig, out);
    return TT_OK;
}

// The new version of a state lies where the state lies.
static tt_status settle_updates(work *w, const tt_node *node)
{
    for (int i = 0; i < node->n_out; i++) {
        const tt_val state = w->old->value[node->out[i].id].updates;
        if (!tt_is(state))
            continue;
        tt_val val;
        const tt_val home = original(w, state.id);
        TT_TRY(convert(w, node->out[i].id, place_of(w, home), &val));
        tt_update(&w->b, home, val);
    }
    return TT_OK;
}

static tt_status do_node(work *w, const tt_node *node)
{
    tt_val out[TT_MAX_OUT];
    const tt_sig *chosen = choose(w, node);
    if (chosen == NULL)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s (%s) has no placement that fits its inputs",
                       node->origin, node->op->name);
    const tt_sig sig = *chosen;
    w->b.phase = node->phase;
    w->b.stage = node->stage;
    w->b.origin = tt_arena_strdup(w->b.graph->arena, node->origin);
    if (w->b.origin == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < node->n_in; i++) {
        w->val[i] = TT_NONE;
        if (tt_is(node->in[i]) && is_shape_only(node, i))
            w->val[i] = original(w, node->in[i].id);
        else if (tt_is(node->in[i]))
            TT_TRY(convert(w, node->in[i].id, sig_in(&sig, i), &w->val[i]));
    }
    for (int i = 0; i < TT_MAX_OUT; i++)
        out[i] = TT_NONE;
    TT_TRY(emit(w, node, &sig, out));
    for (int i = 0; i < node->n_out; i++) {
        if (!tt_is(out[i]))
            return tt_fail(TT_ERR_STATE, "%s (%s) left output %d out",
                           node->origin, node->op->name, i);
        TT_TRY(add_version(w, node->out[i].id, out[i]));
    }
    return settle_updates(w, node);
}

// The version of a gradient that the update reads: the sum over ranks, if somebody
// asked for it, and not its terms.
static tt_val finished(const work *w, int32_t old)
{
    tt_val val = original(w, old);
    for (int32_t v = w->first[old];
         place_of(w, val)->kind == TT_PARTIAL && v >= 0;
         v = w->versions[v].next)
        if (place_of(w, w->versions[v].val)->kind != TT_PARTIAL)
            return w->versions[v].val;
    return val;
}

// What the host reads is whole on every rank. Tallies are sums over micro-batches,
// so sums over ranks are taken once, after the last of them.
static tt_status mark_outputs(work *w)
{
    const tt_place whole = tt_place_replicate();
    for (int32_t o = 0; o < w->old->n_outputs; o++) {
        const tt_graph_output *output = &w->old->output[o];
        tt_val val = original(w, output->val.id);
        if (place_of(w, val)->kind == TT_PARTIAL) {
            w->b.phase = TT_UPDATE;
            w->b.stage = 0;
            w->b.origin = tt_arena_strdup(w->b.graph->arena, output->name);
            if (w->b.origin == NULL)
                return TT_ERR_NOMEM;
            TT_TRY(convert(w, output->val.id, &whole, &val));
        }
        tt_output(&w->b, output->name, val);
    }
    return w->b.status;
}

static tt_status rewrite(work *w)
{
    const tt_graph *old = w->old;
    for (int32_t v = 0; v < old->n_values; v++) {
        const tt_value *value = &old->value[v];
        if (value->node < 0)
            TT_TRY(copy_leaf(w, v));
        else if (value->slot == 0)
            TT_TRY(do_node(w, &old->node[value->node]));
    }
    for (int32_t v = 0; v < old->n_values; v++)
        if (tt_is(old->value[v].grad))
            w->b.graph->value[original(w, v).id].grad =
                finished(w, old->value[v].grad.id);
    return mark_outputs(w);
}

static tt_status allocate(work *w, const tt_graph *old)
{
    int64_t widest = 1;
    for (int32_t n = 0; n < old->n_nodes; n++)
        widest = old->node[n].n_in > widest ? old->node[n].n_in : widest;
    w->first = tt_alloc((int64_t)sizeof *w->first * (old->n_values + 1));
    w->in = tt_alloc((int64_t)sizeof *w->in * widest);
    w->val = tt_alloc((int64_t)sizeof *w->val * widest);
    if (!w->first || !w->in || !w->val)
        return tt_fail(TT_ERR_NOMEM, "no memory to partition a graph");
    for (int32_t v = 0; v < old->n_values; v++)
        w->first[v] = -1;
    return TT_OK;
}

static tt_status split_axis(const tt_graph *old, const tt_mesh *mesh, int axis,
                            const char *layout, tt_graph **out)
{
    static const tt_grad_ops none = {0};
    work *w = tt_alloc(sizeof *w);
    if (w == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to partition a graph");
    *w = (work){.old = old,
                .axis = axis,
                .size = mesh->axis[axis].size,
                .layout = layout};
    tt_status status = tt_builder_init(&w->b, &none);
    if (status == TT_OK) {
        w->b.graph->mesh = *mesh;
        status = allocate(w, old);
    }
    if (status == TT_OK)
        status = rewrite(w);
    if (status == TT_OK)
        status = tt_builder_take(&w->b, out);
    tt_builder_fini(&w->b);
    tt_free(w->versions);
    tt_free(w->first);
    tt_free(w->in);
    tt_free(w->val);
    tt_free(w);
    return status;
}

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

static tt_status apply(const tt_graph *in, const void *params_, tt_graph **out)
{
    const params *p = params_;
    tt_mesh mesh;
    tt_graph *last = NULL;
    TT_TRY(parse_mesh(p->mesh, &mesh));
    if (mesh.n_axes == 0)
        return tt_fail(TT_ERR_ARG, "the mesh has no axis");
    for (int a = 0; a < mesh.n_axes; a++) {
        tt_graph *next = NULL;
        const char *layout = mesh.axis[a].size > 1 ? p->layout : "";
        const tt_status status =
            split_axis(a == 0 ? in : last, &mesh, a, layout, &next);
        tt_graph_destroy(last);
        if (status != TT_OK)
            return tt_fail_context(status, "axis %s", mesh.axis[a].name);
        last = next;
    }
    *out = last;
    return TT_OK;
}

static const tt_opt options[] = {
    {"mesh", "", "axes and sizes: data:2 tensor:4", TT_OPT_STR,
     offsetof(params, mesh)},
    {"layout", "", "dimension names to axes: batch:data heads:tensor",
     TT_OPT_STR, offsetof(params, layout)},
    {0},
};

const tt_pass_def tt_pass_partition = {
    .name = "partition",
    .doc = "Split a graph over a mesh by a layout of named dimensions.",
    .options = options,
    .params_bytes = sizeof(params),
    .apply = apply,
};
