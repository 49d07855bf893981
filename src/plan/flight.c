// flight - which collectives travel together, from when to when.
//
// The problem. A collective that runs at its place in the graph stops the rank until
// all peers have come and the bytes have moved. Most results are needed much later:
// the sum of a gradient is needed by the update only.
//
// The idea. A collective step does nothing itself. It belongs to a flight, which begins
// before one step and must be over before another; steps in between run meanwhile.
//
//   backward   dw3   dw2   dw1   dw0  |  update w3  w2  w1  w0
//                 [ dw3 ------------- |]
//                       [ dw2 dw1 --- |----------]
//                                   [ | dw0 ------------]
//              begin: the last member is ready    end: the first reader
//
// A flight touches its operands as long as it lasts, so lifetime.c keeps these
// buffers alive, and nothing else is packed over them.
//
//   gradients        buckets, begun when the last member is finished (in the last
//                    micro-batch), over when the update reads the first (bucket)
//   reduce_scatter   in backward: a few neighbours, at most two such flights at a
//                    time, so that whole gradients die early
//   all_gather       of weights: ahead of their use, see prefetch; of new weights:
//                    while others are updated, a few at a time
//   agreements       of replicas that go on before they have it: begun in one segment,
//                    over when another (TT_LAND) needs them, with whole steps between
//   all others       begin at their place and are over when somebody needs them
//
// In the code a collective on its way is a trip, with the steps between which it may
// travel (`find_times`). Trips become flights; flights are sorted by begin.
//
// All ranks begin the same flights in the same order, or they would wait for each
// other forever. So all that decides here is the same on every rank: the order of
// nodes, and sizes as if all ranks held as much (`even_bytes`).
//
//   cost    memory: what is in flight stays alive. Hence the limits of two flights of
//           reduce-scatters and of gathered new weights (`bound_gathers`)
//   left    several flights at a time on the wire. It carries one after another, so a
//           layer's own collective may wait for a bucket: slice.c cuts these for it

#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "plan/flights.h"

#include <stdlib.h>

enum { IN_AIR = 2 };

// ---- trips -------------------------------------------------------------------

// Bytes of a rank's part of a value, as if all parts were equal.
static int64_t even_bytes(const tt_graph *g, tt_val v)
{
    const tt_type *type = &g->value[v.id].type;
    int64_t n = tt_shape_count(&type->shape);
    for (int a = 0; a < g->mesh.n_axes; a++)
        if (type->place[a].kind == TT_SPLIT)
            n = (n + g->mesh.axis[a].size - 1) / g->mesh.axis[a].size;
    return n * tt_dtype_bytes(type->dtype);
}

// What is moved: the larger side.
static int64_t bytes_of(const tt_graph *g, const tt_node *node)
{
    if (!tt_is(node->in[0])) // it lies elsewhere
        return even_bytes(g, node->out[0]);
    const int64_t in = even_bytes(g, node->in[0]);
    const int64_t out = even_bytes(g, node->out[0]);
    return in > out ? in : out;
}

static void collect(tt__trips *t)
{
    const tt__lower *l = t->l;
    for (int32_t s = 0; s < l->plan->n_steps; s++) {
        const tt_step *step = &l->plan->step[s];
        if (!tt_op_is_collective(step->op))
            continue;
        const tt_node *node = &l->g->node[step->node];
        const int32_t from =
            tt_is(node->in[0]) ? l->g->value[l->info[node->in[0].id].root].node
                               : -1;
        t->trip[t->n++] = (tt__trip){.node = step->node,
                                     .step = s,
                                     .at = from >= 0 ? l->at[from] : -1,
                                     .bytes = bytes_of(l->g, node),
                                     .bucket = -1};
    }
}

// Trips in the order of the steps as these are now.
static void find_steps(tt__trips *t)
{
    const tt_plan *plan = t->l->plan;
    for (int32_t i = 0; i < t->n; i++)
        for (int32_t s = 0; s < plan->n_steps; s++)
            if (plan->step[s].node == t->trip[i].node &&
                tt_op_is_collective(plan->step[s].op))
                t->trip[i].step = s;
}

bool tt__is_open(const tt_step *step)
{
    return tt_op_is_collective(step->op) && step->out[0].buffer < 0 &&
           step->phase != TT_UPDATE;
}

bool tt__is_across_stages(const tt_graph *g, const tt_step *step)
{
    const tt_comm_params *p = step->params;
    return tt_op_is_collective(step->op) && p->axis == tt_mesh_pipe(&g->mesh);
}

// When a trip may begin and must be over. Flights of a micro-batch stay in their
// segment; what the update reads may leave once the last micro-batch has made it. Where
// updates come between forward rows of the next step, backward finds weights that are new.
static void find_times(const tt__lower *l, tt__trip *trip)
{
    const tt_plan *plan = l->plan;
    const int32_t s = trip->step;
    const tt_segment *segment = tt__segment_of(plan, s);
    const bool is_update = segment->phase == TT_UPDATE;
    const tt_step *step = &plan->step[s];
    trip->ready = !is_update             ? segment->first
                  : tt__updates_apart(l) ? tt__first_step_of(plan, TT_BACKWARD)
                                         : 0;
    for (int32_t t = s - 1; t >= trip->ready; t--)
        if (tt__steps_conflict(step, &plan->step[t])) {
            trip->ready = tt_op_is_collective(plan->step[t].op) ? s : t + 1;
            break;
        }
    const bool is_ordered = l->in_order || tt__is_across_stages(l->g, step);
    if (is_ordered && is_update && trip->ready < segment->first)
        trip->ready = segment->first;
    const tt_segment *last = &plan->segment[tt__landing_of(
        plan, (int32_t)(segment - plan->segment))];
    trip->due = is_update && !tt__updates_apart(l)
                    ? tt__first_step_of(plan, TT_UPDATE + 1)
                    : last->first + last->n;
    if (tt__is_open(step)) {
        trip->due = plan->n_steps;
        return;
    }
    for (int32_t t = s + 1; t < trip->due; t++)
        if (tt__steps_conflict(step, &plan->step[t]))
            trip->due = t;
}

// ---- flights -----------------------------------------------------------------

static const char *name_of(tt__trips *t, const tt_flight *flight)
{
    const tt_plan *plan = t->l->plan;
    const int32_t *member = &plan->member[flight->first];
    const int32_t last = plan->step[member[flight->n - 1]].node;
    const char *a = t->l->g->node[plan->step[member[0]].node].origin;
    const char *b = t->l->g->node[last].origin;
    return a == b ? a : tt_arena_printf(plan->arena, "%s .. %s", a, b);
}

// The segment that waits for a collective, if it is another than its own; else 0.
static int32_t landing(const tt_plan *plan, int32_t step)
{
    const int32_t s = (int32_t)(tt__segment_of(plan, step) - plan->segment);
    const int32_t land = tt__landing_of(plan, s);
    return land != s ? land : 0;
}

tt_flight *tt__flight_add(tt__trips *t, const int32_t *trips, int32_t n)
{
    tt_plan *plan = t->l->plan;
    tt_flight *flight = &plan->flight[plan->n_flights++];
    *flight = (tt_flight){.first = plan->n_members,
                          .n = n,
                          .end = plan->n_steps,
                          .needed = plan->n_steps};
    for (int32_t i = 0; i < n; i++) {
        tt__trip *trip = &t->trip[trips[i]];
        const tt_step *step = &plan->step[trip->step];
        trip->is_taken = true;
        plan->member[plan->n_members++] = trip->step;
        flight->bytes += trip->bytes;
        flight->is_last_only = step->phase == TT_UPDATE;
        flight->is_open = tt__is_open(step);
        flight->lands = landing(plan, trip->step);
        if (flight->ready < trip->ready)
            flight->ready = trip->ready;
        if (flight->end > trip->due)
            flight->end = trip->due;
    }
    flight->begin = flight->ready;
    return flight;
}

static bool is_in_place(const tt_plan *plan, const tt_step *step)
{
    const int32_t b = step->in[0].buffer;
    return b >= 0 && b == step->out[0].buffer &&
           step->op == &tt_op_all_reduce && step->in[0].offset == 0 &&
           step->out[0].offset == 0 &&
           plan->buffer[b].class_ == TT_PERSISTENT &&
           plan->buffer[b].bytes == step->moved_bytes;
}

// A bucket in the order of its members; those that are not ready before the update
// go alone.
static void add_bucket(tt__trips *t, const tt__bucket *bucket, int32_t *room)
{
    const tt_plan *plan = t->l->plan;
    bool is_joined = true;
    int32_t n = 0;
    for (int32_t i = 0; i < bucket->n; i++) {
        const int32_t k = t->order[bucket->first + i];
        const tt__trip *trip = &t->trip[k];
        if (trip->ready > tt__segment_of(plan, trip->step)->first)
            continue;
        room[n++] = k;
        is_joined &= is_in_place(plan, &plan->step[trip->step]);
    }
    if (n > 0)
        tt__flight_add(t, room, n)->is_joined = is_joined;
}

bool tt__is_scatter(const tt_step *step)
{
    return step->op == &tt_op_reduce_scatter && step->phase != TT_UPDATE;
}

static bool is_next(const tt__trips *t, const tt_segment *segment, int32_t k)
{
    const tt__trip *trip = &t->trip[k];
    return tt__is_scatter(&t->l->plan->step[trip->step]) &&
           trip->step >= segment->first &&
           trip->step < segment->first + segment->n;
}

// Neighbours from trip k on that travel with it: a bucket of them, and the last is
// made before the first must be over.
static int32_t take_neighbours(tt__trips *t, const tt_segment *segment,
                               int64_t full, int32_t *room)
{
    int64_t bytes = 0;
    int32_t n = 0, due = t->l->plan->n_steps;
    for (int32_t k = 0; k < t->n; k++) {
        const tt__trip *trip = &t->trip[k];
        if (trip->is_taken || !is_next(t, segment, k))
            continue;
        if (n > 0 && trip->ready >= due)
            break;
        due = trip->due < due ? trip->due : due;
        bytes += trip->bytes;
        room[n++] = k;
        if (bytes >= full)
            break;
    }
    return n;
}

// Flight i must be over before flight i + 2 begins.
static void add_scatters(tt__trips *t, const tt_segment *segment, int32_t *room)
{
    tt_flight *before[IN_AIR] = {NULL}; // older first
    int64_t all = 0;
    int32_t n;
    for (int32_t k = 0; k < t->n; k++)
        all += is_next(t, segment, k) ? t->trip[k].bytes : 0;
    const int64_t full = tt__scatter_full(t->l, all);
    while ((n = take_neighbours(t, segment, full, room)) > 0) {
        tt_flight *flight = tt__flight_add(t, room, n);
        if (before[0] != NULL && before[0]->end > flight->begin &&
            before[0]->begin < flight->begin)
            before[0]->end = flight->begin;
        before[0] = before[1];
        before[1] = flight;
    }
}

// Gathered from a buffer that is not the weight's own.
static bool is_new_weight(const tt_plan *plan, const tt_flight *flight)
{
    const tt_step *step = &plan->step[plan->member[flight->first]];
    return flight->is_last_only &&
           flight->ready > tt__first_step_of(plan, TT_UPDATE) &&
           step->op == &tt_op_all_gather &&
           step->in[0].buffer != step->out[0].buffer;
}

// New weights: limits the bytes that wait for the wire, since the blocks that are
// gathered stay alive so long.
static void bound_gathers(const tt__trips *t)
{
    const tt_plan *plan = t->l->plan;
    int64_t all = 0, bytes = 0;
    int32_t oldest = 0;
    for (int32_t f = 0; f < plan->n_flights; f++)
        all +=
            is_new_weight(plan, &plan->flight[f]) ? plan->flight[f].bytes : 0;
    const int64_t most = IN_AIR * tt__scatter_full(t->l, all);
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        if (!is_new_weight(plan, flight))
            continue;
        bytes += flight->bytes;
        for (; bytes > most && oldest < f; oldest++) {
            tt_flight *old = &plan->flight[oldest];
            if (!is_new_weight(plan, old))
                continue;
            bytes -= old->bytes;
            if (old->end > flight->begin && old->begin < flight->begin)
                old->end = flight->begin;
        }
    }
}

static void add_others(tt__trips *t)
{
    for (int32_t k = 0; k < t->n; k++) {
        if (t->trip[k].is_taken)
            continue;
        tt_flight *flight = tt__flight_add(t, &k, 1);
        flight->begin = t->trip[k].step;
        if (t->l->in_order)
            flight->ready = flight->begin;
    }
}

// ---- when the result is used -------------------------------------------------

static int32_t first_reader(const tt_plan *plan, int32_t buffer)
{
    for (int32_t s = 0; s < plan->n_steps; s++)
        for (int32_t i = 0; i < plan->step[s].n_in; i++)
            if (plan->step[s].in[i].buffer == buffer)
                return s;
    return plan->n_steps;
}

// The first step that reads the weight, or its copy in another precision, whose
// gradient this value is.
static int32_t needed_for(const tt_plan *plan, tt_val grad)
{
    const tt_graph *g = plan->graph;
    int32_t first = plan->n_steps;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        const tt_value *weight =
            value->role == TT_ROLE_WORK ? &g->value[value->init.of.id] : value;
        if (!tt_role_is_state(value->role) || weight->grad.id != grad.id)
            continue;
        const int32_t s = first_reader(plan, plan->home[v].buffer);
        first = s < first ? s : first;
    }
    return first;
}

static void find_needed(const tt_plan *plan, tt_flight *flight)
{
    for (int32_t i = 0; i < flight->n; i++) {
        const int32_t s = plan->member[flight->first + i];
        const tt_node *node = &plan->graph->node[plan->step[s].node];
        const int32_t a = needed_for(plan, node->in[0]);
        const int32_t b = needed_for(plan, node->out[0]);
        const int32_t needed = a < b ? a : b;
        flight->needed = needed < flight->needed ? needed : flight->needed;
    }
}

// ---- all of it ---------------------------------------------------------------

// Of flights that begin at one step, gradients go first: a rank that has an extra
// conversion there has them ready one step earlier, and all ranks need one order.
static int by_begin(const void *pa, const void *pb)
{
    const tt_flight *a = pa, *b = pb;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->is_last_only != b->is_last_only)
        return a->is_last_only ? -1 : 1;
    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->from < b->from ? -1 : 1;
}

static tt_status order_flights(tt__trips *t)
{
    tt_plan *plan = t->l->plan;
    qsort(plan->flight, (size_t)plan->n_flights, sizeof(*plan->flight),
          by_begin);
    if (t->l->in_order)
        return TT_OK;
    TT_TRY(tt__flights_slice(t));
    const int64_t n = plan->n_flights;
    double *key = tt_arena_alloc(t->l->arena, n * (int64_t)sizeof(*key));
    int32_t *begin = tt_arena_alloc(t->l->arena, n * (int64_t)sizeof(*begin));
    int32_t *order = tt_arena_alloc(t->l->arena, n * (int64_t)sizeof(*order));
    qsort(plan->flight, (size_t)plan->n_flights, sizeof(*plan->flight),
          by_begin);
    const tt_flight *old =
        tt_arena_copy(t->l->arena, plan->flight, n * (int64_t)sizeof(*old));
    if (key == NULL || begin == NULL || order == NULL || old == NULL)
        return TT_ERR_NOMEM;
    if (plan->flight_order != TT_ORDER_PRIORITY)
        return TT_OK;
    for (int32_t f = 0; f < plan->n_flights; f++)
        key[f] = plan->flight[f].needed;
    tt_plan_schedule(plan, key, begin, order);
    for (int32_t f = 0; f < plan->n_flights; f++) {
        plan->flight[f] = old[order[f]];
        plan->flight[f].begin = begin[order[f]];
    }
    return TT_OK;
}

static tt_status allocate(tt__trips *t, int32_t n)
{
    tt_plan *plan = t->l->plan;
    t->trip = tt_arena_alloc(t->l->arena, n * (int64_t)sizeof(*t->trip));
    plan->flight =
        tt_arena_alloc(plan->arena, n * (int64_t)sizeof(*plan->flight));
    plan->member =
        tt_arena_alloc(plan->arena, n * (int64_t)sizeof(*plan->member));
    return t->trip == NULL || plan->flight == NULL || plan->member == NULL
               ? TT_ERR_NOMEM
               : TT_OK;
}

// Several collectives at once, and ahead of their places.
static tt_status add_joined(tt__trips *t)
{
    const tt__lower *l = t->l;
    int32_t *room =
        tt_arena_alloc(l->arena, (t->n + 1) * (int64_t)sizeof(*room));
    if (room == NULL)
        return TT_ERR_NOMEM;
    for (int32_t b = 0; b < t->n_buckets; b++)
        add_bucket(t, &t->bucket[b], room);
    if (l->in_order)
        return TT_OK;
    for (int32_t i = 0; i < l->plan->n_segments; i++)
        add_scatters(t, &l->plan->segment[i], room);
    return tt__prefetch(t);
}

tt_status tt__flights_make(tt__lower *l)
{
    tt_plan *plan = l->plan;
    tt__trips t = {.l = l};
    int32_t n = 0;
    for (int32_t s = 0; s < plan->n_steps; s++)
        n += tt_op_is_collective(plan->step[s].op) ? 1 : 0;
    TT_TRY(allocate(&t, n));
    collect(&t);
    TT_TRY(tt__buckets_make(&t));
    if (!l->in_order) {
        TT_TRY(tt__steps_reorder(&t));
        find_steps(&t);
    }
    for (int32_t i = 0; i < t.n; i++)
        find_times(l, &t.trip[i]);
    TT_TRY(add_joined(&t));
    add_others(&t);
    bound_gathers(&t);
    for (int32_t f = 0; f < plan->n_flights; f++) {
        plan->flight[f].name = name_of(&t, &plan->flight[f]);
        if (plan->flight[f].name == NULL)
            return TT_ERR_NOMEM;
        find_needed(plan, &plan->flight[f]);
    }
    TT_TRY(tt__clock_make(l));
    return order_flights(&t);
}
