// random - Philox 4x32-10, the same numbers as base/rng.h has on the host. The
// generator is counter-based: block b of a key gives four words, and element i has word
// i % 4 of block i / 4. So any thread gets the number of any element without a state,
// and a mask is the same however a tensor is split among ranks.

#ifndef TT_BACKEND_CUDA_DEV_RANDOM_CUH
#define TT_BACKEND_CUDA_DEV_RANDOM_CUH

#include "backend/cuda/dev/common.cuh"

__device__ static inline uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__device__ static inline uint64_t key_of(uint64_t origin, uint64_t seed,
                                         uint64_t step)
{
    const uint64_t key = mix(origin ^ mix(seed + 0x9e3779b97f4a7c15ull));
    return mix(key ^ mix(step + 0xd1b54a32d192ed03ull));
}

// The four words of a block.
__device__ static inline void random_words(uint64_t key, uint64_t block,
                                           uint32_t *out)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32);
    uint32_t c2 = 0, c3 = 0;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)c0 * 0xd2511f53u;
        const uint64_t b = (uint64_t)c2 * 0xcd9e8d57u;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

__device__ static inline uint32_t random_word(uint64_t key, uint64_t index)
{
    uint32_t word[4];
    random_words(key, index / 4, word);
    return word[index % 4];
}

#endif
