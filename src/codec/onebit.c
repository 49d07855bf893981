// onebit - signs with two means per block: ops/codec/onebit_code.c.

#include "codec/codec.h"
#include "ops/codec/codes.h"
#include "ops/ops.h"

const tt_codec_def tt_codec_onebit = {
    .name = "onebit",
    .doc = "Signs, with two means per block.",
    .options = tt_onebit_options,
    .params_bytes = sizeof(tt_code_params),
    .has_signs = true,
    .needs_feedback = true,
    .encode_op = &tt_op_onebit_encode,
    .sum_op = &tt_op_onebit_sum,
};
