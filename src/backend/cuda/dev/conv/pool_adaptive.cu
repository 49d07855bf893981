// pool_adaptive - adaptive average pooling and its gradient (NHWC): a given number of
// outputs, whose windows divide the image as evenly as whole numbers allow.
//
// The case that matters is one window over the whole image, as before a classifier: it
// has a kernel of its own, bound by memory bandwidth. Others give a thread a pack of
// channels of one pixel of the result, and it divides a lot to find its windows.

#include "backend/cuda/dev/conv/pool.cuh"

// (a b + more) / c, by 32 bits where they are enough.
__device__ static inline int scaled(int a, int b, int more, int c)
{
    const int64_t x = (int64_t)a * b + more;
    return x <= INT32_MAX ? (int)x / c : (int)(x / c);
}

// Window o of a dimension covers [lo, hi) of the whole input.
__device__ static inline int window_lo(const dimension &d, int o)
{
    return scaled(o, d.whole_in, 0, d.out);
}

__device__ static inline int window_hi(const dimension &d, int o)
{
    return scaled(o + 1, d.whole_in, d.out - 1, d.out);
}

__device__ static inline float points_of(const dimension &d, int o)
{
    return (float)(window_hi(d, o) - window_lo(d, o));
}

// Forward: the local inputs under a window. Backward: the windows over an input.
__device__ static inline void reach(const dimension &d, bool is_back, int at,
                                    int *lo, int *hi)
{
    if (is_back) {
        const int whole = at + d.origin;
        *lo = scaled(whole, d.out, 0, d.whole_in);
        *hi = scaled(whole + 1, d.out, d.whole_in - 1, d.whole_in);
        return;
    }
    *lo = max(window_lo(d, at) - d.origin, 0);
    *hi = min(window_hi(d, at) - d.origin, d.in);
}

template <typename T, int V, bool IS_BACK> __global__ void adaptive(pooling a)
{
    pixel p;
    if (!place(a, IS_BACK ? &dimension::in : &dimension::out, &p))
        return;
    box b;
    float own = 1; // points of an output's own window
    for (int d = 0; d < TT_CUDA_SPACE; d++) {
        reach(a.d[d], IS_BACK, p.at[d], &b.lo[d], &b.hi[d]);
        if (!IS_BACK)
            own *= points_of(a.d[d], p.at[d]);
    }
    float sum[V] = {};
    for (int i = b.lo[0]; i < b.hi[0]; i++)
        for (int j = b.lo[1]; j < b.hi[1]; j++) {
            const float outer =
                IS_BACK ? points_of(a.d[0], i) * points_of(a.d[1], j) : 1;
#pragma unroll 4
            for (int k = b.lo[2]; k < b.hi[2]; k++) {
                const int other[TT_CUDA_SPACE] = {i, j, k};
                const float points = IS_BACK ? outer * points_of(a.d[2], k) : 1;
                const slice<T, V> x = load<T, V>(
                    a.x, place_of(a, IS_BACK ? &dimension::out : &dimension::in,
                                  p, other, V));
                for (int v = 0; v < V; v++)
                    sum[v] +=
                        IS_BACK ? to_float(x.v[v]) / points : to_float(x.v[v]);
            }
        }
    slice<T, V> y;
    for (int v = 0; v < V; v++)
        y.v[v] = from_float<T>(sum[v] / own);
    store(a.y, own_place(V), y);
}

// One window over the whole image: a thread has a pack of channels, and forward all
// pixels, which it adds up in their order, or backward AT_ONCE of them.
enum { AT_ONCE = 8 };

template <typename T, int V, bool IS_BACK> __global__ void whole(pooling a)
{
    const int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    const int pixels = a.d[0].in * a.d[1].in * a.d[2].in;
    if (i >= a.threads)
        return;
    const int parts = IS_BACK ? (pixels + AT_ONCE - 1) / AT_ONCE : 1;
    const int row = i / a.packs, n = row / parts;
    const int first = (row - n * parts) * AT_ONCE;
    const int64_t small = ((int64_t)n * a.packs + i - row * a.packs) * V;
    const int64_t next = (int64_t)a.packs * V;
    const int64_t big = small + (n * (int64_t)(pixels - 1) + first) * next;
    float sum[V] = {}, x[V];
    if (!IS_BACK)
#pragma unroll AT_ONCE
        for (int k = 0; k < pixels; k++) {
            unpack(load<T, V>(a.x, big + k * next), x);
            for (int v = 0; v < V; v++)
                sum[v] += x[v];
        }
    else
        unpack(load<T, V>(a.x, small), sum);
    const float points = (float)a.d[0].whole_in * (float)a.d[1].whole_in *
                         (float)a.d[2].whole_in;
    for (int v = 0; v < V; v++)
        sum[v] /= points;
    const slice<T, V> y = sliced<T, V>(sum);
    if (!IS_BACK)
        store(a.y, small, y);
    else
        for (int k = 0; k < AT_ONCE && first + k < pixels; k++)
            store(a.y, big + k * next, y);
}

// ---- launching -------------------------------------------------------------

template <typename T, int V, bool IS_BACK>
static const char *launch(tt_cuda *cuda, const tt_cuda_pool_args *a)
{
    const pooling p = describe(a, V);
    const int64_t pixels = p.in / a->channels;
    if (p.out != a->channels)
        return over_images<T, uint8_t>(cuda, a, IS_BACK,
                                       (IS_BACK ? p.in : p.out) / V, p,
                                       adaptive<T, V, IS_BACK>);
    return over_images<T, uint8_t>(
        cuda, a, IS_BACK, p.packs * (IS_BACK ? ceil_div(pixels, AT_ONCE) : 1),
        p, whole<T, V, IS_BACK>);
}

template <typename T, bool IS_BACK>
static const char *pool_type(tt_cuda *cuda, const tt_cuda_pool_args *a)
{
    enum { V = pack<T>::N };
    return is_wide(a, V) ? launch<T, V, IS_BACK>(cuda, a)
                         : launch<T, 1, IS_BACK>(cuda, a);
}

template <typename T>
static const char *forward(tt_cuda *cuda, const tt_cuda_pool_args *a)
{
    return pool_type<T, false>(cuda, a);
}

template <typename T>
static const char *backward(tt_cuda *cuda, const tt_cuda_pool_args *a)
{
    return pool_type<T, true>(cuda, a);
}

extern "C" const char *tt_cuda_adaptive_pool(tt_cuda *cuda,
                                             const tt_cuda_pool_args *args)
{
    return BY_TYPE(args->type, forward, cuda, args);
}

extern "C" const char *tt_cuda_adaptive_pool_grad(tt_cuda *cuda,
                                                  const tt_cuda_pool_args *args)
{
    return BY_TYPE(args->type, backward, cuda, args);
}
