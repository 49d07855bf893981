// source_tokenizer - the tokenizer that lies beside files of tokens, so that a model
// trained from them writes text.

#ifndef TT_DATA_SOURCE_SOURCE_TOKENIZER_H
#define TT_DATA_SOURCE_SOURCE_TOKENIZER_H

#include "data/source/source.h"

// Sets source->tokenizer, and the number of classes where the data did not say it:
// data.tokenizer, or PREFIX_tokenizer.json beside PREFIX_train.bin, or
// tokenizer.json beside train.bin. One that lies there and cannot be used is a
// note; without any nothing happens.
tt_status tt__source_tokenizer(const tt_source_request *request,
                               const char *path, tt_arena *arena,
                               tt_source *source);

#endif
