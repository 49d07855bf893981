// onebit_encode, onebit_sum - signs, with the mean of each side per block (codes.h).
//
//   bytes   n / 8 + 8 ceil(n / block)
//   error   biased: only with a residual
//   flops   2 per element; sum 2
//   source  Seide et al. 2014 (1-bit SGD)

#include "ops/codec/codes.h"
#include "ops/cost.h"
#include "ops/ops.h"

const tt_packet_form tt_form_onebit = {
    .kind = TT_PACKET_ONEBIT,
    .body = tt__code_body,
    .scales = 2,
    .per_byte = 8,
};

const tt_opt tt_onebit_options[] = {
    TT_CODE_BLOCK_OPTION("1024"),
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:5"}, 30},
    {"", {"f a:7 b:11", "m a:7 b:11"}, 154},
    {"", {"f a:30 b:70", "m a:30 b:70"}, 4200},
    {"block=24", {"=0 a:33"}, 66},
    {"block=32", {"m=1e-44 a:40", "m a:40"}, 80},
    {"block=40", {"f! a:37 b:9"}, 666},
    {"block=8", {"f a:1", "m a:1"}, 2},
    {0},
};

const tt_op_def tt_op_onebit_encode = {
    .name = "onebit_encode",
    .doc = "Signs, with two means per block.",
    .options = tt_onebit_options,
    .params_bytes = sizeof(tt_code_params),
    .family = &tt_form_onebit,
    .infer = tt__packet_infer,
    .cost = tt__code_cost,
    .flops_each = 2,
    .samples = samples,
};

const tt_op_def tt_op_onebit_sum = {
    .name = "onebit_sum",
    .doc = "The sum of what codes of onebit_encode stand for.",
    .options = tt_onebit_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .family = &tt_form_onebit,
    .infer = tt__packet_infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = tt__code_sum_samples,
};
