// cross_entropy - minus the log-probability of the label, summed over rows.
//
//   row   lse - (1 - smoothing) x[label] - smoothing / vocab * sum(x)
//   dx    dsum * (exp(x - lse) - (1 - smoothing) [label] - smoothing / vocab)
//
//   flops   3 per element (subtract, exponential, add), 4 with smoothing, both
//           ways
//   shard   rows: sum and count are partial; vocabulary: three values per row are
//           reduced forward (loss_parts.c), none backward

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/loss.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { LOGITS, LABELS, LSE, DSUM };  // inputs of the gradient; forward: 2
enum { SUM, COUNT, OUT_LSE, N_OUT }; // outputs

static tt_status check(const tt_op_io *io, const char *name)
{
    TT_TRY(tt_infer_float(io, name, LOGITS));
    if (io->in[LOGITS].shape.ndim < 1)
        return tt_fail(TT_ERR_ARG, "%s: the logits are a scalar", name);
    TT_TRY(tt__want_dtype(io, LABELS, TT_I32, name));
    return tt__want_rows(io, LABELS, name);
}

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "cross_entropy", 2, 2));
    TT_TRY(check(io, "cross_entropy"));
    io->n_out = N_OUT;
    for (int i = 0; i < N_OUT; i++)
        io->out[i].dtype = tt_dtype_master(io->in[LOGITS].dtype);
    io->out[OUT_LSE].shape = tt__lead_of(&io->in[LOGITS].shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    if (need[LOGITS])
        din[LOGITS] = tt_call(b, &tt_op_cross_entropy_grad, node->params,
                              (tt_val[]){node->in[LOGITS], node->in[LABELS],
                                         node->out[OUT_LSE], dout[SUM]},
                              4, NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){LOGITS, "==", "++=", NULL},
                   sigs);
    tt__shard_last(io, axis_size,
                   &(tt__split){LOGITS, "z.", "...", tt__cross_entropy_expand},
                   sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_cross_entropy_params *p = io->params;
    tt_cost_reduction(
        io, 0, (p->smoothing != 0 ? 4 : 3) * tt_cost_count(&io->in[LOGITS]),
        tt_cost_count(&io->in[LOGITS]), cost_out);
}

static tt_status infer_grad(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "cross_entropy_grad", 4, 4));
    TT_TRY(check(io, "cross_entropy_grad"));
    TT_TRY(tt__want_rows(io, LSE, "cross_entropy_grad"));
    if (io->in[DSUM].shape.ndim != 0)
        return tt_fail(TT_ERR_ARG, "cross_entropy_grad: dsum is not a scalar");
    io->n_out = 1;
    io->out[0].dtype = io->in[LOGITS].dtype;
    io->out[0].shape = io->in[LOGITS].shape;
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){LOGITS, "===.", "=", NULL},
                   sigs);
    tt__shard_last(io, axis_size, &(tt__split){LOGITS, "z...", "z", NULL},
                   sigs);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_cross_entropy_params *p = io->params;
    tt_cost_elementwise(io, 0, p->smoothing != 0 ? 4 : 3, cost_out);
}

tt_loss tt_cross_entropy(tt_builder *b, tt_val logits, tt_val labels,
                         const tt_cross_entropy_params *params)
{
    tt_val out[TT_MAX_OUT];
    tt_call(b, &tt_op_cross_entropy, params, (tt_val[]){logits, labels}, 2,
            out);
    return (tt_loss){out[SUM], out[COUNT]};
}

const tt_opt tt__cross_entropy_options[] = {
    {.name = "smoothing",
     .fallback = "0",
     .doc = "share of the target that is spread over the vocabulary",
     .type = TT_OPT_F64,
     .offset = offsetof(tt_cross_entropy_params, smoothing),
     .min = 0,
     .max = 1},
    {.name = "ignore",
     .fallback = "-100",
     .doc = "rows with this label count nothing",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_cross_entropy_params, ignore)},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f batch:3 vocab:7", "i<7 batch:3"}, 63},
    {"smoothing=0.1 ignore=2",
     {"f batch:2 seq:5 vocab:5", "i<5 batch:2 seq:5"},
     200},
    {"ignore=0", {"f batch:5 vocab:3", "i<2 batch:5"}, 45},
    {0},
};

static const tt_sample samples_grad[] = {
    {"", {"f batch:3 vocab:7", "i<7 batch:3", "m+ batch:3", "m"}, 63},
    {"smoothing=0.1 ignore=2",
     {"f batch:2 seq:5 vocab:5", "i<5 batch:2 seq:5", "m+ batch:2 seq:5", "m"},
     200},
    {0},
};

const tt_op_def tt_op_cross_entropy = {
    .name = "cross_entropy",
    .doc =
        "Cross-entropy of rows with integer labels: sum, count, log-sum-exp.",
    .options = tt__cross_entropy_options,
    .params_bytes = sizeof(tt_cross_entropy_params),
    .no_grad = 1U << COUNT | 1U << OUT_LSE,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_cross_entropy_grad = {
    .name = "cross_entropy_grad",
    .doc = "Gradient of cross_entropy's logits.",
    .options = tt__cross_entropy_options,
    .params_bytes = sizeof(tt_cross_entropy_params),
    .flags = TT_OP_INPLACE,
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
