// slice - cuts buckets into pieces, so that collectives of layers (synchronised batch
// norm, say) do not wait long for them.
//
// The wire carries one flight after another. So a layer's collective, which is needed at
// once, waits for all flights that were begun before. Where backward has such
// collectives, rows of gradients are cut into short pieces. They begin evenly over
// backward: when x% of its work is done, x% of the bytes have begun. Then a layer's
// collective waits for little, as long as communication is faster than backward. If it
// is slower, it decides the time of the step anyway.

#include "ops/ops.h"
#include "plan/flights.h"

enum { PIECES = 8, LEAST = 32 << 10, ALIGN = 64 };

// A layer's own collective in backward, needed soon.
static bool is_urgent(const tt_plan *plan, const tt_flight *flight)
{
    const tt_step *step = &plan->step[plan->member[flight->first]];
    return !flight->is_last_only && step->phase != TT_FORWARD &&
           step->op != &tt_op_reduce_scatter && step->op != &tt_op_all_gather;
}

static bool is_row(const tt_plan *plan, const tt_flight *flight)
{
    return flight->is_joined &&
           flight->ready <= tt__first_step_of(plan, TT_UPDATE);
}

static int64_t align_up(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

// Bytes of a row, with its gaps.
static int64_t row_bytes(const tt_plan *plan, const tt_flight *flight)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < flight->n; i++)
        bytes = align_up(bytes) +
                plan->step[plan->member[flight->first + i]].moved_bytes;
    return bytes;
}

typedef struct slicing {
    tt_flight *to; // the new array
    int32_t n;
    int64_t all, done, piece; // bytes
    int32_t step;             // begun so far before this one
} slicing;

// The step at which a piece begins: where the share of work done reaches the share of
// bytes begun, this piece included.
static int32_t pace(const tt_plan *plan, slicing *x, int64_t bytes)
{
    const int32_t update = tt__first_step_of(plan, TT_UPDATE);
    const double from = plan->clock[tt__first_step_of(plan, TT_BACKWARD)];
    const double time = plan->clock[update] - from;
    x->done += bytes;
    while (x->step < update &&
           (plan->clock[x->step + 1] - from) * (double)x->all <
               time * (double)x->done)
        x->step++;
    return x->step;
}

static int64_t pieces_of(const tt_flight *flight, const slicing *x)
{
    return (flight->bytes + x->piece - 1) / x->piece;
}

// As many pieces on every rank, whatever its part of the row is.
static void cut(const tt_plan *plan, const tt_flight *flight, slicing *x)
{
    const int64_t n = pieces_of(flight, x), row = row_bytes(plan, flight);
    const int64_t each = align_up((row + n - 1) / n);
    for (int32_t i = 0; i < n; i++) {
        tt_flight *f = &x->to[x->n++];
        *f = *flight;
        f->piece = i;
        f->from = i * each < row ? i * each : row;
        f->to = row - f->from > each ? f->from + each : row;
        f->bytes = flight->bytes / n;
        const int32_t step = pace(plan, x, f->bytes);
        f->begin = step > flight->ready ? step : flight->ready;
    }
}

tt_status tt__flights_slice(tt__trips *t)
{
    tt_plan *plan = t->l->plan;
    slicing x = {.step = tt__first_step_of(plan, TT_BACKWARD)};
    int64_t n_urgent = 0, most = plan->n_flights;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        n_urgent += is_urgent(plan, &plan->flight[f]) ? 1 : 0;
        if (is_row(plan, &plan->flight[f]))
            x.all += plan->flight[f].bytes;
    }
    // Magnitudes are of whole rows.
    if (n_urgent == 0 || plan->flight_order == TT_ORDER_MAGNITUDE)
        return TT_OK;
    const int64_t least =
        t->l->bucket_bytes < LEAST ? t->l->bucket_bytes : LEAST;
    x.piece = x.all / (PIECES * n_urgent);
    x.piece = align_up(x.piece > least ? x.piece : least);
    for (int32_t f = 0; f < plan->n_flights; f++)
        if (is_row(plan, &plan->flight[f]))
            most += pieces_of(&plan->flight[f], &x);
    x.to = tt_arena_alloc(plan->arena, most * (int64_t)sizeof(*x.to));
    if (x.to == NULL)
        return TT_ERR_NOMEM;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        if (is_row(plan, &plan->flight[f]))
            cut(plan, &plan->flight[f], &x);
        else
            x.to[x.n++] = plan->flight[f];
    }
    plan->flight = x.to;
    plan->n_flights = x.n;
    return TT_OK;
}
