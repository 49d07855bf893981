// 3lc - three values, five in a byte, runs of zeros made short: ops/codec/threelc.c.

#include "codec/codec.h"
#include "ops/codec/entropy.h"
#include "ops/ops.h"

const tt_codec_def tt_codec_threelc = {
    .name = "3lc",
    .doc = "Three values, five in a byte, runs of zeros made short.",
    .options = tt_threelc_options,
    .params_bytes = sizeof(tt_code_params),
    .needs_feedback = true,
    .encode_op = &tt_op_threelc_encode,
    .sum_op = &tt_op_threelc_sum,
};
