// loss - what the files of losses share: rows of logits, and sums of exponentials over
// them in a fixed order.
//
//   loss       softmax, cross-entropy, its gradient, how many are correct
//   loss_step  loss, gradient and accuracy of a training step, in one pass
//   parts      the same in parts, where ranks share the columns of a row
//
// A vocabulary's logits are the largest tensor of a step (65,536 x 50,257), so what
// counts is how often they are read.

#ifndef TT_BACKEND_CUDA_DEV_LOSS_LOSS_CUH
#define TT_BACKEND_CUDA_DEV_LOSS_LOSS_CUH

#include "backend/cuda/dev/loss/exponentials.cuh"

enum { THREADS = 512 };

static inline int threads_for(int64_t n)
{
    int threads = 32;
    while (threads < THREADS && threads * 4 < n)
        threads *= 2;
    return threads;
}

template <typename T> static inline bool is_wide(const tt_cuda_loss_args *a)
{
    return a->row_stride % pack<T>::N == 0 && is_aligned(a->logits) &&
           is_aligned(a->dlogits);
}

// f(i, x[i]) for the thread's elements of a row.
template <typename T, typename F>
__device__ static inline void each(const T *row, int64_t n, bool wide, F f)
{
    typedef pack<T> P;
    int64_t i = threadIdx.x;
    if (wide) {
        const int64_t whole = n / P::N * P::N;
        for (i *= P::N; i < whole; i += blockDim.x * P::N) {
            const P p = *(const P *)(row + i);
#pragma unroll
            for (int k = 0; k < P::N; k++)
                f(i + k, to_float(p.v[k]));
        }
        i = whole + threadIdx.x;
    }
    for (; i < n; i += blockDim.x)
        f(i, to_float(row[i]));
}

template <typename T>
__device__ static inline float plain_sum(const T *row, int64_t n, bool wide,
                                         float *room)
{
    float sum = 0;
    each(row, n, wide, [&](int64_t, float v) { sum += v; });
    return block_sum(sum, room);
}

// The row's term, by one thread; `sum` is that of its logits.
template <typename T>
__device__ static inline float row_loss(const tt_cuda_loss_args &a,
                                        const T *row, int64_t label, float lse,
                                        float sum, int *fault)
{
    if (label == a.ignore)
        return 0;
    if (label < 0 || label >= a.vocab) {
        *fault = FAULT_LABEL;
        return 0;
    }
    return lse - (float)(1 - a.smoothing) * to_float(row[label]) -
           (float)(a.smoothing / (double)a.vocab) * sum;
}

// to[i] = f(row[i]) for the thread's elements of a row; says whether `column` is one.
template <typename T, typename F>
__device__ static inline bool map_row(const T *row, int64_t n, bool wide,
                                      int64_t column, T *to, F f)
{
    typedef pack<T> P;
    const int64_t whole = wide ? n / P::N * P::N : 0;
    for (int64_t i = threadIdx.x * P::N; i < whole; i += blockDim.x * P::N) {
        float x[P::N];
        unpack(*(const P *)(row + i), x);
#pragma unroll
        for (int k = 0; k < P::N; k++)
            x[k] = f(x[k]);
        *(P *)(to + i) = packed<T>(x);
    }
    for (int64_t i = whole + threadIdx.x; i < n; i += blockDim.x)
        to[i] = from_float<T>(f(to_float(row[i])));
    const int64_t turn = column < whole ? column / P::N : column - whole;
    return column >= 0 && column < n && turn % blockDim.x == threadIdx.x;
}

// What the gradient of a row depends on, beside its logits.
struct row_terms {
    int64_t label;
    float lse, by; // log of the sum of exponentials; the gradient of the loss
};

// `to` may be `row`.
template <typename T>
__device__ static inline void row_grad(const tt_cuda_loss_args &a, const T *row,
                                       const row_terms &t, bool wide, T *to)
{
    const int64_t label = t.label;
    const float lse = t.lse, by = t.by;
    if (label == a.ignore) {
        (void)map_row(row, a.n, wide, -1, to, [](float) { return 0.f; });
        return;
    }
    const int64_t column = label - a.first;
    const bool is_here = column >= 0 && column < a.n;
    const float hit = to_float(row[is_here ? column : 0]);
    const float base = lse * LOG2_E;
    const float even = by * (float)(a.smoothing / (double)a.vocab);
    const auto grad = [&](float x) {
        return by * power_of_2(x * LOG2_E - base) - even;
    };
    __syncthreads(); // all have read `hit`
    if (map_row(row, a.n, wide, column, to, grad))
        to[column] = from_float<T>(grad(hit) - by * (float)(1 - a.smoothing));
}

// Whether the label's entry is the largest, and the first of equals. All threads get
// the same answer, and all have read the row when this returns (it has a barrier).
template <typename T>
__device__ static inline bool is_correct(const tt_cuda_loss_args &a,
                                         const T *row, int64_t label, float top)
{
    const bool is_here = label >= 0 && label < a.n;
    const float first = to_float(row[0]);
    const bool starts_nan = first != first; // nothing is larger than that
    bool is_hit = is_here && to_float(row[is_here ? label : 0]) == top;
    if (is_hit) // the same in all threads; equals before it are rare
        for (int64_t i = threadIdx.x; i < label; i += blockDim.x)
            is_hit &= to_float(row[i]) != top;
    is_hit = __syncthreads_and(is_hit) && !starts_nan;
    return is_hit || (starts_nan && label == 0);
}

// Adds up the rows' terms, which lie in the scratch memory, and the hits, which lie
// after them where they are wanted.
const char *loss_join_rows(tt_cuda *cuda, const tt_cuda_loss_args *args);

#endif
