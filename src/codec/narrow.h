// narrow - what the codecs of 16 bits share.

#ifndef TT_CODEC_NARROW_H
#define TT_CODEC_NARROW_H

#include "codec/codec.h"

typedef struct tt__narrow_codec {
    double scale;
} tt__narrow_codec;

extern const tt_opt tt__narrow_options[];

// `to` as in tt_narrow_params.
tt_status tt__codec_narrow(tt_builder *b, tt_coding *c, int to);
tt_status tt__codec_widen(tt_builder *b, tt_coding *c, int to,
                          const tt_val *joined, tt_val *sum_out);

#endif
