// bpe - byte pairs merged by rank (bpe.c explains it). The table is read by any number
// of threads; a cache belongs to one.

#ifndef TT_DATA_TOKENIZER_BPE_H
#define TT_DATA_TOKENIZER_BPE_H

#include "base/status.h"
#include "data/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_bpe_merge {
    int32_t a, b;
    int32_t rank; // order of merges; -1: the slot is free
    int32_t id;   // of what a and b become
} tt_bpe_merge;

typedef struct tt_bpe {
    int32_t byte_id[256]; // -1: there is none
    tt_bpe_merge *slot;
    int64_t n, n_slots; // a power of two
} tt_bpe;

tt_status tt_bpe_init(tt_bpe *bpe, int64_t n_merges); // at most so many
void tt_bpe_fini(tt_bpe *bpe);
// The next rank. False: the pair is there already, and stays as it was.
bool tt_bpe_add(tt_bpe *bpe, int32_t a, int32_t b, int32_t id);
const tt_bpe_merge *tt_bpe_find(const tt_bpe *bpe, int32_t a, int32_t b);

typedef struct tt_bpe_cache tt_bpe_cache; // pieces seen lately
// For a text of so many bytes; NULL when memory is exhausted.
tt_bpe_cache *tt_bpe_cache_create(int64_t text_bytes);
void tt_bpe_cache_destroy(tt_bpe_cache *cache);

// Appends the ids of one piece. Fails on a byte that has no id.
tt_status tt_bpe_encode(const tt_bpe *bpe, tt_bpe_cache *cache,
                        const char *piece, int64_t n, tt_ids *out);

typedef struct tt_bpe_part { // text and the ids of its characters
    const char *text;
    int64_t n;
    const int32_t *ids;
    int64_t n_ids;
} tt_bpe_part;

// The same for a piece whose first ids are not those of its bytes. One cache
// must see pieces of one of the two kinds, and equal texts with equal ids.
tt_status tt_bpe_merge_part(const tt_bpe *bpe, tt_bpe_cache *cache,
                            const tt_bpe_part *part, tt_ids *out);

#endif
