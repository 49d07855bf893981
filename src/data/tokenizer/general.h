// general - a tokenizer that does what a tokenizer.json says, step by step:
// normalize, cut, look up, and back. Internal to the tokenizers.
//
// Byte-level BPE without normalizers has a faster way (tokenizer_encode.c).

#ifndef TT_DATA_TOKENIZER_GENERAL_H
#define TT_DATA_TOKENIZER_GENERAL_H

#include "data/tokenizer/cutter.h"
#include "data/tokenizer/detokenizer.h"
#include "data/tokenizer/lookup.h"
#include "data/tokenizer/normalize.h"
#include "data/tokenizer/tokenizer.h"

typedef struct tt_added_list { // added tokens that are looked for together
    const struct tt_added_token **v;
    const tt_text *text; // as they stand in what is searched
    int64_t n;
    bool begins[256];
} tt_added_list;

typedef struct tt_general {
    tt_norms norms;
    tt_cuts cuts;
    tt_lookup lookup;
    tt_undos undos;
    tt_splitter *word;               // a character of a word; NULL: not needed
    tt_added_list plain, normalized; // found before and after normalizing
} tt_general;

// When everything was read: what is looked for, and the model's tables.
tt_status tt__general_finish(tt_tokenizer *t);
void tt__general_fini(tt_general *general); // NULL is fine

typedef struct tt_general_encoder tt_general_encoder;
tt_status tt__general_open(const tt_tokenizer *t, const tt_text *text,
                           bool with_special, tt_general_encoder **out);
void tt__general_close(tt_general_encoder *e); // NULL is fine
// As tt_encoder_next; `bytes` are counted after normalizing.
tt_status tt__general_next(tt_general_encoder *e, int64_t bytes, tt_ids *out,
                           bool *more_out);

#endif
