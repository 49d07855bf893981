// dropout - Philox 4x32-10, vectorised: a run of counter blocks is made at a time, one
// block per lane. Ten rounds of two multiplications make four elements; these
// multiplications are the limit, not memory.

#include "backend/cpu/simd/dropout.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

#include <stdbool.h>

extern const tt_simd_dropout TT_SYMBOL(tt_simd_dropout);

enum { RUN = 64, WORDS = 4 * RUN, ROUNDS = 10 }; // blocks made at a time

TT_INLINE uint32_t high_half(uint64_t x)
{
    return (uint32_t)(x >> 32);
}

// words[4*b + w] = word w of the block first + b.
TT_INLINE void random_words(uint64_t key, uint64_t first, uint32_t *words)
{
#pragma omp simd
    for (int64_t b = 0; b < RUN; b++) {
        const uint64_t block = first + (uint64_t)b;
        uint32_t c0 = (uint32_t)block, c1 = high_half(block), c2 = 0, c3 = 0;
        uint32_t k0 = (uint32_t)key, k1 = high_half(key);
#pragma GCC unroll 10
        for (int round = 0; round < ROUNDS; round++) {
            const uint64_t a = (uint64_t)0xD2511F53u * c0;
            const uint64_t d = (uint64_t)0xCD9E8D57u * c2;
            c0 = high_half(d) ^ c1 ^ k0;
            c1 = (uint32_t)d;
            c2 = high_half(a) ^ c3 ^ k1;
            c3 = (uint32_t)a;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        words[4 * b] = c0;
        words[4 * b + 1] = c1;
        words[4 * b + 2] = c2;
        words[4 * b + 3] = c3;
    }
}

// n elements from local index i, of which the first has global index e.
TT_INLINE void mask_run(tt_simd_type type, const tt_simd_dropout_args *a,
                        int64_t i, int64_t n, uint64_t e)
{
    const void *x = at(type, a->x, i);
    void *y = at_mut(type, a->y, i);
    const double limit = ceil(a->p * 4294967296.0);
    const bool drops_all = limit > 4294967295.0;
    const uint32_t threshold = drops_all ? UINT32_MAX : (uint32_t)limit;
    const float factor = drops_all ? 0.0f : (float)(1.0 / (1.0 - a->p));
    uint32_t words[WORDS];
    int64_t done = 0;
    while (done < n) {
        const uint64_t skip = (e + (uint64_t)done) % 4;
        const int64_t m = min_i64(n - done, WORDS - (int64_t)skip);
        random_words(a->key, (e + (uint64_t)done) / 4, words);
#pragma omp simd
        for (int64_t j = 0; j < m; j++) {
            const float v = load(type, x, done + j) * factor;
            const bool keeps = words[(int64_t)skip + j] >= threshold;
            store(type, y, done + j, keeps && !drops_all ? v : 0.0f);
        }
        done += m;
    }
}

static void apply(const tt_simd_dropout_args *a)
{
    const int64_t blocks = tt__simd_blocks(a->cols, TT_BLOCK);
    const bool forks = a->rows * a->cols >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t task = 0; task < a->rows * blocks; task++) {
        const int64_t r = task / blocks, c = task % blocks * TT_BLOCK;
        const int64_t i = r * a->cols + c, n = min_i64(TT_BLOCK, a->cols - c);
        const uint64_t e = a->start + (uint64_t)r * a->row_step + (uint64_t)c;
        if (a->type == TT_SIMD_BF16)
            mask_run(TT_SIMD_BF16, a, i, n, e);
        else
            mask_run(TT_SIMD_F32, a, i, n, e);
    }
}

const tt_simd_dropout TT_SYMBOL(tt_simd_dropout) = {
    .apply = apply,
};
