// rng - Philox 4x32-10 and the mixing that makes its keys.
//
// Philox is a counter-based generator: number i of a stream is a function of (key, i),
// as if i were encrypted with the key. There is no state to advance. So any rank,
// thread or GPU computes any number on its own, in any order, and a run that resumes
// continues with the same numbers. Ten rounds of two multiplications each pass the
// usual statistical tests.
//
// A key is made of (seed, name, step), so that each dropout layer, each initial weight
// and each step has a stream of its own. The element's global index is the counter.
//
//   source   Salmon et al. 2011, Parallel random numbers: as easy as 1, 2, 3

#include "base/rng.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 10 };

static const double to_unit = 1.0 / 4294967296.0;

// A bijection of 64 bits in which every input bit reaches every output bit.
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Eight bytes at a time. Not for adversaries: it is not a cryptographic hash.
uint64_t tt_hash(const void *bytes, int64_t n)
{
    const unsigned char *p = bytes;
    uint64_t hash = mix((uint64_t)n + 0x9e3779b97f4a7c15u);
    int64_t i = 0;
    for (; n - i >= 8; i += 8) {
        uint64_t word;
        memcpy(&word, p + i, 8);
        hash = mix(hash ^ word) + 0x9e3779b97f4a7c15u;
    }
    uint64_t tail = 0;
    for (int64_t k = 0; i + k < n; k++)
        tail |= (uint64_t)p[i + k] << (8 * k);
    return mix(hash ^ tail);
}

uint64_t tt_rng_key_step(uint64_t origin_hash, uint64_t seed, uint64_t step)
{
    const uint64_t key = mix(origin_hash ^ mix(seed + 0x9e3779b97f4a7c15u));
    return mix(key ^ mix(step + 0xd1b54a32d192ed03u));
}

uint64_t tt_rng_key(uint64_t seed, const char *origin, uint64_t step)
{
    const uint64_t origin_hash = tt_hash(origin, (int64_t)strlen(origin));
    return tt_rng_key_step(origin_hash, seed, step);
}

void tt_rng_philox_counter(uint64_t key, const uint32_t counter[4],
                           uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = counter[0], c1 = counter[1];
    uint32_t c2 = counter[2], c3 = counter[3];
    for (int round = 0; round < ROUNDS; round++) {
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

void tt_rng_philox(uint64_t key, uint64_t block, uint32_t out[4])
{
    const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32)};
    tt_rng_philox_counter(key, counter, out);
}

uint32_t tt_rng_u32(uint64_t key, uint64_t index)
{
    uint32_t words[4];
    tt_rng_philox(key, index / 4, words);
    return words[index % 4];
}

double tt_rng_uniform(uint64_t key, uint64_t index)
{
    return tt_rng_u32(key, index) * to_unit;
}

// Box and Muller, with the cosine only: each number has a block of its own, so that it
// depends on no neighbour. The half keeps the logarithm away from 0.
double tt_rng_normal(uint64_t key, uint64_t index)
{
    uint32_t words[4];
    tt_rng_philox(key, index, words);
    const double radius = sqrt(-2.0 * log((words[0] + 0.5) * to_unit));
    return radius * cos(2.0 * 3.14159265358979323846 * (words[1] * to_unit));
}
