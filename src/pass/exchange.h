// exchange - the options of the pass as a struct.

#ifndef TT_PASS_EXCHANGE_H
#define TT_PASS_EXCHANGE_H

#include "codec/codec.h"

typedef struct tt_exchange_params {
    const tt_codec_def *codec;
    const void *codec_params;
    bool feedback;    // keep residuals
    const char *axis; // of the replicas; NULL: "data"
    int sparse;       // tt_sparse_way
    int64_t ranks;    // that carry the replicas
} tt_exchange_params;

#endif
