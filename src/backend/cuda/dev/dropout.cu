// dropout - Philox 4x32-10, the numbers of base/rng.h: element i of all samples is word
// i % 4 of block i / 4. Bound by the ten rounds: a thread makes one word.

#include "backend/cuda/dev/common.cuh"

enum { THREADS = 256 };

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

__device__ static inline uint32_t random_word(uint64_t key, uint64_t index)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)(index / 4), c1 = (uint32_t)(index / 4 >> 32);
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
    const uint32_t word[4] = {c0, c1, c2, c3};
    return word[index % 4];
}

// The element's index among all samples; scalars that nobody set change nothing.
__device__ static inline int64_t global_index(const tt_cuda_dropout_args &a,
                                              int64_t i)
{
    int64_t at = 0, unit = 1;
    for (int f = a.n_factors - 1; f >= 0; f--) {
        int64_t origin = a.origin[f], global = a.global[f];
        if (f == a.batch && *a.first + global <= *a.samples) {
            origin += *a.first;
            global = *a.samples;
        }
        at += (i % a.size[f] + origin) * unit;
        i /= a.size[f];
        unit *= global;
    }
    return at;
}

template <typename T> __global__ void dropout(tt_cuda_dropout_args a)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= a.n)
        return;
    const uint64_t key =
        key_of(a.origin_hash, (uint64_t)*a.seed, (uint64_t)*a.step);
    const uint32_t word = random_word(key, (uint64_t)global_index(a, i));
    const bool is_kept = (double)word >= a.p * 4294967296.0;
    const float up = a.p < 1 ? (float)(1 / (1 - a.p)) : 0.f;
    ((T *)a.y)[i] = from_float<T>(
        is_kept ? to_float(((const T *)a.x)[i]) * up : 0.f);
}

template <typename T>
static const char *dropout_type(tt_cuda *cuda, const tt_cuda_dropout_args *a)
{
    dropout<T><<<(unsigned)ceil_div(a->n, THREADS), THREADS, 0,
                 cuda->stream>>>(*a);
    return launched();
}

extern "C" const char *tt_cuda_dropout(tt_cuda *cuda,
                                       const tt_cuda_dropout_args *args)
{
    return BY_TYPE(args->type, dropout_type, cuda, args);
}
