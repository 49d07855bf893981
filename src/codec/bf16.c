// bf16 - numbers in 16 bits with the range of floats.
//
//   bytes   2 n
//   error   2^-9 of a number at most

#include "codec/codec.h"
#include "codec/narrow.h"

#include <stddef.h>

static tt_status encode(tt_builder *b, tt_coding *c, const tt_val *joined)
{
    (void)joined;
    return tt__codec_narrow(b, c, 0);
}

static tt_status decode(tt_builder *b, tt_coding *c, const tt_val *joined,
                        tt_val *sum_out)
{
    return tt__codec_widen(b, c, 0, joined, sum_out);
}

const tt_codec_def tt_codec_bf16 = {
    .name = "bf16",
    .doc = "Numbers in bf16: the range of floats, 8 bits of precision.",
    .options = tt__narrow_options,
    .params_bytes = sizeof(tt__narrow_codec),
    .is_linear = true,
    .encode = encode,
    .decode = decode,
};
