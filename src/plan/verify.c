// verify - everything a plan promises about memory: buffers lie inside the arena,
// those that live at the same time do not overlap, operands lie inside their
// buffers, and nothing is read before it was written.

#include "base/alloc.h"
#include "plan/lower.h"

// With several slots, what lies in them is in no segment's scratch and the other way
// round, whatever micro-batch runs.
static tt_status check_pair(const tt_buffer *a, const tt_buffer *b,
                            bool has_slots)
{
    const bool in_time = a->class_ == TT_PERSISTENT ||
                         b->class_ == TT_PERSISTENT ||
                         (has_slots && a->class_ != b->class_) ||
                         (a->first <= b->last && b->first <= a->last);
    const bool in_space = a->on_host == b->on_host &&
                          a->offset < b->offset + b->bytes &&
                          b->offset < a->offset + a->bytes;
    return in_time && in_space
               ? tt_fail(TT_ERR_STATE, "%s and %s overlap", a->name, b->name)
               : TT_OK;
}

static tt_status check_buffers(const tt_plan *plan)
{
    for (int32_t i = 0; i < plan->n_buffers; i++) {
        const tt_buffer *b = &plan->buffer[i];
        const int64_t slot =
            b->on_host ? plan->host_slot_bytes : plan->slot_bytes;
        const int64_t last =
            b->class_ == TT_SLOT ? (plan->n_slots - 1) * slot : 0;
        if (b->offset < 0 || b->offset % 64 != 0 ||
            last + b->offset + b->bytes >
                (b->on_host ? plan->host_bytes : plan->peak_bytes))
            return tt_fail(TT_ERR_STATE, "%s is not inside the arena", b->name);
        for (int32_t j = 0; j < i; j++)
            TT_TRY(check_pair(b, &plan->buffer[j], plan->n_slots > 1));
    }
    return TT_OK;
}

static tt_status check_ref(const tt_plan *plan, const tt_step *step,
                           const tt_ref *ref)
{
    const int64_t bytes = tt_target_bytes(plan->target, &ref->operand);
    const tt_buffer *b = &plan->buffer[ref->buffer];
    return ref->offset < 0 || ref->offset + bytes > b->bytes
               ? tt_fail(TT_ERR_STATE, "%s: an operand is not inside %s",
                         step->name, b->name)
               : TT_OK;
}

static tt_status check_step(const tt_plan *plan, const tt_step *step,
                            bool *is_written)
{
    for (int i = 0; i < step->n_in; i++) {
        const int32_t b = step->in[i].buffer;
        if (b < 0)
            continue;
        if (!is_written[b])
            return tt_fail(TT_ERR_STATE, "%s reads %s too early", step->name,
                           plan->buffer[b].name);
        TT_TRY(check_ref(plan, step, &step->in[i]));
    }
    for (int i = 0; i < step->n_out; i++) {
        if (step->out[i].buffer < 0)
            continue; // sent away
        TT_TRY(check_ref(plan, step, &step->out[i]));
        is_written[step->out[i].buffer] = true;
    }
    return TT_OK;
}

tt_status tt_plan_verify(const tt_plan *plan)
{
    TT_TRY(check_buffers(plan));
    bool *is_written = tt_alloc(plan->n_buffers);
    if (is_written == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to verify a plan");
    for (int32_t i = 0; i < plan->n_buffers; i++)
        is_written[i] = plan->buffer[i].class_ == TT_PERSISTENT;
    for (int32_t v = 0; v < plan->graph->n_values; v++) // by the host
        if (plan->graph->value[v].node < 0 && plan->home[v].buffer >= 0)
            is_written[plan->home[v].buffer] = true;
    tt_status status = TT_OK;
    for (int32_t s = 0; s < plan->n_steps && status == TT_OK; s++)
        status = check_step(plan, &plan->step[s], is_written);
    tt_free(is_written);
    return status == TT_OK ? tt__flights_verify(plan) : status;
}
