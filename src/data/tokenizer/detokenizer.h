// detokenizer - ids to text, one after the other. Where a token's text depends on
// its neighbours (a blank before all but the first, a character in several bytes)
// it waits for them, so that what comes out is what decoding all ids at once gives.

#ifndef TT_DATA_TOKENIZER_DETOKENIZER_H
#define TT_DATA_TOKENIZER_DETOKENIZER_H

#include "base/str.h"
#include "data/tokenizer/split.h"
#include "data/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_detokenizer tt_detokenizer; // one thread at a time

tt_status tt_detokenizer_open(const tt_tokenizer *t,
                              tt_detokenizer **detokenizer_out);
void tt_detokenizer_close(tt_detokenizer *d); // NULL is fine

// Appends what is known now. With GPT-2's bytes that may end inside of a
// character.
tt_status tt_detokenizer_next(tt_detokenizer *d, int32_t id, tt_str *out);

// Appends what still waits. More ids may follow.
tt_status tt_detokenizer_flush(tt_detokenizer *d, tt_str *out);

// ---- what a tokenizer says about it ----------------------------------------

typedef enum tt_undo_type {
    TT_UNDO_REPLACE,
    TT_UNDO_BYTE_FALLBACK, // "<0xE4>" is a byte
    TT_UNDO_FUSE,          // all tokens are one from here on
    TT_UNDO_STRIP,         // `text` at the ends of a token
    TT_UNDO_METASPACE,     // `text` is a blank, or nothing in the first token
    TT_UNDO_BYTE_LEVEL,    // GPT-2's characters are bytes
    TT_UNDO_WORDPIECE,     // `text` begins what belongs to the token before
    TT_UNDO_SUFFIX,        // `text` ends a word
    TT_UNDO_JOIN,          // a blank between tokens
} tt_undo_type;

typedef struct tt_undo {
    tt_undo_type type;
    const char *text;
    int64_t n;
    int64_t left, right;   // Strip: how many at most
    bool drops_first;      // Metaspace
    bool cleans;           // WordPiece: blanks before marks of punctuation
    tt_splitter *splitter; // Replace: owned by the list
} tt_undo;

enum { TT_UNDOS_MAX = 16 };

typedef struct tt_undos {
    tt_undo v[TT_UNDOS_MAX];
    int n;
} tt_undos;

void tt_undos_fini(tt_undos *undos);

#endif
