// lstm - one loop per row over the hidden units, five functions each.

#include "backend/cpu/simd/lstm/lstm.h"

#include "backend/cpu/simd/elementary.h"
#include "backend/cpu/simd/parallel.h"

#include <stdbool.h>

extern const tt_simd_lstm TT_SYMBOL(tt_simd_lstm);

typedef struct cell {
    float i, f, g, o;
} cell;

TT_INLINE cell activate(tt_simd_type type, const void *gates, int64_t hidden,
                        int64_t j)
{
    return (cell){
        .i = v_sigmoid(load(type, gates, j)),
        .f = v_sigmoid(load(type, gates, hidden + j)),
        .g = v_tanh(load(type, gates, 2 * hidden + j)),
        .o = v_sigmoid(load(type, gates, 3 * hidden + j)),
    };
}

TT_INLINE void forward_row(tt_simd_type type, const tt_simd_lstm_args *a,
                           int64_t r)
{
    const int64_t n = a->hidden;
    const void *gates = at(type, a->gates, r * 4 * n);
    const float *c_prev = a->c_prev + r * n;
    float *c = a->c + r * n;
    void *h = at_mut(type, a->h, r * n);
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const cell x = activate(type, gates, n, j);
        const float c_new = x.f * c_prev[j] + x.i * x.g;
        c[j] = c_new;
        store(type, h, j, x.o * v_tanh(c_new));
    }
}

TT_INLINE void backward_row(tt_simd_type type, const tt_simd_lstm_args *a,
                            int64_t r)
{
    const int64_t n = a->hidden;
    const void *gates = at(type, a->gates, r * 4 * n);
    const void *d_h = at(type, a->d_h, r * n);
    const float *c_prev = a->c_prev + r * n;
    const float *d_c = a->d_c == NULL ? NULL : a->d_c + r * n;
    void *d_gates = at_mut(type, a->d_gates, r * 4 * n);
    float *d_c_prev = a->d_c_prev + r * n;
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const cell x = activate(type, gates, n, j);
        const float t = v_tanh(x.f * c_prev[j] + x.i * x.g);
        const float dh = load(type, d_h, j);
        const float dc =
            (d_c == NULL ? 0.0f : d_c[j]) + dh * x.o * (1.0f - t * t);
        const float df = dc * c_prev[j] * x.f * (1.0f - x.f);
        d_c_prev[j] = dc * x.f;
        store(type, d_gates, j, dc * x.g * x.i * (1.0f - x.i));
        store(type, d_gates, n + j, df);
        store(type, d_gates, 2 * n + j, dc * x.i * (1.0f - x.g * x.g));
        store(type, d_gates, 3 * n + j, dh * t * x.o * (1.0f - x.o));
    }
}

static void forward(const tt_simd_lstm_args *a)
{
    TT_EACH_ROW(a, a->rows * a->hidden >= TT_FORK_ELEMENTS / 4, forward_row);
}

static void backward(const tt_simd_lstm_args *a)
{
    TT_EACH_ROW(a, a->rows * a->hidden >= TT_FORK_ELEMENTS / 4, backward_row);
}

const tt_simd_lstm TT_SYMBOL(tt_simd_lstm) = {
    .forward = forward,
    .backward = backward,
};
