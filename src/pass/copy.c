// copy - see the header.

#include "pass/copy.h"

tt_status tt__copy_aim(tt_builder *b, tt_phase phase, int32_t stage,
                       const char *origin)
{
    b->phase = phase;
    b->stage = stage;
    b->origin = tt_arena_strdup(b->graph->arena, origin);
    return b->origin == NULL ? TT_ERR_NOMEM : TT_OK;
}

tt_status tt__copy_leaf(tt_builder *b, const tt_graph *old, int32_t v,
                        tt_val *kept)
{
    const tt_val copy = tt_leaf_copy(b, old, (tt_val){v});
    TT_TRY(b->status);
    tt_value *value = &b->graph->value[copy.id];
    if (value->init.kind == TT_INIT_COPY && tt_role_is_state(value->role))
        value->init.of = kept[value->init.of.id];
    kept[v] = copy;
    return TT_OK;
}

void tt__copy_places(tt_builder *b, const tt_graph *old, int32_t v, tt_val to)
{
    for (int a = 0; a < old->mesh.n_axes; a++)
        tt_place_set(b, to, a, old->value[v].type.place[a]);
}

tt_status tt__copy_node(tt_builder *b, const tt_graph *old, const tt_node *node,
                        const tt_val *in, int n_in, tt_val *kept)
{
    tt_val out[TT_MAX_OUT];
    TT_TRY(tt__copy_aim(b, node->phase, node->stage, node->origin));
    (void)tt_call(b, node->op, node->params, in, n_in, out);
    TT_TRY(b->status);
    for (int i = 0; i < node->n_out; i++) {
        const tt_val updates = old->value[node->out[i].id].updates;
        kept[node->out[i].id] = out[i];
        tt__copy_places(b, old, node->out[i].id, out[i]);
        if (tt_is(updates))
            tt_update(b, kept[updates.id], out[i]);
    }
    return b->status;
}

tt_status tt__copy_ends(tt_builder *b, const tt_graph *old, const tt_val *kept)
{
    for (int32_t v = 0; v < old->n_values; v++)
        if (tt_is(old->value[v].grad))
            b->graph->value[kept[v].id].grad = kept[old->value[v].grad.id];
    for (int32_t o = 0; o < old->n_outputs; o++)
        tt_output(b, old->output[o].name, kept[old->output[o].val.id]);
    return b->status;
}
