// narrow, widen - numbers in 16 bits, which replicas add as they are.
//
//   narrow (x, residual) -> (codes, residual)
//           codes = (x + residual) * scale, at most the limit, to nearest even
//   widen  (sum of codes, like) -> sum / scale
//
//   limit   the type's largest number over the number of replicas, so that no sum of
//           codes is infinite. What is beyond stays in the residual
//   bytes   2 n
//   flops   2 per element; widen 1

#include "ops/codec/narrow.h"

#include "ops/codec/packet.h"
#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

float tt_narrow_limit(const tt_narrow_params *p)
{
    const float largest = p->to == 0 ? 0x1.fep127f : 65504.0f;
    float power =
        1; // a power of two, so that the limit is a number of the type
    while ((double)power < (double)p->peers)
        power *= 2;
    return largest / power;
}

static tt_status infer(tt_op_io *io)
{
    const char *op = "narrow";
    TT_TRY(tt_infer_inputs(io, op, 1, TT_NARROW_N));
    TT_TRY(tt_infer_float(io, op, TT_NARROW_X));
    const tt_type *x = &io->in[TT_NARROW_X];
    tt_infer_add(io, tt_narrow_dtype(io->params), &x->shape);
    if (!tt_io_has(io, TT_NARROW_RESIDUAL))
        return TT_OK;
    const tt_dtype wide = tt_dtype_master(x->dtype);
    TT_TRY(tt__expect_dtype(io, op, TT_NARROW_RESIDUAL, wide, "the residual"));
    TT_TRY(tt_infer_same_dims(io, op, TT_NARROW_X, TT_NARROW_RESIDUAL));
    tt_infer_add(io, wide, &io->in[TT_NARROW_RESIDUAL].shape);
    return TT_OK;
}

static tt_status infer_widen(tt_op_io *io)
{
    const char *op = "widen";
    TT_TRY(tt_infer_inputs(io, op, 2, 2));
    TT_TRY(tt__expect_dtype(io, op, 0, tt_narrow_dtype(io->params),
                            "the sum of codes"));
    TT_TRY(tt_infer_float(io, op, 1));
    TT_TRY(tt_infer_same_dims(io, op, 0, 1));
    tt_infer_add(io, io->in[1].dtype, &io->in[1].shape);
    return TT_OK;
}

static const tt_opt options[] = {
    {"to", "bf16", "the type", TT_OPT_CHOICE,
     .offset = offsetof(tt_narrow_params, to), .choices = "bf16|fp16"},
    {"scale", "1", "by which numbers are multiplied, a power of two",
     TT_OPT_F64, .offset = offsetof(tt_narrow_params, scale), .min = 0x1p-60,
     .max = 0x1p60},
    {"peers", "1", "replicas whose numbers are added", TT_OPT_I64,
     .offset = offsetof(tt_narrow_params, peers), .min = 1, .max = 1 << 24},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f a:3 b:7"}, 42},
    {"peers=3", {"f a:13", "m a:13"}, 26},
    {"to=fp16 scale=1024 peers=4", {"f a:7 b:11", "m a:7 b:11"}, 154},
    {"to=fp16 scale=1048576 peers=4", {"f a:37"}, 74},
    {"to=fp16 scale=0.00000095367431640625", {"f a:37 b:3"}, 222},
    {0},
};

static const tt_sample samples_widen[] = {
    {"", {"b a:3 b:7", "f a:3 b:7"}, 21},
    {"scale=64", {"b a:3 b:7", "f a:3 b:7"}, 21},
    {0},
};

const tt_op_def tt_op_narrow = {
    .name = "narrow",
    .doc = "Numbers in 16 bits, for sums that stay finite.",
    .options = options,
    .params_bytes = sizeof(tt_narrow_params),
    .infer = infer,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples,
};

const tt_op_def tt_op_widen = {
    .name = "widen",
    .doc = "Sums of numbers in 16 bits.",
    .options = options,
    .params_bytes = sizeof(tt_narrow_params),
    .shape_only = 1U << 1,
    .infer = infer_widen,
    .cost = tt_cost_each,
    .flops_each = 1,
    .samples = samples_widen,
};
