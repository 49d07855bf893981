// exec - creation: memory, and the address of every operand of every step.
//
// All addresses are computed here, once. A step then only calls a kernel with pointers
// that are ready, and CUDA graphs can be recorded, since no address ever changes.

#include "exec/exec.h"

#include "base/alloc.h"
#include "base/figures.h"
#include "exec/coding.h"
#include "exec/rows.h"
#include "exec/state.h"

enum { LEAST_EVENTS = 4096, RUNS_TRACED = 8 };

static int64_t count_operands(const tt_plan *plan)
{
    int64_t n = 0;
    for (int32_t s = 0; s < plan->n_steps; s++)
        n += plan->step[s].n_in + plan->step[s].n_out;
    return n;
}

// Steps, and at most two for every flight.
static int64_t events_per_run(const tt_plan *plan)
{
    int64_t n = 0;
    for (int32_t o = 0; o < plan->n_order + plan->n_aside; o++)
        n += plan->segment[plan->order[o].segment].n;
    return n + 2 * (int64_t)plan->n_flights * plan->n_micro;
}

static tt_status check_plan(const tt_plan *plan, const tt_wire *wire)
{
    for (int32_t s = 0; s < plan->n_steps; s++)
        if (tt_op_is_collective(plan->step[s].op) &&
            (wire == NULL || (wire->collective == NULL && wire->begin == NULL)))
            return tt_fail(TT_ERR_ARG,
                           "%s talks to other ranks, but there is no wire",
                           plan->step[s].name);
    return TT_OK;
}

static tt_status get_memory(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    const tt_wire *wire = exec->options.wire;
    const int64_t bytes = plan->peak_bytes + tt__guard_bytes(exec);
    if (plan->shared_bytes > 0 && wire != NULL && wire->alloc != NULL &&
        exec->backend->def->memory == NULL)
        exec->shared = wire->alloc(wire->ctx, plan->shared_bytes);
    exec->shared_bytes = exec->shared != NULL ? plan->shared_bytes : 0;
    if (plan->shared_bytes == 0 && exec->options.room != NULL &&
        exec->backend->def->memory == NULL) {
        exec->shared = exec->options.room;
        exec->shared_bytes = (plan->persistent_bytes + 63) / 64 * 64;
    }
    const int64_t own = bytes - exec->shared_bytes;
    void *memory = NULL;
    if (tt_memory_alloc(exec->backend, own > 0 ? own : 1, &memory) == TT_OK)
        exec->memory = memory;
    if (exec->memory == NULL) {
        tt_str s = {0};
        tt_add_bytes(&s, plan->peak_bytes);
        (void)tt_fail(TT_ERR_NOMEM, "cannot get %s of memory for the plan",
                      tt_str_text(&s));
        tt_str_fini(&s);
        return TT_ERR_NOMEM;
    }
    if (plan->host_bytes > 0)
        TT_TRY(tt_memory_host_alloc(exec->backend, plan->host_bytes, &memory));
    exec->on_host = plan->host_bytes > 0 ? memory : NULL;
    return TT_OK;
}

static tt_status allocate(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    const int64_t values = plan->graph->n_values + 1;
    const int64_t steps = plan->n_steps + 1;
    const int64_t slots = (int64_t)plan->n_places * plan->n_slots;
    exec->args = tt_alloc(slots * steps * (int64_t)sizeof(*exec->args));
    exec->step_seconds = tt_alloc(steps * (int64_t)sizeof(double));
    exec->address = tt_alloc(slots * (count_operands(plan) + 1) *
                             (int64_t)sizeof(*exec->address));
    exec->to_host = tt_alloc(values * (int64_t)sizeof(*exec->to_host));
    exec->from_host = tt_alloc(values * (int64_t)sizeof(*exec->from_host));
    if (exec->options.trace) {
        exec->events_capacity = events_per_run(plan) * RUNS_TRACED;
        if (exec->events_capacity < LEAST_EVENTS)
            exec->events_capacity = LEAST_EVENTS;
        exec->event =
            tt_alloc(exec->events_capacity * (int64_t)sizeof(*exec->event));
    }
    if (exec->args == NULL || exec->step_seconds == NULL ||
        exec->address == NULL || exec->to_host == NULL ||
        exec->from_host == NULL || (exec->options.trace && exec->event == NULL))
        return tt_fail(TT_ERR_NOMEM, "no memory for %d steps", plan->n_steps);
    TT_TRY(tt__exec_flights_init(exec));
    TT_TRY(tt__driven_init(exec));
    TT_TRY(tt__marks_init(exec));
    TT_TRY(tt__replay_init(exec));
    TT_TRY(tt__rows_init(exec));
    TT_TRY(tt__coding_init(exec));
    return get_memory(exec);
}

// The buffer that is read instead of `buffer` at a place of older weights.
static int32_t buffer_at(const tt_plan *plan, int32_t buffer, int32_t place)
{
    for (int32_t i = 0; i < plan->n_stashes && place > 0; i++) {
        const tt_stash *stash = &plan->stash[i];
        if (stash->buffer == buffer && place <= stash->n_places)
            return stash->place[place - 1];
    }
    return buffer;
}

// The addresses of one slot; returns where those of the next begin.
static void **resolve_slot(tt_exec *exec, int32_t place, tt_args *args,
                           void **next)
{
    for (int32_t s = 0; s < exec->plan->n_steps; s++, args++) {
        const tt_step *step = &exec->plan->step[s];
        args->in = (const void *const *)next;
        for (int32_t i = 0; i < step->n_in; i++) {
            tt_ref ref = step->in[i];
            ref.buffer = buffer_at(exec->plan, ref.buffer, place);
            *next++ = tt__address(exec, &ref);
        }
        args->out = next;
        for (int32_t i = 0; i < step->n_out; i++)
            *next++ = tt__address(exec, &step->out[i]);
        if (step->scratch >= 0)
            args->scratch =
                tt__at(exec, exec->plan->buffer[step->scratch].offset);
    }
    return next;
}

static void resolve(tt_exec *exec)
{
    void **next = exec->address;
    tt_args *args = exec->args;
    for (int32_t place = 0; place < exec->plan->n_places; place++)
        for (int32_t slot = 0; slot < exec->plan->n_slots; slot++) {
            const tt_order row = {.slot = slot};
            exec->row = &row;
            next = resolve_slot(exec, place, args, next);
            args += exec->plan->n_steps;
        }
    exec->row = NULL;
}

tt_status tt_exec_create(const tt_plan *plan, tt_backend *backend,
                         const tt_exec_options *options, tt_exec **exec_out)
{
    static const tt_exec_options plain = {0};
    if (options == NULL)
        options = &plain;
    TT_TRY(check_plan(plan, options->wire));
    tt_exec *exec = tt_alloc(sizeof(*exec));
    if (exec == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for an executor");
    exec->plan = plan;
    exec->backend = backend;
    exec->options = *options;
    tt_status status = allocate(exec);
    const tt_wire *wire = options->wire;
    if (status == TT_OK)
        resolve(exec);
    // All ranks bind, also those that a plan sends nothing from: links are made together.
    const bool is_alone = tt_mesh_ranks(&plan->graph->mesh) == 1;
    if (status == TT_OK && (plan->n_flights > 0 || !is_alone) && wire != NULL &&
        wire->bind != NULL) {
        status = wire->bind(wire->ctx, plan, backend, exec->args, &exec->bound);
        exec->is_bound = status == TT_OK && wire->unbind != NULL;
    }
    if (status == TT_OK && options->poison)
        status = tt__poison(exec);
    if (status != TT_OK) {
        tt_exec_destroy(exec);
        return status;
    }
    *exec_out = exec;
    return TT_OK;
}

static void free_host_kernels(const tt_exec *exec, tt__host_kernel *kernel)
{
    const int32_t n = exec->plan->graph->n_values;
    for (int32_t i = 0; kernel != NULL && i < n; i++) {
        tt_kernel_free(kernel[i].choice.kernel);
        tt_memory_free(exec->backend, kernel[i].scratch);
        tt_memory_free(exec->backend, kernel[i].dense);
    }
    tt_free(kernel);
}

void tt_exec_destroy(tt_exec *exec)
{
    if (exec == NULL)
        return;
    tt__replay_fini(exec);
    if (exec->is_bound)
        exec->options.wire->unbind(exec->options.wire->ctx, exec->bound);
    tt__lanes_fini(exec);
    if (exec->is_early != NULL) // something was drained
        (void)tt_exec_drain_wait(exec);
    tt_free(exec->is_early);
    tt__saved_values_fini(exec);
    tt_memory_free(exec->backend, exec->scalars);
    free_host_kernels(exec, exec->to_host);
    free_host_kernels(exec, exec->from_host);
    tt_memory_free(exec->backend, exec->memory);
    tt_memory_host_free(exec->backend, exec->on_host);
    tt__exec_flights_fini(exec);
    tt__rows_fini(exec);
    tt__driven_fini(exec);
    tt__coding_fini(exec);
    tt_free(exec->marked);
    tt_free(exec->event);
    tt_free(exec->address);
    tt_free(exec->step_seconds);
    tt_free(exec->args);
    tt_free(exec);
}

const tt_plan *tt_exec_plan(const tt_exec *exec)
{
    return exec->plan;
}
