// tokenizer_stream - a text that is encoded bit by bit, with memory that does not
// grow with it. Gives the ids that encoding it at once would give. (A tokenizer
// with normalizers, or without a place to cut, keeps a normalized copy of the text.)

#ifndef TT_DATA_TOKENIZER_TOKENIZER_STREAM_H
#define TT_DATA_TOKENIZER_TOKENIZER_STREAM_H

#include "data/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_encoder tt_encoder; // one thread at a time

// The tokenizer and the text must outlive it.
tt_status tt_encoder_open(const tt_tokenizer *t, const char *text, int64_t n,
                          bool with_special, tt_encoder **encoder_out);
void tt_encoder_close(tt_encoder *encoder); // NULL is fine

// Appends the ids of the next pieces, up to the first that ends `bytes` or more
// after where it began. False in `more_out`: that was the end.
tt_status tt_encoder_next(tt_encoder *encoder, int64_t bytes, tt_ids *out,
                          bool *more_out);

// The same ids, found by several threads, of which each has a part of the text.
// Worth it from a MiB per thread on.
tt_status tt_encoder_next_threads(tt_encoder *encoder, int64_t bytes,
                                  int n_threads, tt_ids *out, bool *more_out);

// Where the next piece begins; and a place to go on from, the start of a character.
int64_t tt_encoder_at(const tt_encoder *encoder);
void tt_encoder_seek(tt_encoder *encoder, int64_t at);

tt_text tt_encoder_text(const tt_encoder *encoder);

// Another encoder of the same text, at its start.
tt_status tt_encoder_copy(const tt_encoder *encoder, tt_encoder **encoder_out);

// True when what a piece becomes depends only on what follows it, so that encoding
// may begin anywhere.
bool tt_encoder_is_local(const tt_encoder *encoder);

// The pieces of text that BPE would work on, for those who count them. `piece` is
// called for each; added tokens are not among them.
typedef tt_status tt_piece_fn(void *user, const char *piece, int64_t n);
tt_status tt_encoder_pieces(tt_encoder *encoder, tt_piece_fn *piece,
                            void *user);

#endif
