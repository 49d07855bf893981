// tokenizer - text to ids and back.
//
//   bytes                 256 ids, one per byte
//   chars                 one id per distinct character of the training text
//   FOLDER or FILE        tokenizer.json, or GPT-2's encoder.json and vocab.bpe
//                         (vocab.json and merges.txt are the same files)
//
// Opened once, then read by any number of threads. Ids are below `vocab`.

#ifndef TT_DATA_TOKENIZER_TOKENIZER_H
#define TT_DATA_TOKENIZER_TOKENIZER_H

#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_tokenizer tt_tokenizer;

typedef struct tt_ids { // grows; zero-initialise
    int32_t *v;
    int64_t n, capacity;
} tt_ids;
tt_status tt_ids_reserve(tt_ids *ids, int64_t n); // room for n more
void tt_ids_fini(tt_ids *ids);

// `spec` as above. `text` of `n` bytes is what "chars" takes its characters from;
// others ignore it (NULL, 0).
tt_status tt_tokenizer_open(const char *spec, const char *text, int64_t n,
                            tt_tokenizer **tokenizer_out);
void tt_tokenizer_close(tt_tokenizer *tokenizer); // NULL is fine

// "bytes", "chars", "bpe", "wordpiece", "unigram" or "words"
const char *tt_tokenizer_kind(const tt_tokenizer *t);
int64_t tt_tokenizer_vocab(const tt_tokenizer *t);
int32_t tt_tokenizer_end(const tt_tokenizer *t); // end of text; -1: none

// Appends the ids of `n` bytes. Special tokens are plain text unless
// `with_special`. Text that cannot be expressed (a character that "chars" has not
// seen) is an error that names it and its place.
tt_status tt_tokenizer_encode(const tt_tokenizer *t, const char *text,
                              int64_t n, bool with_special, tt_ids *out);

// What stands for an id in the vocabulary (bytes, where tokens are bytes); NULL:
// there is no such id.
const char *tt_tokenizer_token(const tt_tokenizer *t, int32_t id);
bool tt_tokenizer_is_special(const tt_tokenizer *t, int32_t id);

// Appends the text of ids that belong together. It may end inside of a character.
// For ids that come one by one see detokenizer.h.
tt_status tt_tokenizer_decode(const tt_tokenizer *t, const int32_t *ids,
                              int64_t n, tt_str *out);

// The tokenizer as the text of a Hugging Face tokenizer.json, which
// tt_tokenizer_open reads back to the same tokenizer.
void tt_tokenizer_print(const tt_tokenizer *t, tt_str *out);

// GPT-2's pair of files, for those who want them: only for kind "bpe".
tt_status tt_tokenizer_print_gpt2(const tt_tokenizer *t, tt_str *vocab_json,
                                  tt_str *merges_txt);

typedef struct tt_bpe_options {
    int64_t vocab;       // size wanted, special tokens and 256 bytes included
    const char *pattern; // how text is split first; NULL: GPT-2's
    const char *const *special;
    int n_special;
} tt_bpe_options;

typedef struct tt_text {
    const char *bytes;
    int64_t n;
} tt_text;

// Learns byte-level BPE from texts. Of equally frequent pairs the one with the
// greater bytes wins, so the result is one. Where every piece of text is one token
// already, the vocabulary stays smaller.
tt_status tt_bpe_train(const tt_text *texts, int64_t n,
                       const tt_bpe_options *options,
                       tt_tokenizer **tokenizer_out);

#endif
