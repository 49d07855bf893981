// flight - which collectives travel together, from when to when.

#include "plan/lower.h"

static bool is_collective(const tt_step *step)
{
    return (step->op->flags & TT_OP_COLLECTIVE) != 0;
}

static bool has_buffer(const tt_ref *ref, int32_t n, int32_t buffer)
{
    for (int32_t i = 0; i < n; i++)
        if (ref[i].buffer == buffer)
            return true;
    return false;
}

// Whether `step` may not run while the collective is under way.
static bool conflicts(const tt_step *collective, const tt_step *step)
{
    for (int32_t i = 0; i < collective->n_in; i++) {
        const int32_t b = collective->in[i].buffer;
        if (b >= 0 && has_buffer(step->out, step->n_out, b))
            return true;
    }
    for (int32_t i = 0; i < collective->n_out; i++) {
        const int32_t b = collective->out[i].buffer;
        if (has_buffer(step->in, step->n_in, b) ||
            has_buffer(step->out, step->n_out, b))
            return true;
    }
    return false;
}

static const tt_segment *segment_of(const tt_plan *plan, int32_t step)
{
    const tt_segment *segment = plan->segment;
    while (step >= segment->first + segment->n)
        segment++;
    return segment;
}

// The first step behind it that may not run before it is over.
static int32_t due_of(const tt_plan *plan, int32_t s)
{
    const tt_segment *segment = segment_of(plan, s);
    const int32_t end = segment->phase == TT_UPDATE
                            ? plan->n_steps
                            : segment->first + segment->n;
    for (int32_t t = s + 1; t < end; t++)
        if (conflicts(&plan->step[s], &plan->step[t]))
            return t;
    return end;
}

tt_status tt__flights_make(tt__lower *l)
{
    tt_plan *plan = l->plan;
    for (int32_t s = 0; s < plan->n_steps; s++)
        plan->n_members += is_collective(&plan->step[s]) ? 1 : 0;
    plan->flight = tt_arena_alloc(
        plan->arena, (plan->n_members + 1) * (int64_t)sizeof(*plan->flight));
    plan->member = tt_arena_alloc(
        plan->arena, (plan->n_members + 1) * (int64_t)sizeof(*plan->member));
    if (plan->flight == NULL || plan->member == NULL)
        return TT_ERR_NOMEM;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const tt_step *step = &plan->step[s];
        if (!is_collective(step))
            continue;
        plan->member[plan->n_flights] = s;
        plan->flight[plan->n_flights] =
            (tt_flight){.name = l->g->node[step->node].origin,
                        .first = plan->n_flights,
                        .n = 1,
                        .begin = s,
                        .end = due_of(plan, s),
                        .is_last_only = step->phase == TT_UPDATE,
                        .bytes = step->moved_bytes};
        plan->n_flights++;
    }
    return TT_OK;
}
