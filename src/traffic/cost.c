// cost - what a plan's collectives send, without anybody to send it to.
//
// `tutti plan` shows messages and bytes before anything runs. The numbers come from the
// same functions that describe a call to the transport, and from the `cost` of its
// algorithm, which is exact: the law `coll` compares it with what is really sent. For
// algorithms that are chosen at run time (auto, native) a ring stands in.

#include "traffic/site.h"
#include "ops/ops.h"

#include <string.h>

static void call_cost(const tt__carrier *c, const tt_coll_call *call,
                      tt_coll_cost *cost_out)
{
    const tt_coll_def *def = tt__carrier_choose(c, call);
    if (def->way[call->kind].run == NULL)
        def = tt_coll_find("naive");
    *cost_out = def->way[call->kind].cost(call);
}

static tt_coll_cost boxes_cost(const tt__wire_site *x)
{
    const tt__boxes b = tt__boxes_of(x);
    tt_coll_cost cost = {0};
    for (int32_t i = 0; i < x->size; i++) {
        const int64_t n = i == x->coord ? 0 : tt__sent_to(x, &b, i).count;
        cost.messages += n > 0;
        cost.bytes += tt__wire_site_bytes(x, n);
    }
    return cost;
}

static tt_coll_cost blocks_cost(const tt__carrier *c, const tt__wire_site *x,
                                bool is_gather)
{
    const tt__wire_blocks b = tt__wire_blocks_of(c, x, is_gather);
    const tt_coll_call call = tt__wire_block_call(
        c, x, &b, is_gather ? TT_ALL_GATHER : TT_REDUCE_SCATTER);
    tt_coll_cost cost;
    call_cost(c, &call, &cost);
    return cost;
}

static tt_coll_cost step_cost(const tt__carrier *c, const tt_plan *plan,
                              int32_t step)
{
    const tt__wire_site x = tt__wire_site_of(plan, step, NULL);
    if ((x.op->flags & TT_OP_SILENT) != 0)
        return (tt_coll_cost){0};
    if (x.op == &tt_op_move)
        return tt__move_sends(&x) ? (tt_coll_cost){1, x.in_bytes}
                                  : (tt_coll_cost){0};
    if (x.op == &tt_op_all_gather || x.op == &tt_op_reduce_scatter)
        return blocks_cost(c, &x, x.op == &tt_op_all_gather);
    if (x.op != &tt_op_all_reduce)
        return boxes_cost(&x);
    const tt_coll_call call = tt__reduce_call(c, &x);
    tt_coll_cost cost;
    call_cost(c, &call, &cost);
    return cost;
}

// What a row sends, all pieces of it.
static tt_coll_cost row_cost(const tt__carrier *c, const tt_plan *plan,
                             const tt_flight *first)
{
    tt_coll_cost sum = {0};
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        if (!flight->is_joined || flight->first != first->first)
            continue;
        const tt_coll_call call = tt__joined_call(c, plan, flight);
        tt_coll_cost cost;
        call_cost(c, &call, &cost);
        sum.messages += cost.messages;
        sum.bytes += cost.bytes;
    }
    return sum;
}

// Each member of a row has its part of what the row sends; the rest is for gaps.
static void share_out(const tt__carrier *c, const tt_plan *plan,
                      const tt_flight *flight, tt_coll_cost *cost_out)
{
    const int32_t *member = &plan->member[flight->first];
    tt_flight row = *flight;
    row.to = 0; // not only a piece
    const tt_coll_call whole = tt__joined_call(c, plan, &row);
    const tt_coll_cost all = row_cost(c, plan, flight);
    const double each =
        (double)all.bytes / (double)tt_coll_bytes(&whole, whole.count);
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
static const char *known(const char *collective)
{
    const bool is_open =
        strcmp(collective, "auto") == 0 || strcmp(collective, "native") == 0;
    return is_open ? "ring" : collective;
}

tt_coll_cost tt_wire_call_cost(const tt_coll_call *call, const char *collective)
{
    const tt__carrier c = {.coll = tt_coll_find(known(collective))};
    tt_coll_cost cost;
    call_cost(&c, call, &cost);
    return cost;
}

tt_status tt_wire_costs(const tt_plan *plan, const char *collective,
                        tt_coll_cost *cost_out)
{
    tt_comm nobody = {.rank = plan->rank,
                      .size = tt_mesh_ranks(&plan->graph->mesh)};
    tt__carrier c;
    tt_status status = tt__carrier_init(
        &c, &nobody, &(tt_wire_options){.collective = known(collective)});
    memset(cost_out, 0, sizeof(*cost_out) * (size_t)(plan->n_steps + 1));
    for (int32_t f = 0; f < plan->n_flights && status == TT_OK; f++) {
        const tt_flight *flight = &plan->flight[f];
        if (flight->is_joined) {
            if (flight->piece == 0)
                share_out(&c, plan, flight, cost_out);
            continue;
        }
        for (int32_t i = 0; i < flight->n; i++) {
            const int32_t s = plan->member[flight->first + i];
            cost_out[s] = step_cost(&c, plan, s);
        }
    }
    tt__carrier_fini(&c);
    return status;
}
