// rotary - one task per row of heads. Bound by memory.

#include "backend/cpu/simd/rotary.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

extern const tt_simd_rotary TT_SYMBOL(tt_simd_rotary);

TT_INLINE void turn_row(tt_simd_type type, const tt_simd_rotary_args *a,
                        int64_t batch, int64_t t)
{
    const float *cosine = a->cosine + t * a->half;
    const float *sine = a->sine + t * a->half;
    const float sign = a->is_inverse ? -1.0f : 1.0f;
    for (int64_t h = 0; h < a->heads; h++) {
        const void *x = at(type, a->x.data,
                           batch * a->x.batch + h * a->x.head + t * a->x.row);
        void *y = at_mut(type, a->y.data,
                         batch * a->y.batch + h * a->y.head + t * a->y.row);
#pragma omp simd
        for (int64_t i = 0; i < a->half; i++) {
            const float lo = load(type, x, i), hi = load(type, x, a->half + i);
            const float s = sign * sine[i];
            store(type, y, i, lo * cosine[i] - hi * s);
            store(type, y, a->half + i, hi * cosine[i] + lo * s);
        }
    }
}

static void turn(const tt_simd_rotary_args *a)
{
    const int64_t rows = a->n_batch * a->length;
    const bool forks = rows * a->heads * a->half * 2 >= TT_FORK_ELEMENTS;
#pragma omp parallel for schedule(static) if (forks)
    for (int64_t r = 0; r < rows; r++) {
        if (a->type == TT_SIMD_BF16)
            turn_row(TT_SIMD_BF16, a, r / a->length, r % a->length);
        else
            turn_row(TT_SIMD_F32, a, r / a->length, r % a->length);
    }
}

const tt_simd_rotary TT_SYMBOL(tt_simd_rotary) = {
    .turn = turn,
};
