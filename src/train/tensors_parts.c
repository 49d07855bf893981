// tensors_parts - whole tensors from and to the parts that ranks hold.

#include "base/alloc.h"
#include "train/parts.h"
#include "train/tensors.h"

static tt_status fail_memory(const tt_tensor *t)
{
    return tt_fail(TT_ERR_NOMEM, "no memory for parts of %s", t->name);
}

// ---- reading -------------------------------------------------------------

// Whether a rank speaks for those that hold the same part.
static bool is_speaker(const tt_graph *g, tt_val v, int32_t rank)
{
    for (int a = 0; a < g->mesh.n_axes; a++)
        if (g->value[v.id].type.place[a].kind != TT_SPLIT &&
            tt_mesh_coord(&g->mesh, rank, a) != 0)
            return false;
    return true;
}

// All parts behind each other, on every rank; `bound` are their edges in bytes.
static tt_status gather(tt_exec *exec, const tt_tensor *t, const int64_t *bound,
                        char *mine, char *parts)
{
    const tt_peers *peers = t->peers;
    TT_TRY(tt_exec_read(exec, t->val, mine));
    const tt_coll_call call = {.kind = TT_ALL_GATHER,
                               .fold = {TT_FOLD_COPY, TT_NUM_U8},
                               .count = bound[peers->size],
                               .bound = bound,
                               .in = mine,
                               .out = parts};
    const tt_status status = tt_comm_wire_call(peers->wire, "gather", &call);
    return status == TT_OK ? status : tt_fail_context(status, "%s", t->name);
}

static tt_status read_split(tt_exec *exec, const tt_tensor *t, char *data)
{
    const tt_graph *g = tt_exec_plan(exec)->graph;
    const int32_t n = t->peers->size;
    const int64_t size = tt_dtype_bytes(t->dtype);
    int64_t *bound = tt_alloc((n + 1) * (int64_t)sizeof *bound);
    char *parts = tt_alloc_aligned(t->bytes + 64, 64);
    char *mine = tt_alloc_aligned(t->bytes + 64, 64);
    tt_status status =
        bound == NULL || parts == NULL || mine == NULL ? fail_memory(t) : TT_OK;
    for (int32_t r = 0; r < n && status == TT_OK; r++)
        bound[r + 1] = bound[r] + (is_speaker(g, t->val, r)
                                       ? tt__part_of(g, t->val, r).count * size
                                       : 0);
    if (status == TT_OK)
        status = gather(exec, t, bound, mine, parts);
    for (int32_t r = 0; r < n && status == TT_OK; r++) {
        const tt__part p = tt__part_of(g, t->val, r);
        if (is_speaker(g, t->val, r))
            tt__part_spread(&p, size, parts + bound[r], data);
    }
    tt_free_aligned(mine);
    tt_free_aligned(parts);
    tt_free(bound);
    return status;
}

tt_status tt_tensor_read(tt_exec *exec, const tt_tensor *tensor, void *data)
{
    return tensor->is_split ? read_split(exec, tensor, data)
                            : tt_exec_read(exec, tensor->val, data);
}

// ---- writing -------------------------------------------------------------

// This rank's part of a value, from the whole in the value's type.
static tt_status write_value(tt_exec *exec, const tt_tensor *t, tt_val v,
                             const void *data)
{
    const tt_plan *plan = tt_exec_plan(exec);
    const int64_t size = tt_dtype_bytes(plan->graph->value[v.id].type.dtype);
    const tt__part p = tt__part_of(plan->graph, v, plan->rank);
    if (p.count == t->count)
        return tt_exec_write(exec, v, data);
    char *mine = tt_alloc_aligned(p.count * size + 64, 64);
    if (mine == NULL)
        return fail_memory(t);
    tt__part_cut(&p, size, data, mine);
    const tt_status status = tt_exec_write(exec, v, mine);
    tt_free_aligned(mine);
    return status;
}

// The copy of a weight in the compute precision follows it.
static tt_status write_work(tt_exec *exec, const tt_tensor *tensor,
                            const void *data)
{
    const tt_graph *g = tt_exec_plan(exec)->graph;
    const tt_dtype dtype = g->value[tensor->work.id].type.dtype;
    void *copy = tt_alloc(tensor->count * tt_dtype_bytes(dtype));
    if (copy == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to write %s", tensor->name);
    tt_tensor_convert(tensor->dtype, data, dtype, copy, tensor->count);
    const tt_status status = write_value(exec, tensor, tensor->work, copy);
    tt_free(copy);
    return status;
}

tt_status tt_tensor_write(tt_exec *exec, const tt_tensor *tensor,
                          const void *data)
{
    TT_TRY(write_value(exec, tensor, tensor->val, data));
    return tt_is(tensor->work) ? write_work(exec, tensor, data) : TT_OK;
}

bool tt_tensors_are_first(const tt_tensors *all)
{
    return all->n == 0 || all->v[0].peers == NULL ||
           tt_peers_is_first(all->v[0].peers);
}
