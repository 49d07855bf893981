// none - the numbers as they are.
//
//   bytes   those of the tensor

#include "codec/codec.h"

static tt_status encode(tt_builder *b, tt_coding *c, const tt_val *joined)
{
    (void)joined;
    c->code[0] = c->x;
    c->n_codes = 1;
    c->join = TT_CODEC_ADDED;
    c->is_last = true;
    return b->status;
}

static tt_status decode(tt_builder *b, tt_coding *c, const tt_val *joined,
                        tt_val *sum_out)
{
    (void)c;
    *sum_out = joined[0];
    return b->status;
}

const tt_codec_def tt_codec_none = {
    .name = "none",
    .doc = "The numbers as they are.",
    .is_linear = true,
    .is_unbiased = true,
    .is_lossless = true,
    .encode = encode,
    .decode = decode,
};
