// host - values from and to the host. What lies in another form than dense goes
// through a reorder kernel of the backend, prepared at first use.

#include "base/alloc.h"
#include "exec/state.h"
#include "ops/ops.h"

#include <string.h>

static int64_t dense_bytes(const tt_operand *o)
{
    return tt_operand_count(o) * tt_dtype_bytes(o->dtype);
}

static tt_status prepare(tt_exec *exec, const tt_operand *from,
                         const tt_operand *to, tt__host_kernel *kernel)
{
    if (kernel->is_ready)
        return TT_OK;
    tt_target *target = &exec->backend->target;
    tt_operand in = *from, out = *to;
    tt_site site = {.op = &tt_op_reorder,
                    .origin = "host",
                    .n_in = 1,
                    .n_out = 1,
                    .in = &in,
                    .out = &out};
    tt_choice choice;
    TT_TRY(target->choose(target, &site, &choice));
    tt__host_kernel k = {.choice = choice, .is_ready = true};
    tt_status status = TT_OK;
    if (!tt_operand_same_form(&in, from) || !tt_operand_same_form(&out, to))
        status =
            tt_fail(TT_ERR_UNSUPPORTED,
                    "%s cannot convert between the host's form and its own",
                    choice.name);
    if (status == TT_OK && choice.scratch_bytes > 0)
        status =
            tt_memory_alloc(exec->backend, choice.scratch_bytes, &k.scratch);
    if (status == TT_OK && exec->backend->def->memory != NULL)
        status = tt_memory_alloc(exec->backend, dense_bytes(from), &k.dense);
    if (status != TT_OK) {
        tt_memory_free(exec->backend, k.scratch);
        tt_kernel_free(choice.kernel);
        return status;
    }
    *kernel = k;
    return TT_OK;
}

static tt_status convert(tt__host_kernel *kernel, const void *from, void *to)
{
    const tt_args args = {.in = &from, .out = &to, .scratch = kernel->scratch};
    return tt_kernel_run(kernel->choice.kernel, &args);
}

static tt_status fail_missing(const tt_exec *exec, tt_val v)
{
    return tt_fail(TT_ERR_STATE,
                   "%s is not kept after a step: mark it as an output",
                   tt_graph_value(exec->plan->graph, v)->name);
}

// Offloaded values lie in the host's memory, dense, once all queued work is done.
bool tt__is_offloaded(const tt_exec *exec, tt_val v)
{
    const int32_t b = exec->plan->home[v.id].buffer;
    return b >= 0 && exec->plan->buffer[b].on_host;
}

static tt_status prepare_from(tt_exec *exec, tt_val v)
{
    const tt_operand *own = &exec->plan->home[v.id].operand;
    tt_operand dense = *own;
    tt_operand_set_dense(&dense);
    return prepare(exec, &dense, own, &exec->from_host[v.id]);
}

tt_status tt__host_target(tt_exec *exec, tt_val v, void **to_out)
{
    const tt_ref *home = &exec->plan->home[v.id];
    *to_out = tt__address(exec, home);
    if (tt_operand_is_dense(&home->operand))
        return TT_OK;
    TT_TRY(prepare_from(exec, v));
    *to_out = exec->from_host[v.id].dense;
    return TT_OK;
}

tt_status tt__host_convert(tt_exec *exec, tt_val v)
{
    const tt_ref *home = &exec->plan->home[v.id];
    tt__host_kernel *kernel = &exec->from_host[v.id];
    return tt_operand_is_dense(&home->operand)
               ? TT_OK
               : convert(kernel, kernel->dense, tt__address(exec, home));
}

static tt_status write_here(tt_exec *exec, tt_val v, const void *data)
{
    const tt_ref *home = &exec->plan->home[v.id];
    void *to = NULL;
    if (tt_role_is_state(exec->plan->graph->value[v.id].role))
        TT_TRY(tt__drain_hold(exec));
    if (tt__is_offloaded(exec, v)) {
        TT_TRY(tt_memory_wait(exec->backend));
        memcpy(tt__address(exec, home), data,
               (size_t)dense_bytes(&home->operand));
        return TT_OK;
    }
    TT_TRY(tt__host_target(exec, v, &to));
    if (to == NULL) // the host's memory, in another form
        return convert(&exec->from_host[v.id], data, tt__address(exec, home));
    TT_TRY(
        tt_memory_write(exec->backend, to, data, dense_bytes(&home->operand)));
    return tt__host_convert(exec, v);
}

// How many slots are meant: all, where no row says which one.
static int32_t slots_of(const tt_exec *exec, tt_val v)
{
    const int32_t b = exec->plan->home[v.id].buffer;
    return exec->row == NULL && b >= 0 &&
                   exec->plan->buffer[b].class_ == TT_SLOT
               ? exec->plan->n_slots
               : 1;
}

tt_status tt_exec_write(tt_exec *exec, tt_val v, const void *data)
{
    const int32_t n = slots_of(exec, v);
    tt_status status = TT_OK;
    if (!exec->plan->is_kept[v.id])
        return fail_missing(exec, v);
    if (n == 1)
        return write_here(exec, v, data);
    for (int32_t slot = 0; slot < n && status == TT_OK; slot++) {
        const tt_order row = {.slot = slot};
        exec->row = &row;
        status = write_here(exec, v, data);
    }
    exec->row = NULL;
    return status;
}

tt_status tt__host_source(tt_exec *exec, tt_val v, const void **from_out)
{
    const tt_ref *home = &exec->plan->home[v.id];
    tt__host_kernel *kernel = &exec->to_host[v.id];
    tt_operand dense = home->operand;
    *from_out = tt__address(exec, home);
    if (tt_operand_is_dense(&home->operand))
        return TT_OK;
    tt_operand_set_dense(&dense);
    TT_TRY(prepare(exec, &home->operand, &dense, kernel));
    TT_TRY(tt__drain_hold(exec)); // which may still read kernel->dense
    TT_TRY(convert(kernel, *from_out, kernel->dense));
    *from_out = kernel->dense;
    return TT_OK;
}

// The host's own memory in another form: converted to where it is wanted.
static tt_status read_here(tt_exec *exec, tt_val v, void *data_out)
{
    const tt_ref *home = &exec->plan->home[v.id];
    tt_operand dense = home->operand;
    tt_operand_set_dense(&dense);
    TT_TRY(prepare(exec, &home->operand, &dense, &exec->to_host[v.id]));
    return convert(&exec->to_host[v.id], tt__address(exec, home), data_out);
}

tt_status tt_exec_read(tt_exec *exec, tt_val v, void *data_out)
{
    const tt_ref *home = &exec->plan->home[v.id];
    const void *from = NULL;
    if (!exec->plan->is_kept[v.id])
        return fail_missing(exec, v);
    if (tt__is_offloaded(exec, v)) {
        TT_TRY(tt_memory_wait(exec->backend));
        memcpy(data_out, tt__address(exec, home),
               (size_t)dense_bytes(&home->operand));
        return TT_OK;
    }
    if (exec->backend->def->memory == NULL &&
        !tt_operand_is_dense(&home->operand))
        return read_here(exec, v, data_out);
    TT_TRY(tt__host_source(exec, v, &from));
    return tt_memory_read(exec->backend, data_out, from,
                          dense_bytes(&home->operand));
}

void *tt_exec_dense(const tt_exec *exec, tt_val v)
{
    const tt_ref *home = &exec->plan->home[v.id];
    const bool is_there = exec->plan->is_kept[v.id] &&
                          exec->backend->def->memory == NULL &&
                          tt_operand_is_dense(&home->operand) &&
                          !tt__is_offloaded(exec, v) && slots_of(exec, v) == 1;
    return is_there ? tt__address(exec, home) : NULL;
}

static tt_status check_scalar(const tt_exec *exec, tt_val v)
{
    const tt_operand *o = &exec->plan->home[v.id].operand;
    if (!exec->plan->is_kept[v.id])
        return fail_missing(exec, v);
    if (tt_operand_count(o) != 1 || o->layout != 0)
        return tt_fail(TT_ERR_ARG, "%s is not a single number",
                       tt_graph_value(exec->plan->graph, v)->name);
    return TT_OK;
}

tt_status tt_exec_set_scalar(tt_exec *exec, const char *name, double value)
{
    const tt_val v = tt_graph_find(exec->plan->graph, name);
    if (!tt_is(v))
        return tt_fail(TT_ERR_ARG, "the graph has no scalar %s", name);
    TT_TRY(check_scalar(exec, v));
    const tt_ref *home = &exec->plan->home[v.id];
    char number[8];
    tt_dtype_store(home->operand.dtype, number, 0, value);
    for (int32_t slot = 0; slot < slots_of(exec, v); slot++)
        TT_TRY(tt_memory_write(exec->backend,
                               tt__address(exec, home) +
                                   slot * exec->plan->slot_bytes,
                               number, tt_dtype_bytes(home->operand.dtype)));
    return TT_OK;
}

tt_status tt_exec_get_scalar(tt_exec *exec, tt_val v, double *value_out)
{
    TT_TRY(check_scalar(exec, v));
    const tt_ref *home = &exec->plan->home[v.id];
    char number[8];
    TT_TRY(tt_memory_read(exec->backend, number, tt__address(exec, home),
                          tt_dtype_bytes(home->operand.dtype)));
    *value_out = tt_dtype_load(home->operand.dtype, number, 0);
    return TT_OK;
}

// Side by side on the device, so that one copy fetches them all.
tt_status tt_exec_get_scalars(tt_exec *exec, const tt_val *v, int n,
                              double *value_out)
{
    char all[8 * TT_EXEC_SCALARS] = {0};
    if (exec->scalars == NULL)
        TT_TRY(tt_memory_alloc(exec->backend, (int64_t)sizeof all,
                               &exec->scalars));
    for (int64_t i = 0; i < n; i++) {
        if (!tt_is(v[i]))
            continue;
        const tt_ref *home = &exec->plan->home[v[i].id];
        TT_TRY(check_scalar(exec, v[i]));
        TT_TRY(tt_memory_copy(exec->backend, (char *)exec->scalars + 8 * i,
                              tt__address(exec, home),
                              tt_dtype_bytes(home->operand.dtype)));
    }
    TT_TRY(tt_memory_read(exec->backend, all, exec->scalars, 8 * (int64_t)n));
    for (int64_t i = 0; i < n; i++)
        value_out[i] =
            tt_is(v[i]) ? tt_dtype_load(exec->plan->home[v[i].id].operand.dtype,
                                        all + 8 * i, 0)
                        : 0;
    return TT_OK;
}
