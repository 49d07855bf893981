// rows_encode, rows_sum - see code_rows.h.
//
//   random  numbers of a part have a key of the run's seed, the node, the step and the
//           part's first element in the whole tensor
//   flops   4 per element; sum 2

#include "ops/codec/code_rows.h"

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

#include <math.h>

const tt_packet_form *const tt_code_rows_forms[TT_ROWS_KINDS] = {
    &tt_form_int8, &tt_form_natural, &tt_form_ternary};

int tt_code_rows_kind(const tt_packet_form *form)
{
    for (int i = 0; i < TT_ROWS_KINDS; i++)
        if (form == tt_code_rows_forms[i])
            return i;
    return -1;
}

tt_code_rows tt_code_rows_of(const tt_code_rows_params *p,
                             const tt_local *local)
{
    int64_t row = 1;
    for (int f = (int)p->lead; f < local->shape.n_factors; f++)
        row *= local->global[f];
    const int64_t columns = row / p->parts;
    if (columns == 0)
        return (tt_code_rows){0};
    return (tt_code_rows){.n = tt_shape_count(&local->shape) / columns,
                          .columns = columns,
                          .bytes = tt_packet_body(tt_code_rows_forms[p->kind],
                                                  &p->code, columns, TT_F32)};
}

static tt_status codes_of(const tt_op_io *io, const tt_shape *x,
                          tt_shape *codes)
{
    const tt_code_rows_params *p = io->params;
    if (p->lead < 0 || p->lead >= x->n_factors)
        return tt_fail(TT_ERR_ARG,
                       "%s: a tensor of %d factors has no %lld "
                       "leading ones and rows behind them",
                       io->op->name, x->n_factors, (long long)p->lead);
    tt_local whole;
    tt_local_whole(x, &whole);
    const tt_code_rows rows = tt_code_rows_of(p, &whole);
    if (rows.n % p->parts != 0 || rows.n * rows.columns != tt_shape_count(x))
        return tt_fail(TT_ERR_ARG, "%s: rows cannot be cut into %lld parts",
                       io->op->name, (long long)p->parts);
    for (int f = 0; f < p->lead; f++)
        TT_TRY(tt_shape_push(codes, x->factor[f].name, x->factor[f].size));
    return tt_shape_push(codes, TT_CODE_BYTES, p->parts * rows.bytes);
}

static tt_status infer(tt_op_io *io)
{
    const char *op = io->op->name;
    const tt_code_rows_params *p = io->params;
    tt_shape codes = {0};
    TT_TRY(tt_infer_inputs(io, op, 1, TT_P_N));
    TT_TRY(tt_infer_float(io, op, TT_PX));
    if (tt_io_has(io, TT_PRESIDUAL))
        return tt_fail(TT_ERR_ARG, "%s: rows have no residual", op);
    if (tt_code_rows_forms[p->kind]->is_random &&
        (!tt_io_has(io, TT_PSEED) || !tt_io_has(io, TT_PSTEP)))
        return tt_fail(TT_ERR_ARG, "%s: there must be a seed and a step", op);
    for (int i = TT_PSEED; i < io->n_in; i++)
        if (tt_io_has(io, i))
            TT_TRY(tt_infer_scalar(io, op, i, TT_I64));
    TT_TRY(codes_of(io, &io->in[TT_PX].shape, &codes));
    tt_infer_add(io, TT_U8, &codes);
    return TT_OK;
}

static tt_status infer_sum(tt_op_io *io)
{
    const char *op = io->op->name;
    tt_shape codes = {0};
    TT_TRY(tt_infer_inputs(io, op, TT_PSUM_N, TT_PSUM_N));
    TT_TRY(tt_infer_float(io, op, TT_PSUM_LIKE));
    const tt_type *like = &io->in[TT_PSUM_LIKE];
    TT_TRY(codes_of(io, &like->shape, &codes));
    const tt_type *given = &io->in[TT_PSUM_PACKETS];
    if (given->dtype != TT_U8 ||
        tt_shape_count(&given->shape) % tt_shape_count(&codes) != 0)
        return tt_infer_fail_shapes(op, "these are not codes of such rows",
                                    &given->shape, &like->shape);
    tt_infer_add(io, like->dtype, &like->shape);
    return TT_OK;
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_code_rows_params *p = io->params;
    const double n = tt_cost_count(&io->in[TT_PX]);
    tt_cost_reduction(io, 0, io->op->flops_each * n,
                      fmin(n, (double)p->code.block), cost_out);
}

static const tt_opt options[] = {
    TT_CODE_BLOCK_OPTION("256"),
    {"code", "int8", "the codec", TT_OPT_CHOICE,
     .offset = offsetof(tt_code_rows_params, kind),
     .choices = "int8|natural|ternary"},
    {"lead", "0", "leading factors, behind which rows begin", TT_OPT_I64,
     .offset = offsetof(tt_code_rows_params, lead), .max = TT_MAX_FACTORS},
    {"parts", "1", "of a row, each with a code of its own", TT_OPT_I64,
     .offset = offsetof(tt_code_rows_params, parts), .min = 1, .max = 1 << 20},
    {0},
};

static const tt_sample samples[] = {
    {"lead=1", {"f a:3 b:5"}, 60},
    {"lead=2 parts=2 block=8", {"f a:3 b:5 c:4.d:6"}, 1440},
    {"lead=1 code=natural", {"f a:7 b:11", "-", "I=11", "I=3"}, 308},
    {"lead=1 code=ternary block=16", {"f! a:9 b:37", "-", "I=11", "I=3"}, 1332},
    {"", {"m=1e-44 a:40"}, 160},
    {0},
};

static const tt_sample samples_sum[] = {
    {"lead=1", {"c1", "f a:7 b:11"}, 154},
    {"lead=2 parts=2 block=8", {"c3", "f a:3 b:5 c:4.d:6"}, 720},
    {"lead=1 code=natural", {"c2", "f a:7 b:11"}, 154},
    {"lead=1 code=ternary block=16", {"c2", "f a:9 b:37"}, 666},
    {0},
};

const tt_op_def tt_op_rows_encode = {
    .name = "rows_encode",
    .doc = "A code for each row, for what ranks of a layer send.",
    .options = options,
    .params_bytes = sizeof(tt_code_rows_params),
    .infer = infer,
    .cost = cost,
    .flops_each = 4,
    .samples = samples,
};

const tt_op_def tt_op_rows_sum = {
    .name = "rows_sum",
    .doc = "The sum of what codes of rows_encode stand for.",
    .options = options,
    .params_bytes = sizeof(tt_code_rows_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .infer = infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_sum,
};
