// loss - softmax, cross-entropy and its gradient, accuracy. A block owns a row of
// logits and reads it once: the largest entry and the sum of exponentials come together
// (online softmax, exponentials.cuh). Each row leaves its term of the loss in scratch
// memory, and one more kernel adds them in a fixed order. Bound by memory bandwidth.

#include "backend/cuda/dev/loss/loss.cuh"

// ---- softmax -------------------------------------------------------------------

template <typename T>
__global__ void softmax(int64_t n, bool wide, const T *x, T *y)
{
    __shared__ exponentials room[32];
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

template <typename T>
__global__ void cross_entropy(tt_cuda_loss_args a, bool wide, int *fault)
{
    __shared__ exponentials room[32];
    __shared__ float sums[32];
    const int64_t r = blockIdx.x;
    const T *row = (const T *)a.logits + r * a.row_stride;
    const exponentials e = join(sum_row(row, a.n, wide), room);
    const float sum = a.smoothing == 0 ? 0.f : plain_sum(row, a.n, wide, sums);
    if (threadIdx.x != 0)
        return;
    a.lse[r] = e.top + logf(e.sum);
    ((float *)a.scratch)[r] =
        row_loss(a, row, a.labels[r], a.lse[r], sum, fault);
}

// ---- terms of rows ---------------------------------------------------------------

// Adds the rows' terms in a fixed order. `count` counts labels that are not ignored,
// `correct` the hits, which lie after the terms.
__global__ void join_rows(tt_cuda_loss_args a)
{
    const float *const term = (const float *)a.scratch;
    float *const count_out = a.count, *const correct_out = a.correct;
    __shared__ double room[32];
    double sum = 0, count = 0, hits = 0;
    for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x) {
        sum += term[i];
        count += count_out != NULL && a.labels[i] != a.ignore ? 1 : 0;
        hits += correct_out != NULL ? term[a.rows + i] : 0;
    }
    sum = block_sum(sum, room);
    count = block_sum(count, room);
    hits = block_sum(hits, room);
    if (threadIdx.x != 0)
        return;
    *a.sum = (float)sum;
    if (count_out != NULL)
        *count_out = (float)count;
    if (correct_out != NULL)
        *correct_out = (float)hits;
}

const char *loss_join_rows(tt_cuda *cuda, const tt_cuda_loss_args *a)
{
    join_rows<<<1, 1024, 0, cuda->stream>>>(*a);
    return launched();
}

template <typename T>
static const char *cross_entropy_type(tt_cuda *cuda, const tt_cuda_loss_args *a)
{
    cross_entropy<T><<<(unsigned)a->rows, threads_for(a->n), 0, cuda->stream>>>(
        *a, is_wide<T>(a), cuda->fault_device);
    TRY(launched());
    return loss_join_rows(cuda, a);
}

extern "C" const char *tt_cuda_cross_entropy(tt_cuda *cuda,
                                             const tt_cuda_loss_args *args)
{
    return BY_TYPE(args->type, cross_entropy_type, cuda, args);
}

template <typename T>
__global__ void cross_entropy_grad(tt_cuda_loss_args a, bool wide, int *fault)
{
    const int64_t r = blockIdx.x, label = a.labels[r];
    if (label != a.ignore && (label < 0 || label >= a.vocab) &&
        threadIdx.x == 0)
        *fault = FAULT_LABEL;
    row_grad(a, (const T *)a.logits + r * a.row_stride,
             {label, a.lse_in[r], *a.dsum}, wide,
             (T *)a.dlogits + r * a.row_stride);
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

template <typename T> __global__ void correct(tt_cuda_loss_args a, bool wide)
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
    return loss_join_rows(cuda, a);
}

extern "C" const char *tt_cuda_correct(tt_cuda *cuda,
                                       const tt_cuda_loss_args *args)
{
    return BY_TYPE(args->type, correct_type, cuda, args);
}
