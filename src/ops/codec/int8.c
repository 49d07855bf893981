// int8_encode, int8_sum - numbers of 8 bits with a scale per block (codes.h).
//
//   digit   floor(e * (127 / scale) + 1/2) + 128
//   bytes   n + 4 ceil(n / block)
//   error   at most scale / 254 per element
//   flops   3 per element; sum 2

#include "ops/codec/codes.h"
#include "ops/cost.h"
#include "ops/ops.h"

#include <math.h>

const tt_code_form tt_form_int8 = {
    .kind = TT_PACKET_INT8,
    .scales = 1,
    .per_byte = 1,
};

int64_t tt_body_int8(const void *params, int64_t n, tt_dtype dtype)
{
    (void)dtype;
    return tt_code_body(&tt_form_int8, params, n);
}

static tt_status infer(tt_op_io *io)
{
    return tt__packet_infer(io, tt_body_int8, false);
}

static tt_status infer_sum(tt_op_io *io)
{
    return tt__packet_infer_sum(io, tt_body_int8);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_code_params *p = io->params;
    const double n = tt_cost_count(&io->in[TT_PX]);
    tt_cost_reduction(io, 0, 3 * n, fmin(n, (double)p->block), cost_out);
}

const tt_opt tt_int8_options[] = {
    {"block", "256", "entries that share a scale", TT_OPT_I64,
     .offset = offsetof(tt_code_params, block), .min = 8,
     .max = TT_CODE_BLOCK_MOST},
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:5"}, 45},
    {"", {"f a:7 b:11", "m a:7 b:11"}, 231},
    {"block=24", {"=0 a:33"}, 99},
    {"block=32", {"m=1e-44 a:40", "m a:40"}, 120},
    {"block=40", {"f! a:37 b:9"}, 999},
    {"block=8", {"f a:1", "m a:1"}, 3},
    {0},
};

static const tt_sample samples_sum[] = {
    {"", {"c3", "f a:7 b:11"}, 154},
    {"block=40", {"c2", "f a:37 b:9"}, 666},
    {0},
};

const tt_op_def tt_op_int8_encode = {
    .name = "int8_encode",
    .doc = "Numbers of 8 bits, with a scale per block.",
    .options = tt_int8_options,
    .params_bytes = sizeof(tt_code_params),
    .infer = infer,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_int8_sum = {
    .name = "int8_sum",
    .doc = "The sum of what codes of int8_encode stand for.",
    .options = tt_int8_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .infer = infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_sum,
};
