// home - buffers, and where values lie in them.

#include "plan/lower.h"

#include <string.h>

tt_status tt__grow(tt_arena *arena, void *array_io, int64_t entry_bytes,
                   int32_t n, int32_t *capacity_io)
{
    if (n < *capacity_io)
        return TT_OK;
    const int32_t capacity = *capacity_io == 0 ? 64 : *capacity_io * 2;
    void *old, *grown = tt_arena_alloc(arena, capacity * entry_bytes);
    if (grown == NULL)
        return TT_ERR_NOMEM;
    memcpy(&old, array_io, sizeof(old));
    if (n > 0)
        memcpy(grown, old, (size_t)(n * entry_bytes));
    memcpy(array_io, &grown, sizeof(grown));
    *capacity_io = capacity;
    return TT_OK;
}

tt_status tt__buffer_add(tt__lower *l, const tt_buffer *buffer, int32_t *id_out)
{
    tt_plan *plan = l->plan;
    int32_t capacity = l->buffers_capacity;
    TT_TRY(tt__grow(l->arena, &l->buffer, sizeof(*l->buffer), plan->n_buffers,
                    &capacity));
    TT_TRY(tt__grow(plan->arena, &plan->buffer, sizeof(*plan->buffer),
                    plan->n_buffers, &l->buffers_capacity));
    l->buffer[plan->n_buffers] = (tt__buffer_info){.first_converted = -1};
    plan->buffer[plan->n_buffers] = *buffer;
    plan->buffer[plan->n_buffers].first = -1;
    plan->buffer[plan->n_buffers].last = -1;
    *id_out = plan->n_buffers++;
    return TT_OK;
}

tt_ref *tt__home(tt__lower *l, tt_val v)
{
    return &l->plan->home[l->info[v.id].root];
}

void tt__home_set(tt__lower *l, tt_val v, const tt_ref *ref)
{
    *tt__home(l, v) = *ref;
    tt__buffer_info *buffer = &l->buffer[ref->buffer];
    if (buffer->needed < l->info[v.id].last)
        buffer->needed = l->info[v.id].last;
}

// A sum in the shape of a weight is its gradient: the terms of this rank, even
// where the gradient itself is their sum over ranks.
static tt_buffer_use use_of(const tt_graph *g, const tt_value *value)
{
    switch (value->role) {
    case TT_ROLE_PARAM:
    case TT_ROLE_WORK:
        return TT_USE_PARAM;
    case TT_ROLE_OPTIM:
    case TT_ROLE_EMA:
        return TT_USE_OPTIM;
    case TT_ROLE_NODE:
        break;
    default:
        return TT_USE_BUFFER;
    }
    const tt_node *node = &g->node[value->node];
    if ((node->op->flags & TT_OP_ACCUMULATE) == 0)
        return TT_USE_ACTIVATION;
    return (node->op->shape_only & 1) != 0 ? TT_USE_GRAD : TT_USE_BUFFER;
}

tt_status tt__home_make(tt__lower *l, tt_val v, const tt_operand *form)
{
    const int32_t root = l->info[v.id].root;
    const tt_value *value = &l->g->value[root];
    const tt_buffer_use use = use_of(l->g, value);
    const tt_buffer buffer = {
        .name = value->name,
        .class_ = use == TT_USE_ACTIVATION ? TT_SCRATCH : TT_PERSISTENT,
        .use = use,
        .bytes = tt_target_bytes(l->target, form),
        .on_host = l->info[root].is_on_host,
    };
    tt_ref ref = {.operand = l->info[root].operand};
    ref.operand.layout = form->layout;
    memcpy(ref.operand.stride, form->stride, sizeof(form->stride));
    TT_TRY(tt__buffer_add(l, &buffer, &ref.buffer));
    tt__home_set(l, (tt_val){root}, &ref);
    return TT_OK;
}

tt_status tt__home_read(tt__lower *l, tt_val v, tt_ref *ref_out)
{
    const tt_ref *home = tt__home(l, v);
    if (home->buffer < 0) {
        if (l->g->value[l->info[v.id].root].role == TT_ROLE_NODE)
            return tt_fail(TT_ERR_STATE, "%s is read before it is computed",
                           l->g->value[v.id].name);
        TT_TRY(tt__home_make(l, v, &l->info[v.id].operand));
    }
    *ref_out = *home;
    return TT_OK;
}

// Whether the host may read the value after a step. Other values than these may have
// been overwritten by later ones.
static bool is_kept(const tt__lower *l, int32_t v)
{
    const tt_value *value = &l->g->value[v];
    if (l->plan->home[v].buffer < 0 || l->info[l->info[v].root].is_spent)
        return false;
    if (value->role != TT_ROLE_NODE || l->info[v].is_host_read ||
        tt_is(value->updates))
        return true;
    return (l->g->node[value->node].op->flags & TT_OP_ACCUMULATE) != 0;
}

tt_status tt__homes_finish(tt__lower *l)
{
    for (int32_t v = 0; v < l->g->n_values; v++) {
        tt_ref ref;
        if (l->g->value[v].role != TT_ROLE_NODE &&
            !tt__is_absent(l, (tt_val){v}))
            TT_TRY(tt__home_read(l, (tt_val){v}, &ref));
    }
    for (int32_t v = 0; v < l->g->n_values; v++)
        l->plan->home[v] = *tt__home(l, (tt_val){v});
    for (int32_t v = 0; v < l->g->n_values; v++)
        l->plan->is_kept[v] = is_kept(l, v);
    return TT_OK;
}
