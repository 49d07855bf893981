// unicode - normal forms, marks and lower case of characters.
//
// The tables are texts (unicode_tables.c); opening them makes arrays of them.
// Read by any number of threads.

#ifndef TT_DATA_TOKENIZER_UNICODE_H
#define TT_DATA_TOKENIZER_UNICODE_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_unicode_form {
    TT_UNICODE_NFC,
    TT_UNICODE_NFD,
    TT_UNICODE_NFKC,
    TT_UNICODE_NFKD,
} tt_unicode_form;

typedef struct tt_unicode tt_unicode;

// Lives as long as the arena, and takes about 300 KiB of it.
tt_status tt_unicode_open(tt_arena *arena, const tt_unicode **unicode_out);

// Appends the normal form of `n` bytes, which must be UTF-8.
tt_status tt_unicode_normalize(const tt_unicode *u, tt_unicode_form form,
                               const char *text, int64_t n, tt_str *out);

bool tt_unicode_is_mark(const tt_unicode *u, uint32_t code);
bool tt_unicode_is_nonspacing(const tt_unicode *u, uint32_t code);
bool tt_unicode_is_blank(uint32_t code); // White_Space

// Appends the lower case of one character. No letter looks at its neighbours.
void tt_unicode_add_lower(const tt_unicode *u, uint32_t code, tt_str *out);

// Appends the ranges of punctuation for a class of a regular expression.
void tt_unicode_add_punctuation(tt_str *out);

void tt_unicode_add(tt_str *out, uint32_t code); // as UTF-8

// The tables as tools/unicode_tables.py writes them.
extern const char tt__unicode_decompositions[], tt__unicode_classes[],
    tt__unicode_marks[], tt__unicode_punctuation[], tt__unicode_lower[];

#endif
