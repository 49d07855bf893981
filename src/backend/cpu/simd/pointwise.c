// pointwise - one loop per function and type. Bound by memory.

#include "backend/cpu/simd/pointwise.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

#include <stdbool.h>

extern const tt_simd_pointwise TT_SYMBOL(tt_simd_pointwise);

TT_INLINE float slope_of(bool is_tanh, float y)
{
    return is_tanh ? 1.0f - y * y : y * (1.0f - y);
}

TT_INLINE void block(bool is_tanh, tt_simd_type type,
                     const tt_simd_from_result_args *a, int64_t first)
{
    const int64_t end = min_i64(a->n, first + TT_BLOCK);
#pragma omp simd
    for (int64_t i = first; i < end; i++)
        store(type, a->d_x, i,
              load(type, a->d_y, i) * slope_of(is_tanh, load(type, a->y, i)));
}

TT_INLINE void loop(bool is_tanh, const tt_simd_from_result_args *a)
{
#pragma omp parallel for schedule(static) if (a->n >= TT_FORK_ELEMENTS)
    for (int64_t i = 0; i < a->n; i += TT_BLOCK) {
        if (a->type == TT_SIMD_BF16)
            block(is_tanh, TT_SIMD_BF16, a, i);
        else
            block(is_tanh, TT_SIMD_F32, a, i);
    }
}

static void tanh_grad(const tt_simd_from_result_args *a)
{
    loop(true, a);
}

static void sigmoid_grad(const tt_simd_from_result_args *a)
{
    loop(false, a);
}

const tt_simd_pointwise TT_SYMBOL(tt_simd_pointwise) = {
    .tanh_grad = tanh_grad,
    .sigmoid_grad = sigmoid_grad,
};
