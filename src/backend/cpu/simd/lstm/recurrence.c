// recurrence - one loop per row over the hidden units.

#include "backend/cpu/simd/lstm/recurrence.h"

#include "backend/cpu/simd/elementary.h"
#include "backend/cpu/simd/parallel.h"

#include <stdbool.h>

extern const tt_simd_recurrence TT_SYMBOL(tt_simd_recurrence);

TT_INLINE void forward_row(tt_simd_type type, const tt_simd_recurrence_args *a,
                           int64_t r)
{
    const int64_t n = a->hidden;
    const float *sum = a->sum + r * 4 * n, *bias = a->bias;
    const void *x = at(type, a->x, r * 4 * n);
    const float *c_prev = a->c_prev + r * n;
    float *c = a->c + r * n;
    void *h = at_mut(type, a->h, r * n);
    void *gates = at_mut(type, a->gates, r * 4 * n);
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        float s[4];
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++)
            s[k] = sum[k * n + j] + load(type, x, k * n + j) +
                   (bias == NULL ? 0.0f : bias[k * n + j]);
        const float i = v_sigmoid(s[0]), f = v_sigmoid(s[1]);
        const float g = v_tanh(s[2]), o = v_sigmoid(s[3]);
        const float c_new = f * c_prev[j] + i * g;
        c[j] = c_new;
        store(type, h, j, o * v_tanh(c_new));
        store(type, gates, j, i);
        store(type, gates, n + j, f);
        store(type, gates, 2 * n + j, g);
        store(type, gates, 3 * n + j, o);
    }
}

TT_INLINE void backward_row(tt_simd_type type, const tt_simd_recurrence_args *a,
                            int64_t r)
{
    const int64_t n = a->hidden;
    const void *gates = at(type, a->gates, r * 4 * n);
    const void *d_h = a->d_h == NULL ? NULL : at(type, a->d_h, r * n);
    const float *d_c = a->d_c == NULL ? NULL : a->d_c + r * n;
    const float *c = a->c + r * n, *c_prev = a->c_prev + r * n;
    const float *carry_h = a->carry_h + r * n;
    float *carry_c = a->carry_c + r * n;
    void *d_gates = at_mut(type, a->d_gates, r * 4 * n);
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const float i = load(type, gates, j), f = load(type, gates, n + j);
        const float g = load(type, gates, 2 * n + j);
        const float o = load(type, gates, 3 * n + j);
        const float t = v_tanh(c[j]);
        const float dh = carry_h[j] + (d_h == NULL ? 0.0f : load(type, d_h, j));
        const float dc = carry_c[j] + (d_c == NULL ? 0.0f : d_c[j]) +
                         dh * o * (1.0f - t * t);
        carry_c[j] = dc * f;
        store(type, d_gates, j, dc * g * i * (1.0f - i));
        store(type, d_gates, n + j, dc * c_prev[j] * f * (1.0f - f));
        store(type, d_gates, 2 * n + j, dc * i * (1.0f - g * g));
        store(type, d_gates, 3 * n + j, dh * t * o * (1.0f - o));
    }
}

static void forward(const tt_simd_recurrence_args *a)
{
    TT_EACH_ROW(a, a->rows * a->hidden >= TT_FORK_ELEMENTS / 4, forward_row);
}

static void backward(const tt_simd_recurrence_args *a)
{
    TT_EACH_ROW(a, a->rows * a->hidden >= TT_FORK_ELEMENTS / 4, backward_row);
}

const tt_simd_recurrence TT_SYMBOL(tt_simd_recurrence) = {
    .forward = forward,
    .backward = backward,
};
