// cutter - cuts a text into the pieces that a model of tokens looks at, by a list
// of rules (Hugging Face's pre-tokenizers). Each rule works on the pieces of the
// one before. Pieces are made one at a time, so that memory does not grow with
// their number.

#ifndef TT_DATA_TOKENIZER_CUTTER_H
#define TT_DATA_TOKENIZER_CUTTER_H

#include "base/str.h"
#include "data/tokenizer/split.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_CUTS_MAX = 16 };

typedef enum tt_cut_behavior { // what becomes of a match
    TT_CUT_ISOLATED,
    TT_CUT_REMOVED,
    TT_CUT_CONTIGUOUS, // neighbours are one
    TT_CUT_WITH_PREVIOUS,
    TT_CUT_WITH_NEXT,
} tt_cut_behavior;

typedef enum tt_cut_prepend {
    TT_PREPEND_NEVER,
    TT_PREPEND_FIRST,  // only where the text begins
    TT_PREPEND_ALWAYS, // to each piece that does not begin so
} tt_cut_prepend;

typedef struct tt_cut_rule {
    const char *blank; // takes the place of ' '; NULL: nothing does
    tt_cut_prepend prepend;
    const char *prefix;
    tt_splitter *splitter; // NULL: the piece stays whole. Owned by the list
    bool is_gpt2;
    tt_cut_behavior behavior;
    bool inverts; // what does not match counts as the match
} tt_cut_rule;

typedef struct tt_cuts {
    tt_cut_rule v[TT_CUTS_MAX];
    int n;
} tt_cuts;

void tt_cuts_fini(tt_cuts *cuts);

typedef struct tt_cutter tt_cutter; // one thread's

tt_status tt_cutter_open(const tt_cuts *cuts, tt_cutter **cutter_out);
void tt_cutter_close(tt_cutter *cutter); // NULL is fine

// A text to cut, UTF-8, which must stay until the last piece was taken.
// `is_first`: it is where the whole text begins.
void tt_cutter_begin(tt_cutter *cutter, const char *text, int64_t n,
                     bool is_first);

// The next piece, which stays until the call after; NULL in `text_out`: no more.
tt_status tt_cutter_next(tt_cutter *cutter, const char **text_out,
                         int64_t *n_out);

// Bytes of the text that were cut so far.
int64_t tt_cutter_at(const tt_cutter *cutter);

#endif
