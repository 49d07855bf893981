// flights - flights as the executor sees them: begun before one step, over before
// another.
//
// The plan gives each flight two numbers: `begin`, the step before which it starts, and
// `end`, the step before which its result is needed. Between two steps the executor
// must know at once what begins and what ends here. So flights are sorted by each
// number, and an index over steps says where those of step s lie in the sorted list:
//
//   order         f3 f0 | f1 | f2 f4 ...        flights by begin
//   first_begin   0       2    3                step s: [first[s], first[s + 1])
//
// That is two reads per step, and nothing is searched for.
//
// The order is the plan's, with one exception. With exchange.order=magnitude, buckets
// whose last sums were larger go first. The sums are the same bits on all ranks, so all
// ranks find the same order without asking each other. It is computed before each run.

#include "base/alloc.h"
#include "base/clock.h"
#include "exec/rows.h"
#include "exec/state.h"
#include "ops/ops.h"

#include <string.h>

// ---- when and in which order -------------------------------------------------

// Counts `step` of every flight of `list` into `first`, so that it tells where in
// the list (sorted by this) those of a step begin.
static void index_steps(const tt_plan *plan, const int32_t *step,
                        int32_t *first)
{
    memset(first, 0, (size_t)(plan->n_steps + 3) * sizeof(*first));
    for (int32_t f = 0; f < plan->n_flights; f++)
        first[step[f] + 1]++;
    for (int32_t s = 0; s <= plan->n_steps + 1; s++)
        first[s + 1] += first[s];
}

static void index_ends(const tt_plan *plan, tt__exec_flights *flights,
                       int32_t *end)
{
    int32_t n = 0;
    for (int32_t f = 0; f < plan->n_flights; f++)
        end[f] = plan->flight[f].end;
    index_steps(plan, end, flights->first_end);
    for (int32_t s = 0; s <= plan->n_steps; s++)
        for (int32_t f = 0; f < plan->n_flights; f++)
            if (end[f] == s)
                flights->by_end[n++] = f;
}

// Of flights that are ordered by magnitude, the squares of an all-reduce's result count.
// Only all-reduces in place do: their result is equal on all ranks.
static bool is_weighed(const tt_step *step)
{
    return step->op == &tt_op_all_reduce &&
           step->in[0].buffer == step->out[0].buffer;
}

// Room for the largest result that is weighed, so that no step allocates it.
static tt_status make_copy(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    int64_t most = 0;
    if (plan->flight_order != TT_ORDER_MAGNITUDE ||
        exec->backend->def->memory == NULL)
        return TT_OK;
    for (int32_t i = 0; i < plan->n_members; i++) {
        const tt_step *step = &plan->step[plan->member[i]];
        if (is_weighed(step) && step->moved_bytes > most)
            most = step->moved_bytes;
    }
    exec->flights.copy = tt_alloc(most + 1);
    return exec->flights.copy != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory to weigh a flight");
}

tt_status tt__exec_flights_init(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    tt__exec_flights *flights = &exec->flights;
    const int64_t n = plan->n_flights + 1, steps = plan->n_steps + 4;
    const int64_t words = 4 * n + 2 * steps;
    flights->key = tt_alloc(n * (int64_t)sizeof(double));
    flights->begun =
        tt_alloc(plan->n_slots * n * (int64_t)sizeof(*flights->begun));
    flights->begin = tt_alloc(words * (int64_t)sizeof(int32_t)); // all of these
    if (flights->key == NULL || flights->begun == NULL ||
        flights->begin == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d flights",
                       plan->n_flights);
    flights->order = flights->begin + n;
    flights->by_end = flights->order + n;
    flights->first_begin = flights->by_end + n;
    flights->first_end = flights->first_begin + steps;
    index_ends(plan, flights, flights->first_end + steps);
    for (int32_t f = 0; f < plan->n_flights; f++) {
        flights->begin[f] = plan->flight[f].begin;
        flights->order[f] = f;
    }
    index_steps(plan, flights->begin, flights->first_begin);
    return make_copy(exec);
}

void tt__exec_flights_fini(tt_exec *exec)
{
    tt_free(exec->flights.copy);
    tt_free(exec->flights.begin);
    tt_free(exec->flights.begun);
    tt_free(exec->flights.key);
}

void tt__exec_flights_order(tt_exec *exec)
{
    const tt_plan *plan = exec->plan;
    tt__exec_flights *flights = &exec->flights;
    if (plan->flight_order != TT_ORDER_MAGNITUDE)
        return;
    tt_plan_schedule(plan, flights->key, flights->begin, flights->order);
    index_steps(plan, flights->begin, flights->first_begin);
}

// ---- magnitude -----------------------------------------------------------------

static double squares_f32(const float *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

static double squares_any(tt_dtype dtype, const void *x, int64_t first,
                          int64_t end)
{
    double sum = 0;
    for (int64_t i = first; i < end; i++) {
        const double v = tt_dtype_load(dtype, x, i);
        sum += v * v;
    }
    return sum;
}

// All ranks must find the same bits, however many threads they have. So one thread adds
// pieces of a fixed size in order.
static double squares(tt_dtype dtype, const void *x, int64_t n)
{
    enum { PIECE = 1 << 14 };
    double sum = 0;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t end = n - at < PIECE ? n : at + PIECE;
        sum += dtype == TT_F32 ? squares_f32((const float *)x + at, end - at)
                               : squares_any(dtype, x, at, end);
    }
    return sum;
}

// Operands in a device's memory are copied to the host first.
static tt_status weigh_step(const tt_exec *exec, int32_t s, double *sum)
{
    const tt_step *step = &exec->plan->step[s];
    const tt_dtype dtype = step->out[0].operand.dtype;
    const int64_t n = step->moved_bytes / tt_dtype_bytes(dtype);
    const void *x = exec->args[s].out[0];
    if (!is_weighed(step))
        return TT_OK;
    if (exec->backend->def->memory == NULL) {
        *sum += squares(dtype, x, n);
        return TT_OK;
    }
    TT_TRY(tt_memory_read(exec->backend, exec->flights.copy, x,
                          step->moved_bytes));
    *sum += squares(dtype, exec->flights.copy, n);
    return TT_OK;
}

// The key is negative because the least key goes first.
static tt_status weigh(tt_exec *exec, int32_t f)
{
    const tt_flight *flight = &exec->plan->flight[f];
    double sum = 0;
    for (int32_t i = 0; i < flight->n; i++)
        TT_TRY(weigh_step(exec, exec->plan->member[flight->first + i], &sum));
    exec->flights.key[f] = -sum;
    return TT_OK;
}

// ---- flights -------------------------------------------------------------------

static tt_status check_members(const tt_exec *exec, const tt_flight *flight,
                               int32_t micro)
{
    for (int32_t i = 0; i < flight->n; i++) {
        const int32_t s = exec->plan->member[flight->first + i];
        TT_TRY(tt__check_finite(exec, &exec->plan->step[s], micro));
    }
    return TT_OK;
}

// Two events: the flight itself, as long as it was carried out, and the wait for it. In
// a trace the first lies beside the steps, the second between them.
static void record(tt_exec *exec, int32_t f, int32_t micro,
                   const tt_flight_times *times, double waited_since)
{
    const int32_t s = exec->plan->member[exec->plan->flight[f].first];
    const double waited = tt_clock_seconds() - waited_since;
    exec->stats.wait_seconds += waited;
    tt__row_waited(exec, f, waited);
    exec->step_seconds[s] += waited;
    tt__trace_record(exec, &(tt__event){s, micro, times->begun,
                                        times->ended - times->begun, f, false});
    tt__trace_record(exec,
                     &(tt__event){s, micro, waited_since, waited, f, true});
}

// A wire without begin() has no thread (tests use such): the members are carried out
// here, one after another.
static tt_status do_members(tt_exec *exec, int32_t f, int32_t micro)
{
    const tt_wire *wire = exec->options.wire;
    const tt_flight *flight = &exec->plan->flight[f];
    const double start = tt_clock_seconds();
    for (int32_t i = 0; i < flight->n; i++) {
        const int32_t s = exec->plan->member[flight->first + i];
        const tt_step *step = &exec->plan->step[s];
        const tt_args *args = tt__args_of(exec, s);
        const tt_status status =
            wire->collective(wire->ctx, step, args->in, args->out);
        if (status != TT_OK)
            return tt_fail_context(status, "%s", step->name);
    }
    const tt_flight_times times = {start, tt_clock_seconds()};
    record(exec, f, micro, &times, start);
    return check_members(exec, flight, micro);
}

// The row in which a flight was begun: NULL, it is not under way. What is sent to another
// stage, or brought ahead of its row, may be under way once for each slot.
static const tt_order **begun(const tt_exec *exec, int32_t f, int32_t slot)
{
    const tt_flight *flight = &exec->plan->flight[f];
    const int64_t of_slot = flight->is_open || flight->is_ahead ? slot : 0;
    return &exec->flights.begun[of_slot * exec->plan->n_flights + f];
}

static tt_status finish(tt_exec *exec, int32_t f, const tt_order **row)
{
    const tt_wire *wire = exec->options.wire;
    const tt_flight *flight = &exec->plan->flight[f];
    const double start = tt_clock_seconds();
    tt_flight_times times = {0};
    const tt_order *order = *row;
    *row = NULL;
    const tt_status status =
        wire->finish(wire->ctx, exec->bound, f, order, &times);
    if (status != TT_OK)
        return tt_fail_context(status, "%s", flight->name);
    record(exec, f, order->micro, &times, start);
    if (exec->plan->flight_order == TT_ORDER_MAGNITUDE)
        TT_TRY(weigh(exec, f));
    return check_members(exec, flight, order->micro);
}

static tt_status begin(tt_exec *exec, int32_t f, const tt_order *order)
{
    const tt_wire *wire = exec->options.wire;
    const tt_order **row = begun(exec, f, order->slot);
    if (exec->plan->flight[f].is_open)
        TT_TRY(tt__row_send(exec));
    if (wire->begin == NULL)
        return do_members(exec, f, order->micro);
    const tt_status status = wire->begin(wire->ctx, exec->bound, f, order);
    if (status != TT_OK)
        return tt_fail_context(status, "%s", exec->plan->flight[f].name);
    *row = order;
    return TT_OK;
}

// Gradients are summed over micro-batches first, so their flights begin only with the
// last one (is_last_only). Flights of a layer's own collectives begin in each.
tt_status tt__exec_flights_begin(tt_exec *exec, int32_t s,
                                 const tt_order *order)
{
    const tt__exec_flights *flights = &exec->flights;
    for (int32_t i = flights->first_begin[s]; i < flights->first_begin[s + 1];
         i++) {
        const int32_t f = flights->order[i];
        const tt_flight *flight = &exec->plan->flight[f];
        const bool is_under_way =
            flight->is_ahead && *begun(exec, f, order->slot) != NULL;
        if (!is_under_way && (order->is_last || !flight->is_last_only))
            TT_TRY(begin(exec, f, order));
    }
    return TT_OK;
}

tt_status tt__exec_flight_expect(tt_exec *exec, int32_t f,
                                 const tt_order *order)
{
    return begin(exec, f, order);
}

bool tt__exec_flight_came(const tt_exec *exec, int32_t f, const tt_order *order,
                          double *since_out)
{
    const tt_wire *wire = exec->options.wire;
    *since_out = 0;
    return wire->is_over == NULL ||
           wire->is_over(wire->ctx, exec->bound, f, order, since_out);
}

// Whether nothing is on its way after the row that runs.
static bool is_last_row(const tt_exec *exec)
{
    return exec->next >= exec->plan->n_order;
}

// A flight that did not begin in this micro-batch is not waited for, nor is one that was
// begun ahead of another row, or that another segment waits for; what is sent to another
// stage only when no row follows, or its slot is used again.
tt_status tt__exec_flights_finish(tt_exec *exec, int32_t s)
{
    const tt__exec_flights *flights = &exec->flights;
    for (int32_t i = flights->first_end[s]; i < flights->first_end[s + 1];
         i++) {
        const int32_t f = flights->by_end[i];
        const tt_flight *flight = &exec->plan->flight[f];
        const int32_t first = flight->is_ahead ? exec->row->slot : 0;
        const int32_t n = flight->is_open ? exec->plan->n_slots : 1;
        if ((flight->is_open && !is_last_row(exec)) ||
            (flight->lands > 0 && flight->lands != exec->row->segment))
            continue;
        for (int32_t slot = first; slot < first + n; slot++)
            if (*begun(exec, f, slot) != NULL)
                TT_TRY(finish(exec, f, begun(exec, f, slot)));
    }
    return TT_OK;
}

tt_status tt__exec_slot_clear(tt_exec *exec, int32_t slot)
{
    for (int32_t f = 0; f < exec->plan->n_flights; f++)
        if (exec->plan->flight[f].is_open && *begun(exec, f, slot) != NULL)
            TT_TRY(finish(exec, f, begun(exec, f, slot)));
    return TT_OK;
}
