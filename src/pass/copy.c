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

// ---- a pass at work ------------------------------------------------------

tt_status tt__rewrite_begin(tt__rewrite *r, const tt_graph *old,
                            int64_t more_in)
{
    static const tt_grad_ops none = {0};
    int64_t widest = 0;
    for (int32_t n = 0; n < old->n_nodes; n++)
        widest = old->node[n].n_in > widest ? old->node[n].n_in : widest;
    *r = (tt__rewrite){.old = old};
    TT_TRY(tt_builder_init(&r->b, &none));
    r->b.graph->mesh = old->mesh;
    r->arena = tt_arena_create();
    if (r->arena == NULL) {
        tt_builder_fini(&r->b);
        return tt_fail(TT_ERR_NOMEM, "no memory for a pass");
    }
    r->kept = tt__rewrite_vals(r, old->n_values);
    r->in = tt__rewrite_vals(r, widest + more_in);
    return TT_OK;
}

void *tt__rewrite_array(tt__rewrite *r, int64_t n, int64_t member_bytes)
{
    void *array = tt_arena_alloc(r->arena, n * member_bytes);
    if (array == NULL)
        (void)tt_builder_fail(&r->b, TT_ERR_NOMEM);
    return array;
}

tt_val *tt__rewrite_vals(tt__rewrite *r, int64_t n)
{
    tt_val *array = tt__rewrite_array(r, n, sizeof *array);
    for (int64_t i = 0; i < n && array != NULL; i++)
        array[i] = TT_NONE;
    return array;
}

static tt_status copy_leaf(tt__rewrite *r, int32_t v)
{
    return tt_is(r->kept[v]) ? TT_OK : tt__copy_leaf(&r->b, r->old, v, r->kept);
}

tt_status tt__rewrite_leaves(tt__rewrite *r)
{
    for (int32_t v = 0; v < r->old->n_values; v++)
        if (r->old->value[v].node < 0)
            TT_TRY(copy_leaf(r, v));
    return TT_OK;
}

tt_status tt__rewrite_nodes(tt__rewrite *r, void *pass,
                            tt_status (*do_node)(void *pass, int32_t n))
{
    for (int32_t v = 0; v < r->old->n_values; v++) {
        const tt_value *value = &r->old->value[v];
        if (value->node < 0)
            TT_TRY(copy_leaf(r, v));
        else if (value->slot == 0)
            TT_TRY(do_node(pass, value->node));
    }
    return TT_OK;
}

void tt__rewrite_inputs(tt__rewrite *r, const tt_val *old, int n)
{
    for (int i = 0; i < n; i++)
        r->in[i] = tt_is(old[i]) ? r->kept[old[i].id] : TT_NONE;
}

tt_status tt__rewrite_end(tt__rewrite *r, tt_status status, tt_graph **out)
{
    if (status == TT_OK)
        status = tt_builder_take(&r->b, out);
    tt_builder_fini(&r->b);
    tt_arena_destroy(r->arena);
    return status;
}
