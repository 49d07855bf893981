// offload - copies between the device and the host run while later steps run.
//
//   reload    until the first step that reads what it makes
//   offload   until the next run of offloads but one begins, or its segment ends: so
//             that few values are alive only for their copies
//
// A copy touches its operands as long as it lasts, and ends in its segment.

#include "ops/ops.h"
#include "plan/flights.h"
#include "plan/lower.h"

enum { AT_A_TIME = 2 }; // runs of offloads

static bool is_copy(const tt_step *step)
{
    return step->op == &tt_op_offload || step->op == &tt_op_reload;
}

static bool touches(const tt_step *step, int32_t buffer)
{
    for (int i = 0; i < step->n_in; i++)
        if (step->in[i].buffer == buffer)
            return true;
    for (int i = 0; i < step->n_out; i++)
        if (step->out[i].buffer == buffer)
            return true;
    return false;
}

static bool writes(const tt_step *step, int32_t buffer)
{
    for (int i = 0; i < step->n_out; i++)
        if (step->out[i].buffer == buffer)
            return true;
    return false;
}

// The last step of its segment after which the copy of step s may end.
static int32_t last_of(const tt_plan *plan, int32_t s, int32_t end)
{
    const tt_step *step = &plan->step[s];
    const bool is_offload = step->op == &tt_op_offload;
    int32_t n_more = 0, last = s;
    for (int32_t t = s + 1; t < end; t++) {
        const tt_step *other = &plan->step[t];
        n_more += other->op == &tt_op_offload && !is_copy(&plan->step[t - 1]);
        if (touches(other, step->out[0].buffer) ||
            writes(other, step->in[0].buffer) ||
            (is_offload && n_more == AT_A_TIME))
            break;
        if (!tt_op_is_collective(other->op))
            last = t;
    }
    return last;
}

void tt__beside_find(tt__lower *l)
{
    tt_plan *plan = l->plan;
    for (int32_t s = 0; s < plan->n_steps; s++)
        plan->step[s].ends = plan->step[s].next_end = -1;
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_segment *segment = &plan->segment[i];
        const int32_t end = segment->first + segment->n;
        for (int32_t s = segment->first; s < end; s++) {
            if (!is_copy(&plan->step[s]))
                continue;
            const int32_t last = last_of(plan, s, end);
            plan->step[s].is_beside = true;
            plan->step[s].next_end = plan->step[last].ends;
            plan->step[last].ends = s;
        }
    }
}
