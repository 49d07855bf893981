// lane - inputs are sent to a device while earlier steps still run.
//
// A batch is written into pinned memory of the host (`room`), from which the device
// copies it in a queue of its own (`send`). When its step begins, a copy within the
// device puts it where the kernels expect it (`take`). So the transfer over the bus is
// hidden by the step before.

#include "base/alloc.h"
#include "exec/state.h"

static const tt_lane_def *lanes_of(const tt_exec *exec)
{
    return exec->backend->def->lane;
}

static int64_t bytes_of(const tt_exec *exec, tt_val v)
{
    const tt_operand *o = &exec->plan->home[v.id].operand;
    return tt_operand_count(o) * tt_dtype_bytes(o->dtype);
}

tt_status tt_exec_room(tt_exec *exec, tt_val v, void **room_out)
{
    const tt_lane_def *def = lanes_of(exec);
    *room_out = NULL;
    if (def == NULL || !exec->plan->is_kept[v.id])
        return TT_OK;
    if (exec->lane == NULL)
        exec->lane =
            tt_alloc(exec->plan->graph->n_values * (int64_t)sizeof *exec->lane);
    if (exec->lane == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for inputs on their way");
    void **lane = &exec->lane[v.id];
    if (*lane == NULL)
        TT_TRY(def->open(exec->backend, bytes_of(exec, v), lane));
    return *lane == NULL ? TT_OK : def->room(exec->backend, *lane, room_out);
}

tt_status tt_exec_send(tt_exec *exec, tt_val v)
{
    return lanes_of(exec)->send(exec->backend, exec->lane[v.id],
                                bytes_of(exec, v));
}

tt_status tt_exec_take(tt_exec *exec, tt_val v)
{
    void *to = NULL;
    TT_TRY(tt__host_target(exec, v, &to));
    TT_TRY(lanes_of(exec)->take(exec->backend, exec->lane[v.id], to,
                                bytes_of(exec, v)));
    return tt__host_convert(exec, v);
}

void tt__lanes_fini(tt_exec *exec)
{
    const int32_t n = exec->plan->graph->n_values;
    for (int32_t i = 0; exec->lane != NULL && i < n; i++)
        lanes_of(exec)->close(exec->backend, exec->lane[i]);
    tt_free(exec->lane);
}
