// schedule - which bucket of gradients goes first.
//
// The wire carries one flight after another. When gradients are made faster than
// they travel, several buckets wait, and which goes first is a choice. It must be
// the same on every rank, so it is made by the plan's own clock: steps take as long
// as they have work, and all buckets together travel twice as long as backward
// takes. (Where they are faster, few wait, and their order hardly matters.)

#include "base/rng.h"
#include "plan/flights.h"

// Work of a node on whole values, in floating-point operations; a byte costs as
// much as a few of these. Sums and views cost nothing: other kernels make them.
static double work_of(tt__lower *l, const tt_node *node)
{
    static const double flops_per_byte = 10;
    const uint32_t idle =
        TT_OP_COLLECTIVE | TT_OP_ACCUMULATE | TT_OP_VIEW | TT_OP_ALIAS;
    tt_type out[TT_MAX_OUT];
    tt_op_io io;
    tt_cost cost = {0};
    if (node->op->cost == NULL || (node->op->flags & idle) != 0)
        return 0;
    tt_node_io(l->g, node, l->type, out, &io);
    node->op->cost(&io, 1, &cost);
    return cost.flops + flops_per_byte * cost.bytes;
}

// Counted in nodes, not in steps: steps may differ between ranks.
tt_status tt__clock_make(tt__lower *l)
{
    tt_plan *plan = l->plan;
    double now = 0;
    double *done =
        tt_arena_alloc(l->arena, (l->n_at + 1) * (int64_t)sizeof(*done));
    plan->clock = tt_arena_alloc(plan->arena,
                                 (plan->n_steps + 1) * (int64_t)sizeof(double));
    if (plan->clock == NULL || done == NULL)
        return TT_ERR_NOMEM;
    for (int32_t p = 0; p < l->n_at && plan->n_flights > 0; p++) {
        now += work_of(l, &l->g->node[l->node_at[p]]);
        done[p] = now;
    }
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const int32_t node = plan->step[s].node;
        const double then = node >= 0 ? done[l->at[node]] : 0;
        plan->clock[s + 1] = then > plan->clock[s] ? then : plan->clock[s];
    }
    return TT_OK;
}

int32_t tt__first_step_of(const tt_plan *plan, tt_phase phase)
{
    for (int32_t i = 0; i < plan->n_segments; i++)
        if (plan->segment[i].phase >= phase)
            return plan->segment[i].first;
    return plan->n_steps;
}

// A bucket: ready before the update, and not used before it.
static bool is_bucket(const tt_plan *plan, const tt_flight *flight)
{
    const int32_t update = tt__first_step_of(plan, TT_UPDATE);
    return flight->is_last_only && flight->ready <= update &&
           flight->end > update;
}

// Clock units per byte.
static double pace(const tt_plan *plan)
{
    double bytes = 0;
    for (int32_t f = 0; f < plan->n_flights; f++)
        if (is_bucket(plan, &plan->flight[f]))
            bytes += (double)plan->flight[f].bytes;
    const double time = plan->clock[tt__first_step_of(plan, TT_UPDATE)] -
                        plan->clock[tt__first_step_of(plan, TT_BACKWARD)];
    return bytes > 0 ? 2 * time / bytes : 0;
}

// The bucket that goes next when the wire is free at `now`; `begin` is -1 for those that
// have not gone yet.
static int32_t pick(const tt_plan *plan, const double *key, double now,
                    const int32_t *begin)
{
    int32_t best = -1, soonest = -1;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const double ready = plan->clock[plan->flight[f].ready];
        if (begin[f] >= 0)
            continue;
        if (ready <= now && (best < 0 || key[f] < key[best]))
            best = f;
        if (soonest < 0 || ready < plan->clock[plan->flight[soonest].ready])
            soonest = f;
    }
    return best >= 0 ? best : soonest;
}

// Whether a goes before b: it begins earlier, or at the same step as a gradient.
static bool is_before(const tt_plan *plan, const int32_t *begin, int32_t a,
                      int32_t b)
{
    if (begin[a] != begin[b])
        return begin[a] < begin[b];
    return plan->flight[a].is_last_only && !plan->flight[b].is_last_only;
}

// Inserts flight f after all flights that do not have to follow it.
static void insert(const tt_plan *plan, int32_t f, const int32_t *begin,
                   int32_t *order, int32_t n)
{
    int32_t at = n;
    for (; at > 0 && is_before(plan, begin, f, order[at - 1]); at--)
        order[at] = order[at - 1];
    order[at] = f;
}

void tt_plan_schedule(const tt_plan *plan, const double *key,
                      int32_t *begin_out, int32_t *order_out)
{
    const double per_byte = pace(plan);
    double now = 0;
    int32_t last = 0, n = 0, f;
    for (f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        begin_out[f] = is_bucket(plan, flight) ? -1 : flight->begin;
        if (begin_out[f] >= 0)
            insert(plan, f, begin_out, order_out, n++);
    }
    while ((f = pick(plan, key, now, begin_out)) >= 0) {
        const tt_flight *flight = &plan->flight[f];
        const double ready = plan->clock[flight->ready];
        last = flight->ready > last ? flight->ready : last;
        begin_out[f] = last;
        insert(plan, f, begin_out, order_out, n++);
        now = (ready > now ? ready : now) + (double)flight->bytes * per_byte;
    }
}

static int64_t form_of(const tt_plan *plan, int32_t layout)
{
    return (int64_t)plan->target->layout_hash(plan->target, layout);
}

uint64_t tt_plan_flights_hash(const tt_plan *plan)
{
    uint64_t hash = (uint64_t)plan->n_members;
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        for (int32_t i = 0; i < flight->n; i++) {
            const int32_t s = plan->member[flight->first + i];
            const int32_t layout = plan->step[s].in[0].operand.layout;
            // Bytes are left out: ranks whose parts differ in size still agree.
            const int64_t word[] = {(int64_t)hash, plan->step[s].node,
                                    flight->is_joined ? flight->n : 0,
                                    flight->piece,
                                    layout == 0 ? 0 : form_of(plan, layout)};
            hash = tt_hash(word, sizeof(word));
        }
    }
    return hash;
}
