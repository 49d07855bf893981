// drain - states are copied to the host while later steps run; see backend/drain.h.
//
// A checkpoint needs weights and optimiser states as they are between two steps.
// Copying them from a GPU takes long, and the next step shall not wait. Forward and
// backward only read the weights; nothing changes them before the next update. So the
// copies run in a queue of their own beside the next step, and only its update is held
// until they have left.
//
//   steps    update | forward  backward | update (held until the copies are over)
//   drain           | copy copy copy .. |
//
// A few states are written earlier (batch norm's statistics, by the next forward pass).
// They are small and are copied among the steps, before that.

#include "base/alloc.h"
#include "exec/state.h"

static const tt_drain_def *drain_of(const tt_exec *exec)
{
    return exec->backend->def->drain;
}

static void mark_outputs(tt_exec *exec, const tt_step *step)
{
    for (int32_t i = 0; i < step->n_out; i++)
        if (step->out[i].buffer >= 0)
            exec->is_early[step->out[i].buffer] = true;
}

// Buffers that are written before the next update.
static tt_status find_early(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    if (exec->is_early != NULL)
        return TT_OK;
    exec->is_early =
        tt_alloc((plan->n_buffers + 1) * (int64_t)sizeof *exec->is_early);
    if (exec->is_early == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to copy states");
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_segment *s = &plan->segment[i];
        for (int32_t k = 0; k < s->n && s->phase != TT_UPDATE; k++)
            mark_outputs(exec, &plan->step[s->first + k]);
    }
    return TT_OK;
}

tt_status tt_exec_drain_begin(tt_exec *exec)
{
    if (drain_of(exec) == NULL)
        return TT_OK;
    TT_TRY(find_early(exec));
    TT_TRY(tt__drain_hold(exec));
    return drain_of(exec)->begin(exec->backend);
}

// A state that is not stored dense is converted first. The copy then reads the
// converted memory, which no step writes, so that one never needs to be early.
tt_status tt_exec_drain(tt_exec *exec, tt_val v, void *to)
{
    const tt_ref *home = &exec->plan->home[v.id];
    const void *from = NULL;
    if (drain_of(exec) == NULL || tt__is_offloaded(exec, v))
        return tt_exec_read(exec, v, to);
    TT_TRY(tt__host_source(exec, v, &from));
    return drain_of(exec)->copy(
        exec->backend, to, from,
        tt_operand_count(&home->operand) * tt_dtype_bytes(home->operand.dtype),
        from == tt__address(exec, home) && exec->is_early[home->buffer]);
}

tt_status tt_exec_drain_end(tt_exec *exec)
{
    if (drain_of(exec) == NULL)
        return TT_OK;
    exec->is_held_up = true;
    return drain_of(exec)->end(exec->backend);
}

tt_status tt_exec_drain_wait(const tt_exec *exec)
{
    return drain_of(exec) == NULL ? TT_OK : drain_of(exec)->wait(exec->backend);
}

tt_status tt__drain_hold(tt_exec *exec)
{
    if (!exec->is_held_up)
        return TT_OK;
    exec->is_held_up = false;
    return drain_of(exec)->hold(exec->backend);
}

tt_backend *tt_exec_backend(const tt_exec *exec)
{
    return exec->backend;
}
