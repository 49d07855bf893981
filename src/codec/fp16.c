// fp16 - numbers in 16 bits, more precise than bf16 and with less range. What is too large
// for a sum over all replicas stays in the residual; `scale` moves the range.
//
//   bytes   2 n
//   error   2^-12 of a number at most, 2^-25 / scale where it is tiny

#include "codec/codec.h"
#include "codec/narrow.h"

#include <stddef.h>

static tt_status encode(tt_builder *b, tt_coding *c, const tt_val *joined)
{
    (void)joined;
    return tt__codec_narrow(b, c, 1);
}

static tt_status decode(tt_builder *b, tt_coding *c, const tt_val *joined,
                        tt_val *sum_out)
{
    return tt__codec_widen(b, c, 1, joined, sum_out);
}

const tt_codec_def tt_codec_fp16 = {
    .name = "fp16",
    .doc = "Numbers in fp16: 11 bits of precision, up to 65504.",
    .options = tt__narrow_options,
    .params_bytes = sizeof(tt__narrow_codec),
    .is_linear = true,
    .encode = encode,
    .decode = decode,
};
