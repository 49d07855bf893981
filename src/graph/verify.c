// verify - everything a graph promises, checked after every pass.

#include "base/alloc.h"
#include "base/rng.h"
#include "graph/graph.h"

#include <string.h>

// Whether the coordinates that hold the value are coordinates of the axis.
static tt_status check_at(const tt_graph *g, const tt_value *value, int a)
{
    const tt_place *place = &value->type.place[a];
    const int size = g->mesh.axis[a].size;
    if (place->at == 0 || (place->kind != TT_SPLIT && size <= TT_MAX_AT &&
                           (size == TT_MAX_AT || place->at >> size == 0)))
        return TT_OK;
    return tt_fail(TT_ERR_STATE, "%s lies at coordinates that axis %s has not",
                   value->name, g->mesh.axis[a].name);
}

static tt_status check_place(const tt_graph *g, const tt_value *value)
{
    int zigzags = 0;
    for (int a = 0; a < TT_MAX_AXES; a++) {
        const tt_place *place = &value->type.place[a];
        if (place->kind == TT_REPLICATE && place->at == 0)
            continue;
        if (a >= g->mesh.n_axes)
            return tt_fail(TT_ERR_STATE,
                           "%s is placed on axis %d of a mesh with %d axes",
                           value->name, a, g->mesh.n_axes);
        TT_TRY(check_at(g, value, a));
        if (place->kind == TT_REPLICATE)
            continue;
        if (place->kind == TT_SPLIT &&
            (place->factor < 0 || place->factor >= value->type.shape.n_factors))
            return tt_fail(TT_ERR_STATE, "%s is split along factor %d of %d",
                           value->name, place->factor,
                           value->type.shape.n_factors);
        if (place->parts < 0 || place->part < 0 ||
            (place->parts == 0 ? place->part != 0
                               : place->part >= place->parts))
            return tt_fail(TT_ERR_STATE, "%s is block %d of %d", value->name,
                           place->part, place->parts);
        zigzags += place->kind == TT_SPLIT && place->zigzag;
        if (place->zigzag &&
            (zigzags > 1 || place->window.out != 0 || place->parts != 0))
            return tt_fail(TT_ERR_STATE,
                           "%s goes zigzag twice, with a window or in blocks",
                           value->name);
    }
    return TT_OK;
}

static tt_status check_value(const tt_graph *g, int32_t id)
{
    const tt_value *value = &g->value[id];
    if (value->name == NULL || value->name[0] == '\0')
        return tt_fail(TT_ERR_STATE, "value %d has no name", id);
    if (value->type.dtype >= TT_N_DTYPES)
        return tt_fail(TT_ERR_STATE, "%s has no element type", value->name);
    const tt_status status = tt_shape_check(&value->type.shape);
    if (status != TT_OK)
        return tt_fail_context(status, "%s", value->name);
    if ((value->role == TT_ROLE_NODE) != (value->node >= 0))
        return tt_fail(TT_ERR_STATE, "%s: role and producer disagree",
                       value->name);
    return check_place(g, value);
}

static tt_status check_update(const tt_graph *g, const tt_value *value,
                              int32_t *updater)
{
    const int32_t of = value->updates.id;
    if (of < 0)
        return TT_OK;
    if (of >= g->n_values || !tt_role_is_state(g->value[of].role) ||
        value->role != TT_ROLE_NODE)
        return tt_fail(TT_ERR_STATE, "%s updates something that is no state",
                       value->name);
    const tt_value *old = &g->value[of];
    if (old->type.dtype != value->type.dtype ||
        !tt_shape_same_dims(&old->type.shape, &value->type.shape))
        return tt_fail(TT_ERR_STATE, "%s and its update %s differ in type",
                       old->name, value->name);
    if (updater[of] >= 0)
        return tt_fail(TT_ERR_STATE, "%s is updated twice", old->name);
    updater[of] = value->node;
    return TT_OK;
}

// Reads of a state that was replaced already. Alias chains (optimiser, then
// agree) replace it at their last node.
static tt_status check_reads(const tt_graph *g, const int32_t *updater)
{
    for (int32_t n = 0; n < g->n_nodes; n++)
        for (int i = 0; i < g->node[n].n_in; i++) {
            const tt_val v = g->node[n].in[i];
            if (tt_is(v) && updater[v.id] >= 0 && n > updater[v.id])
                return tt_fail(TT_ERR_STATE,
                               "%s (%s) reads %s after it was updated",
                               g->node[n].origin, g->node[n].op->name,
                               g->value[v.id].name);
        }
    return TT_OK;
}

static tt_status check_types(const tt_graph *g, const tt_node *node,
                             tt_type *in)
{
    tt_type out[TT_MAX_OUT], again[TT_MAX_OUT] = {0};
    tt_op_io io;
    tt_node_io(g, node, in, out, &io);
    io.out = again;
    io.n_out = 0;
    TT_TRY(node->op->infer(&io));
    if (io.n_out != node->n_out)
        return tt_fail(TT_ERR_STATE, "%s has %d outputs, not %d",
                       node->op->name, node->n_out, io.n_out);
    for (int i = 0; i < node->n_out; i++)
        if (again[i].dtype != out[i].dtype ||
            !tt_shape_equal(&again[i].shape, &out[i].shape))
            return tt_fail(TT_ERR_STATE, "output %d of %s has another type", i,
                           node->op->name);
    return TT_OK;
}

// A node runs where its outputs lie. There its inputs must lie too, except terms of a
// sum, and what a collective brings from elsewhere.
static tt_status check_presence(const tt_graph *g, const tt_node *node)
{
    const uint32_t may_lack = TT_OP_COLLECTIVE | TT_OP_SUMS;
    for (int a = 0; a < g->mesh.n_axes; a++) {
        const uint64_t here = g->value[node->out[0].id].type.place[a].at;
        for (int i = 1; i < node->n_out; i++)
            if (g->value[node->out[i].id].type.place[a].at != here)
                return tt_fail(TT_ERR_STATE,
                               "%s (%s): outputs lie at different coordinates",
                               node->origin, node->op->name);
        for (int i = 0; i < node->n_in && !(node->op->flags & may_lack); i++) {
            const bool is_read = tt_is(node->in[i]) &&
                                 (i >= 32 || !(node->op->shape_only >> i & 1));
            const uint64_t at =
                is_read ? g->value[node->in[i].id].type.place[a].at : 0;
            if (at != 0 && (here == 0 || (here & ~at) != 0))
                return tt_fail(TT_ERR_STATE,
                               "%s (%s) runs where its input %d does not lie",
                               node->origin, node->op->name, i);
        }
    }
    return TT_OK;
}

static tt_status check_node(const tt_graph *g, int32_t n, tt_type *in)
{
    const tt_node *node = &g->node[n];
    if (node->n_out < 1 || node->n_out > TT_MAX_OUT || node->n_in < 1)
        return tt_fail(TT_ERR_STATE, "node %d has %d inputs and %d outputs", n,
                       node->n_in, node->n_out);
    for (int i = 0; i < node->n_in; i++) {
        const int32_t v = node->in[i].id;
        if (v >= g->n_values || (v >= 0 && g->value[v].node >= n))
            return tt_fail(TT_ERR_STATE, "%s (%s) uses what comes after it",
                           node->origin, node->op->name);
    }
    for (int i = 0; i < node->n_out; i++) {
        const int32_t v = node->out[i].id;
        if (v < 0 || v >= g->n_values || g->value[v].node != n ||
            g->value[v].slot != i)
            return tt_fail(TT_ERR_STATE, "%s (%s) does not own output %d",
                           node->origin, node->op->name, i);
    }
    TT_TRY(check_presence(g, node));
    const tt_status status = check_types(g, node, in);
    return status == TT_OK ? TT_OK
                           : tt_fail_context(status, "%s", node->origin);
}

// Names are unique: an open hash table of value ids.
static tt_status check_names(const tt_graph *g, int32_t *table, int64_t size)
{
    for (int32_t v = 0; v < g->n_values; v++) {
        const char *name = g->value[v].name;
        uint64_t slot = tt_hash(name, (int64_t)strlen(name));
        for (;; slot++) {
            int32_t *entry = &table[slot % (uint64_t)size];
            if (*entry == 0) {
                *entry = v + 1;
                break;
            }
            if (strcmp(g->value[*entry - 1].name, name) == 0)
                return tt_fail(TT_ERR_STATE, "the name %s is used twice", name);
        }
    }
    return TT_OK;
}

static tt_status check_all(const tt_graph *g, tt_type *in, int32_t *updater,
                           int32_t *table)
{
    for (int32_t v = 0; v < g->n_values; v++) {
        updater[v] = -1;
        TT_TRY(check_value(g, v));
    }
    TT_TRY(check_names(g, table, 2 * (int64_t)g->n_values + 1));
    for (int32_t n = 0; n < g->n_nodes; n++)
        TT_TRY(check_node(g, n, in));
    for (int32_t v = 0; v < g->n_values; v++)
        TT_TRY(check_update(g, &g->value[v], updater));
    TT_TRY(check_reads(g, updater));
    for (int32_t o = 0; o < g->n_outputs; o++)
        if (g->output[o].val.id < 0 || g->output[o].val.id >= g->n_values)
            return tt_fail(TT_ERR_STATE, "output %s is no value",
                           g->output[o].name);
    return TT_OK;
}

tt_status tt_graph_verify(const tt_graph *g)
{
    int n_in = 1;
    for (int32_t n = 0; n < g->n_nodes; n++)
        n_in = g->node[n].n_in > n_in ? g->node[n].n_in : n_in;
    tt_type *in = tt_alloc((int64_t)sizeof *in * n_in);
    int32_t *updater = tt_alloc(4 * (int64_t)g->n_values);
    int32_t *table = tt_alloc(4 * (2 * (int64_t)g->n_values + 1));
    tt_status status = TT_OK;
    if (in == NULL || updater == NULL || table == NULL)
        status = tt_fail(TT_ERR_NOMEM, "no memory to verify a graph");
    else
        status = check_all(g, in, updater, table);
    tt_free(table);
    tt_free(updater);
    tt_free(in);
    return status;
}
