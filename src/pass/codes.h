// codes - the options of the pass as a struct.

#ifndef TT_PASS_CODES_H
#define TT_PASS_CODES_H

#include "codec/codec.h"

typedef struct tt_codes_params {
    const tt_codec_def *codec;
    const void *codec_params;
} tt_codes_params;

// Whether a codec can do it; else a sentence that names one that can.
tt_status tt_codes_check(const tt_codec_def *codec);

#endif
