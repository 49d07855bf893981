// cross_entropy_step - cross_entropy, its gradient, and correct, in one pass over the
// logits, which the gradient may overwrite. The third input is the gradient's factor,
// by which a loss is scaled; without one it is 1.
//
//   flops   8 per element, 10 with smoothing

#include "ops/cost.h"
#include "ops/fused/fused.h"
#include "ops/infer_common.h"
#include "ops/nn/loss.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { LOGITS, LABELS, DSUM };

static tt_status infer(tt_op_io *io)
{
    static const char name[] = "cross_entropy_step";
    TT_TRY(tt_infer_inputs(io, name, 2, 3));
    TT_TRY(tt_infer_float(io, name, LOGITS));
    if (io->in[LOGITS].shape.ndim < 1)
        return tt_fail(TT_ERR_ARG, "%s: the logits are a scalar", name);
    TT_TRY(tt__want_dtype(io, LABELS, TT_I32, name));
    TT_TRY(tt__want_rows(io, LABELS, name));
    const tt_dtype wide = tt_dtype_master(io->in[LOGITS].dtype);
    if (io->n_in > DSUM && io->in[DSUM].shape.ndim != 0)
        return tt_fail(TT_ERR_ARG, "%s: dsum is not a scalar", name);
    const tt_shape number = {0};
    tt_infer_add(io, io->in[LOGITS].dtype, &io->in[LOGITS].shape);
    for (int i = TT_CS_SUM; i <= TT_CS_CORRECT; i++)
        tt_infer_add(io, wide, &number);
    return TT_OK;
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_cross_entropy_params *p = io->params;
    const double n = tt_cost_count(&io->in[LOGITS]);
    tt_cost_reduction(io, 0, (p->smoothing != 0 ? 10 : 8) * n, n, cost_out);
}

static const tt_sample samples[] = {
    {"", {"f! batch:3 vocab:7", "i<7 batch:3"}, 168},
    {"", {"f! batch:5 vocab:16", "i<3 batch:5"}, 640},
    {"smoothing=0.1 ignore=2",
     {"f! batch:2 seq:5 vocab:5", "i<5 batch:2 seq:5"},
     500},
    {"ignore=0", {"f! batch:5 vocab:3", "i<2 batch:5"}, 120},
    {"smoothing=0.1", {"f! batch:3 vocab:8", "i<8 batch:3", "m"}, 240},
    // More rows than a small device works on at a time.
    {"ignore=5", {"f! batch:67 vocab:32", "i<32 batch:67", "m"}, 17152},
    {0},
};

const tt_op_def tt_op_cross_entropy_step = {
    .name = "cross_entropy_step",
    .doc = "Gradient, sum, count and hits of a cross-entropy in one pass.",
    .options = tt__cross_entropy_options,
    .params_bytes = sizeof(tt_cross_entropy_params),
    .flags = TT_OP_INPLACE,
    .infer = infer,
    .cost = cost,
    .samples = samples,
};
