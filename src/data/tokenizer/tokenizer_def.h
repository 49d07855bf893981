// tokenizer_def - what a tokenizer is made of. Internal to the tokenizers.

#ifndef TT_DATA_TOKENIZER_TOKENIZER_DEF_H
#define TT_DATA_TOKENIZER_TOKENIZER_DEF_H

#include "base/arena.h"
#include "base/json_read.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/general.h"
#include "data/tokenizer/split.h"
#include "data/tokenizer/tokenizer.h"

enum { TT_STAGES_MAX = 8 };

typedef enum tt_tokenizer_type {
    TT_TOKENIZER_BYTES,
    TT_TOKENIZER_CHARS,
    TT_TOKENIZER_BPE,
    TT_TOKENIZER_GENERAL, // see general.h
} tt_tokenizer_type;

typedef struct tt_token {
    const char *bytes; // NULL: no token has this id
    int64_t n;
} tt_token;

typedef struct tt_added_token { // found in the text before it is split
    const char *text;
    int64_t n;
    int32_t id;
    bool is_special, eats_left, eats_right;
    bool is_normalized; // looked for in normalized text
    bool is_word;       // only where it is no part of a word
} tt_added_token;

typedef struct tt_token_stage {
    tt_splitter *splitter;
    bool is_gpt2;
    bool drops_gaps; // what lies between matches is not text
} tt_token_stage;

typedef struct tt_pair_ids {
    int32_t a, b;
} tt_pair_ids;

struct tt_tokenizer {
    tt_arena *arena;
    tt_tokenizer_type type;
    int64_t vocab;
    tt_token *token; // by id
    int32_t *slot;   // ids by bytes, -1: free
    int64_t n_slots; // a power of two
    int32_t end;
    const char *json; // of the file it came from; NULL: print one
    int64_t json_bytes;
    // chars
    int64_t n_codes;
    uint32_t *code;   // sorted
    int32_t *code_id; // of each
    int32_t ascii_id[128];
    // BPE
    tt_bpe bpe;
    tt_pair_ids *merge; // by rank
    tt_token_stage stage[TT_STAGES_MAX];
    int n_stages; // none: all text is one piece
    bool adds_space, ignores_merges;
    tt_added_token *added; // the longest first
    int64_t n_added;
    bool begins[256];    // an added token begins with this byte
    tt_general *general; // of kind general
};

// ---- making one ----------------------------------------------------------

tt_tokenizer *tt__tokenizer_create(tt_tokenizer_type type); // NULL: no memory

// Room for `vocab` ids, none of them set yet.
tt_status tt__tokenizer_reserve(tt_tokenizer *t, int64_t vocab);
// Copies the bytes. `is_indexed`: found by tt__tokenizer_find.
tt_status tt__tokenizer_set(tt_tokenizer *t, int64_t id, const char *bytes,
                            int64_t n, bool is_indexed);
int32_t tt__tokenizer_find(const tt_tokenizer *t, const char *bytes,
                           int64_t n); // or -1
// Copies `text`; the tokenizer must have room for `max` of them.
tt_status tt__tokenizer_add(tt_tokenizer *t, const tt_added_token *added);
// When all is there: sorts added tokens and finds the end of text.
void tt__tokenizer_finish(tt_tokenizer *t);
tt_status tt__tokenizer_stage(tt_tokenizer *t, const char *pattern,
                              bool drops_gaps);
// A token for each byte, in GPT-2's order from id `first` on.
tt_status tt__tokenizer_bytes(tt_tokenizer *t, int64_t first);
tt_status tt__tokenizer_merge(tt_tokenizer *t, int32_t a, int32_t b,
                              int32_t id);

// ---- kinds ---------------------------------------------------------------

tt_status tt__tokenizer_chars(const char *text, int64_t n, tt_tokenizer **out);
tt_status tt__tokenizer_chars_of(const tt_json_value *vocab,
                                 tt_tokenizer **out);
tt_status tt__chars_encode(const tt_tokenizer *t, const char *text, int64_t n,
                           int64_t at, tt_ids *out);

// The parts of a GPT-2 tokenizer: a JSON object of ids, and lines of merges.
tt_status tt__tokenizer_gpt2(const tt_json_value *vocab, const char *merges,
                             int64_t n, tt_tokenizer **out);
typedef struct tt_merge_text {
    const char *a;
    int64_t a_n;
    const char *b;
    int64_t b_n;
} tt_merge_text;
tt_status tt__vocab_size(const tt_json_value *vocab, int64_t *size_out);
tt_status tt__vocab_read(tt_tokenizer *t, const tt_json_value *vocab);
tt_status tt__merges_reserve(tt_tokenizer *t, int64_t n); // before vocab_read
bool tt__merge_cut(const char *line, int64_t n, tt_merge_text *m);
tt_status tt__merge_read(tt_tokenizer *t, const tt_merge_text *m,
                         tt_str *scratch);

tt_status tt__tokenizer_hf(const tt_json_value *root, tt_tokenizer **out);

// GPT-2 writes bytes as characters: 33-126, 161-172 and 174-255 as themselves,
// the others from U+0100 on.
uint32_t tt__byte_code(unsigned byte);
void tt__byte_text(const char *bytes, int64_t n, tt_str *out);
bool tt__byte_untext(const char *text, int64_t n, tt_str *out);
extern const unsigned char tt__byte_order[256];

#endif
