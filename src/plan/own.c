// own - shapes of values of which every rank has its own (TT_OWN, graph/place.h).
//
// A rank encodes the part of a gradient that it holds. How large the code is follows from
// the part's shape, not from the whole's. So for results that are own, shapes are inferred
// again from what this rank has.

#include "plan/own.h"

#include "ops/ops.h"
#include "plan/lower.h"

static bool is_own(const tt_graph *g, int32_t v)
{
    for (int a = 0; a < g->mesh.n_axes; a++)
        if (g->value[v].type.place[a].kind == TT_OWN)
            return true;
    return false;
}

const tt_type *tt_plan_type(const tt_plan *plan, int32_t v)
{
    return plan->own_type != NULL && plan->own_type[v] != NULL
               ? plan->own_type[v]
               : &plan->graph->value[v].type;
}

// What a rank has of a value along the axes where the result is own, and all of it along
// others.
static void own_part(const tt__lower *l, const tt_type *result, tt_type *type)
{
    const tt_mesh *mesh = &l->g->mesh;
    tt_type part = *type;
    tt_local local;
    for (int a = 0; a < mesh->n_axes; a++)
        if (result->place[a].kind != TT_OWN)
            part.place[a] = tt_place_replicate();
    tt_local_of(&part, mesh, l->plan->rank, &local);
    type->shape = local.shape;
}

// An input as infer shall see it: whole along axes that cut it, except for what becomes
// own here.
static void input_type(const tt__lower *l, const tt_node *node, int i,
                       tt_type *type_out)
{
    const int32_t v = node->in[i].id;
    *type_out = (tt_type){.dtype = TT_N_DTYPES};
    if (v < 0)
        return;
    *type_out = *tt_plan_type(l->plan, v);
    if (!is_own(l->g, v) && node->op == &tt_op_own)
        own_part(l, &l->g->value[node->out[0].id].type, type_out);
}

static tt_status keep_type(tt__lower *l, int32_t v, const tt_shape *shape)
{
    tt_plan *plan = l->plan;
    const int64_t bytes = l->g->n_values * (int64_t)sizeof *plan->own_type;
    if (plan->own_type == NULL)
        plan->own_type = tt_arena_alloc(plan->arena, bytes);
    tt_type *type = tt_arena_alloc(plan->arena, sizeof *type);
    if (plan->own_type == NULL || type == NULL)
        return TT_ERR_NOMEM;
    *type = l->g->value[v].type;
    type->shape = *shape;
    plan->own_type[v] = type;
    tt_local_of(type, &l->g->mesh, plan->rank, &l->info[v].operand.local);
    tt_operand_set_dense(&l->info[v].operand);
    return TT_OK;
}

static tt_status infer_again(tt__lower *l, const tt_node *node)
{
    tt_type out[TT_MAX_OUT] = {0};
    for (int i = 0; i < node->n_in; i++)
        input_type(l, node, i, &l->type[i]);
    tt_op_io io = {.params = node->params,
                   .n_in = node->n_in,
                   .in = l->type,
                   .out = out,
                   .op = node->op,
                   .mesh = &l->g->mesh};
    TT_TRY(node->op->infer(&io));
    for (int i = 0; i < node->n_out; i++)
        if (is_own(l->g, node->out[i].id))
            TT_TRY(keep_type(l, node->out[i].id, &out[i].shape));
    return TT_OK;
}

tt_status tt__own_shapes(tt__lower *l)
{
    const tt_graph *g = l->g;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        bool any = false;
        for (int i = 0; i < g->node[n].n_out; i++)
            any |= is_own(g, g->node[n].out[i].id);
        if (any)
            TT_TRY(infer_again(l, &g->node[n]));
    }
    return TT_OK;
}
