// lookup - the tokens of one piece of text, where tokens are texts: BPE of
// characters, WordPiece, Unigram, and whole words.

#ifndef TT_DATA_TOKENIZER_LOOKUP_H
#define TT_DATA_TOKENIZER_LOOKUP_H

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_lookup_type {
    TT_LOOKUP_BYTES, // BPE of bytes: the tokenizer's own table
    TT_LOOKUP_BPE,
    TT_LOOKUP_WORDPIECE,
    TT_LOOKUP_UNIGRAM,
    TT_LOOKUP_WORDS,
} tt_lookup_type;

typedef struct tt_bridges tt_bridges; // pairs of characters inside tokens

typedef struct tt_lookup {
    tt_lookup_type type;
    int32_t unknown; // stands for what has no token; -1: none
    bool fuses_unknown, falls_to_bytes;
    int32_t byte_token[256]; // "<0x00>" to "<0xFF>"; -1: there is none
    int32_t ascii[128];      // the token of one character; -1: there is none
    int64_t longest;         // bytes of the longest token
    const char *prefix;      // of all characters of a word but the first
    const char *suffix;      // of the last
    int64_t max_chars;       // WordPiece: longer words are unknown
    double *score;           // Unigram: by id
    double unknown_score;
    const tt_bridges *bridges; // NULL: a piece is merged as a whole
} tt_lookup;

typedef struct tt_looker tt_looker; // one thread's memory

// When all tokens and merges are there.
tt_status tt__lookup_finish(tt_tokenizer *t);

tt_status tt_looker_open(const tt_tokenizer *t, tt_bpe_cache *cache,
                         tt_looker **looker_out);
void tt_looker_close(tt_looker *looker); // NULL is fine

// Appends the ids of a piece of UTF-8.
tt_status tt_look_up(tt_looker *looker, const char *piece, int64_t n,
                     tt_ids *out);

// Appends ids for bytes that are no characters; an error where there are none.
tt_status tt_look_up_bytes(tt_looker *looker, const char *bytes, int64_t n,
                           tt_ids *out);

// ---- kinds, and what they share; internal to lookup*.c --------------------

struct tt_looker {
    const tt_tokenizer *t;
    tt_bpe_cache *cache; // not owned
    tt_ids symbols;
    tt_str text;
    void *best; // Unigram: the best way to each byte
    int64_t n_best;
};

tt_status tt__no_token(const char *text, int64_t n);
// The ids of bytes; false: one has none, and nothing was added.
tt_status tt__look_up_fallback(const tt_tokenizer *t, const char *text,
                               int64_t n, tt_ids *out, bool *is_done);
tt_status tt__look_up_unigram(tt_looker *l, const char *piece, int64_t n,
                              tt_ids *out);
tt_status tt__look_up_wordpiece(tt_looker *l, const char *piece, int64_t n,
                                tt_ids *out);

// Bytes of "<0xNN>" are one, and then its value is in `byte_out`.
bool tt__is_byte_token(const char *text, int64_t n, unsigned *byte_out);

tt_status tt__bridges_make(tt_tokenizer *t, const tt_bridges **bridges_out);
// False: no token has these two next to each other. Codes from 110000 (hex) on
// are bytes, TT_UNKNOWN_CODE is what has no token.
bool tt__bridges_join(const tt_bridges *b, uint32_t last, uint32_t next);

enum { TT_BYTE_CODE = 0x110000, TT_UNKNOWN_CODE = 0x110100 };

#endif
