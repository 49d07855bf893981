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

const tt_packet_form tt_form_twobit = {
    .kind = TT_PACKET_TWOBIT,
    .body = tt__code_body,
    .scales = 1,
    .per_byte = 4,
};

const tt_opt tt_twobit_options[] = {
    TT_CODE_BLOCK_OPTION("1024"),
    {"threshold", "0", "what is sent for an entry; 0: the block's mean",
     TT_OPT_F64, .offset = offsetof(tt_code_params, threshold), .min = 0,
     .max = 1e30},
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:5"}, 45},
    {"", {"f a:7 b:11", "m a:7 b:11"}, 231},
    {"", {"f a:30 b:70", "m a:30 b:70"}, 6300},
    {"block=24", {"=0 a:33"}, 99},
    {"block=32", {"m=1e-44 a:40", "m a:40"}, 120},
    {"block=40", {"f! a:37 b:9"}, 999},
    {"block=8", {"f a:1", "m a:1"}, 3},
    {"threshold=0.5 block=16", {"f a:19"}, 57},
    {0},
};

const tt_op_def tt_op_twobit_encode = {
    .name = "twobit_encode",
    .doc = "Nothing, plus or minus a threshold.",
    .options = tt_twobit_options,
    .params_bytes = sizeof(tt_code_params),
    .family = &tt_form_twobit,
    .infer = tt__packet_infer,
    .cost = tt__code_cost,
    .flops_each = 3,
    .samples = samples,
};

const tt_op_def tt_op_twobit_sum = {
    .name = "twobit_sum",
    .doc = "The sum of what codes of twobit_encode stand for.",
    .options = tt_twobit_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .family = &tt_form_twobit,
    .infer = tt__packet_infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = tt__code_sum_samples,
};
