// hash - XXH3 of 128 bits over bytes that come in pieces, as text: what
// `xxhsum -H2` prints.

#ifndef TT_STORE_HASH_H
#define TT_STORE_HASH_H

#include <stdint.h>

enum { TT_HASH_CHARS = 33 }; // 32 digits and the end

typedef struct tt_hasher tt_hasher;

tt_hasher *tt_hasher_create(void); // NULL when memory is exhausted
void tt_hasher_destroy(tt_hasher *hasher);
void tt_hasher_reset(tt_hasher *hasher); // as if nothing had been added
void tt_hasher_add(tt_hasher *hasher, const void *bytes, int64_t n);
void tt_hasher_text(const tt_hasher *hasher, char out[TT_HASH_CHARS]);

void tt_hash_text(const void *bytes, int64_t n, char out[TT_HASH_CHARS]);

#endif
