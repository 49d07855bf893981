// rollback - copies of values as they were before a step, so that they can be restored.
//
// A guarded job may decide at the end of a step not to take it. Weights are simply not
// updated then, but the forward pass has already changed buffers such as batch norm's
// statistics. These are saved before and restored after. The copies stay in the
// device's memory and in the device's own form, so neither direction waits for the
// host.

#include "base/alloc.h"
#include "exec/state.h"

// Part i of n of the bytes.
static tt_status copy(tt_exec *exec, tt_val v, bool is_back, int64_t i,
                      int64_t n)
{
    const tt_ref *home = &exec->plan->home[v.id];
    const int64_t bytes =
        tt_target_bytes(&exec->backend->target, &home->operand) / n;
    char *value = (char *)tt__address(exec, home) + i * bytes;
    char *kept = (char *)exec->kept[v.id] + i * bytes;
    return tt_memory_copy(exec->backend, is_back ? value : kept,
                          is_back ? kept : value, bytes);
}

tt_status tt_exec_save_value(tt_exec *exec, tt_val v)
{
    const tt_operand *o = &exec->plan->home[v.id].operand;
    if (exec->kept == NULL)
        exec->kept =
            tt_alloc(exec->plan->graph->n_values * (int64_t)sizeof *exec->kept);
    if (exec->kept == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a copy of states");
    if (exec->kept[v.id] == NULL)
        TT_TRY(tt_memory_alloc(exec->backend,
                               tt_target_bytes(&exec->backend->target, o),
                               &exec->kept[v.id]));
    return copy(exec, v, false, 0, 1);
}

tt_status tt_exec_restore_value(tt_exec *exec, tt_val v)
{
    return tt_exec_restore_part(exec, v, 0, 1);
}

tt_status tt_exec_restore_part(tt_exec *exec, tt_val v, int64_t i, int64_t n)
{
    if (n > 1 && !tt_operand_is_dense(&exec->plan->home[v.id].operand))
        return tt_fail(TT_ERR_STATE, "%s does not lie in parts",
                       exec->plan->graph->value[v.id].name);
    TT_TRY(tt__drain_hold(exec));
    return copy(exec, v, true, i, n);
}

void tt__saved_values_fini(tt_exec *exec)
{
    const int32_t n = exec->plan->graph->n_values;
    for (int32_t i = 0; exec->kept != NULL && i < n; i++)
        tt_memory_free(exec->backend, exec->kept[i]);
    tt_free(exec->kept);
}
