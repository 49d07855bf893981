// tensors_parts - whole tensors from the parts that ranks hold, and back.
//
// A gather puts parts one after another, in the order of ranks. If the tensor is
// split along its first dimension, that is the whole already (is_in_order), and it
// is received straight into the caller's memory. Otherwise it goes through a second
// buffer, and `join` moves each run to its place.

#include "base/alloc.h"
#include "state/parts.h"
#include "state/tensors.h"

bool tt_tensor_is_here(const tt_exec *exec, const tt_tensor *tensor)
{
    const tt_plan *plan = tt_exec_plan(exec);
    return tt__rank_part_group(plan->graph, tensor->val, plan->rank) !=
           TT__RANK_ABSENT;
}

static tt_status fail_memory(const tt_tensor *t)
{
    return tt_fail(TT_ERR_NOMEM, "no memory for parts of %s", t->name);
}

// ---- reading -------------------------------------------------------------

typedef struct reading {
    const tt_graph *graph;
    const tt_tensor *tensor;
    int32_t like;     // a rank, whose copy is read; or TT_FIRST_COPY
    bool is_for_all;  // all ranks get it; else rank 0 alone
    int64_t *bound;   // where each rank's part begins, in bytes
    bool is_in_order; // the gathered parts are the whole already
} reading;

// Where each part begins in the gathered bytes. Ranks with another copy, or with none,
// have empty parts.
static void find_parts(reading *r)
{
    const tt_tensor *t = r->tensor;
    const int64_t size = tt_dtype_bytes(t->dtype);
    const int32_t group = r->like == TT_FIRST_COPY
                              ? tt__rank_part_first(r->graph, t->val)
                              : tt__rank_part_group(r->graph, t->val, r->like);
    r->is_in_order = true;
    for (int32_t k = 0; k < t->peers->size; k++) {
        const tt__rank_part p = tt__rank_part_of(r->graph, t->val, k);
        const bool is_one = tt__rank_part_group(r->graph, t->val, k) == group;
        r->bound[k + 1] = r->bound[k] + (is_one ? p.count * size : 0);
        if (is_one && p.count > 0)
            r->is_in_order =
                r->is_in_order && p.run == p.count &&
                tt_local_to_global(&p.local, 0) * size == r->bound[k];
    }
}

static tt_status gather(tt_exec *exec, const reading *r, char *mine,
                        char *parts)
{
    const tt_tensor *t = r->tensor;
    const tt_peers *peers = t->peers;
    if (tt_tensor_is_here(exec, t))
        TT_TRY(tt_exec_read(exec, t->val, mine));
    const tt_coll_call call = {.kind =
                                   r->is_for_all ? TT_ALL_GATHER : TT_GATHER,
                               .fold = {TT_FOLD_COPY, TT_NUM_U8},
                               .count = r->bound[peers->size],
                               .bound = r->bound,
                               .in = mine,
                               .out = parts};
    const tt_status status = tt_comm_wire_call(peers->wire, "gather", &call);
    return status == TT_OK ? status : tt_fail_context(status, "%s", t->name);
}

static void join(const reading *r, const char *parts, char *data)
{
    const tt_tensor *t = r->tensor;
    for (int32_t k = 0; k < t->peers->size; k++) {
        const tt__rank_part p = tt__rank_part_of(r->graph, t->val, k);
        if (r->bound[k + 1] > r->bound[k])
            tt__rank_part_spread(&p, tt_dtype_bytes(t->dtype),
                                 parts + r->bound[k], data);
    }
}

// `data` receives the whole, on ranks that want it.
static tt_status read_parts(tt_exec *exec, reading *r, char *data)
{
    const tt_tensor *t = r->tensor;
    const bool is_wanted = r->is_for_all || tt_peers_is_first(t->peers);
    const tt__rank_part own =
        tt__rank_part_of(r->graph, t->val, tt_exec_plan(exec)->rank);
    char *mine =
        tt_alloc_aligned(own.count * tt_dtype_bytes(t->dtype) + 64, 64);
    char *parts = NULL;
    tt_status status = TT_OK;
    r->bound = tt_alloc((t->peers->size + 1) * (int64_t)sizeof *r->bound);
    if (mine == NULL || r->bound == NULL)
        status = fail_memory(t);
    else
        find_parts(r);
    if (status == TT_OK && is_wanted && !r->is_in_order) {
        parts = tt_alloc_aligned(t->bytes + 64, 64);
        status = parts != NULL ? TT_OK : fail_memory(t);
    }
    if (status == TT_OK)
        status = gather(exec, r, mine, parts != NULL ? parts : data);
    if (status == TT_OK && parts != NULL)
        join(r, parts, data);
    tt_free_aligned(mine);
    tt_free_aligned(parts);
    tt_free(r->bound);
    return status;
}

tt_status tt_tensor_read(tt_exec *exec, const tt_tensor *tensor, void *data)
{
    reading r = {.graph = tt_exec_plan(exec)->graph,
                 .tensor = tensor,
                 .like = TT_FIRST_COPY,
                 .is_for_all = true};
    return tensor->is_split ? read_parts(exec, &r, data)
                            : tt_exec_read(exec, tensor->val, data);
}

tt_status tt_tensor_gather(tt_exec *exec, const tt_tensor *tensor, int32_t like,
                           void *data)
{
    reading r = {
        .graph = tt_exec_plan(exec)->graph, .tensor = tensor, .like = like};
    if (tensor->is_split || like > 0)
        return read_parts(exec, &r, data);
    return tensor->peers == NULL || tt_peers_is_first(tensor->peers)
               ? tt_exec_read(exec, tensor->val, data)
               : TT_OK;
}

// ---- writing -------------------------------------------------------------

// Writes this rank's part of a value; `data` is the whole, in the value's type.
static tt_status write_value(tt_exec *exec, const tt_tensor *t, tt_val v,
                             const void *data)
{
    const tt_plan *plan = tt_exec_plan(exec);
    const int64_t size = tt_dtype_bytes(plan->graph->value[v.id].type.dtype);
    const tt__rank_part p = tt__rank_part_of(plan->graph, v, plan->rank);
    if (p.local.is_absent)
        return TT_OK;
    if (p.count == t->count)
        return tt_exec_write(exec, v, data);
    char *mine = tt_alloc_aligned(p.count * size + 64, 64);
    if (mine == NULL)
        return fail_memory(t);
    tt__rank_part_cut(&p, size, data, mine);
    const tt_status status = tt_exec_write(exec, v, mine);
    tt_free_aligned(mine);
    return status;
}

// Writes the copy of a weight in the compute precision.
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
