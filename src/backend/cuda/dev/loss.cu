// loss - rows of logits: a block owns a row and reads it once, the largest entry and
// the sum of exponentials together. Bound by memory bandwidth.

#include "backend/cuda/dev/common.cuh"

#include <cuda_pipeline.h>

enum { THREADS = 512 };

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

// Powers of 2 are what the device computes; with the factor in a product that is
// added to, an exponential takes two instructions.
static constexpr float LOG2_E = 1.44269504088896f;

__device__ static inline float exp2f_fast(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

struct exponentials {
    float top, sum; // the largest x, and the sum of exp(x - top)
};

__device__ static inline void add(exponentials *e, float x)
{
    if (x > e->top) {
        e->sum = e->sum * __expf(e->top - x) + 1;
        e->top = x;
    } else if (x > -INFINITY || x != x) {
        e->sum += __expf(x - e->top);
    }
}

// The thread's part of a row: of each pack the largest first, so that the sum is
// rescaled once per pack and not per element.
template <typename T>
__device__ static inline exponentials sum_row(const T *row, int64_t n,
                                              bool wide)
{
    typedef pack<T> P;
    exponentials e = {-INFINITY, 0};
    int64_t i = threadIdx.x;
    if (wide) {
        const int64_t whole = n / P::N * P::N;
        for (i *= P::N; i < whole; i += blockDim.x * P::N) {
            float x[P::N], top = e.top;
            unpack(*(const P *)(row + i), x);
#pragma unroll
            for (int k = 0; k < P::N; k++)
                top = fmaxf(top, x[k]);
            if (top == -INFINITY) { // nothing but minus infinity so far, or NaN
                for (int k = 0; k < P::N; k++)
                    e.sum += x[k] == -INFINITY ? 0.f : x[k];
                continue;
            }
            const float base = top * LOG2_E;
            float sum = e.sum * exp2f_fast(e.top * LOG2_E - base);
#pragma unroll
            for (int k = 0; k < P::N; k++)
                sum += exp2f_fast(x[k] * LOG2_E - base);
            e = {top, sum};
        }
        i = whole + threadIdx.x;
    }
    for (; i < n; i += blockDim.x)
        add(&e, to_float(row[i]));
    return e;
}

// Over the block, the same in all threads.
__device__ static inline exponentials join(exponentials e, float *room)
{
    const float top = block_max(e.top, room);
    const float sum = e.top == -INFINITY ? e.sum
                                         : e.sum * __expf(e.top - top);
    return {top, block_sum(sum, room)};
}

// ---- softmax -------------------------------------------------------------------

template <typename T>
__global__ void softmax(int64_t n, bool wide, const T *x, T *y)
{
    __shared__ float room[32];
    const T *row = x + blockIdx.x * n;
    T *to = y + blockIdx.x * n;
    const exponentials e = join(sum_row(row, n, wide), room);
    const float by = 1 / e.sum;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        to[i] = from_float<T>(expf(to_float(row[i]) - e.top) * by);
}

template <typename T>
__global__ void softmax_grad(int64_t n, const T *y, const T *dy, T *dx)
{
    __shared__ float room[32];
    const int64_t at = blockIdx.x * n;
    float s = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        s += to_float(y[at + i]) * to_float(dy[at + i]);
    s = block_sum(s, room);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x)
        dx[at + i] =
            from_float<T>(to_float(y[at + i]) * (to_float(dy[at + i]) - s));
}

static int threads_for(int64_t n)
{
    int threads = 32;
    while (threads < THREADS && threads * 4 < n)
        threads *= 2;
    return threads;
}

template <typename T>
static const char *softmax_type(tt_cuda *cuda, const tt_cuda_softmax_args *a)
{
    const int threads = threads_for(a->n);
    if (a->dy != NULL)
        softmax_grad<T><<<(unsigned)a->rows, threads, 0, cuda->stream>>>(
            a->n, (const T *)a->x, (const T *)a->dy, (T *)a->y);
    else
        softmax<T><<<(unsigned)a->rows, threads, 0, cuda->stream>>>(
            a->n, a->n % pack<T>::N == 0 && is_aligned(a->x), (const T *)a->x,
            (T *)a->y);
    return launched();
}

extern "C" const char *tt_cuda_softmax(tt_cuda *cuda,
                                       const tt_cuda_softmax_args *args)
{
    return BY_TYPE(args->type, softmax_type, cuda, args);
}

extern "C" const char *tt_cuda_softmax_grad(tt_cuda *cuda,
                                            const tt_cuda_softmax_args *args)
{
    return BY_TYPE(args->type, softmax_type, cuda, args);
}

// ---- cross-entropy ---------------------------------------------------------------

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

template <typename T>
__global__ void cross_entropy(tt_cuda_loss_args a, bool wide, int *fault)
{
    __shared__ float room[32];
    const int64_t r = blockIdx.x;
    const T *row = (const T *)a.logits + r * a.row_stride;
    const exponentials e = join(sum_row(row, a.n, wide), room);
    float sum = 0;
    if (a.smoothing != 0) {
        each(row, a.n, wide, [&](int64_t, float v) { sum += v; });
        sum = block_sum(sum, room);
    }
    if (threadIdx.x != 0)
        return;
    a.lse[r] = e.top + logf(e.sum);
    ((float *)a.scratch)[r] = row_loss(a, row, a.labels[r], a.lse[r], sum, fault);
}

// The rows' terms in a fixed order; `count` counts labels that are not ignored,
// `correct` the hits, which lie behind the terms.
__global__ void join_rows(int64_t rows, const float *term, float *sum_out,
                          const int32_t *labels, int64_t ignore,
                          float *count_out, float *correct_out)
{
    __shared__ double room[32];
    double sum = 0, count = 0, hits = 0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
        sum += term[i];
        count += count_out != NULL && labels[i] != ignore ? 1 : 0;
        hits += correct_out != NULL ? term[rows + i] : 0;
    }
    sum = block_sum(sum, room);
    count = block_sum(count, room);
    hits = block_sum(hits, room);
    if (threadIdx.x != 0)
        return;
    *sum_out = (float)sum;
    if (count_out != NULL)
        *count_out = (float)count;
    if (correct_out != NULL)
        *correct_out = (float)hits;
}

template <typename T> static bool is_wide(const tt_cuda_loss_args *a)
{
    return a->row_stride % pack<T>::N == 0 && is_aligned(a->logits) &&
           is_aligned(a->dlogits);
}

template <typename T>
static const char *cross_entropy_type(tt_cuda *cuda, const tt_cuda_loss_args *a)
{
    cross_entropy<T><<<(unsigned)a->rows, threads_for(a->n), 0, cuda->stream>>>(
        *a, is_wide<T>(a), cuda->fault_device);
    TRY(launched());
    join_rows<<<1, 1024, 0, cuda->stream>>>(a->rows, (const float *)a->scratch,
                                            a->sum, a->labels, a->ignore,
                                            a->count, NULL);
    return launched();
}

extern "C" const char *tt_cuda_cross_entropy(tt_cuda *cuda,
                                             const tt_cuda_loss_args *args)
{
    return BY_TYPE(args->type, cross_entropy_type, cuda, args);
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

// `to` may be `row`.
template <typename T>
__device__ static inline void row_grad(const tt_cuda_loss_args &a, const T *row,
                                       int64_t label, float lse, float by,
                                       bool wide, T *to)
{
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
        return by * exp2f_fast(x * LOG2_E - base) - even;
    };
    __syncthreads(); // all have read `hit`
    if (map_row(row, a.n, wide, column, to, grad))
        to[column] = from_float<T>(grad(hit) - by * (float)(1 - a.smoothing));
}

template <typename T>
__global__ void cross_entropy_grad(tt_cuda_loss_args a, bool wide, int *fault)
{
    const int64_t r = blockIdx.x, label = a.labels[r];
    if (label != a.ignore && (label < 0 || label >= a.vocab) &&
        threadIdx.x == 0)
        *fault = FAULT_LABEL;
    row_grad(a, (const T *)a.logits + r * a.row_stride, label, a.lse_in[r],
             *a.dsum, wide, (T *)a.dlogits + r * a.row_stride);
}

template <typename T>
static const char *cross_entropy_grad_type(tt_cuda *cuda,
                                           const tt_cuda_loss_args *a)
{
    cross_entropy_grad<T>
        <<<(unsigned)a->rows, threads_for(a->n), 0, cuda->stream>>>(
            *a, is_wide<T>(a), cuda->fault_device);
    return launched();
}

extern "C" const char *tt_cuda_cross_entropy_grad(tt_cuda *cuda,
                                                  const tt_cuda_loss_args *args)
{
    return BY_TYPE(args->type, cross_entropy_grad_type, cuda, args);
}

// ---- correct -----------------------------------------------------------------------

// Whether the label's entry is `top`, and the first of equals; the same in all threads,
// which all have read the row when they come back.
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

template <typename T>
__global__ void correct(tt_cuda_loss_args a, bool wide)
{
    __shared__ float room[32];
    const int64_t r = blockIdx.x;
    const T *row = (const T *)a.logits + r * a.row_stride;
    float top = -INFINITY;
    each(row, a.n, wide, [&](int64_t, float v) { top = fmaxf(top, v); });
    top = block_max(top, room);
    const bool is_hit = is_correct(a, row, a.labels[r], top);
    if (threadIdx.x == 0)
        ((float *)a.scratch)[r] = is_hit ? 1.f : 0.f;
}

template <typename T>
static const char *correct_type(tt_cuda *cuda, const tt_cuda_loss_args *a)
{
    correct<T><<<(unsigned)a->rows, threads_for(a->n), 0, cuda->stream>>>(
        *a, is_wide<T>(a));
    TRY(launched());
    join_rows<<<1, 1024, 0, cuda->stream>>>(
        a->rows, (const float *)a->scratch, a->sum, NULL, 0, NULL, NULL);
    return launched();
}

extern "C" const char *tt_cuda_correct(tt_cuda *cuda,
                                       const tt_cuda_loss_args *args)
{
    return BY_TYPE(args->type, correct_type, cuda, args);
}

// ---- all of a step -------------------------------------------------------------------

// `row` are row r's logits, or a copy.
template <typename T>
__device__ static inline void step_row(const tt_cuda_loss_args &a, int64_t r,
                                       const T *row, bool wide, int *fault)
{
    __shared__ float room[32];
    const int64_t label = a.labels[r];
    const exponentials e = join(sum_row(row, a.n, wide), room);
    const float lse = e.top + logf(e.sum);
    float sum = 0;
    if (a.smoothing != 0) {
        each(row, a.n, wide, [&](int64_t, float v) { sum += v; });
        sum = block_sum(sum, room);
    }
    float *term = (float *)a.scratch;
    if (threadIdx.x == 0)
        term[r] = row_loss(a, row, label, lse, sum, fault);
    const bool is_hit = is_correct(a, row, label, e.top);
    if (threadIdx.x == 0)
        term[a.rows + r] = is_hit ? 1.f : 0.f;
    row_grad(a, row, label, lse, a.dsum == NULL ? 1.f : *a.dsum, wide,
             (T *)a.dlogits + r * a.row_stride);
}

template <typename T>
__global__ void cross_entropy_step(tt_cuda_loss_args a, bool wide, int *fault)
{
    const int64_t r = blockIdx.x;
    step_row(a, r, (const T *)a.logits + r * a.row_stride, wide, fault);
}

// Of rows that fit into shared memory, two on each multiprocessor, so that one comes
// while the other is worked on. Bound by reading and writing the logits once: 3.25 ms
// for 64 x 1024 rows of 50257 on an H200, 95% of the rate of long copies; 84% within a
// training step, whose products make the GPU lower its clock.
enum { MOST_HELD = 112 << 10 };

template <typename T> static int64_t held_bytes(const tt_cuda_loss_args *a)
{
    return ceil_div(a->n, pack<T>::N) * 16;
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    cross_entropy_step_held(tt_cuda_loss_args a, int *fault)
{
    typedef pack<T> P;
    extern __shared__ uint4 held[];
    const int64_t r = blockIdx.x;
    const T *row = (const T *)a.logits + r * a.row_stride;
    const int n = (int)a.n, packs = n / P::N;
    for (int i = threadIdx.x; i < packs; i += blockDim.x)
        __pipeline_memcpy_async(held + i, row + i * P::N, sizeof(P));
    __pipeline_commit();
    for (int i = packs * P::N + threadIdx.x; i < n; i += blockDim.x)
        ((T *)held)[i] = row[i];
    __pipeline_wait_prior(0);
    __syncthreads();
    step_row(a, r, (const T *)held, true, fault);
}

template <typename T>
static const char *step_held(tt_cuda *cuda, const tt_cuda_loss_args *a)
{
    const int64_t bytes = held_bytes<T>(a);
    TRY_CUDA(cudaFuncSetAttribute(cross_entropy_step_held<T>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)bytes));
    cross_entropy_step_held<T>
        <<<(unsigned)a->rows, threads_for(a->n), (size_t)bytes,
           cuda->stream>>>(*a, cuda->fault_device);
    return launched();
}

template <typename T>
static const char *cross_entropy_step_type(tt_cuda *cuda,
                                           const tt_cuda_loss_args *a)
{
    const int threads = threads_for(a->n);
    if (is_wide<T>(a) && held_bytes<T>(a) <= MOST_HELD) {
        TRY(step_held<T>(cuda, a));
    } else {
        cross_entropy_step<T><<<(unsigned)a->rows,
                                threads == THREADS ? 2 * THREADS : threads, 0,
                                cuda->stream>>>(*a, is_wide<T>(a),
                                                cuda->fault_device);
        TRY(launched());
    }
    join_rows<<<1, 1024, 0, cuda->stream>>>(a->rows, (const float *)a->scratch,
                                            a->sum, a->labels, a->ignore,
                                            a->count, a->correct);
    return launched();
}

extern "C" const char *tt_cuda_cross_entropy_step(tt_cuda *cuda,
                                                  const tt_cuda_loss_args *args)
{
    return BY_TYPE(args->type, cross_entropy_step_type, cuda, args);
}
