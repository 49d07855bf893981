// air - flights as the executor sees them: begun before one step, over before
// another.

#include "base/clock.h"
#include "exec/state.h"

// Without a wire that flies, the members are done here and now.
static tt_status do_members(tt_exec *exec, const tt_flight *flight)
{
    const tt_wire *wire = exec->options.wire;
    for (int32_t i = 0; i < flight->n; i++) {
        const int32_t s = exec->plan->member[flight->first + i];
        const tt_step *step = &exec->plan->step[s];
        const tt_args *args = &exec->args[s];
        const tt_status status =
            wire->collective(wire->ctx, step, args->in, args->out);
        if (status != TT_OK)
            return tt_fail_context(status, "%s", step->name);
    }
    return TT_OK;
}

static tt_status begin(tt_exec *exec, int32_t f)
{
    const tt_wire *wire = exec->options.wire;
    if (wire->begin == NULL)
        return do_members(exec, &exec->plan->flight[f]);
    TT_TRY(wire->begin(wire->ctx, exec->plan, f, exec->args));
    exec->is_in_air[f] = true;
    return TT_OK;
}

tt_status tt__flights_begin(tt_exec *exec, int32_t s, int32_t micro)
{
    const tt_plan *plan = exec->plan;
    const bool is_last = micro == plan->n_micro - 1;
    for (int32_t f = 0; f < plan->n_flights; f++)
        if (plan->flight[f].begin == s &&
            (is_last || !plan->flight[f].is_last_only))
            TT_TRY(begin(exec, f));
    return TT_OK;
}

tt_status tt__flights_finish(tt_exec *exec, int32_t s)
{
    const tt_plan *plan = exec->plan;
    const tt_wire *wire = exec->options.wire;
    tt_flight_times times;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        if (plan->flight[f].end != s || !exec->is_in_air[f])
            continue;
        exec->is_in_air[f] = false;
        TT_TRY(wire->finish(wire->ctx, plan, f, &times));
    }
    return TT_OK;
}
