// tensors_copy - copies weights from one executor to another: from training to
// evaluation, or to the model that generates samples.
//
// Both have the same weights, but perhaps not the same parts: the evaluation plan
// may be partitioned otherwise, and a generator runs on rank 0 alone. If the parts
// are the same, each rank copies its own. Otherwise the whole tensor is gathered
// and cut again.

#include "base/alloc.h"
#include "state/tensors.h"

static const tt_tensor *average_of(const tt_tensors *all, const tt_tensor *t)
{
    for (int64_t i = 0; i < all->n; i++)
        if (all->v[i].of.id == t->val.id && all->v[i].role == TT_TENSOR_EMA)
            return &all->v[i];
    return t;
}

// Whether each rank holds the same part of both.
static bool are_alike(tt_exec *from, const tt_tensor *source, tt_exec *to,
                      const tt_tensor *target)
{
    const tt_graph *a = tt_exec_plan(from)->graph, *b = tt_exec_plan(to)->graph;
    if (a->mesh.n_axes != b->mesh.n_axes || source->peers != target->peers)
        return false;
    for (int i = 0; i < a->mesh.n_axes; i++)
        if (!tt_place_equal(&a->value[source->val.id].type.place[i],
                            &b->value[target->val.id].type.place[i]))
            return false;
    return true;
}

typedef struct copying {
    tt_exec *from, *to;
    char *dense, *converted;
} copying;

// Copies this rank's own part; nothing is sent.
static tt_status copy_part(const copying *c, const tt_tensor *source,
                           const tt_tensor *target)
{
    tt_local local;
    const tt_plan *plan = tt_exec_plan(c->from);
    if (!tt_tensor_is_here(c->from, source))
        return TT_OK;
    tt_local_of(&plan->graph->value[source->val.id].type, &plan->graph->mesh,
                plan->rank, &local);
    TT_TRY(tt_exec_read(c->from, source->val, c->dense));
    tt_tensor_convert(source->dtype, c->dense, target->dtype, c->converted,
                      tt_shape_count(&local.shape));
    return tt_exec_write(c->to, target->val, c->converted);
}

static tt_status copy_one(const copying *c, const tt_tensor *source,
                          const tt_tensor *target)
{
    if (target != NULL && source->is_split && !tt_is(target->work) &&
        are_alike(c->from, source, c->to, target))
        return copy_part(c, source, target);
    if (target != NULL || source->is_split)
        TT_TRY(tt_tensor_read(c->from, source, c->dense));
    if (target == NULL)
        return TT_OK;
    if (source->dtype == target->dtype)
        return tt_tensor_write(c->to, target, c->dense);
    tt_tensor_convert(source->dtype, c->dense, target->dtype, c->converted,
                      target->count);
    return tt_tensor_write(c->to, target, c->converted);
}

static tt_status check_all(const tt_tensors *sources, const tt_tensors *targets)
{
    for (int64_t i = 0; i < targets->n; i++) {
        const tt_tensor *t = tt_tensors_find(sources, targets->v[i].name);
        if (t == NULL || t->count != targets->v[i].count)
            return tt_fail(TT_ERR_STATE,
                           "%s of the copy is not that of the trained model",
                           targets->v[i].name);
    }
    return TT_OK;
}

// In the order of the sources: it is the same on all ranks, and reading a tensor in
// parts is a collective. A rank without targets takes part in it, too.
static tt_status copy_all(const copying *c, const tt_tensors *sources,
                          const tt_tensors *targets, bool use_ema)
{
    for (int64_t i = 0; i < sources->n; i++) {
        const tt_tensor *t = &sources->v[i];
        const tt_tensor *target =
            targets == NULL ? NULL : tt_tensors_find(targets, t->name);
        if (!tt_tensor_is_model(t))
            break; // they come first
        if (use_ema && t->role == TT_TENSOR_PARAM)
            t = average_of(sources, t);
        TT_TRY(copy_one(c, t, target));
    }
    return TT_OK;
}

tt_status tt_tensors_copy(tt_exec *from, const tt_tensors *sources, tt_exec *to,
                          const tt_tensors *targets, bool use_ema)
{
    int64_t largest = 0;
    if (targets != NULL)
        TT_TRY(check_all(sources, targets));
    for (int64_t i = 0; i < sources->n; i++)
        if (sources->v[i].count > largest)
            largest = sources->v[i].count;
    const int64_t bytes = 8 * largest + 64; // 8: the widest type
    const copying c = {from, to, tt_alloc_aligned(bytes, 64),
                       tt_alloc_aligned(bytes, 64)};
    const tt_status status =
        c.dense == NULL || c.converted == NULL
            ? tt_fail(TT_ERR_NOMEM, "no memory to copy weights")
            : copy_all(&c, sources, targets, use_ema);
    tt_free_aligned(c.dense);
    tt_free_aligned(c.converted);
    return status;
}
