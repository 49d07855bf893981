// driven - plans whose rows have no order: which comes next is decided while they run.
//
// Two things follow. What comes from another stage is begun before its row, since the
// executor asks whether it has come (is_ahead; lifetime.c gives it memory in the slot).
// And collectives within rows are refused: ranks that take part in one must come to it in
// the same order, and each rank decides for itself. Those of the update begin after the
// last row, whichever that is.

#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "plan/flights.h"

#include <string.h>

static tt_status refuse(const tt__lower *l, const tt_step *step)
{
    const tt_comm_params *p = step->params;
    const char *name = step->name; // ": halo" where no layer has a name
    return tt_fail(TT_ERR_ARG,
                   "%s is done for each micro-batch along the axis %s, whose "
                   "ranks must then run micro-batches in one order, and the "
                   "schedule decides while it runs; pipe.schedule=1f1b would "
                   "do",
                   strncmp(name, ": ", 2) == 0 ? name + 2 : name,
                   l->g->mesh.axis[p->axis].name);
}

// Whether peers are asked for anything.
static bool is_alone(const tt__lower *l, const tt_step *step)
{
    const tt_comm_params *p = step->params;
    return l->g->mesh.axis[p->axis].size == 1 || step->op == &tt_op_take ||
           step->op == &tt_op_keep_first;
}

tt_status tt__driven_mark(const tt__lower *l)
{
    tt_plan *plan = l->plan;
    for (int32_t f = 0; f < plan->n_flights && plan->bound > 0; f++) {
        tt_flight *flight = &plan->flight[f];
        bool is_brought = !flight->is_last_only && !flight->is_open;
        for (int32_t i = 0; i < flight->n; i++) {
            const tt_step *step = &plan->step[plan->member[flight->first + i]];
            const bool is_move = step->op == &tt_op_move;
            if (!is_move && !flight->is_last_only && !is_alone(l, step))
                return refuse(l, step);
            is_brought = is_brought && is_move && step->in[0].buffer < 0;
        }
        flight->is_ahead = is_brought;
    }
    return TT_OK;
}
