// twobit_encode, twobit_sum - entries above a threshold, as plus or minus the threshold.
//
//   scale   the threshold: the option, or the block's mean |e|
//   digit   1 where e >= scale > 0, 2 where e <= -scale < 0
//   bytes   n / 4 + 4 ceil(n / block)
//   error   biased: only with a residual, which keeps what is below the threshold
//   flops   3 per element; sum 2
//   source  MXNet's 2-bit compression, after Strom 2015

#include "ops/codec/codes.h"
#include "ops/cost.h"
#include "ops/ops.h"

#include <math.h>

const tt_code_form tt_form_twobit = {
    .kind = TT_PACKET_TWOBIT,
    .scales = 1,
    .per_byte = 4,
};

int64_t tt_body_twobit(const void *params, int64_t n, tt_dtype dtype)
{
    (void)dtype;
    return tt_code_body(&tt_form_twobit, params, n);
}

static tt_status infer(tt_op_io *io)
{
    return tt__packet_infer(io, tt_body_twobit, false);
}

static tt_status infer_sum(tt_op_io *io)
{
    return tt__packet_infer_sum(io, tt_body_twobit);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_code_params *p = io->params;
    const double n = tt_cost_count(&io->in[TT_PX]);
    tt_cost_reduction(io, 0, 3 * n, fmin(n, (double)p->block), cost_out);
}

const tt_opt tt_twobit_options[] = {
    {"block", "1024", "entries that share a scale", TT_OPT_I64,
     .offset = offsetof(tt_code_params, block), .min = 8,
     .max = TT_CODE_BLOCK_MOST},
    {"threshold", "0", "what is sent for an entry; 0: the block's mean",
     TT_OPT_F64, .offset = offsetof(tt_code_params, threshold), .min = 0,
     .max = 1e30},
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:5"}, 45},
    {"", {"f a:7 b:11", "m a:7 b:11"}, 231},
    {"block=24", {"=0 a:33"}, 99},
    {"block=32", {"m=1e-44 a:40", "m a:40"}, 120},
    {"block=40", {"f! a:37 b:9"}, 999},
    {"block=8", {"f a:1", "m a:1"}, 3},
    {"threshold=0.5 block=16", {"f a:19"}, 57},
    {0},
};

static const tt_sample samples_sum[] = {
    {"", {"c3", "f a:7 b:11"}, 154},
    {"block=40", {"c2", "f a:37 b:9"}, 666},
    {0},
};

const tt_op_def tt_op_twobit_encode = {
    .name = "twobit_encode",
    .doc = "Nothing, plus or minus a threshold.",
    .options = tt_twobit_options,
    .params_bytes = sizeof(tt_code_params),
    .infer = infer,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_twobit_sum = {
    .name = "twobit_sum",
    .doc = "The sum of what codes of twobit_encode stand for.",
    .options = tt_twobit_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .infer = infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_sum,
};
