// marks - when a device began and ended each step.
//
// The host only queues kernels, so its clock says nothing about them unless it waits
// after each, which makes everything slower. Instead marks (CUDA events) are queued
// between kernels. The device notes the time of each, and they are read when the run
// is over. Between two steps it was idle.

#include "base/alloc.h"
#include "exec/state.h"

static bool can_mark(const tt_exec *exec)
{
    const tt_memory_def *memory = exec->backend->def->memory;
    return memory != NULL && memory->mark != NULL;
}

static bool has_marks(const tt_exec *exec)
{
    return exec->options.marks && can_mark(exec);
}

static bool has_span(const tt_exec *exec)
{
    return exec->options.span && !exec->options.marks && can_mark(exec);
}

tt_status tt__marks_init(tt_exec *exec)
{
    int64_t n = 1;
    if (!has_marks(exec))
        return TT_OK;
    for (int32_t o = 0; o < exec->plan->n_order + exec->plan->n_aside; o++)
        n += exec->plan->segment[exec->plan->order[o].segment].n;
    exec->marked = tt_alloc(n * (int64_t)sizeof *exec->marked);
    if (exec->marked == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld marks", (long long)n);
    return TT_OK;
}

tt_status tt_exec_mark(tt_exec *exec)
{
    if (exec->options.marks)
        return TT_OK;
    exec->options.marks = true;
    tt__replay_fini(exec);
    return tt__marks_init(exec);
}

// Whether a device may do both steps in one launch: updates of weights that follow each
// other. They get one pair of marks, since a mark between them would separate them.
static bool go_together(const tt_plan *plan, int32_t a, int32_t b)
{
    return a >= 0 && b < plan->n_steps && plan->step[a].phase == TT_UPDATE &&
           plan->step[a].op == plan->step[b].op;
}

tt_status tt__mark(tt_exec *exec, int32_t step, bool is_end)
{
    if (exec->marked == NULL ||
        go_together(exec->plan, is_end ? step : step - 1,
                    is_end ? step + 1 : step))
        return TT_OK;
    const int64_t i = exec->n_marked;
    exec->marked[i] = step;
    exec->n_marked += is_end ? 1 : 0;
    return exec->backend->def->memory->mark(exec->backend, 2 * i + is_end);
}

tt_status tt__mark_run(tt_exec *exec, bool is_end)
{
    return has_span(exec)
               ? exec->backend->def->memory->mark(exec->backend, is_end)
               : TT_OK;
}

tt_status tt__marks_read(tt_exec *exec)
{
    const tt_memory_def *memory = exec->backend->def->memory;
    const int64_t n = exec->n_marked;
    double seconds = 0;
    if (has_span(exec)) {
        TT_TRY(memory->between(exec->backend, 0, 1, &seconds));
        exec->stats.device_seconds += seconds;
    }
    if (exec->marked == NULL || n == 0)
        return TT_OK;
    exec->n_marked = 0;
    for (int64_t i = 0; i < n; i++) {
        TT_TRY(memory->between(exec->backend, 2 * i, 2 * i + 1, &seconds));
        exec->step_seconds[exec->marked[i]] += seconds;
        exec->stats.busy_seconds += seconds;
    }
    TT_TRY(memory->between(exec->backend, 0, 2 * n - 1, &seconds));
    exec->stats.device_seconds += seconds;
    return TT_OK;
}
