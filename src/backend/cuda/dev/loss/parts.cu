// parts - norms and losses whose rows are split over ranks (tensor parallelism), and
// the squared error. A loss over a split vocabulary becomes: the largest entry of the
// columns here, an all-reduce, sums of exponentials here (loss_terms), another
// all-reduce, and the loss of the joined terms (loss_join). No rank ever has a whole
// row.
//
// A block has a row, or a thread an element. Bound by memory bandwidth where rows are
// long; the messages between the parts cost more than the kernels.

#include "backend/cuda/dev/any.cuh"

enum { THREADS = 256 };

__device__ static inline int64_t thread_index(void)
{
    return blockIdx.x * (int64_t)THREADS + threadIdx.x;
}

// ---- norms -----------------------------------------------------------------

__global__ void row_moment(tt_cuda_parts_args a)
{
    __shared__ double room[32];
    const int64_t row = blockIdx.x;
    const double center = get(a.in[1], row, 0);
    double sum = 0;
    for (int64_t i = threadIdx.x; i < a.n; i += THREADS) {
        const double x = get(a.in[0], row * a.n + i, 0) - center;
        sum += a.power == 2 ? x * x : x;
    }
    sum = block_sum(sum, room);
    if (threadIdx.x == 0)
        put(a.out[0], row, sum / (double)a.whole);
}

__global__ void rsqrt_of(tt_cuda_parts_args a)
{
    const int64_t i = thread_index();
    if (i < a.n)
        put(a.out[0], i, 1 / sqrt(get(a.in[0], i, 0) + a.eps));
}

// x, gamma, beta, mean, rstd
__global__ void norm_apply(tt_cuda_parts_args a)
{
    const int64_t i = thread_index(), row = i / a.n, c = i % a.n;
    if (row < a.rows)
        put(a.out[0], i,
            (get(a.in[0], i, 0) - get(a.in[3], row, 0)) * get(a.in[4], row, 1) *
                    get(a.in[1], c, 1) +
                get(a.in[2], c, 0));
}

// x, dy, gamma, mean, rstd: dy times gamma, and x normalised.
__device__ static inline double scaled(const tt_cuda_parts_args &a, int64_t i)
{
    return get(a.in[1], i, 0) * get(a.in[2], i % a.n, 1);
}

__device__ static inline double xhat(const tt_cuda_parts_args &a, int64_t i)
{
    const int64_t row = i / a.n;
    return (get(a.in[0], i, 0) - get(a.in[3], row, 0)) * get(a.in[4], row, 1);
}

__global__ void norm_grad_moments(tt_cuda_parts_args a)
{
    __shared__ double room[32];
    const int64_t row = blockIdx.x;
    double sum = 0, product = 0;
    for (int64_t i = threadIdx.x; i < a.n; i += THREADS) {
        const double g = scaled(a, row * a.n + i);
        sum += g;
        product += g * xhat(a, row * a.n + i);
    }
    sum = block_sum(sum, room);
    product = block_sum(product, room);
    if (threadIdx.x != 0)
        return;
    put(a.out[0], row, product / (double)a.whole);
    if (a.out[1].data != NULL)
        put(a.out[1], row, sum / (double)a.whole);
}

__global__ void norm_grad_apply(tt_cuda_parts_args a)
{
    const int64_t i = thread_index(), row = i / a.n;
    if (row < a.rows)
        put(a.out[0], i,
            get(a.in[4], row, 1) * (scaled(a, i) - get(a.in[6], row, 0) -
                                    xhat(a, i) * get(a.in[5], row, 0)));
}

// ---- losses ----------------------------------------------------------------

__global__ void row_max(tt_cuda_parts_args a)
{
    __shared__ double room[THREADS];
    const int64_t row = blockIdx.x;
    double most = -INFINITY;
    for (int64_t i = threadIdx.x; i < a.n; i += THREADS)
        most = fmax(most, get(a.in[0], row * a.n + i, 0));
    room[threadIdx.x] = most;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    for (int i = 1; i < THREADS; i++)
        most = fmax(most, room[i]);
    put(a.out[0], row, most);
}

// logits, labels, max: sums of exp(x - max), and what the label contributes.
__global__ void loss_terms(tt_cuda_parts_args a, int *fault)
{
    __shared__ double room[32];
    const int64_t row = blockIdx.x;
    const int64_t label = ((const int32_t *)a.in[1].data)[row];
    const double most = get(a.in[2], row, 0);
    double sum = 0, all = 0;
    for (int64_t i = threadIdx.x; i < a.n; i += THREADS) {
        const double x = get(a.in[0], row * a.n + i, 0);
        sum += exp(x - most);
        all += x;
    }
    sum = block_sum(sum, room);
    all = block_sum(all, room);
    if (threadIdx.x != 0)
        return;
    const bool counts = label != a.ignore;
    if (counts && (label < 0 || label >= a.whole))
        *fault = FAULT_LABEL;
    double target = a.smoothing == 0 ? 0 : a.smoothing / (double)a.whole * all;
    if (counts && label >= a.first && label < a.first + a.n)
        target +=
            (1 - a.smoothing) * get(a.in[0], row * a.n + label - a.first, 0);
    put(a.out[0], row, sum);
    put(a.out[1], row, target);
}

// max, sum, target, labels of n rows: the loss, its count, and lse of each.
__global__ void loss_join(tt_cuda_parts_args a)
{
    __shared__ double room[32];
    double sum = 0, count = 0;
    for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x) {
        const double lse = get(a.in[0], i, 0) + log(get(a.in[1], i, 0));
        put(a.out[2], i, lse);
        if (((const int32_t *)a.in[3].data)[i] == a.ignore)
            continue;
        sum += lse - get(a.in[2], i, 0);
        count += 1;
    }
    sum = block_sum(sum, room);
    count = block_sum(count, room);
    if (threadIdx.x != 0)
        return;
    put(a.out[0], 0, sum);
    put(a.out[1], 0, count);
}

__device__ static inline double value_of(double x)
{
    return x;
}
template <typename T> __device__ static inline double value_of(T x)
{
    return to_float(x);
}

// Whether an entry that this thread sees of a row's first n is `top`.
template <typename T>
__device__ static inline bool sees(const T *row, int64_t n, bool wide,
                                   double top)
{
    typedef pack<T> P;
    const int64_t whole = wide ? n / P::N * P::N : 0;
    bool is_there = false;
    for (int64_t i = threadIdx.x * (int64_t)P::N; i < whole;
         i += (int64_t)THREADS * P::N) {
        const P p = *(const P *)(row + i);
#pragma unroll
        for (int k = 0; k < P::N; k++)
            is_there |= value_of(p.v[k]) == top;
    }
    for (int64_t i = whole + threadIdx.x; i < n; i += THREADS)
        is_there |= value_of(row[i]) == top;
    return is_there;
}

// Of logits, labels, max: 2 where an entry before the label's is the largest, else 1
// where the label's is, else 0. So ranks agree on the first of equals. Bound by memory
// bandwidth; entries after the label's are not read.
template <typename T>
__global__ void correct_terms(tt_cuda_parts_args a, bool wide)
{
    const int64_t r = blockIdx.x;
    const T *row = (const T *)a.in[0].data + r * a.n;
    const int64_t column = ((const int32_t *)a.in[1].data)[r] - a.first;
    const int64_t before = column < 0 ? 0 : column < a.n ? column : a.n;
    const double top = get(a.in[2], r, 0);
    const bool is_before = __syncthreads_or(sees(row, before, wide, top));
    if (threadIdx.x != 0)
        return;
    const bool is_label =
        column >= 0 && column < a.n && value_of(row[column]) == top;
    put(a.out[0], r, is_before ? 2 : is_label ? 1 : 0);
}

// Marks of n rows: how many are 1. One block, bound by how soon its loads arrive.
__global__ void correct_join(tt_cuda_parts_args a)
{
    __shared__ double room[32];
    double count = 0;
    for (int64_t i = threadIdx.x; i < a.n; i += blockDim.x)
        count += get(a.in[0], i, 0) == 1 ? 1 : 0;
    count = block_sum(count, room);
    if (threadIdx.x == 0)
        put(a.out[0], 0, count);
}

// x, target, weight of each row.
__global__ void mse_blocks(tt_cuda_parts_args a)
{
    __shared__ double room[32];
    double sum = 0, count = 0;
    for (int64_t i = thread_index(); i < a.rows * a.n;
         i += (int64_t)THREADS * gridDim.x) {
        const double d = get(a.in[0], i, 0) - get(a.in[1], i, 0);
        const double weight = get(a.in[2], i / a.n, 1);
        sum += weight * d * d;
        count += weight;
    }
    sum = block_sum(sum, room);
    count = block_sum(count, room);
    if (threadIdx.x == 0) {
        ((double *)a.scratch)[2 * blockIdx.x] = sum;
        ((double *)a.scratch)[2 * blockIdx.x + 1] = count;
    }
}

__global__ void mse_join(tt_cuda_parts_args a, int blocks)
{
    const double *from = (const double *)a.scratch;
    double sum[2] = {0, 0};
    for (int i = 0; i < 2 * blocks; i++)
        sum[i % 2] += from[i];
    put(a.out[0], 0, sum[0]);
    put(a.out[1], 0, sum[1]);
}

// x, target, dsum, weight
__global__ void mse_grad(tt_cuda_parts_args a)
{
    const int64_t i = thread_index();
    if (i < a.rows * a.n)
        put(a.out[0], i,
            2 * get(a.in[2], 0, 0) * get(a.in[3], i / a.n, 1) *
                (get(a.in[0], i, 0) - get(a.in[1], i, 0)));
}

__global__ void count(tt_cuda_parts_args a)
{
    *(int64_t *)a.out[0].data = *(const int64_t *)a.in[0].data + 1;
}

// ---- launching -------------------------------------------------------------

typedef void kernel_fn(tt_cuda_parts_args a);

static const char *by_row(tt_cuda *cuda, const tt_cuda_parts_args *a,
                          kernel_fn *kernel)
{
    kernel<<<(unsigned)a->rows, THREADS, 0, cuda->stream>>>(*a);
    return launched();
}

static const char *by_element(tt_cuda *cuda, const tt_cuda_parts_args *a,
                              kernel_fn *kernel)
{
    kernel<<<(unsigned)ceil_div(a->rows * a->n, THREADS), THREADS, 0,
             cuda->stream>>>(*a);
    return launched();
}

extern "C" const char *tt_cuda_row_moment(tt_cuda *cuda,
                                          const tt_cuda_parts_args *args)
{
    return by_row(cuda, args, row_moment);
}

extern "C" const char *tt_cuda_rsqrt(tt_cuda *cuda,
                                     const tt_cuda_parts_args *args)
{
    return by_element(cuda, args, rsqrt_of);
}

extern "C" const char *tt_cuda_norm_apply(tt_cuda *cuda,
                                          const tt_cuda_parts_args *args)
{
    return by_element(cuda, args, norm_apply);
}

extern "C" const char *tt_cuda_norm_grad_moments(tt_cuda *cuda,
                                                 const tt_cuda_parts_args *args)
{
    return by_row(cuda, args, norm_grad_moments);
}

extern "C" const char *tt_cuda_norm_grad_apply(tt_cuda *cuda,
                                               const tt_cuda_parts_args *args)
{
    return by_element(cuda, args, norm_grad_apply);
}

extern "C" const char *tt_cuda_row_max(tt_cuda *cuda,
                                       const tt_cuda_parts_args *args)
{
    return by_row(cuda, args, row_max);
}

extern "C" const char *tt_cuda_loss_terms(tt_cuda *cuda,
                                          const tt_cuda_parts_args *args)
{
    loss_terms<<<(unsigned)args->rows, THREADS, 0, cuda->stream>>>(
        *args, cuda->fault_device);
    return launched();
}

extern "C" const char *tt_cuda_loss_join(tt_cuda *cuda,
                                         const tt_cuda_parts_args *args)
{
    loss_join<<<1, 1024, 0, cuda->stream>>>(*args);
    return launched();
}

template <typename T>
static const char *correct_terms_type(tt_cuda *cuda,
                                      const tt_cuda_parts_args *a)
{
    const bool wide = a->n % pack<T>::N == 0 && is_aligned(a->in[0].data);
    correct_terms<T><<<(unsigned)a->rows, THREADS, 0, cuda->stream>>>(*a, wide);
    return launched();
}

extern "C" const char *tt_cuda_correct_terms(tt_cuda *cuda,
                                             const tt_cuda_parts_args *args)
{
    const tt_dtype type = args->in[0].type;
    return type == TT_F64 ? correct_terms_type<double>(cuda, args)
                          : BY_TYPE(type, correct_terms_type, cuda, args);
}

extern "C" const char *tt_cuda_correct_join(tt_cuda *cuda,
                                            const tt_cuda_parts_args *args)
{
    correct_join<<<1, 1024, 0, cuda->stream>>>(*args);
    return launched();
}

extern "C" const char *tt_cuda_mse(tt_cuda *cuda,
                                   const tt_cuda_parts_args *args)
{
    const int64_t most = ceil_div(args->rows * args->n, THREADS);
    const int blocks =
        (int)(most < TT_CUDA_MSE_BLOCKS ? most : (int64_t)TT_CUDA_MSE_BLOCKS);
    mse_blocks<<<(unsigned)blocks, THREADS, 0, cuda->stream>>>(*args);
    TRY(launched());
    mse_join<<<1, 1, 0, cuda->stream>>>(*args, blocks);
    return launched();
}

extern "C" const char *tt_cuda_mse_grad(tt_cuda *cuda,
                                        const tt_cuda_parts_args *args)
{
    return by_element(cuda, args, mse_grad);
}

extern "C" const char *tt_cuda_count(tt_cuda *cuda,
                                     const tt_cuda_parts_args *args)
{
    count<<<1, 1, 0, cuda->stream>>>(*args);
    return launched();
}
