// correct_parts - correct over a vocabulary that is split over ranks; logits never
// travel.
//
//   max  = all_reduce_max(row_max(x))            shared with cross_entropy's, if there
//   mark = all_reduce_max(correct_terms(x, labels, max))
//   n    = correct_join(mark)
//
// Of equal entries the first counts, and it may be on another rank. So a slice marks a
// row with 2 if an entry before the label's is as large as max, else with 1 if the
// label's own entry is, else with 0. The maximum over ranks is 1 exactly where the
// label's entry is the first of the largest.
//
//   wire   two values per row, or one

#include "ops/comm/comm.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/loss.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { LOGITS, LABELS, MAX };

static tt_status infer_terms(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "correct_terms", 3, 3));
    TT_TRY(tt_infer_float(io, "correct_terms", LOGITS));
    TT_TRY(tt__want_dtype(io, LABELS, TT_I32, "correct_terms"));
    TT_TRY(tt__want_rows(io, LABELS, "correct_terms"));
    TT_TRY(tt__want_rows(io, MAX, "correct_terms"));
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[LOGITS].dtype);
    io->out[0].shape = tt__lead_of(&io->in[LOGITS].shape);
    return TT_OK;
}

static void shard_terms(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){LOGITS, "===", "=", NULL}, sigs);
    const int before = sigs->n;
    tt__shard_last(io, axis_size, &(tt__split){LOGITS, "z..", "+", NULL}, sigs);
    for (int i = before; i < sigs->n; i++)
        sigs->sig[i].out[0] = tt_place_partial(TT_MAX);
}

static void cost_terms(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_reduction(io, 0, tt_cost_count(&io->in[LOGITS]),
                      (double)tt__last(&io->in[LOGITS].shape), cost);
}

static tt_status infer_join(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "correct_join", 1, 1));
    TT_TRY(tt_infer_float(io, "correct_join", 0));
    io->n_out = 1;
    io->out[0].dtype = io->in[0].dtype;
    return TT_OK;
}

static void shard_join(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    for (int d = 0; d < io->in[0].shape.ndim; d++)
        tt__shard_dim(io, axis_size, d, &(tt__split){0, "=", "+", NULL}, sigs);
}

static void cost_join(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[0]);
    tt_cost_reduction(io, 0, n, n, cost);
}

tt_status tt__correct_expand(tt_builder *b, const tt_node *node,
                             const tt_sig *sig, int axis, const tt_val *in,
                             tt_val *out)
{
    (void)node;
    const tt_val max = tt__rows_max(b, in[LOGITS], in[LABELS], axis);
    tt_val mark = tt_call(b, &tt_op_correct_terms, NULL,
                          (tt_val[]){in[LOGITS], in[LABELS], max}, 3, NULL);
    tt_place_as(b, mark, axis, tt_place_partial(TT_MAX), max);
    mark = tt_all_reduce(b, mark, axis, TT_MAX);
    out[0] = tt_call(b, &tt_op_correct_join, NULL, &mark, 1, NULL);
    tt_place_as(b, out[0], axis, sig->out[0], mark);
    return tt_builder_status(b);
}

static const tt_sample samples_terms[] = {
    {"", {"f batch:3 vocab:7", "i<7 batch:3", "m batch:3"}, 21},
    {"",
     {"=2 batch:2 seq:5 vocab:3", "i<3 batch:2 seq:5", "m=2 batch:2 seq:5"},
     30},
    {"", {"f<16 batch:2 vocab:128", "i<128 batch:2", "m=15 batch:2"}, 256},
    {0},
};

static const tt_sample samples_join[] = {
    {"", {"m=1 batch:3"}, 3},
    {"", {"m=1 batch:2 seq:5"}, 10},
    {"", {"m<3 batch:7"}, 7},
    {0},
};

const tt_op_def tt_op_correct_terms = {
    .name = "correct_terms",
    .doc = "What a slice of the vocabulary knows of correct's rows.",
    .infer = infer_terms,
    .shard = shard_terms,
    .cost = cost_terms,
    .samples = samples_terms,
};

const tt_op_def tt_op_correct_join = {
    .name = "correct_join",
    .doc = "Number of correct rows, from what all slices know.",
    .infer = infer_join,
    .shard = shard_join,
    .cost = cost_join,
    .samples = samples_join,
};
