// int8_encode, int8_sum - numbers of 8 bits with a scale per block (codes.h).
//
//   digit   floor(e * (127 / scale) + 1/2) + 128
//   bytes   n + 4 ceil(n / block)
//   error   at most scale / 254 per element
//   flops   3 per element; sum 2

#include "ops/codec/codes.h"
#include "ops/cost.h"
#include "ops/ops.h"

const tt_packet_form tt_form_int8 = {
    .kind = TT_PACKET_INT8,
    .body = tt__code_body,
    .scales = 1,
    .per_byte = 1,
};

const tt_opt tt_int8_options[] = {
    TT_CODE_BLOCK_OPTION("256"),
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

const tt_op_def tt_op_int8_encode = {
    .name = "int8_encode",
    .doc = "Numbers of 8 bits, with a scale per block.",
    .options = tt_int8_options,
    .params_bytes = sizeof(tt_code_params),
    .family = &tt_form_int8,
    .infer = tt__packet_infer,
    .cost = tt__code_cost,
    .flops_each = 3,
    .samples = samples,
};

const tt_op_def tt_op_int8_sum = {
    .name = "int8_sum",
    .doc = "The sum of what codes of int8_encode stand for.",
    .options = tt_int8_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .family = &tt_form_int8,
    .infer = tt__packet_infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = tt__code_sum_samples,
};
