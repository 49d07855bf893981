// bpe_pairs - how often which two tokens stand side by side, kept up to date, and
// which pair is the most frequent. Internal to the trainer.

#ifndef TT_DATA_TOKENIZER_BPE_PAIRS_H
#define TT_DATA_TOKENIZER_BPE_PAIRS_H

#include "base/status.h"
#include "data/tokenizer/tokenizer_def.h"

#include <stdint.h>

typedef struct tt_pair {
    int32_t a, b;
    int32_t words; // first of the list of words that had it; -1: none
    int64_t count;
    int64_t queued; // the count with which it was queued last
} tt_pair;

typedef struct tt_pair_word { // an entry of such a list
    int32_t word, next;
} tt_pair_word;

typedef struct tt_pairs {
    const tt_tokenizer *t; // whose tokens they are
    tt_pair *v;
    int64_t n, capacity;
    int32_t *slot; // positions in v, -1: free
    int64_t n_slots;
    tt_pair_word *list;
    int64_t n_list, list_capacity;
    int32_t *heap; // positions in v
    int64_t *key;  // the count each had when it was put there
    int64_t n_heap, heap_capacity;
} tt_pairs; // zero-initialise, but for t

void tt__bpe_pairs_fini(tt_pairs *p);

// Adds to the count of a pair; `word` has it now if the count grows.
tt_status tt__bpe_pairs_count(tt_pairs *p, tt_pair_ids pair, int64_t more,
                              int32_t word);
// Puts the pair at `position` into the heap, unless an entry with at least its count is
// there already.
tt_status tt__bpe_pairs_queue(tt_pairs *p, int32_t position);
// The most frequent; of equal ones the one with the greater bytes. -1: none.
int32_t tt__bpe_pairs_best(tt_pairs *p);
int32_t tt__bpe_pairs_find(const tt_pairs *p, tt_pair_ids pair); // or -1

#endif
