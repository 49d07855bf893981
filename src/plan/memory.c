// memory - sums for the memory table. Persistent buffers count in full, others as they
// are at the step where most bytes are alive.

#include "plan/lower.h"

static bool is_alive(const tt_buffer *b, int32_t step)
{
    return b->class_ != TT_PERSISTENT && b->first >= 0 && !b->on_host &&
           b->first <= step && step <= b->last;
}

// A buffer of a slot is there once for each micro-batch in flight.
static int64_t bytes_of(const tt_plan *plan, const tt_buffer *b)
{
    return b->class_ == TT_SLOT ? plan->n_slots * b->bytes : b->bytes;
}

// Bytes alive at each step, of all buffers that are not persistent: differences
// first, then their running sums.
static void count_alive(const tt_plan *plan, int64_t *alive)
{
    for (int32_t i = 0; i < plan->n_buffers; i++) {
        const tt_buffer *b = &plan->buffer[i];
        if (b->class_ == TT_PERSISTENT || b->first < 0 || b->on_host)
            continue;
        alive[b->first] += bytes_of(plan, b);
        alive[b->last + 1] -= bytes_of(plan, b);
    }
    for (int32_t s = 1; s < plan->n_steps; s++)
        alive[s] += alive[s - 1];
}

tt_status tt__memory_sum(tt__lower *l)
{
    tt_plan *plan = l->plan;
    int32_t peak_step = 0;
    const int64_t n = plan->n_steps + 2; // `last` may be n_steps
    int64_t *alive = tt_arena_alloc(l->arena, n * (int64_t)sizeof *alive);
    if (alive == NULL)
        return TT_ERR_NOMEM;
    count_alive(plan, alive);
    for (int32_t s = 1; s < plan->n_steps; s++)
        if (alive[s] > alive[peak_step])
            peak_step = s;
    for (int32_t i = 0; i < plan->n_buffers; i++) {
        const tt_buffer *b = &plan->buffer[i];
        if ((b->class_ == TT_PERSISTENT && !b->on_host) ||
            is_alive(b, peak_step))
            plan->bytes_by_use[b->use] += bytes_of(plan, b);
    }
    return TT_OK;
}
