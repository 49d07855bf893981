// verify_flights - what a plan promises about flights. Every collective is in one. While
// a flight lasts, no step writes what it reads or touches what it writes, and it keeps
// its order with those that do before and after. Flights of a micro-batch stay in their
// segment. What is reduced as one message lies side by side.

#include "base/alloc.h"
#include "plan/flights.h"
#include "plan/lower.h"

typedef struct span { // steps in which a collective may touch its operands
    int32_t flight, begin, end;
} span;

static tt_status fail_at(const tt_plan *plan, const tt_flight *flight,
                         const char *why)
{
    return tt_fail(TT_ERR_STATE, "the flight of %s (steps %d to %d) %s",
                   plan->step[plan->member[flight->first]].name, flight->begin,
                   flight->end, why);
}

static tt_status check_members(const tt_plan *plan, span *of_step)
{
    for (int32_t s = 0; s < plan->n_steps; s++)
        of_step[s] = (span){-1, s, s + 1};
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        for (int32_t i = 0; i < flight->n; i++) {
            const int32_t s = plan->member[flight->first + i];
            span *x = &of_step[s];
            if (!tt_op_is_collective(plan->step[s].op) ||
                (x->flight >= 0 &&
                 (flight->to == 0 ||
                  plan->flight[x->flight].first != flight->first)))
                return fail_at(plan, flight, "has a member that is none");
            if (x->flight < 0 || x->begin > flight->begin)
                x->begin = flight->begin;
            if (x->flight < 0 || x->end < flight->end)
                x->end = flight->end;
            x->flight = f;
        }
    }
    for (int32_t s = 0; s < plan->n_steps; s++)
        if (tt_op_is_collective(plan->step[s].op) && of_step[s].flight < 0)
            return tt_fail(TT_ERR_STATE, "%s is in no flight",
                           plan->step[s].name);
    return TT_OK;
}

static tt_status check_times(const tt_plan *plan, int32_t f)
{
    const tt_flight *flight = &plan->flight[f];
    const tt_segment *segment =
        tt__segment_of(plan, plan->member[flight->first]);
    const tt_segment *last =
        flight->lands > 0 ? &plan->segment[flight->lands] : segment;
    if (flight->begin < flight->ready || flight->end <= flight->begin ||
        flight->end > plan->n_steps)
        return fail_at(plan, flight, "ends before it begins");
    if (f > 0 && plan->flight[f - 1].begin > flight->begin)
        return fail_at(plan, flight, "is not in the order of beginnings");
    if (flight->is_last_only != (segment->phase == TT_UPDATE))
        return fail_at(plan, flight, "is in the wrong micro-batch");
    if (!flight->is_last_only && !flight->is_open &&
        (flight->begin < segment->first || flight->end > last->first + last->n))
        return fail_at(plan, flight, "leaves its segment");
    return TT_OK;
}

// Compares step `s` (a collective) with all others that conflict with it: the whole of
// its flight, and of theirs, must be before or after, as in the list of steps.
static tt_status check_conflicts(const tt_plan *plan, const span *of_step,
                                 int32_t s)
{
    const span *a = &of_step[s];
    for (int32_t t = 0; t < plan->n_steps; t++) {
        const span *b = &of_step[t];
        const bool is_apart = t < s ? b->end <= a->begin : a->end <= b->begin;
        if (t != s && !is_apart &&
            tt__steps_conflict(&plan->step[s], &plan->step[t]))
            return tt_fail(TT_ERR_STATE, "%s meets the flight of %s",
                           plan->step[t].name, plan->step[s].name);
    }
    return TT_OK;
}

// The pieces of a row are the row.
static tt_status check_pieces(const tt_plan *plan, const tt_flight *flight,
                              int64_t row)
{
    int64_t sum = 0;
    bool goes_on = flight->to == row;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *other = &plan->flight[f];
        if (other->first != flight->first)
            continue;
        sum += other->to - other->from;
        goes_on |= other->from == flight->to;
    }
    return flight->to == 0 ||
                   (sum == row && goes_on && flight->from <= flight->to)
               ? TT_OK
               : fail_at(plan, flight, "is not all of its row");
}

// Members are whole buffers, summed where they lie, that follow each other; only
// gaps of alignment are between them.
static tt_status check_joined(const tt_plan *plan, const tt_flight *flight)
{
    int64_t first = -1, end = -1;
    for (int32_t i = 0; i < flight->n; i++) {
        const tt_step *step = &plan->step[plan->member[flight->first + i]];
        const tt_buffer *b = &plan->buffer[step->in[0].buffer];
        if (step->in[0].buffer != step->out[0].buffer ||
            b->bytes != step->moved_bytes ||
            (i > 0 && (b->offset < end || b->offset - end >= 64)))
            return fail_at(plan, flight, "is not in a row");
        first = i == 0 ? b->offset : first;
        end = b->offset + b->bytes;
    }
    return check_pieces(plan, flight, end - first);
}

tt_status tt__flights_verify(const tt_plan *plan)
{
    tt_status status = TT_OK;
    span *of_step = tt_alloc(plan->n_steps * (int64_t)sizeof(*of_step));
    if (of_step == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to verify a plan");
    status = check_members(plan, of_step);
    for (int32_t f = 0; f < plan->n_flights && status == TT_OK; f++) {
        status = check_times(plan, f);
        if (status == TT_OK && plan->flight[f].is_joined)
            status = check_joined(plan, &plan->flight[f]);
    }
    for (int32_t s = 0; s < plan->n_steps && status == TT_OK; s++)
        if (of_step[s].flight >= 0)
            status = check_conflicts(plan, of_step, s);
    tt_free(of_step);
    return status;
}
