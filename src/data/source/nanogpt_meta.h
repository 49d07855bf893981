// nanogpt_meta - the file that nanoGPT writes beside its tokens.

#ifndef TT_DATA_SOURCE_NANOGPT_META_H
#define TT_DATA_SOURCE_NANOGPT_META_H

#include <stdint.h>

// "vocab_size" in the meta.pkl beside `path`; 0 when there is none, or none that
// can be read.
int64_t tt__nanogpt_vocab(const char *path);

#endif
