// norm_parts - what layer_norm and rms_norm become when the rows themselves are split
// over ranks. Each rank sums over its part of a row, an all-reduce adds the sums, and
// the rest is element-wise.
//
//   forward    m = all_reduce(row_moment(x));  v = all_reduce(row_moment(x, m; 2))
//              rstd = rsqrt(v + eps);  y = norm_apply(x, gamma, beta, m, rstd)
//   backward   b, a = all_reduce(norm_grad_moments(x, dy, gamma, m, rstd))
//              dx = norm_grad_apply(x, dy, gamma, m, rstd, b, a)
//
//   wire       two values per row forward, two backward (RMS: one and one)

#include "ops/comm/comm.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/norm.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

static void row_outputs(tt_op_io *io, int n)
{
    io->n_out = n;
    for (int i = 0; i < n; i++) {
        io->out[i].dtype = tt_dtype_master(io->in[0].dtype);
        io->out[i].shape = tt__lead_of(&io->in[0].shape);
    }
}

static void like_input(tt_op_io *io)
{
    io->n_out = 1;
    io->out[0].dtype = io->in[0].dtype;
    io->out[0].shape = io->in[0].shape;
}

static tt_status want_optional_rows(const tt_op_io *io, int i, const char *name)
{
    return tt_io_has(io, i) ? tt__want_rows(io, i, name) : TT_OK;
}

static tt_status infer_moment(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "row_moment", 1, 2));
    TT_TRY(tt_infer_float(io, "row_moment", 0));
    TT_TRY(want_optional_rows(io, 1, "row_moment"));
    row_outputs(io, 1);
    return TT_OK;
}

static void shard_moment(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "==", "=", NULL}, sigs);
    tt__shard_last(io, axis_size, &(tt__split){0, "z.", "+", NULL}, sigs);
}

static void cost_moment(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const tt_row_moment_params *p = io->params;
    const double each = (double)p->power + (tt_io_has(io, 1) ? 1 : 0);
    tt_cost_reduction(io, 0, each * tt_cost_count(&io->in[0]),
                      (double)tt__last(&io->in[0].shape), cost);
}

static tt_status infer_rsqrt(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "rsqrt", 1, 1));
    TT_TRY(tt_infer_float(io, "rsqrt", 0));
    like_input(io);
    return TT_OK;
}

static void shard_rsqrt(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    for (int d = 0; d < io->in[0].shape.ndim; d++)
        tt__shard_dim(io, axis_size, d, &(tt__split){0, "=", "=", NULL}, sigs);
}

// norm_apply: x, gamma, [beta], [mean], rstd
static tt_status infer_apply(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "norm_apply", 2, 5));
    TT_TRY(tt_infer_float(io, "norm_apply", 0));
    TT_TRY(tt__want_columns(io, 1, "norm_apply"));
    if (tt_io_has(io, 2))
        TT_TRY(tt__want_columns(io, 2, "norm_apply"));
    TT_TRY(want_optional_rows(io, 3, "norm_apply"));
    if (!tt_io_has(io, 4))
        return tt_fail(TT_ERR_ARG, "norm_apply: rstd is missing");
    TT_TRY(tt__want_rows(io, 4, "norm_apply"));
    like_input(io);
    return TT_OK;
}

static void shard_apply(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "=..==", "=", NULL}, sigs);
    tt__shard_last(io, axis_size, &(tt__split){0, "zzz..", "z", NULL}, sigs);
}

static void cost_apply(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_elementwise(
        io, 0, 2 + (tt_io_has(io, 2) ? 1 : 0) + (tt_io_has(io, 3) ? 1 : 0),
        cost);
}

// norm_grad_moments: x, dy, gamma, [mean], rstd; norm_grad_apply: and b, [a]
static tt_status want_grad_inputs(const tt_op_io *io, int max, const char *name)
{
    TT_TRY(tt_infer_inputs(io, name, 3, max));
    TT_TRY(tt_infer_same_dims(io, name, 0, 1));
    TT_TRY(tt__want_columns(io, 2, name));
    TT_TRY(want_optional_rows(io, 3, name));
    if (!tt_io_has(io, 4))
        return tt_fail(TT_ERR_ARG, "%s: rstd is missing", name);
    return tt__want_rows(io, 4, name);
}

static tt_status infer_grad_moments(tt_op_io *io)
{
    TT_TRY(want_grad_inputs(io, 5, "norm_grad_moments"));
    row_outputs(io, tt_io_has(io, 3) ? 2 : 1);
    return TT_OK;
}

static void shard_grad_moments(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "==.==", "==", NULL}, sigs);
    tt__shard_last(io, axis_size, &(tt__split){0, "zzz..", "++", NULL}, sigs);
}

static void cost_grad_moments(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_reduction(io, 0,
                      (tt_io_has(io, 3) ? 6 : 4) * tt_cost_count(&io->in[0]),
                      (double)tt__last(&io->in[0].shape), cost);
}

static tt_status infer_grad_apply(tt_op_io *io)
{
    TT_TRY(want_grad_inputs(io, 7, "norm_grad_apply"));
    if (!tt_io_has(io, 5) || tt_io_has(io, 6) != tt_io_has(io, 3))
        return tt_fail(TT_ERR_ARG, "norm_grad_apply: a moment is missing");
    TT_TRY(tt__want_rows(io, 5, "norm_grad_apply"));
    TT_TRY(want_optional_rows(io, 6, "norm_grad_apply"));
    like_input(io);
    return TT_OK;
}

static void shard_grad_apply(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){0, "==.====", "=", NULL}, sigs);
    tt__shard_last(io, axis_size, &(tt__split){0, "zzz....", "z", NULL}, sigs);
}

static void cost_grad_apply(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_elementwise(io, 0, tt_io_has(io, 3) ? 7 : 5, cost);
}

// The moment of the whole row, on every rank: the local term, all-reduced.
static tt_val whole_moment(tt_builder *b, tt_val x, tt_val center, int axis,
                           int64_t power)
{
    const tt_row_moment_params p = {.power = power};
    const tt_val m =
        tt_call(b, &tt_op_row_moment, &p, (tt_val[]){x, center}, 2, NULL);
    tt_place_as(b, m, axis, tt_place_partial(TT_SUM), x);
    return tt_all_reduce(b, m, axis, TT_SUM);
}

tt_status tt__norm_expand(tt_builder *b, const tt_node *node, const tt_sig *sig,
                          int axis, const tt_val *in, tt_val *out)
{
    const tt_norm_params *p = node->params;
    const bool has_mean = node->op == &tt_op_layer_norm;
    const tt_val x = in[0], beta = node->n_in > 2 ? in[2] : TT_NONE;
    const tt_val mean =
        has_mean ? whole_moment(b, x, TT_NONE, axis, 1) : TT_NONE;
    const tt_val square = whole_moment(b, x, mean, axis, 2);
    const tt_val rstd = tt_call(b, &tt_op_rsqrt, p, &square, 1, NULL);
    tt_place_as(b, rstd, axis, tt_place_replicate(), square);
    out[0] = tt_call(b, &tt_op_norm_apply, NULL,
                     (tt_val[]){x, in[1], beta, mean, rstd}, 5, NULL);
    tt_place_as(b, out[0], axis, sig->out[0], x);
    if (has_mean)
        out[1] = mean;
    out[has_mean ? 2 : 1] = rstd;
    return tt_builder_status(b);
}

tt_status tt__norm_expand_grad_x(tt_builder *b, const tt_node *node,
                                 const tt_sig *sig, int axis, const tt_val *in,
                                 tt_val *out)
{
    const bool has_mean = node->op == &tt_op_layer_norm_grad_x;
    const tt_val mean = has_mean ? in[3] : TT_NONE;
    const tt_val rstd = in[has_mean ? 4 : 3];
    tt_val moment[TT_MAX_OUT];
    tt_call(b, &tt_op_norm_grad_moments, NULL,
            (tt_val[]){in[0], in[1], in[2], mean, rstd}, 5, moment);
    for (int i = 0; i < (has_mean ? 2 : 1); i++) {
        tt_place_as(b, moment[i], axis, tt_place_partial(TT_SUM), in[0]);
        moment[i] = tt_all_reduce(b, moment[i], axis, TT_SUM);
    }
    out[0] = tt_call(
        b, &tt_op_norm_grad_apply, NULL,
        (tt_val[]){in[0], in[1], in[2], mean, rstd, moment[0], moment[1]}, 7,
        NULL);
    tt_place_as(b, out[0], axis, sig->out[0], in[0]);
    return tt_builder_status(b);
}

static const tt_opt options_moment[] = {
    {.name = "power",
     .fallback = "1",
     .doc = "1: mean; 2: mean square",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_row_moment_params, power),
     .min = 1,
     .max = 2},
    {0},
};

static const tt_opt options_rsqrt[] = {
    {.name = "eps",
     .fallback = "0",
     .doc = "added before the root",
     .type = TT_OPT_F64,
     .offset = offsetof(tt_norm_params, eps),
     .min = 0,
     .max = 1},
    {0},
};

static const tt_sample samples_moment[] = {
    {"", {"f batch:3 embed:7"}, 21},
    {"power=2", {"f batch:2 seq:3 heads:3.head:2"}, 72},
    {"power=2", {"f batch:3 embed:7", "m batch:3"}, 63},
    {0},
};

static const tt_sample samples_rsqrt[] = {
    {"eps=0.1", {"m+ batch:3 seq:5"}, 30},
    {0},
};

static const tt_sample samples_apply[] = {
    {"",
     {"f batch:3 embed:7", "f embed:7", "f embed:7", "m batch:3", "m+ batch:3"},
     84},
    {"", {"f batch:3 embed:7", "f embed:7", "-", "-", "m+ batch:3"}, 42},
    {0},
};

static const tt_sample samples_grad_moments[] = {
    {"",
     {"f batch:3 embed:7", "f batch:3 embed:7", "f embed:7", "m batch:3",
      "m+ batch:3"},
     126},
    {"",
     {"f batch:3 embed:7", "f batch:3 embed:7", "f embed:7", "-", "m+ batch:3"},
     84},
    {0},
};

static const tt_sample samples_grad_apply[] = {
    {"",
     {"f batch:3 embed:7", "f batch:3 embed:7", "f embed:7", "m batch:3",
      "m+ batch:3", "m batch:3", "m batch:3"},
     147},
    {"",
     {"f batch:3 embed:7", "f batch:3 embed:7", "f embed:7", "-", "m+ batch:3",
      "m batch:3"},
     105},
    {0},
};

const tt_op_def tt_op_row_moment = {
    .name = "row_moment",
    .doc = "Mean over rows of (x - center)^power; of part of a row: its term.",
    .options = options_moment,
    .params_bytes = sizeof(tt_row_moment_params),
    .infer = infer_moment,
    .shard = shard_moment,
    .cost = cost_moment,
    .samples = samples_moment,
};

const tt_op_def tt_op_rsqrt = {
    .name = "rsqrt",
    .doc = "1 / sqrt(x + eps).",
    .options = options_rsqrt,
    .params_bytes = sizeof(tt_norm_params),
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer_rsqrt,
    .shard = shard_rsqrt,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_rsqrt,
};

const tt_op_def tt_op_norm_apply = {
    .name = "norm_apply",
    .doc = "(x - mean) * rstd * gamma + beta, given the statistics.",
    .infer = infer_apply,
    .shard = shard_apply,
    .cost = cost_apply,
    .samples = samples_apply,
};

const tt_op_def tt_op_norm_grad_moments = {
    .name = "norm_grad_moments",
    .doc = "Means over rows of g * xhat and g, for the gradient of a norm.",
    .infer = infer_grad_moments,
    .shard = shard_grad_moments,
    .cost = cost_grad_moments,
    .samples = samples_grad_moments,
};

const tt_op_def tt_op_norm_grad_apply = {
    .name = "norm_grad_apply",
    .doc = "Gradient of a norm's input, given the gradient's moments.",
    .infer = infer_grad_apply,
    .shard = shard_grad_apply,
    .cost = cost_grad_apply,
    .samples = samples_grad_apply,
};
