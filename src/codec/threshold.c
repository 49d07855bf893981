// threshold - the entries above a threshold: ops/codec/threshold.c.

#include "codec/codec.h"
#include "ops/codec/sparse.h"
#include "ops/ops.h"

const tt_codec_def tt_codec_threshold = {
    .name = "threshold",
    .doc = "Entries above a threshold, as plus or minus the threshold.",
    .options = tt_threshold_options,
    .params_bytes = sizeof(tt_sparse_params),
    .is_sparse = true,
    .needs_feedback = true,
    .encode_op = &tt_op_threshold_encode,
    .sum_op = &tt_op_threshold_sum,
};
