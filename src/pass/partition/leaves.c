// leaves - where layout and ZeRO put inputs, weights and state.

#include "pass/partition/cut.h"

#include <string.h>

static const char *axis_name(const tt__cut *c)
{
    return c->b.graph->mesh.axis[c->axis].name;
}

// The weight that a node reads, as it is or fetched; NULL: none.
static const char *weight_of(const tt_graph *g, const tt_node *node)
{
    for (int i = 0; i < node->n_in; i++) {
        int32_t v = node->in[i].id;
        while (v >= 0 && g->value[v].node >= 0 &&
               (g->node[g->value[v].node].op->flags & TT_OP_ALIAS) != 0)
            v = g->node[g->value[v].node].in[0].id;
        if (v >= 0 && (g->value[v].role == TT_ROLE_PARAM ||
                       g->value[v].role == TT_ROLE_WORK))
            return g->value[v].name;
    }
    return NULL;
}

bool tt__cuts_node(const tt__cut *c, const tt_node *node, const char *dim)
{
    const char *weight = weight_of(c->old, node);
    return tt_layout_cuts(c->layout, weight != NULL ? weight : node->origin,
                          dim, axis_name(c));
}

bool tt__cuts_leaf(const tt__cut *c, int32_t old, const char *dim)
{
    return tt_layout_cuts(c->layout, c->old->value[old].name, dim,
                          axis_name(c));
}

bool tt__goes_zigzag(const tt__cut *c, const char *dim)
{
    const char *axis = c->params->zigzag;
    return axis != NULL && strcmp(axis, axis_name(c)) == 0 &&
           strcmp(dim, "seq") == 0;
}

static tt_status too_few(const tt__cut *c, const tt_value *value)
{
    const tt_factor *factor = &value->type.shape.factor[0];
    const long long n = factor->size;
    return tt_fail(TT_ERR_ARG,
                   "%s has a %s of %lld, too few for %d ranks; nearest: "
                   "%s %d, or %lld rank%s",
                   value->name, factor->name, n, c->size, factor->name, c->size,
                   n, n == 1 ? "" : "s");
}

// Tokens and labels weigh nothing next to what is computed from them: where they
// meet split weights (vocabulary-parallel embedding and loss) every rank has all.
static bool is_whole(const tt__cut *c, const tt_value *value, int f)
{
    return value->role == TT_ROLE_INPUT && f > 0 &&
           !tt_dtype_is_float(value->type.dtype) && c->cuts_weights;
}

// By the layout. Optimiser state and work copies have the shape of their weight,
// so they follow it. What is too small is everywhere; but too few samples would
// leave ranks without work.
static tt_status by_layout(const tt__cut *c, const tt_value *value,
                           tt_place *place_out)
{
    const int32_t old = (int32_t)(value - c->old->value);
    const tt_shape *shape = &value->type.shape;
    *place_out = tt_place_replicate();
    for (int f = 0; f < shape->n_factors; f++) {
        if (!tt__cuts_leaf(c, old, shape->factor[f].name) ||
            is_whole(c, value, f))
            continue;
        if (tt_can_split(&value->type, f, c->size)) {
            *place_out = tt_place_split(f);
            place_out->zigzag = tt__goes_zigzag(c, shape->factor[f].name);
            return TT_OK;
        }
        if (value->role == TT_ROLE_INPUT && f == 0)
            return too_few(c, value);
    }
    return TT_OK;
}

bool tt__is_laid_out(const tt__cut *c, int32_t old)
{
    tt_place place;
    return by_layout(c, &c->old->value[old], &place) == TT_OK &&
           place.kind == TT_SPLIT;
}

// Whether ZeRO keeps a state in parts, not only what is computed from it.
static bool is_kept_split(const tt__cut *c, int32_t old)
{
    const tt_graph *g = c->old;
    if (c->shard[old] < 0)
        return false;
    if (tt_role_is_update(g->value[old].role) || c->is_held[old])
        return true;
    // A master that only the update reads.
    for (int32_t v = 0; v < g->n_values && g->value[old].role == TT_ROLE_PARAM;
         v++)
        if (g->value[v].role == TT_ROLE_WORK && g->value[v].init.of.id == old)
            return true;
    return false;
}

tt_status tt__leaf_place(const tt__cut *c, int32_t old, tt_place *place_out)
{
    if (c->is_pipe) {
        *place_out = tt__stages_leaf(c, old);
        return TT_OK;
    }
    TT_TRY(by_layout(c, &c->old->value[old], place_out));
    if (place_out->kind == TT_REPLICATE && is_kept_split(c, old))
        *place_out = tt_place_split(c->shard[old]);
    return TT_OK;
}
