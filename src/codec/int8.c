// int8 - numbers of 8 bits with a scale per block: ops/codec/int8.c.

#include "codec/codec.h"
#include "ops/codec/codes.h"
#include "ops/ops.h"

const tt_codec_def tt_codec_int8 = {
    .name = "int8",
    .doc = "Numbers of 8 bits, with a scale per block.",
    .options = tt_int8_options,
    .params_bytes = sizeof(tt_code_params),
    .encode_op = &tt_op_int8_encode,
    .sum_op = &tt_op_int8_sum,
};
