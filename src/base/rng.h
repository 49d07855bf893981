// rng - counter-based random numbers (Philox 4x32-10): any element of any stream
// can be computed by itself, so results do not depend on threads or ranks.

#ifndef TT_BASE_RNG_H
#define TT_BASE_RNG_H

#include <stdint.h>

// The key of a stream: seed, who draws (a name that survives passes) and when.
uint64_t tt_rng_key(uint64_t seed, const char *origin, uint64_t step);

// Mixes a step into a key made with step 0: kernels that know the origin only.
uint64_t tt_rng_key_step(uint64_t key, uint64_t seed, uint64_t step);

// Philox 4x32-10 with key (low, high 32 bits of `key`), counter (block, 0).
void tt_rng_philox(uint64_t key, uint64_t block, uint32_t out[4]);

uint32_t tt_rng_u32(uint64_t key, uint64_t index); // word index%4 of index/4
double tt_rng_uniform(uint64_t key, uint64_t index); // [0, 1), 32 bits
double tt_rng_normal(uint64_t key, uint64_t index);  // Box-Muller, own counter

uint64_t tt_hash(const void *bytes, int64_t n); // 64 bits, stable across runs

#endif
