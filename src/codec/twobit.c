// twobit - nothing, plus or minus a threshold for each entry: ops/codec/twobit.c.

#include "codec/codec.h"
#include "ops/codec/codes.h"
#include "ops/ops.h"

const tt_codec_def tt_codec_twobit = {
    .name = "twobit",
    .doc = "Entries above a threshold, as plus or minus the threshold, 2 bits "
           "each.",
    .options = tt_twobit_options,
    .params_bytes = sizeof(tt_code_params),
    .needs_feedback = true,
    .encode_op = &tt_op_twobit_encode,
    .sum_op = &tt_op_twobit_sum,
};
