// project - reductions over any set of dims, and the gradient of a maximum. It is the
// slow path of reduce.cu, for dims that are not neighbours and for rare types. A thread
// owns a result and walks over what is reduced, so it is bound by memory latency where
// there are few results.

#include "backend/cuda/dev/any.cuh"

enum { THREADS = 128 };

__device__ static inline int64_t offset(int n, const int64_t *dim,
                                        const int64_t *stride, int64_t i)
{
    int64_t at = 0;
    for (int d = n - 1; d >= 0; d--) {
        at += i % dim[d] * stride[d];
        i /= dim[d];
    }
    return at;
}

__device__ static inline int64_t product(int n, const int64_t *dim)
{
    int64_t all = 1;
    for (int d = 0; d < n; d++)
        all *= dim[d];
    return all;
}

// Element j of those that belong to the result whose first is at `base`.
__device__ static inline int64_t element(const tt_cuda_project_args &a,
                                         int64_t base, int64_t j)
{
    return base + offset(a.n_reduced, a.reduced, a.reduced_stride, j);
}

__global__ void reduce_any(tt_cuda_project_args a)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= product(a.n_kept, a.kept))
        return;
    const int64_t base = offset(a.n_kept, a.kept, a.kept_stride, i);
    const int64_t n = product(a.n_reduced, a.reduced);
    double result = a.is_max ? -INFINITY : 0;
    for (int64_t j = 0; j < n; j++) {
        const double x = get(a.x, element(a, base, j), 0);
        if (!a.is_max)
            result += x;
        else if (x != x || x > result) // a NaN stays
            result = x;
    }
    put(a.y, i, (a.accumulate ? get(a.y, i, 0) : 0) + result * a.by);
}

// The gradient goes to the entries that are equal to the largest, in equal parts.
__global__ void max_grad(tt_cuda_project_args a)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= product(a.n_kept, a.kept))
        return;
    const int64_t base = offset(a.n_kept, a.kept, a.kept_stride, i);
    const int64_t n = product(a.n_reduced, a.reduced);
    const double most = get(a.y, i, 0), dy = get(a.dy, i, 0);
    double equal = 0;
    for (int64_t j = 0; j < n; j++)
        equal += get(a.x, element(a, base, j), 0) == most;
    for (int64_t j = 0; j < n; j++) {
        const int64_t at = element(a, base, j);
        put(a.dx, at, get(a.x, at, 0) == most ? dy / equal : 0);
    }
}

static unsigned blocks_of(const tt_cuda_project_args *a)
{
    int64_t n = 1;
    for (int d = 0; d < a->n_kept; d++)
        n *= a->kept[d];
    return (unsigned)ceil_div(n, THREADS);
}

extern "C" const char *tt_cuda_reduce_any(tt_cuda *cuda,
                                          const tt_cuda_project_args *args)
{
    reduce_any<<<blocks_of(args), THREADS, 0, cuda->stream>>>(*args);
    return launched();
}

extern "C" const char *tt_cuda_max_grad(tt_cuda *cuda,
                                        const tt_cuda_project_args *args)
{
    max_grad<<<blocks_of(args), THREADS, 0, cuda->stream>>>(*args);
    return launched();
}
