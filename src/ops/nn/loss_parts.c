// loss_parts - cross_entropy over a vocabulary that is split over ranks. The logits are
// the largest value of a language model, so they are never gathered: each rank works on
// its slice, and only three numbers per row are all-reduced.
//
//   max  = all_reduce_max(row_max(x))
//   e, t = all_reduce(loss_terms(x, labels, max))    of its slice of the vocabulary
//   sum, count, lse = loss_join(max, e, t, labels)
//
//   e = sum(exp(x - max)); t = (1 - smoothing) x[label] + smoothing / vocab * sum(x)
//
//   wire   three values per row
//   source Shoeybi et al. 2019 (Megatron-LM)

#include "ops/comm/comm.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/loss.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { LOGITS, LABELS, MAX };       // of loss_terms
enum { J_MAX, J_E, J_T, J_LABELS }; // of loss_join

static tt_status infer_max(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "row_max", 1, 1));
    TT_TRY(tt_infer_float(io, "row_max", 0));
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[0].dtype);
    io->out[0].shape = tt__lead_of(&io->in[0].shape);
    return TT_OK;
}

static void shard_max(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "=", "=", NULL}, sigs);
    const int before = sigs->n;
    tt__shard_last(io, axis_size, &(tt__split){0, "z", "+", NULL}, sigs);
    for (int i = before; i < sigs->n; i++)
        sigs->sig[i].out[0] = tt_place_partial(TT_MAX);
}

static void cost_max(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_reduction(io, 0, tt_cost_count(&io->in[0]),
                      (double)tt__last(&io->in[0].shape), cost);
}

static tt_status infer_terms(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "loss_terms", 3, 3));
    TT_TRY(tt_infer_float(io, "loss_terms", LOGITS));
    TT_TRY(tt__want_dtype(io, LABELS, TT_I32, "loss_terms"));
    TT_TRY(tt__want_rows(io, LABELS, "loss_terms"));
    TT_TRY(tt__want_rows(io, MAX, "loss_terms"));
    io->n_out = 2;
    for (int i = 0; i < 2; i++) {
        io->out[i].dtype = tt_dtype_master(io->in[LOGITS].dtype);
        io->out[i].shape = tt__lead_of(&io->in[LOGITS].shape);
    }
    return TT_OK;
}

static void shard_terms(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){LOGITS, "===", "==", NULL},
                   sigs);
    tt__shard_last(io, axis_size, &(tt__split){LOGITS, "z..", "++", NULL},
                   sigs);
}

static void cost_terms(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const tt_cross_entropy_params *p = io->params;
    tt_cost_reduction(
        io, 0, (p->smoothing != 0 ? 4 : 3) * tt_cost_count(&io->in[LOGITS]),
        (double)tt__last(&io->in[LOGITS].shape), cost);
}

static tt_status infer_join(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "loss_join", 4, 4));
    TT_TRY(tt_infer_float(io, "loss_join", J_MAX));
    TT_TRY(tt_infer_same_dims(io, "loss_join", J_MAX, J_E));
    TT_TRY(tt_infer_same_dims(io, "loss_join", J_MAX, J_T));
    TT_TRY(tt_infer_same_dims(io, "loss_join", J_MAX, J_LABELS));
    TT_TRY(tt__want_dtype(io, J_LABELS, TT_I32, "loss_join"));
    io->n_out = 3;
    for (int i = 0; i < 3; i++)
        io->out[i].dtype = io->in[J_MAX].dtype;
    io->out[2].shape = io->in[J_MAX].shape;
    return TT_OK;
}

static void shard_join(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    for (int d = 0; d < io->in[J_MAX].shape.ndim; d++)
        tt__shard_dim(io, axis_size, d,
                      &(tt__split){J_MAX, "====", "++=", NULL}, sigs);
}

static void cost_join(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[J_MAX]);
    tt_cost_reduction(io, 0, 4 * n, n, cost);
}

// The result of an earlier node of this operator that reads x; for communication, along
// this axis. cross_entropy and correct both need the rows' maxima, and the second one
// finds those of the first here, which saves an all-reduce.
static tt_val find_made(const tt_builder *b, const tt_op_def *op, tt_val x,
                        int axis)
{
    for (int32_t n = b->graph->n_nodes - 1; n >= 0 && tt_is(x); n--) {
        const tt_node *node = &b->graph->node[n];
        const tt_comm_params *p = node->params;
        if (node->op == op && node->in[0].id == x.id &&
            ((op->flags & TT_OP_COLLECTIVE) == 0 || p->axis == axis))
            return node->out[0];
    }
    return TT_NONE;
}

tt_val tt__rows_max(tt_builder *b, tt_val logits, tt_val labels, int axis)
{
    const tt_val known = find_made(
        b, &tt_op_all_reduce, find_made(b, &tt_op_row_max, logits, axis), axis);
    if (tt_is(known))
        return known;
    const tt_val max = tt_call(b, &tt_op_row_max, NULL, &logits, 1, NULL);
    tt_place_as(b, max, axis, tt_place_partial(TT_MAX), labels);
    return tt_all_reduce(b, max, axis, TT_MAX);
}

tt_status tt__cross_entropy_expand(tt_builder *b, const tt_node *node,
                                   const tt_sig *sig, int axis,
                                   const tt_val *in, tt_val *out)
{
    const tt_cross_entropy_params *p = node->params;
    tt_val term[TT_MAX_OUT], made[TT_MAX_OUT];
    const tt_val max = tt__rows_max(b, in[0], in[1], axis);
    tt_call(b, &tt_op_loss_terms, p, (tt_val[]){in[0], in[1], max}, 3, term);
    for (int i = 0; i < 2; i++) {
        tt_place_as(b, term[i], axis, tt_place_partial(TT_SUM), max);
        term[i] = tt_all_reduce(b, term[i], axis, TT_SUM);
    }
    const tt_loss_join_params join = {.ignore = p->ignore};
    tt_call(b, &tt_op_loss_join, &join,
            (tt_val[]){max, term[0], term[1], in[1]}, 4, made);
    for (int i = 0; i < 3; i++) {
        tt_place_as(b, made[i], axis, sig->out[i], max);
        out[i] = made[i];
    }
    return tt_builder_status(b);
}

static const tt_opt options_join[] = {
    {.name = "ignore",
     .fallback = "-100",
     .doc = "rows with this label count nothing",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_loss_join_params, ignore)},
    {0},
};

static const tt_sample samples_max[] = {
    {"", {"f batch:3 vocab:7"}, 21},
    {"", {"f batch:2 seq:5 vocab:3"}, 30},
    {0},
};

static const tt_sample samples_terms[] = {
    {"", {"f batch:3 vocab:7", "i<7 batch:3", "m batch:3"}, 63},
    {"smoothing=0.1 ignore=2",
     {"f batch:2 seq:5 vocab:5", "i<5 batch:2 seq:5", "m batch:2 seq:5"},
     200},
    {0},
};

static const tt_sample samples_join[] = {
    {"", {"m batch:3", "m+ batch:3", "m batch:3", "i<7 batch:3"}, 12},
    {"ignore=0",
     {"m batch:2 seq:5", "m+ batch:2 seq:5", "m batch:2 seq:5",
      "i<3 batch:2 seq:5"},
     40},
    {0},
};

const tt_op_def tt_op_row_max = {
    .name = "row_max",
    .doc = "The largest entry of each row.",
    .infer = infer_max,
    .shard = shard_max,
    .cost = cost_max,
    .samples = samples_max,
};

const tt_op_def tt_op_loss_terms = {
    .name = "loss_terms",
    .doc = "What a slice of the vocabulary adds to cross_entropy's rows.",
    .options = tt__cross_entropy_options,
    .params_bytes = sizeof(tt_cross_entropy_params),
    .infer = infer_terms,
    .shard = shard_terms,
    .cost = cost_terms,
    .samples = samples_terms,
};

const tt_op_def tt_op_loss_join = {
    .name = "loss_join",
    .doc = "Cross-entropy from the terms of all slices.",
    .options = options_join,
    .params_bytes = sizeof(tt_loss_join_params),
    .infer = infer_join,
    .shard = shard_join,
    .cost = cost_join,
    .samples = samples_join,
};
