// memory - sums for the memory table. Persistent buffers count in full, the others
// as they are at the step that has most of them.

#include "plan/lower.h"

static bool is_alive(const tt_buffer *b, int32_t step)
{
    return b->class_ != TT_PERSISTENT && b->first >= 0 && b->first <= step &&
           step <= b->last;
}

static int64_t alive_bytes(const tt_plan *plan, int32_t step,
                           tt_buffer_class least)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < plan->n_buffers; i++)
        if (is_alive(&plan->buffer[i], step) && plan->buffer[i].class_ <= least)
            bytes += plan->buffer[i].bytes;
    return bytes;
}

void tt__memory_sum(tt_plan *plan)
{
    int32_t peak_step = 0;
    int64_t peak = -1;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const int64_t all = alive_bytes(plan, s, TT_SCRATCH);
        const int64_t slots = alive_bytes(plan, s, TT_SLOT);
        if (all > peak) {
            peak = all;
            peak_step = s;
        }
        if (slots > plan->slot_bytes)
            plan->slot_bytes = slots;
    }
    const int64_t shared = plan->peak_bytes - plan->persistent_bytes;
    plan->scratch_bytes = shared - plan->slot_bytes;
    for (int32_t i = 0; i < plan->n_buffers; i++) {
        const tt_buffer *b = &plan->buffer[i];
        if (b->class_ == TT_PERSISTENT || is_alive(b, peak_step))
            plan->bytes_by_use[b->use] += b->bytes;
    }
}
