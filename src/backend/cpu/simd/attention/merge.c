// merge - one task per row of heads. Bound by memory.

#include "backend/cpu/simd/attention/merge.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

#include <stdbool.h>

extern const tt_simd_merge TT_SYMBOL(tt_simd_merge);

TT_INLINE void merge_head(tt_simd_type type, const tt_simd_merge_args *a,
                          int64_t row, int64_t h)
{
    const int64_t batch = row / a->length, t = row % a->length;
    const int64_t k = (batch * a->heads + h) * a->length + t;
    const int64_t first = (row * a->heads + h) * a->head_dim;
    const float lse1 = a->lse1[k], lse2 = a->lse2[k];
    const float top = lse1 > lse2 ? lse1 : lse2;
    const bool is_empty = top == -INFINITY;
    const float e1 = is_empty ? 0.0f : expf(lse1 - top);
    const float e2 = is_empty ? 0.0f : expf(lse2 - top);
    const float sum = is_empty ? 1.0f : e1 + e2;
    const float w1 = e1 / sum, w2 = e2 / sum;
    const void *o1 = at(type, a->o1, first), *o2 = at(type, a->o2, first);
    void *o = at_mut(type, a->o, first);
#pragma omp simd
    for (int64_t i = 0; i < a->head_dim; i++)
        store(type, o, i, w1 * load(type, o1, i) + w2 * load(type, o2, i));
    a->lse[k] = top + logf(sum);
}

static void run(const tt_simd_merge_args *a)
{
    const int64_t rows = a->n_batch * a->length;
    const bool forks = rows * a->heads * a->head_dim >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < a->heads; h++) {
            if (a->type == TT_SIMD_BF16)
                merge_head(TT_SIMD_BF16, a, r, h);
            else
                merge_head(TT_SIMD_F32, a, r, h);
        }
}

const tt_simd_merge TT_SYMBOL(tt_simd_merge) = {
    .run = run,
};
