// tensors_parts - whole tensors from and to the parts that ranks hold.

#include "base/alloc.h"
#include "train/tensors.h"

#include <string.h>

// What `rank` holds of a value, and how it lies in the whole: runs of elements.
typedef struct part {
    tt_local local;
    int64_t count, run;
} part;

static part part_of(const tt_graph *g, tt_val v, int32_t rank)
{
    part p = {.run = 1};
    tt_local_of(&g->value[v.id].type, &g->mesh, rank, &p.local);
    p.count = tt_shape_count(&p.local.shape);
    for (int f = p.local.shape.n_factors - 1; f >= 0; f--) {
        p.run *= p.local.shape.factor[f].size;
        if (p.local.shape.factor[f].size != p.local.global[f])
            break;
    }
    return p;
}

static void spread(const part *p, int64_t size, const char *in, char *whole)
{
    for (int64_t i = 0; i < p->count; i += p->run)
        memcpy(whole + tt_local_to_global(&p->local, i) * size, in + i * size,
               (size_t)(p->run * size));
}

static void cut(const part *p, int64_t size, const char *whole, char *out)
{
    for (int64_t i = 0; i < p->count; i += p->run)
        memcpy(out + i * size, whole + tt_local_to_global(&p->local, i) * size,
               (size_t)(p->run * size));
}

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
        bound[r + 1] =
            bound[r] +
            (is_speaker(g, t->val, r) ? part_of(g, t->val, r).count * size : 0);
    if (status == TT_OK)
        status = gather(exec, t, bound, mine, parts);
    for (int32_t r = 0; r < n && status == TT_OK; r++) {
        const part p = part_of(g, t->val, r);
        if (is_speaker(g, t->val, r))
            spread(&p, size, parts + bound[r], data);
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
    const part p = part_of(plan->graph, v, plan->rank);
    if (p.count == t->count)
        return tt_exec_write(exec, v, data);
    char *mine = tt_alloc_aligned(p.count * size + 64, 64);
    if (mine == NULL)
        return fail_memory(t);
    cut(&p, size, data, mine);
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

tt_status tt_tensor_hand_out(tt_exec *exec, const tt_tensor *tensor, void *data)
{
    if (tensor->peers != NULL)
        TT_TRY(tt_peers_broadcast(tensor->peers, tensor->name, data,
                                  tensor->bytes));
    return tt_tensor_write(exec, tensor, data);
}

bool tt_tensors_are_first(const tt_tensors *all)
{
    return all->n == 0 || all->v[0].peers == NULL ||
           tt_peers_is_first(all->v[0].peers);
}
