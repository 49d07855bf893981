// cost - what a plan's collectives send, without anybody to send it to.
//
// `tutti plan` shows messages and bytes before anything runs. The numbers come from the
// same functions that describe a call to the transport, and from the `cost` of its
// algorithm, which is exact: the law `coll` compares it with what is really sent. For
// algorithms that are chosen at run time (auto, native) a ring stands in.

#include "traffic/cost.h"

#include "base/alloc.h"
#include "traffic/packets.h"
#include "traffic/site.h"

#include <string.h>

// Costs are of one algorithm, and group is room that calls are described in.
typedef struct costing {
    const tt_plan *plan;
    tt_traffic_rules rules;
    tt_traffic_group group;
} costing;

static void call_cost(const tt_traffic_rules *rules, const tt_coll_call *call,
                      tt_coll_cost *cost_out)
{
    const tt_coll_def *def = tt_traffic_choose(rules, call);
    if (def->way[call->kind].run == NULL)
        def = tt_coll_find("naive");
    *cost_out = def->way[call->kind].cost(call);
}

static tt_coll_cost reduce_cost(const costing *c, const tt_traffic_site *x)
{
    const tt_coll_call call = tt_traffic_reduce_call(x, &c->rules, &c->group);
    tt_coll_cost cost;
    call_cost(&c->rules, &call, &cost);
    return cost;
}

static tt_coll_cost blocks_cost(const costing *c, const tt_traffic_site *x)
{
    const tt_traffic_blocks b = tt_traffic_blocks_of(x, &c->group);
    const tt_coll_call call =
        tt_traffic_blocks_call(x, &c->rules, &c->group, &b);
    tt_coll_cost cost;
    call_cost(&c->rules, &call, &cost);
    return cost;
}

static tt_coll_cost boxes_cost(const costing *c, const tt_traffic_site *x)
{
    const tt_traffic_boxes b = tt_traffic_boxes_of(x);
    tt_coll_cost cost = {0};
    (void)c;
    for (int32_t i = 0; i < x->size; i++) {
        const int64_t n =
            i == x->coord ? 0 : tt_traffic_sent_to(x, &b, i).count;
        cost.messages += n > 0 ? (x->p->packets ? 2 : 1) : 0;
        cost.bytes += tt_traffic_site_bytes(x, n);
    }
    return cost;
}

static tt_coll_cost move_cost(const costing *c, const tt_traffic_site *x)
{
    (void)c;
    return tt_traffic_site_sends(x) ? (tt_coll_cost){1, x->in_bytes}
                                    : (tt_coll_cost){0};
}

typedef tt_coll_cost cost_fn(const costing *c, const tt_traffic_site *x);
static cost_fn *const cost_of[TT_TRAFFIC_WAYS] = {
    [TT_TRAFFIC_REDUCE] = reduce_cost,
    [TT_TRAFFIC_BLOCKS] = blocks_cost,
    [TT_TRAFFIC_BOXES] = boxes_cost,
    [TT_TRAFFIC_MOVE] = move_cost, // the others send nothing
};

static tt_coll_cost step_cost(const costing *c, int32_t step)
{
    const tt_traffic_site x = tt_traffic_site_of(c->plan, step);
    cost_fn *const fn = x.kind != NULL ? cost_of[x.kind->way] : NULL;
    return fn != NULL ? fn(c, &x) : (tt_coll_cost){0};
}

// What a row sends, all pieces of it.
static tt_coll_cost row_cost(const costing *c, const tt_flight *first)
{
    const tt_plan *plan = c->plan;
    tt_coll_cost sum = {0};
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        if (!flight->is_joined || flight->first != first->first)
            continue;
        const tt_traffic_site x = tt_traffic_site_joined(plan, flight);
        const tt_coll_cost cost = reduce_cost(c, &x);
        sum.messages += cost.messages;
        sum.bytes += cost.bytes;
    }
    return sum;
}

// Each member of a row has its part of what the row sends; the rest is for gaps.
static void share_out(const costing *c, const tt_flight *flight,
                      tt_coll_cost *cost_out)
{
    const tt_plan *plan = c->plan;
    const int32_t *member = &plan->member[flight->first];
    tt_flight row = *flight;
    row.to = 0; // not only a piece
    const tt_traffic_site whole = tt_traffic_site_joined(plan, &row);
    const tt_coll_cost all = row_cost(c, flight);
    const double each =
        (double)all.bytes / (double)tt_traffic_site_bytes(&whole, whole.count);
    int64_t *gaps = &cost_out[plan->n_steps].bytes;
    *gaps += all.bytes;
    cost_out[member[0]].messages = all.messages;
    for (int32_t i = 0; i < flight->n; i++) {
        const double bytes = (double)plan->step[member[i]].moved_bytes;
        cost_out[member[i]].bytes = (int64_t)(each * bytes + 0.5);
        *gaps -= cost_out[member[i]].bytes;
    }
}

// An algorithm of which it is known what it sends.
static const tt_coll_def *known(const char *collective)
{
    const bool is_open =
        strcmp(collective, "auto") == 0 || strcmp(collective, "native") == 0;
    return tt_coll_find(is_open ? "ring" : collective);
}

tt_coll_cost tt_traffic_call_cost(const tt_coll_call *call,
                                  const char *collective)
{
    tt_coll_cost cost;
    call_cost(&(tt_traffic_rules){.coll = known(collective)}, call, &cost);
    return cost;
}

static void add_cost(const costing *c, tt_coll_call call, tt_coll_cost *sum)
{
    tt_coll_cost cost;
    call_cost(&c->rules, &call, &cost);
    sum->messages += cost.messages;
    sum->bytes += cost.bytes;
}

// What lengths and bodies send at most.
static void packets_cost(const costing *c, const tt_traffic_packets *p,
                         tt_coll_cost *lengths, tt_coll_cost *bodies)
{
    const int64_t others = p->x.size - 1;
    *lengths = *bodies = (tt_coll_cost){0};
    if (!p->is_merged) {
        add_cost(c, tt_traffic_packets_lengths(p, &c->rules, &c->group),
                 lengths);
        add_cost(c, tt_traffic_packets_bodies(p, &c->rules, &c->group), bodies);
        return;
    }
    add_cost(c, tt_traffic_merge_lengths(p, &c->rules, &c->group), lengths);
    add_cost(c, tt_traffic_merge_forms(p, &c->rules, &c->group), lengths);
    add_cost(c, tt_traffic_merge_bodies(p, &c->rules, &c->group), bodies);
    bodies->messages += others;
    bodies->bytes += p->bytes / p->x.size + others * TT_TRAFFIC_CHECK;
}

// Each member has its part of what the flight sends at most; the first has the lengths.
static void cost_packets(const costing *c, const tt_flight *flight,
                         const tt_traffic_packets *p, tt_coll_cost *cost_out)
{
    const int32_t *member = &c->plan->member[flight->first];
    tt_coll_cost lengths, bodies;
    packets_cost(c, p, &lengths, &bodies);
    int64_t left = bodies.bytes;
    for (int32_t i = flight->n - 1; i >= 0; i--) {
        const int64_t own = tt_traffic_site_of(c->plan, member[i]).out_bytes;
        const double share = (double)own / (double)p->bytes;
        const int64_t bytes = (int64_t)((double)bodies.bytes * share);
        cost_out[member[i]] = (tt_coll_cost){.bytes = i > 0 ? bytes : left};
        left -= bytes;
    }
    cost_out[member[0]].messages = lengths.messages + bodies.messages;
    cost_out[member[0]].bytes += lengths.bytes;
}

static void cost_flight(const costing *c, const tt_flight *flight,
                        tt_coll_cost *cost_out)
{
    tt_traffic_packets packets;
    if (tt_traffic_packets_of(c->plan, flight, &packets)) {
        cost_packets(c, flight, &packets, cost_out);
        return;
    }
    for (int32_t i = 0; i < flight->n && !flight->is_joined; i++) {
        const int32_t s = c->plan->member[flight->first + i];
        cost_out[s] = step_cost(c, s);
    }
    if (flight->is_joined && flight->piece == 0)
        share_out(c, flight, cost_out);
}

tt_status tt_traffic_costs(const tt_plan *plan, const char *collective,
                           tt_coll_cost *cost_out)
{
    const int64_t n = tt_mesh_ranks(&plan->graph->mesh) + INT64_C(1);
    costing c = {.plan = plan, .rules.coll = known(collective)};
    memset(cost_out, 0, sizeof(*cost_out) * (size_t)(plan->n_steps + 1));
    if (c.rules.coll == NULL)
        return tt_fail(TT_ERR_ARG, "there is no collective algorithm %s",
                       collective);
    c.group.member = tt_alloc(n * (int64_t)sizeof(int32_t));
    c.group.bound = tt_alloc(n * (int64_t)sizeof(int64_t));
    const bool is_ready = c.group.member != NULL && c.group.bound != NULL;
    for (int32_t f = 0; f < plan->n_flights && is_ready; f++)
        cost_flight(&c, &plan->flight[f], cost_out);
    tt_free(c.group.bound);
    tt_free(c.group.member);
    return is_ready ? TT_OK
                    : tt_fail(TT_ERR_NOMEM, "no memory to count what is sent");
}
