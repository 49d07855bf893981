// rng - counter-based random numbers (Philox 4x32-10): any element of any stream
// can be computed by itself, so results do not depend on threads or ranks.

#ifndef TT_BASE_RNG_H
#define TT_BASE_RNG_H

#include <stdint.h>

// The key of a stream: seed, who draws (a name that survives passes) and when.
uint64_t tt_rng_key(uint64_t seed, const char *origin, uint64_t step);

// The same key from the hash of the origin's name, for kernels that learn seed
// and step at run time:
//   tt_rng_key(seed, name, step)
//       == tt_rng_key_step(tt_hash(name, strlen(name)), seed, step)
uint64_t tt_rng_key_step(uint64_t origin_hash, uint64_t seed, uint64_t step);

// Philox 4x32-10 with key (low, high 32 bits of `key`), counter (block, 0).
void tt_rng_philox(uint64_t key, uint64_t block, uint32_t out[4]);

// The same with all 128 bits of the counter.
void tt_rng_philox_counter(uint64_t key, const uint32_t counter[4],
                           uint32_t out[4]);

uint32_t tt_rng_u32(uint64_t key, uint64_t index);   // word index%4 of index/4
double tt_rng_uniform(uint64_t key, uint64_t index); // [0, 1), 32 bits

// Mean 0, variance 1: Box-Muller on words 0 and 1 of block `index`. Elements
// use a block each, so a stream draws either normals or the two above.
double tt_rng_normal(uint64_t key, uint64_t index);

uint64_t tt_hash(const void *bytes, int64_t n); // 64 bits, stable across runs

#endif
