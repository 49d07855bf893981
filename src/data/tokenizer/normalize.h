// normalize - what is done to a text before it is cut: a list of steps.

#ifndef TT_DATA_TOKENIZER_NORMALIZE_H
#define TT_DATA_TOKENIZER_NORMALIZE_H

#include "base/str.h"
#include "data/tokenizer/split.h"
#include "data/tokenizer/unicode.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_norm_type {
    TT_NORM_FORM,
    TT_NORM_LOWER,
    TT_NORM_STRIP,   // blanks at the ends
    TT_NORM_ACCENTS, // marks are left out
    TT_NORM_REPLACE, // matches of `splitter` by `text`
    TT_NORM_PREPEND, // `text`, where there is anything
    TT_NORM_NMT,     // blanks for control characters, as sentencepiece's "nmt"
    TT_NORM_BYTES,   // GPT-2's characters for bytes
    TT_NORM_CLEAN,   // BERT: control characters are left out, blanks are ' '
    TT_NORM_CHINESE, // BERT: blanks around Chinese characters
    TT_NORM_NONSPACING, // BERT: nonspacing marks are left out
} tt_norm_type;

typedef struct tt_norm {
    tt_norm_type type;
    tt_unicode_form form;
    bool strips_left, strips_right;
    tt_splitter *splitter; // owned by the list
    const char *text;
    int64_t n;
} tt_norm;

typedef struct
    tt_norms { // steps one after the other; `unicode` if one needs it
    tt_norm *v;
    int n;
    const tt_unicode *unicode;
    tt_splitter *controls; // for BERT; NULL: not needed
} tt_norms;

void tt_norms_fini(tt_norms *norms);

// Replaces the text, which must be UTF-8. `continues`: something of the same text
// stands before it, so that nothing is prepended. True in `*lost_front` when
// its first character was left out; else it stays.
tt_status tt_normalize(const tt_norms *norms, bool continues, tt_str *text,
                       bool *lost_front);

#endif
