// topk - the entries of largest absolute value: ops/codec/topk_code.c.

#include "codec/codec.h"
#include "ops/codec/sparse.h"
#include "ops/ops.h"

const tt_codec_def tt_codec_topk = {
    .name = "topk",
    .doc = "The entries of largest absolute value.",
    .options = tt_topk_options,
    .params_bytes = sizeof(tt_sparse_params),
    .is_sparse = true,
    .needs_feedback = true,
    .encode_op = &tt_op_topk_encode,
    .sum_op = &tt_op_topk_sum,
};
