// host - values from and to the host. What lies in another form than dense goes
// through a reorder kernel of the backend, prepared at first use.

#include "base/alloc.h"
#include "exec/state.h"
#include "ops/ops.h"

#include <string.h>

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
    tt_status status = TT_OK;
    void *scratch = NULL;
    if (!tt_operand_same_form(&in, from) || !tt_operand_same_form(&out, to))
        status =
            tt_fail(TT_ERR_UNSUPPORTED,
                    "%s cannot convert between the host's form and its own",
                    choice.name);
    else if (choice.scratch_bytes > 0) {
        scratch = tt_alloc_aligned(choice.scratch_bytes, 64);
        if (scratch == NULL)
            status = tt_fail(TT_ERR_NOMEM, "no memory to convert a tensor");
    }
    if (status != TT_OK) {
        tt_kernel_free(choice.kernel);
        return status;
    }
    *kernel = (tt__host_kernel){choice, scratch, true};
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

static int64_t dense_bytes(const tt_operand *o)
{
    return tt_operand_count(o) * tt_dtype_bytes(o->dtype);
}

// Large ones by all threads: one cannot fill the memory's bandwidth, nor make new
// pages as fast.
static void copy_bytes(void *to, const void *from, int64_t n)
{
    enum { PIECE = 1 << 20, LARGE = 4 * PIECE };
#pragma omp parallel for schedule(static) if (n >= LARGE)
    for (int64_t i = 0; i < n; i += PIECE)
        memcpy((char *)to + i, (const char *)from + i,
               (size_t)(n - i < PIECE ? n - i : PIECE));
}

tt_status tt_exec_write(tt_exec *exec, tt_val v, const void *data)
{
    const tt_ref *home = &exec->plan->home[v.id];
    if (!exec->plan->is_kept[v.id])
        return fail_missing(exec, v);
    char *to = tt__address(exec, home);
    if (tt_operand_is_dense(&home->operand)) {
        copy_bytes(to, data, dense_bytes(&home->operand));
        return TT_OK;
    }
    tt_operand dense = home->operand;
    tt_operand_set_dense(&dense);
    tt__host_kernel *kernel = &exec->from_host[v.id];
    TT_TRY(prepare(exec, &dense, &home->operand, kernel));
    return convert(kernel, data, to);
}

tt_status tt_exec_read(tt_exec *exec, tt_val v, void *data_out)
{
    const tt_ref *home = &exec->plan->home[v.id];
    if (!exec->plan->is_kept[v.id])
        return fail_missing(exec, v);
    const char *from = tt__address(exec, home);
    if (tt_operand_is_dense(&home->operand)) {
        copy_bytes(data_out, from, dense_bytes(&home->operand));
        return TT_OK;
    }
    tt_operand dense = home->operand;
    tt_operand_set_dense(&dense);
    tt__host_kernel *kernel = &exec->to_host[v.id];
    TT_TRY(prepare(exec, &home->operand, &dense, kernel));
    return convert(kernel, from, data_out);
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
    tt_dtype_store(home->operand.dtype, tt__address(exec, home), 0, value);
    return TT_OK;
}

tt_status tt_exec_get_scalar(tt_exec *exec, tt_val v, double *value_out)
{
    TT_TRY(check_scalar(exec, v));
    const tt_ref *home = &exec->plan->home[v.id];
    *value_out = tt_dtype_load(home->operand.dtype, tt__address(exec, home), 0);
    return TT_OK;
}
