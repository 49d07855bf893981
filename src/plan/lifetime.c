// lifetime - the first and the last step that touch a buffer, in the order of one
// micro-batch and the update. A flight touches its operands as long as it lasts. Later
// micro-batches write before they read, as the first does, so the intervals hold for
// them too.

#include "plan/flights.h"
#include "plan/lower.h"

static void touch(tt_plan *plan, int32_t buffer, int32_t step)
{
    if (buffer < 0)
        return;
    tt_buffer *b = &plan->buffer[buffer];
    if (b->first < 0 || b->first > step)
        b->first = step;
    if (b->last < step)
        b->last = step;
}

static void touch_refs(tt_plan *plan, const tt_ref *ref, int32_t n,
                       int32_t step)
{
    for (int32_t i = 0; i < n; i++)
        touch(plan, ref[i].buffer, step);
}

static int32_t segment_of(const tt_plan *plan, int32_t step)
{
    for (int32_t s = 0; s < plan->n_segments; s++)
        if (step < plan->segment[s].first + plan->segment[s].n)
            return s;
    return plan->n_segments;
}

static void touch_step(tt_plan *plan, const tt_step *step, int32_t at)
{
    touch_refs(plan, step->in, step->n_in, at);
    touch_refs(plan, step->out, step->n_out, at);
    touch(plan, step->scratch, at);
}

static bool is_from_host(const tt__lower *l, int32_t v)
{
    const tt_role role = l->g->value[v].role;
    return (role == TT_ROLE_INPUT || role == TT_ROLE_SCALAR) &&
           l->plan->home[v].buffer >= 0;
}

// What the host writes for each micro-batch is there once in each slot.
static void touch_fed(tt__lower *l)
{
    for (int32_t v = 0; v < l->g->n_values; v++) {
        const int32_t b = l->plan->home[v].buffer;
        if (!is_from_host(l, v))
            continue;
        l->plan->buffer[b].class_ = TT_SLOT;
        touch(l->plan, b, 0);
        touch(l->plan, b, l->plan->n_steps);
    }
}

// What may come before its row begins lies in the slot, from the row before on.
static void touch_ahead(tt_plan *plan, const tt_step *step, int32_t begin)
{
    const int32_t first = plan->segment[segment_of(plan, begin)].first;
    touch_refs(plan, step->out, step->n_out, first > 0 ? first - 1 : 0);
    for (int32_t i = 0; i < step->n_out; i++)
        if (plan->n_slots > 1 && step->out[i].buffer >= 0 &&
            plan->buffer[step->out[i].buffer].class_ == TT_SCRATCH)
            plan->buffer[step->out[i].buffer].class_ = TT_SLOT;
}

static bool crosses(const tt_plan *plan, const tt_buffer *b)
{
    return b->first >= 0 &&
           segment_of(plan, b->first) != segment_of(plan, b->last);
}

// What an agreement leaves for later, and what of it is still on its way, is there while
// whole steps and other segments run, so nothing shares its memory. An operand's last step
// is the one before its landing, in whichever segment that is.
static void touch_landing(tt_plan *plan, int32_t buffer)
{
    const tt_buffer *b = &plan->buffer[buffer];
    if (b->class_ == TT_PERSISTENT || b->first < 0 || b->last >= plan->n_steps)
        return;
    if (plan->segment[segment_of(plan, b->first)].phase != TT_AGREE ||
        !crosses(plan, b))
        return;
    touch(plan, buffer, 0);
    touch(plan, buffer, plan->n_steps);
}

// Rows of other stages run meanwhile, so nothing shares its memory.
static void leave_slot(tt_plan *plan, int32_t buffer)
{
    if (buffer < 0 || plan->buffer[buffer].class_ != TT_SLOT)
        return;
    plan->buffer[buffer].class_ = TT_SCRATCH;
    touch(plan, buffer, 0);
    touch(plan, buffer, plan->n_steps);
}

// A collective of the update begins with the last micro-batch of its stage, in whichever
// slot that is, and the update reads the result: there is one, in no slot. So it is with
// what steps of the update leave that run in backward (early.c).
static void leave_slots(tt_plan *plan)
{
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        for (int32_t i = 0; i < flight->n && flight->is_last_only; i++)
            leave_slot(plan,
                       plan->step[plan->member[flight->first + i]].out->buffer);
    }
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_segment *x = &plan->segment[i];
        for (int32_t s = x->first; s < x->first + x->n; s++)
            for (int32_t o = 0;
                 o < plan->step[s].n_out && x->phase != TT_UPDATE &&
                 plan->step[s].phase == TT_UPDATE;
                 o++)
                leave_slot(plan, plan->step[s].out[o].buffer);
    }
}

static void keep(tt_plan *plan, const tt_ref *ref, int32_t n,
                 const bool *is_fed)
{
    for (int32_t i = 0; i < n; i++)
        if (ref[i].buffer >= 0 && !is_fed[ref[i].buffer] &&
            plan->buffer[ref[i].buffer].class_ == TT_SLOT)
            plan->buffer[ref[i].buffer].class_ = TT_PERSISTENT;
}

// Updates run while micro-batches are in their slots. What they leave behind, or find,
// lies in no slot; but what the host feeds is there once in each.
static tt_status keep_updates(const tt__lower *l)
{
    tt_plan *plan = l->plan;
    bool *is_fed = tt_arena_alloc(l->arena, plan->n_buffers + 1);
    if (is_fed == NULL)
        return TT_ERR_NOMEM;
    for (int32_t v = 0; v < l->g->n_values; v++)
        if (is_from_host(l, v))
            is_fed[plan->home[v].buffer] = true;
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_segment *segment = &plan->segment[i];
        for (int32_t s = 0; s < segment->n && segment->phase == TT_UPDATE;
             s++) {
            const tt_step *step = &plan->step[segment->first + s];
            keep(plan, step->in, step->n_in, is_fed);
            keep(plan, step->out, step->n_out, is_fed);
        }
    }
    return TT_OK;
}

// Updates that come between rows of the next step find its activations in memory, so what
// they need for themselves shares it with nothing.
static void touch_updates(tt_plan *plan)
{
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_segment *segment = &plan->segment[i];
        const int32_t end = segment->first + segment->n;
        for (int32_t s = segment->first; s < end && segment->phase == TT_UPDATE;
             s++) {
            touch_step(plan, &plan->step[s], 0);
            touch_step(plan, &plan->step[s], plan->n_steps);
        }
    }
}

tt_status tt__lifetimes_find(tt__lower *l)
{
    tt_plan *plan = l->plan;
    for (int32_t s = 0; s < plan->n_steps; s++)
        if (!tt_op_is_collective(plan->step[s].op))
            touch_step(plan, &plan->step[s], s);
    for (int32_t s = 0; s < plan->n_steps; s++)
        for (int32_t c = plan->step[s].ends; c >= 0; c = plan->step[c].next_end)
            touch_step(plan, &plan->step[c], s);
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        for (int32_t i = 0; i < flight->n; i++) {
            const tt_step *step = &plan->step[plan->member[flight->first + i]];
            touch_step(plan, step, flight->begin);
            touch_step(plan, step, flight->end - 1);
            if (flight->is_open) // as long as the slot
                touch_step(plan, step, 0);
            if (flight->is_ahead)
                touch_ahead(plan, step, flight->begin);
        }
    }
    if (plan->n_slots > 1)
        touch_fed(l);
    if (tt__updates_apart(l))
        touch_updates(plan);
    for (int32_t v = 0; v < l->g->n_values; v++)
        if (l->info[v].is_host_read)
            touch(plan, plan->home[v].buffer, plan->n_steps);
    for (int32_t i = 0; i < plan->n_buffers; i++)
        touch_landing(plan, i);
    for (int32_t i = 0; i < plan->n_buffers; i++)
        if (plan->buffer[i].class_ == TT_SCRATCH &&
            crosses(plan, &plan->buffer[i]))
            plan->buffer[i].class_ = TT_SLOT;
    if (plan->n_slots > 1)
        leave_slots(plan);
    return l->is_endless ? keep_updates(l) : TT_OK;
}
