// activation - one loop per function and storage type, over blocks that fit the
// first-level cache. The functions themselves are in elementary.h.
//
// A switch per element would keep compilers from vectorising. So each function is
// inlined into a loop of its own, with the function and the storage type as constants.

#include "backend/cpu/simd/activation.h"

#include "backend/cpu/simd/elementary.h"
#include "backend/cpu/simd/parallel.h"

#include <stdbool.h>

extern const tt_simd_activation TT_SYMBOL(tt_simd_activation);

#define SQRT_2_OVER_PI 0.797884561f
#define SQRT_HALF 0.707106781f
#define INV_SQRT_2_PI 0.398942280f

// 0.5 (1 + tanh u) is sigmoid(2u): one exponential instead of a tanh.
TT_INLINE float gelu_gate(float x)
{
    return v_sigmoid(2.0f * SQRT_2_OVER_PI * (x + 0.044715f * x * x * x));
}

TT_INLINE float apply(tt_simd_act act, float x)
{
    switch (act) {
    case TT_SIMD_ACT_GELU_TANH:
        return x * gelu_gate(x);
    case TT_SIMD_ACT_GELU_ERF:
        return 0.5f * x * (1.0f + v_erf(x * SQRT_HALF));
    case TT_SIMD_ACT_RELU:
        return x < 0.0f ? 0.0f : x;
    case TT_SIMD_ACT_SILU:
        return x * v_sigmoid(x);
    case TT_SIMD_ACT_TANH:
        return v_tanh(x);
    case TT_SIMD_ACT_SIGMOID:
        return v_sigmoid(x);
    case TT_SIMD_ACT_EXP:
        return v_exp(x);
    case TT_SIMD_ACT_LOG:
        return v_log(x);
    case TT_SIMD_ACT_ERF:
        return v_erf(x);
    }
    return x; // no such function
}

TT_INLINE float silu_slope(float x)
{
    const float s = v_sigmoid(x);
    return s + x * s * (1.0f - s);
}

TT_INLINE float gelu_tanh_slope(float x)
{
    const float s = gelu_gate(x);
    const float inner =
        2.0f * SQRT_2_OVER_PI * (1.0f + 3.0f * 0.044715f * x * x);
    return s + x * s * (1.0f - s) * inner;
}

TT_INLINE float slope(tt_simd_act act, float x)
{
    switch (act) {
    case TT_SIMD_ACT_GELU_TANH:
        return gelu_tanh_slope(x);
    case TT_SIMD_ACT_GELU_ERF:
        return 0.5f * (1.0f + v_erf(x * SQRT_HALF)) +
               x * INV_SQRT_2_PI * v_exp(-0.5f * x * x);
    case TT_SIMD_ACT_RELU:
        return x <= 0.0f ? 0.0f : 1.0f;
    case TT_SIMD_ACT_SILU:
        return silu_slope(x);
    case TT_SIMD_ACT_TANH:
        return 1.0f - v_tanh(x) * v_tanh(x);
    case TT_SIMD_ACT_SIGMOID:
        return v_sigmoid(x) * (1.0f - v_sigmoid(x));
    case TT_SIMD_ACT_EXP:
        return v_exp(x);
    case TT_SIMD_ACT_LOG:
        return 1.0f / x;
    case TT_SIMD_ACT_ERF:
        return 1.12837917f * v_exp(-x * x);
    }
    return 1.0f; // no such function
}

TT_INLINE void forward_loop(tt_simd_act act, tt_simd_type type, int64_t n,
                            const void *x, void *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        store(type, y, i, apply(act, load(type, x, i)));
}

TT_INLINE void backward_loop(tt_simd_act act, tt_simd_type type, int64_t n,
                             const void *x, const void *dy, void *dx)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        store(type, dx, i, load(type, dy, i) * slope(act, load(type, x, i)));
}

// One loop per function: act is a constant in each.
TT_INLINE void forward_block(tt_simd_type type, const tt_simd_act_args *a,
                             int64_t first, int64_t n)
{
    const void *x = at(type, a->x, first);
    void *y = at_mut(type, a->y, first);
#define LOOP(name)                                                             \
    case TT_SIMD_ACT_##name:                                                   \
        forward_loop(TT_SIMD_ACT_##name, type, n, x, y);                       \
        break;
    switch (a->act) {
        TT_SIMD_ACTS(LOOP)
    }
#undef LOOP
}

TT_INLINE void backward_block(tt_simd_type type, const tt_simd_act_args *a,
                              int64_t first, int64_t n)
{
    const void *x = at(type, a->x, first), *dy = at(type, a->d_y, first);
    void *dx = at_mut(type, a->d_x, first);
#define LOOP(name)                                                             \
    case TT_SIMD_ACT_##name:                                                   \
        backward_loop(TT_SIMD_ACT_##name, type, n, x, dy, dx);                 \
        break;
    switch (a->act) {
        TT_SIMD_ACTS(LOOP)
    }
#undef LOOP
}

static void forward(const tt_simd_act_args *a)
{
#pragma omp parallel for schedule(static) if (a->n >= TT_FORK_ELEMENTS)
    for (int64_t i = 0; i < a->n; i += TT_BLOCK) {
        if (a->type == TT_SIMD_BF16)
            forward_block(TT_SIMD_BF16, a, i, min_i64(TT_BLOCK, a->n - i));
        else
            forward_block(TT_SIMD_F32, a, i, min_i64(TT_BLOCK, a->n - i));
    }
}

static void backward(const tt_simd_act_args *a)
{
#pragma omp parallel for schedule(static) if (a->n >= TT_FORK_ELEMENTS)
    for (int64_t i = 0; i < a->n; i += TT_BLOCK) {
        if (a->type == TT_SIMD_BF16)
            backward_block(TT_SIMD_BF16, a, i, min_i64(TT_BLOCK, a->n - i));
        else
            backward_block(TT_SIMD_F32, a, i, min_i64(TT_BLOCK, a->n - i));
    }
}

TT_INLINE void swiglu_block(tt_simd_type type, const tt_simd_glu_args *g,
                            int64_t first, int64_t n)
{
    const void *a = at(type, g->a, first), *b = at(type, g->b, first);
    void *y = at_mut(type, g->y, first);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float x = load(type, a, i);
        store(type, y, i, x * v_sigmoid(x) * load(type, b, i));
    }
}

TT_INLINE void swiglu_backward_block(tt_simd_type type,
                                     const tt_simd_glu_args *g, int64_t first,
                                     int64_t n)
{
    const void *a = at(type, g->a, first), *b = at(type, g->b, first);
    const void *dy = at(type, g->d_y, first);
    void *da = at_mut(type, g->d_a, first), *db = at_mut(type, g->d_b, first);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        const float x = load(type, a, i), d = load(type, dy, i);
        const float s = v_sigmoid(x);
        const float da_i = d * load(type, b, i) * (s + x * s * (1.0f - s));
        store(type, db, i, d * x * s);
        store(type, da, i, da_i);
    }
}

static void swiglu(const tt_simd_glu_args *g)
{
#pragma omp parallel for schedule(static) if (g->n >= TT_FORK_ELEMENTS)
    for (int64_t i = 0; i < g->n; i += TT_BLOCK) {
        if (g->type == TT_SIMD_BF16)
            swiglu_block(TT_SIMD_BF16, g, i, min_i64(TT_BLOCK, g->n - i));
        else
            swiglu_block(TT_SIMD_F32, g, i, min_i64(TT_BLOCK, g->n - i));
    }
}

static void swiglu_backward(const tt_simd_glu_args *g)
{
#pragma omp parallel for schedule(static) if (g->n >= TT_FORK_ELEMENTS)
    for (int64_t i = 0; i < g->n; i += TT_BLOCK) {
        const int64_t n = min_i64(TT_BLOCK, g->n - i);
        if (g->type == TT_SIMD_BF16)
            swiglu_backward_block(TT_SIMD_BF16, g, i, n);
        else
            swiglu_backward_block(TT_SIMD_F32, g, i, n);
    }
}

const tt_simd_activation TT_SYMBOL(tt_simd_activation) = {
    .forward = forward,
    .backward = backward,
    .swiglu = swiglu,
    .swiglu_backward = swiglu_backward,
};
