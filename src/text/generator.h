// generator - what the files of generation share. Internal.

#ifndef TT_TEXT_GENERATOR_H
#define TT_TEXT_GENERATOR_H

#include "text/generate.h"

struct tt_generator {
    tt_arena *arena;
    tt_decoder *decoder;
    const tt_tokenizer *tokenizer; // NULL: texts are ids
    int32_t begin, end;            // special ids; -1: none
    const int32_t *other_ends;     // end a text too; in the arena
    int64_t n_other_ends;
    tt_tensors weights;
    tt_job *own_job; // of files
    tt_tokenizer *own_tokenizer;
};

// ---- utf8.c --------------------------------------------------------------

// Bytes of the longest beginning of n bytes that later ones cannot change: whole
// characters, and bytes that are in none.
int64_t tt__utf8_whole(const char *text, int64_t n);

// Appends text with U+FFFD in place of what is no UTF-8.
void tt__utf8_clean(const char *text, int64_t n, tt_str *out);

#endif
