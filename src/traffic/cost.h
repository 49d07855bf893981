// cost - what a plan's collectives send, without anybody to send it to.

#ifndef TT_TRAFFIC_COST_H
#define TT_TRAFFIC_COST_H

#include "comm/coll/coll.h"
#include "plan/plan.h"

// What the plan's rank sends for each of its steps, once, by the named algorithm
// ("auto" and "native": as over a ring). Needs no peers. Gradients that are summed as
// one message have their shares; the entry after the last step is the cost of the gaps
// between them. Room for plan->n_steps + 1.
tt_status tt_traffic_costs(const tt_plan *plan, const char *collective,
                           tt_coll_cost *cost_out);
// The same of one call, whose group is set.
tt_coll_cost tt_traffic_call_cost(const tt_coll_call *call,
                                  const char *collective);

#endif
