// correct - the number of rows whose largest entry is the label's; of equal
// entries the first counts.
//
//   flops   a comparison per element
//   shard   rows: partial sum; vocabulary: a value or two per row are reduced
//           (correct_parts.c)

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/loss.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { LOGITS, LABELS };

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "correct", 2, 2));
    TT_TRY(tt_infer_float(io, "correct", LOGITS));
    if (io->in[LOGITS].shape.ndim < 1)
        return tt_fail(TT_ERR_ARG, "correct: the logits are a scalar");
    TT_TRY(tt__want_dtype(io, LABELS, TT_I32, "correct"));
    TT_TRY(tt__want_rows(io, LABELS, "correct"));
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[LOGITS].dtype);
    return TT_OK;
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){LOGITS, "==", "+", NULL}, sigs);
    tt__shard_last(io, axis_size,
                   &(tt__split){LOGITS, "z.", ".", tt__correct_expand}, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[LOGITS]);
    tt_cost_reduction(io, 0, n, n, cost_out);
}

tt_val tt_correct(tt_builder *b, tt_val logits, tt_val labels)
{
    return tt_call(b, &tt_op_correct, NULL, (tt_val[]){logits, labels}, 2,
                   NULL);
}

static const tt_sample samples[] = {
    {"", {"f batch:5 classes:3", "i<3 batch:5"}, 15},
    {"", {"f batch:2 seq:5 vocab:3", "i<3 batch:2 seq:5"}, 30},
    {"", {"=1 batch:7 classes:4", "i<3 batch:7"}, 28}, // all are as large
    {0},
};

const tt_op_def tt_op_correct = {
    .name = "correct",
    .doc = "Number of rows whose largest entry is the label's.",
    .infer = infer,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};
