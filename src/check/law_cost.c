// law_cost - an operator's cost function is right on its samples:
//
//   FLOPs   equal to the number that was counted by hand in the sample
//   bytes   at least those of the outputs, unless the operator moves nothing
//   depth   between 1 and work
//   all     finite and not negative
//
// Costs are what `tutti plan` prints and what MFU is computed from. A wrong cost
// breaks nothing visibly, and that is why it needs a law.

#include "check/law.h"
#include "check/sample.h"
#include "ops/ops.h"

#include <math.h>

static double out_bytes(const tt_case *c)
{
    double bytes = 0;
    for (int i = 0; i < c->n_out; i++) {
        const tt_type *type = tt_type_of(&c->b, c->out[i]);
        bytes += (double)(tt_shape_count(&type->shape) *
                          tt_dtype_bytes(type->dtype));
    }
    return bytes;
}

static void look(tt_law_report *r, const tt_case *c, int index)
{
    tt_type in[TT_SAMPLE_IN], out[TT_MAX_OUT];
    tt_op_io io;
    tt_cost cost = {0};
    const char *name = c->op->name;
    tt_node_io(c->b.graph, &c->b.graph->node[c->b.graph->n_nodes - 1], in, out,
               &io);
    c->op->cost(&io, 2, &cost);
    tt_law_report_check(r, cost.flops == c->sample->flops,
                        "cost %s: sample %d has %g FLOPs by hand, cost says %g",
                        name, index, c->sample->flops, cost.flops);
    const bool is_free =
        (c->op->flags & (TT_OP_VIEW | TT_OP_ALIAS | TT_OP_COLLECTIVE)) != 0;
    tt_law_report_check(r, is_free || cost.bytes >= out_bytes(c),
                        "cost %s: %g bytes are fewer than the outputs' %g",
                        name, cost.bytes, out_bytes(c));
    tt_law_report_check(r,
                        is_free || (cost.depth >= 1 && cost.depth <= cost.work),
                        "cost %s: depth %g is not in 1 .. work %g", name,
                        cost.depth, cost.work);
    tt_law_report_check(r,
                        cost.wire_bytes >= 0 && cost.messages >= 0 &&
                            isfinite(cost.work) && isfinite(cost.bytes),
                        "cost %s: negative or infinite", name);
}

static tt_status run(tt_law_report *r)
{
    int n = 0;
    const tt_op_def *const *ops = tt_op_all(&n);
    for (int i = 0; i < n; i++) {
        if (!tt_law_report_wants(r, ops[i]->name))
            continue;
        for (const tt_sample *s = ops[i]->samples; s && s->in[0]; s++) {
            tt_case c;
            if (tt_case_init(&c, ops[i], s, TT_F64, NULL, NULL) != TT_OK) {
                tt_law_report_check(r, false, "cost %s: %s", ops[i]->name,
                                    tt_error_message());
                continue;
            }
            look(r, &c, (int)(s - ops[i]->samples));
            tt_case_fini(&c);
        }
    }
    return TT_OK;
}

const tt_law_def tt_law_cost = {
    .name = "cost",
    .doc = "The cost of an operator is what was counted by hand.",
    .run = run,
};
