// hash - libxxhash under our names. See hash.h.

#include "store/hash.h"

#include "base/alloc.h"

#include <stdio.h>
#define XXH_STATIC_LINKING_ONLY // for the size of XXH3_state_t
#include <xxhash.h>

struct tt_hasher {
    XXH3_state_t state;
};

tt_hasher *tt_hasher_create(void)
{
    tt_hasher *hasher = tt_alloc_aligned(sizeof(*hasher), 64);
    if (hasher != NULL)
        (void)XXH3_128bits_reset(&hasher->state);
    return hasher;
}

void tt_hasher_destroy(tt_hasher *hasher)
{
    tt_free_aligned(hasher);
}

void tt_hasher_reset(tt_hasher *hasher)
{
    (void)XXH3_128bits_reset(&hasher->state);
}

void tt_hasher_add(tt_hasher *hasher, const void *bytes, int64_t n)
{
    if (n > 0)
        (void)XXH3_128bits_update(&hasher->state, bytes, (size_t)n);
}

static void print(XXH128_hash_t hash, char out[TT_HASH_CHARS])
{
    snprintf(out, TT_HASH_CHARS, "%016llx%016llx",
             (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

void tt_hasher_text(const tt_hasher *hasher, char out[TT_HASH_CHARS])
{
    print(XXH3_128bits_digest(&hasher->state), out);
}

void tt_hash_text(const void *bytes, int64_t n, char out[TT_HASH_CHARS])
{
    print(XXH3_128bits(bytes, (size_t)n), out);
}
