// stay - weights that the layout splits do not move.
//
// Such a weight is used where it lies, and activations come to it. So where one axis
// splits both sequences and weights (seq:tensor heads:tensor), activations are gathered
// before column-parallel products and scattered after row-parallel ones, whichever is
// larger.
//
//   source   Korthikanti et al. 2022 (sequence parallelism)

#include "pass/partition/cut.h"

static bool is_weight(const tt_value *value)
{
    return value->role == TT_ROLE_PARAM || value->role == TT_ROLE_WORK;
}

// Weights, and what is made of nothing else outside the update.
void tt__weights_mark(tt__cut *c)
{
    const tt_graph *g = c->old;
    for (int32_t v = 0; v < g->n_values; v++)
        c->is_weight[v] = is_weight(&g->value[v]);
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        bool is_made = node->phase != TT_UPDATE;
        for (int i = 0; i < node->n_in && is_made; i++)
            is_made = !tt_is(node->in[i]) || c->is_weight[node->in[i].id];
        for (int o = 0; o < node->n_out; o++)
            c->is_weight[node->out[o].id] = is_made && node->n_in > 0;
    }
}

bool tt__axis_cuts_weights(const tt__cut *c)
{
    const tt_graph *g = c->old;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_type *type = &g->value[v].type;
        for (int f = 0; is_weight(&g->value[v]) && f < type->shape.n_factors;
             f++)
            if (tt__cuts_leaf(c, v, type->shape.factor[f].name) &&
                tt_can_split(type, f, c->size))
                return true;
    }
    return false;
}

bool tt__stays(const tt__cut *c, const tt_node *node, int32_t old)
{
    return c->is_weight[old] && node->phase != TT_UPDATE &&
           tt__place_of(c, tt__original(c, old))->kind == TT_SPLIT;
}
