// pool - pooling of images whose channels lie together, and its gradients. A thread
// owns a pack of channels of one pixel of the result and gathers what belongs to it, so
// nothing is added by two threads. Bound by memory bandwidth: neighbouring windows
// overlap in the caches.

#include "backend/cuda/dev/common.cuh"

enum { THREADS = 256 };

template <typename T, int V> struct alignas(sizeof(T) * V) slice {
    T v[V];
};

struct pixel {
    int64_t n, at[TT_CUDA_SPACE];
};

__device__ static inline pixel pixel_at(const tt_cuda_pool_args &a,
                                        int64_t tt_cuda_slide::*of, int64_t i)
{
    pixel p;
#pragma unroll
    for (int k = TT_CUDA_SPACE - 1; k >= 0; k--) {
        const int64_t extent = a.slide[k].*of, next = i / extent;
        p.at[k] = i - next * extent;
        i = next;
    }
    p.n = i;
    return p;
}

// Which entries of the window exist: [lo, hi) per dimension.
struct box {
    int64_t lo[TT_CUDA_SPACE], hi[TT_CUDA_SPACE];
};

// First and last k of a window at output o whose input is within [0, in).
__device__ static inline void entries(const tt_cuda_slide &s, int64_t o,
                                      int64_t *lo, int64_t *hi)
{
    const int64_t first = o * s.stride - s.pad;
    *lo = first >= 0 ? 0 : (-first + s.dilation - 1) / s.dilation;
    *hi = first >= s.in ? 0
                        : min(s.kernel, (s.in - first + s.dilation - 1) /
                                            s.dilation);
}

__device__ static inline box box_of(const tt_cuda_pool_args &a, const pixel &o)
{
    box b;
#pragma unroll
    for (int d = 0; d < TT_CUDA_SPACE; d++)
        entries(a.slide[d], o.at[d], &b.lo[d], &b.hi[d]);
    return b;
}

__device__ static inline int64_t input_at(const tt_cuda_pool_args &a,
                                          const pixel &o, int64_t i, int64_t j,
                                          int64_t k)
{
    const int64_t at[TT_CUDA_SPACE] = {i, j, k};
    int64_t x = o.n;
#pragma unroll
    for (int d = 0; d < TT_CUDA_SPACE; d++) {
        const tt_cuda_slide &s = a.slide[d];
        x = x * s.in + o.at[d] * s.stride - s.pad + at[d] * s.dilation;
    }
    return x * a.channels;
}

// What the sum under a window is divided by: padding is what lies outside the whole
// input.
__device__ static inline float divisor(const tt_cuda_pool_args &a,
                                       const pixel &o)
{
    int64_t n = 1;
    for (int d = 0; d < TT_CUDA_SPACE; d++) {
        const tt_cuda_slide &s = a.slide[d];
        int64_t inside = s.kernel;
        if (!a.count_pad) {
            inside = 0;
            for (int64_t k = 0; k < s.kernel; k++) {
                const int64_t at =
                    o.at[d] * s.stride - s.pad + k * s.dilation + s.origin;
                inside += at >= 0 && at < s.whole_in;
            }
        }
        n *= inside;
    }
    return n == 0 ? 1.f : (float)n;
}

__device__ static inline int64_t entry_of(const tt_cuda_pool_args &a, int64_t i,
                                          int64_t j, int64_t k)
{
    return (i * a.slide[1].kernel + j) * a.slide[2].kernel + k;
}

// The work of thread i: a pixel and its first channel; false: none.
template <int V>
__device__ static inline bool place(const tt_cuda_pool_args &a,
                                    int64_t tt_cuda_slide::*of, pixel *p,
                                    int64_t *channel, int64_t *at)
{
    const int64_t packs = a.channels / V;
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    *p = pixel_at(a, of, i / packs);
    *channel = i % packs * V;
    *at = i * V;
    return p->n < a.n;
}

template <typename T, typename W, int V>
__global__ void max_forward(tt_cuda_pool_args a)
{
    pixel o;
    int64_t channel, at;
    if (!place<V>(a, &tt_cuda_slide::out, &o, &channel, &at))
        return;
    const box b = box_of(a, o);
    float best[V];
    int64_t where[V];
    for (int v = 0; v < V; v++) {
        best[v] = 0;
        where[v] = -1;
    }
    for (int64_t i = b.lo[0]; i < b.hi[0]; i++)
        for (int64_t j = b.lo[1]; j < b.hi[1]; j++)
            for (int64_t k = b.lo[2]; k < b.hi[2]; k++) {
                const slice<T, V> x =
                    *(const slice<T, V> *)((const T *)a.x +
                                           input_at(a, o, i, j, k) + channel);
                const int64_t e = entry_of(a, i, j, k);
                for (int v = 0; v < V; v++) {
                    const float f = to_float(x.v[v]);
                    if (where[v] < 0 || f > best[v] ||
                        (f != f && best[v] == best[v])) {
                        best[v] = f;
                        where[v] = e;
                    }
                }
            }
    slice<T, V> y;
    slice<W, V> w;
    for (int v = 0; v < V; v++) {
        y.v[v] = from_float<T>(best[v]);
        w.v[v] = (W)where[v];
    }
    *(slice<T, V> *)((T *)a.y + at) = y;
    *(slice<W, V> *)((W *)a.where + at) = w;
}

template <typename T, typename W, int V>
__global__ void avg_forward(tt_cuda_pool_args a)
{
    pixel o;
    int64_t channel, at;
    if (!place<V>(a, &tt_cuda_slide::out, &o, &channel, &at))
        return;
    const box b = box_of(a, o);
    float sum[V] = {};
    for (int64_t i = b.lo[0]; i < b.hi[0]; i++)
        for (int64_t j = b.lo[1]; j < b.hi[1]; j++)
            for (int64_t k = b.lo[2]; k < b.hi[2]; k++) {
                const slice<T, V> x =
                    *(const slice<T, V> *)((const T *)a.x +
                                           input_at(a, o, i, j, k) + channel);
                for (int v = 0; v < V; v++)
                    sum[v] += to_float(x.v[v]);
            }
    const float by = divisor(a, o);
    slice<T, V> y;
    for (int v = 0; v < V; v++)
        y.v[v] = from_float<T>(sum[v] / by);
    *(slice<T, V> *)((T *)a.y + at) = y;
}

// The output that reads input i of a dimension at entry k; -1: none.
__device__ static inline int64_t output_of(const tt_cuda_slide &s, int64_t i,
                                           int64_t k)
{
    const int64_t from = i + s.pad - k * s.dilation;
    if (from < 0 || from % s.stride != 0)
        return -1;
    return from / s.stride < s.out ? from / s.stride : -1;
}

template <typename T, typename W, int V, bool IS_MAX>
__global__ void grad(tt_cuda_pool_args a)
{
    pixel x, o;
    int64_t channel, at;
    if (!place<V>(a, &tt_cuda_slide::in, &x, &channel, &at))
        return;
    float sum[V] = {};
    o.n = x.n;
    for (int64_t i = 0; i < a.slide[0].kernel; i++) {
        o.at[0] = output_of(a.slide[0], x.at[0], i);
        for (int64_t j = 0; o.at[0] >= 0 && j < a.slide[1].kernel; j++) {
            o.at[1] = output_of(a.slide[1], x.at[1], j);
            for (int64_t k = 0; o.at[1] >= 0 && k < a.slide[2].kernel; k++) {
                o.at[2] = output_of(a.slide[2], x.at[2], k);
                if (o.at[2] < 0)
                    continue;
                int64_t from = o.n;
                for (int d = 0; d < TT_CUDA_SPACE; d++)
                    from = from * a.slide[d].out + o.at[d];
                from = from * a.channels + channel;
                const slice<T, V> dy =
                    *(const slice<T, V> *)((const T *)a.x + from);
                const W e = (W)entry_of(a, i, j, k);
                const float by = IS_MAX ? 1.f : divisor(a, o);
                slice<W, V> w;
                if (IS_MAX)
                    w = *(const slice<W, V> *)((const W *)a.where + from);
                for (int v = 0; v < V; v++)
                    if (!IS_MAX || w.v[v] == e)
                        sum[v] += to_float(dy.v[v]) / by;
            }
        }
    }
    slice<T, V> dx;
    for (int v = 0; v < V; v++)
        dx.v[v] = from_float<T>(sum[v]);
    *(slice<T, V> *)((T *)a.y + at) = dx;
}

// ---- adaptive --------------------------------------------------------------

// Window o of a dimension covers [lo, hi) of the whole input.
__device__ static inline int64_t window_lo(const tt_cuda_slide &s, int64_t o)
{
    return o * s.whole_in / s.out;
}

__device__ static inline int64_t window_hi(const tt_cuda_slide &s, int64_t o)
{
    return ((o + 1) * s.whole_in + s.out - 1) / s.out;
}

// Forward: the local inputs under a window. Backward: the windows over an input.
__device__ static inline void reach(const tt_cuda_slide &s, bool is_back,
                                    int64_t at, int64_t *lo, int64_t *hi)
{
    if (is_back) {
        const int64_t whole = at + s.origin;
        *lo = whole * s.out / s.whole_in;
        *hi = ((whole + 1) * s.out + s.whole_in - 1) / s.whole_in;
        return;
    }
    *lo = max(window_lo(s, at) - s.origin, (int64_t)0);
    *hi = min(window_hi(s, at) - s.origin, s.in);
}

template <typename T, int V, bool IS_BACK>
__global__ void adaptive(tt_cuda_pool_args a)
{
    pixel p;
    int64_t channel, at;
    if (!place<V>(a, IS_BACK ? &tt_cuda_slide::in : &tt_cuda_slide::out, &p,
                  &channel, &at))
        return;
    box b;
    for (int d = 0; d < TT_CUDA_SPACE; d++)
        reach(a.slide[d], IS_BACK, p.at[d], &b.lo[d], &b.hi[d]);
    float sum[V] = {};
    for (int64_t i = b.lo[0]; i < b.hi[0]; i++)
        for (int64_t j = b.lo[1]; j < b.hi[1]; j++)
            for (int64_t k = b.lo[2]; k < b.hi[2]; k++) {
                const int64_t other[TT_CUDA_SPACE] = {i, j, k};
                int64_t from = p.n, points = 1;
                for (int d = 0; d < TT_CUDA_SPACE; d++) {
                    const tt_cuda_slide &s = a.slide[d];
                    const int64_t o = IS_BACK ? other[d] : p.at[d];
                    from = from * (IS_BACK ? s.out : s.in) + other[d];
                    points *= window_hi(s, o) - window_lo(s, o);
                }
                const slice<T, V> x =
                    *(const slice<T, V> *)((const T *)a.x + from * a.channels +
                                           channel);
                for (int v = 0; v < V; v++)
                    sum[v] += to_float(x.v[v]) / (float)points;
            }
    slice<T, V> y;
    for (int v = 0; v < V; v++)
        y.v[v] = from_float<T>(sum[v]);
    *(slice<T, V> *)((T *)a.y + at) = y;
}

// ---- launching -------------------------------------------------------------

enum kind { MAX, MAX_GRAD, AVG, AVG_GRAD, ADAPTIVE, ADAPTIVE_GRAD };

template <typename T, typename W, int V>
static const char *launch(tt_cuda *cuda, const tt_cuda_pool_args *a, kind what)
{
    const bool is_back =
        what == MAX_GRAD || what == AVG_GRAD || what == ADAPTIVE_GRAD;
    int64_t n = a->n * (a->channels / V);
    for (const tt_cuda_slide &s : a->slide)
        n *= is_back ? s.in : s.out;
    const auto kernel = what == MAX        ? max_forward<T, W, V>
                        : what == MAX_GRAD ? grad<T, W, V, true>
                        : what == AVG      ? avg_forward<T, W, V>
                        : what == AVG_GRAD ? grad<T, W, V, false>
                        : what == ADAPTIVE ? adaptive<T, V, false>
                                           : adaptive<T, V, true>;
    kernel<<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(*a);
    return launched();
}

template <typename T>
static const char *pool_type(tt_cuda *cuda, const tt_cuda_pool_args *a,
                             kind what)
{
    enum { V = pack<T>::N };
    const bool is_wide = a->channels % V == 0 && is_aligned(a->x) &&
                         is_aligned(a->y) && is_aligned(a->where);
    if (a->where_type == TT_I32)
        return launch<T, int32_t, 1>(cuda, a, what);
    return is_wide ? launch<T, uint8_t, V>(cuda, a, what)
                   : launch<T, uint8_t, 1>(cuda, a, what);
}

static const char *pool(tt_cuda *cuda, const tt_cuda_pool_args *a, kind what)
{
    return BY_TYPE(a->type, pool_type, cuda, a, what);
}

extern "C" const char *tt_cuda_max_pool(tt_cuda *cuda,
                                        const tt_cuda_pool_args *args)
{
    return pool(cuda, args, MAX);
}

extern "C" const char *tt_cuda_max_pool_grad(tt_cuda *cuda,
                                             const tt_cuda_pool_args *args)
{
    return pool(cuda, args, MAX_GRAD);
}

extern "C" const char *tt_cuda_avg_pool(tt_cuda *cuda,
                                        const tt_cuda_pool_args *args)
{
    return pool(cuda, args, AVG);
}

extern "C" const char *tt_cuda_avg_pool_grad(tt_cuda *cuda,
                                             const tt_cuda_pool_args *args)
{
    return pool(cuda, args, AVG_GRAD);
}

extern "C" const char *tt_cuda_adaptive_pool(tt_cuda *cuda,
                                             const tt_cuda_pool_args *args)
{
    return pool(cuda, args, ADAPTIVE);
}

extern "C" const char *tt_cuda_adaptive_pool_grad(tt_cuda *cuda,
                                                  const tt_cuda_pool_args *args)
{
    return pool(cuda, args, ADAPTIVE_GRAD);
}
