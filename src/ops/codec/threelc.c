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

const tt_packet_form tt_form_threelc = {
    .kind = TT_PACKET_THREELC,
    .body = tt__code_body,
    .scales = 1,
    .per_byte = TT_THREELC_PER_BYTE,
};

const tt_opt tt_threelc_options[] = {
    {"sparsity", "1", "the scale over the largest number: more send less",
     TT_OPT_F64, .offset = offsetof(tt_code_params, sparsity), .min = 1,
     .max = 1.999},
    TT_CODE_BLOCK_OPTION("10240"),
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
    .family = &tt_form_threelc,
    .infer = tt__packet_infer,
    .cost = tt__code_cost,
    .flops_each = 3,
    .samples = samples,
};

const tt_op_def tt_op_threelc_sum = {
    .name = "threelc_sum",
    .doc = "The sum of what codes of threelc_encode stand for.",
    .options = tt_threelc_options,
    .params_bytes = sizeof(tt_code_params),
    .shape_only = 1U << TT_PSUM_LIKE,
    .family = &tt_form_threelc,
    .infer = tt__packet_infer_sum,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_sum,
};
