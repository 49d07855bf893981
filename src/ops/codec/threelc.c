// threelc_encode, threelc_sum - three values, five in a byte, runs of zeros made short
// (entropy.h).
//
//   bytes   n / 5 + 4 ceil(n / block) at most, far fewer where most numbers are small
//   error   biased: only with a residual; at most half the scale per element
//   flops   3 per element; sum 2
//   source  Lim et al. 2019 (3LC)

#include "ops/codec/entropy.h"
#include "ops/cost.h"
#include "ops/ops.h"

#include <math.h>

int64_t tt_body_threelc(const void *params, int64_t n, tt_dtype dtype)
{
    (void)dtype;
    const tt_code_params *p = params;
    return 4 * tt_code_blocks(p, n) +
           tt_code_digits_bytes(p, TT_THREELC_PER_BYTE, n);
}

static tt_status infer(tt_op_io *io)
{
    return tt__packet_infer(io, tt_body_threelc, false);
}

static tt_status infer_sum(tt_op_io *io)
{
    return tt__packet_infer_sum(io, tt_body_threelc);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_code_params *p = io->params;
    const double n = tt_cost_count(&io->in[TT_PX]);
    tt_cost_reduction(io, 0, 3 * n, fmin(n, (double)p->block), cost_out);
}

const tt_opt tt_threelc_options[] = {
    {"sparsity", "1", "the scale over the largest number: more send less",
     TT_OPT_F64, .offset = offsetof(tt_code_params, sparsity), .min = 1,
     .max = 1.999},
    {"block", "10240", "entries that share a scale", TT_OPT_I64,
     .offset = offsetof(tt_code_params, block), .min = 8,
     .max = TT_CODE_BLOCK_MOST},
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:5"}, 45},
    {"", {"f a:7 b:11", "m a:7 b:11"}, 231},
    {"block=40", {"=0 a:333", "m=0 a:333"}, 999}, // long runs
    {"sparsity=1.9 block=64", {"f a:37 b:9", "m a:37 b:9"}, 999},
    {0},
};

static const tt_sample samples_sum[] = {
    {"sparsity=1.9 block=64", {"c3", "f a:37 b:9"}, 666},
    {0},
};

const tt_op_def tt_op_threelc_encode = {
    .name = "threelc_encode",
    .doc = "Three values, five in a byte, runs of zeros made short.",
    .options = tt_threelc_options,
    .params_bytes = sizeof(tt_code_params),
    .infer = infer,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_threelc_sum = {
    .name = "threelc_sum",
    .doc = "The sum of what codes of threelc_encode stand for.",
    .options = tt_threelc_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .infer = infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_sum,
};
