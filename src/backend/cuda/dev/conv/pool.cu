// pool - max and average pooling by sliding windows, and their gradients, of images
// whose channels lie together (NHWC).
//
// A thread owns a pack of channels (16 bytes) of one pixel of the result. Forward it
// reads the window. Backward it gathers: it looks at all windows that reach its pixel,
// where the usual way scatters from each window with atomic additions. So no two
// threads add to the same place, and the order of sums is fixed. Max pooling writes
// where its largest entries were, which the gradient compares with.
//
// Bound by memory bandwidth; overlaps of neighbouring windows come from the caches. On
// an H200 73% of a copy's rate for ResNet-50's windows and 64% for their gradient; 99
// and 90% for VGG-16's, which do not overlap. Special cases got it there: square
// windows have all loads in flight before the first comparison, 16-bit elements are
// compared by pairs, and windows that move by two give a thread four inputs at once.

#include "backend/cuda/dev/conv/pool.cuh"

// The entries of the window of an output that exist.
__device__ static inline box window_of(const pooling &a, const pixel &o)
{
    box b;
#pragma unroll
    for (int i = 0; i < TT_CUDA_SPACE; i++) {
        const dimension &d = a.d[i];
        const int first = o.at[i] * d.stride - d.pad;
        const int to_end = quotient(d.in - first + d.dilation - 1, d.dilation);
        b.lo[i] =
            first >= 0 ? 0 : quotient(-first + d.dilation - 1, d.dilation);
        b.hi[i] = first >= d.in ? 0 : min(d.kernel, to_end);
    }
    return b;
}

__device__ static inline int64_t input_at(const pooling &a, const pixel &o,
                                          int i, int j, int k, int v)
{
    const int entry[TT_CUDA_SPACE] = {i, j, k};
    int at[TT_CUDA_SPACE];
#pragma unroll
    for (int d = 0; d < TT_CUDA_SPACE; d++)
        at[d] =
            o.at[d] * a.d[d].stride - a.d[d].pad + entry[d] * a.d[d].dilation;
    return place_of(a, &dimension::in, o, at, v);
}

__device__ static inline int entry_of(const pooling &a, int i, int j, int k)
{
    return (i * a.d[1].kernel + j) * a.d[2].kernel + k;
}

// The largest entries so far, and where they are; -1: none yet.
template <typename T, typename W, int V> struct largest {
    float best[V];
    int where[V];

    __device__ largest()
    {
        for (int v = 0; v < V; v++) {
            best[v] = 0;
            where[v] = -1;
        }
    }
    __device__ void look(const slice<T, V> &x, int entry)
    {
#pragma unroll
        for (int v = 0; v < V; v++) {
            const float f = to_float(x.v[v]);
            if (where[v] < 0 || f > best[v] || (f != f && best[v] == best[v])) {
                best[v] = f;
                where[v] = entry;
            }
        }
    }
    __device__ void write(const pooling &a) const
    {
        slice<T, V> y;
        slice<W, V> w;
        for (int v = 0; v < V; v++) {
            y.v[v] = from_float<T>(best[v]);
            w.v[v] = (W)where[v];
        }
        store(a.y, own_place(V), y);
        store(a.where, own_place(V), w);
    }
};

template <typename T, typename W, int V> __global__ void max_forward(pooling a)
{
    pixel o;
    if (!place(a, &dimension::out, &o))
        return;
    const box b = window_of(a, o);
    largest<T, W, V> found;
    for (int i = b.lo[0]; i < b.hi[0]; i++)
        for (int j = b.lo[1]; j < b.hi[1]; j++)
            for (int k = b.lo[2]; k < b.hi[2]; k++)
                found.look(load<T, V>(a.x, input_at(a, o, i, j, k, V)),
                           entry_of(a, i, j, k));
    found.write(a);
}

// A window of K by K in registers, and which of its entries lie inside the image.
template <typename T, int V, int K> struct square {
    slice<T, V> x[K][K];
    box b;

    __device__ bool has(int j, int k) const
    {
        return j >= b.lo[1] && j < b.hi[1] && k >= b.lo[2] && k < b.hi[2];
    }
};

#ifdef __CUDA_ARCH__
__device__ static inline __nv_bfloat162 least(const bf16 *)
{
    return __float2bfloat162_rn(-INFINITY);
}
__device__ static inline __half2 least(const f16 *)
{
    return __float2half2_rn(-INFINITY);
}

// Two elements of 16 bits at once: their largest entries, then the first that are
// equal to them. False: there is none, or one is not a number.
template <typename T, int V, int K>
__device__ static inline bool write_twos(const pooling &a,
                                         const square<T, V, K> &s)
{
    slice<T, V> y;
    slice<uint8_t, V> w;
    bool is_number = s.b.lo[1] < s.b.hi[1] && s.b.lo[2] < s.b.hi[2];
#    pragma unroll
    for (int v = 0; v < V; v += 2) {
        auto most = least(y.v);
        unsigned where = 0;
#    pragma unroll
        for (int e = 0; e < K * K; e++)
            if (s.has(e / K, e % K))
                most = __hmax2_nan(most, two_of(&s.x[e / K][e % K].v[v]));
#    pragma unroll
        for (int e = K * K - 1; e >= 0; e--) {
            const unsigned equal =
                __heq2_mask(most, two_of(&s.x[e / K][e % K].v[v]));
            if (s.has(e / K, e % K))
                where = (where & ~equal) | (e * 0x10001u & equal);
        }
        is_number = is_number && __heq2_mask(most, most) == 0xffffffffu;
        memcpy(&y.v[v], &most, sizeof most);
        w.v[v] = (uint8_t)where;
        w.v[v + 1] = (uint8_t)(where >> 16);
    }
    if (!is_number)
        return false;
    store(a.y, own_place(V), y);
    store(a.where, own_place(V), w);
    return true;
}
#endif

// Windows of K by K, whose loads are all under way before the first is looked at.
template <typename T, typename W, int V, int K>
__global__ void max_forward_square(pooling a)
{
    pixel o;
    if (!place(a, &dimension::out, &o))
        return;
    square<T, V, K> s;
    s.b = window_of(a, o);
    largest<T, W, V> found;
#pragma unroll
    for (int e = 0; e < K * K; e++)
        if (s.has(e / K, e % K))
            s.x[e / K][e % K] =
                load<T, V>(a.x, input_at(a, o, 0, e / K, e % K, V));
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(T) == 2 && sizeof(W) == 1 && V % 2 == 0)
        if (write_twos(a, s))
            return;
#endif
#pragma unroll
    for (int e = 0; e < K * K; e++)
        if (s.has(e / K, e % K))
            found.look(s.x[e / K][e % K], e);
    found.write(a);
}

// What the sum under a window is divided by: padding is what lies outside the whole
// input.
__device__ static inline float divisor(const pooling &a, const int *o)
{
    int n = 1;
    for (int i = 0; i < TT_CUDA_SPACE; i++) {
        const dimension &d = a.d[i];
        int inside = d.kernel;
        if (!a.count_pad) {
            inside = 0;
            for (int k = 0; k < d.kernel; k++) {
                const int at =
                    o[i] * d.stride - d.pad + k * d.dilation + d.origin;
                inside += at >= 0 && at < d.whole_in;
            }
        }
        n *= inside;
    }
    return n == 0 ? 1.f : (float)n;
}

template <typename T, int V> __global__ void avg_forward(pooling a)
{
    pixel o;
    if (!place(a, &dimension::out, &o))
        return;
    const box b = window_of(a, o);
    float sum[V] = {};
    for (int i = b.lo[0]; i < b.hi[0]; i++)
        for (int j = b.lo[1]; j < b.hi[1]; j++)
#pragma unroll 3
            for (int k = b.lo[2]; k < b.hi[2]; k++) {
                const slice<T, V> x =
                    load<T, V>(a.x, input_at(a, o, i, j, k, V));
                for (int v = 0; v < V; v++)
                    sum[v] += to_float(x.v[v]);
            }
    const float by = divisor(a, o.at);
    slice<T, V> y;
    for (int v = 0; v < V; v++)
        y.v[v] = from_float<T>(sum[v] / by);
    store(a.y, own_place(V), y);
}

// The outputs whose windows may reach an input.
__device__ static inline box outputs_of(const pooling &a, const pixel &x)
{
    box b;
#pragma unroll
    for (int i = 0; i < TT_CUDA_SPACE; i++) {
        const dimension &d = a.d[i];
        const int at = x.at[i] + d.pad, reach = (d.kernel - 1) * d.dilation;
        b.lo[i] = at <= reach ? 0 : (at - reach + d.stride - 1) / d.stride;
        b.hi[i] = at < 0 ? 0 : min(at / d.stride + 1, d.out);
    }
    return b;
}

// The entry of output o's window that is input x; -1: none.
__device__ static inline int entry_at(const dimension &d, int x, int o)
{
    const int from = x + d.pad - o * d.stride;
    if (d.dilation == 1)
        return from;
    return from % d.dilation == 0 ? from / d.dilation : -1;
}

template <typename T, typename W, int V, bool IS_MAX>
__device__ static inline void add_output(const pooling &a, const pixel &x,
                                         const int *o, float *sum)
{
    int entry[TT_CUDA_SPACE];
#pragma unroll
    for (int i = 0; i < TT_CUDA_SPACE; i++) {
        entry[i] = entry_at(a.d[i], x.at[i], o[i]);
        if (entry[i] < 0)
            return;
    }
    const int64_t from = place_of(a, &dimension::out, x, o, V);
    const slice<T, V> dy = load<T, V>(a.x, from);
    const W e = (W)entry_of(a, entry[0], entry[1], entry[2]);
    const float by = IS_MAX ? 1.f : divisor(a, o);
    slice<W, V> w;
    if (IS_MAX)
        w = load<W, V>(a.where, from);
    for (int v = 0; v < V; v++)
        if (!IS_MAX || w.v[v] == e)
            sum[v] += IS_MAX ? to_float(dy.v[v]) : to_float(dy.v[v]) / by;
}

template <typename T, typename W, int V, bool IS_MAX>
__global__ void grad(pooling a)
{
    pixel x;
    if (!place(a, &dimension::in, &x))
        return;
    const box b = outputs_of(a, x);
    float sum[V] = {};
    // From the last output on, so that sums are in the order of the window's entries.
    for (int i = b.hi[0] - 1; i >= b.lo[0]; i--)
        for (int j = b.hi[1] - 1; j >= b.lo[1]; j--)
#pragma unroll 2
            for (int k = b.hi[2] - 1; k >= b.lo[2]; k--) {
                const int o[TT_CUDA_SPACE] = {i, j, k};
                add_output<T, W, V, IS_MAX>(a, x, o, sum);
            }
    slice<T, V> dx;
    for (int v = 0; v < V; v++)
        dx.v[v] = from_float<T>(sum[v]);
    store(a.y, own_place(V), dx);
}

// ---- two dims by two -------------------------------------------------------

// The gradient of windows that move by two in both dims, without dilation and at most
// 2 N wide: a thread has the four inputs that the same N * N windows may reach, whose
// gradients it reads once.
template <typename T, typename W, int V, int N>
__global__ void max_grad_twos(pooling a)
{
    pixel q;
    if (!place(a, &dimension::twos, &q))
        return;
    float sum[2][2][V] = {};
    const int pad[2] = {a.d[1].pad, a.d[2].pad};
    // From the last window on, in the order of a window's entries.
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int j = 0; j < N; j++) {
            const int o[TT_CUDA_SPACE] = {0, q.at[1] - i, q.at[2] - j};
            if (o[1] < 0 || o[2] < 0 || o[1] >= a.d[1].out ||
                o[2] >= a.d[2].out)
                continue;
            const int64_t from = place_of(a, &dimension::out, q, o, V);
            const slice<T, V> dy = load<T, V>(a.x, from);
            const slice<W, V> w = load<W, V>(a.where, from);
#pragma unroll
            for (int r = 0; r < 2; r++)
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const int y = 2 * i + r, x = 2 * j + c;
                    const W e = (W)(y * a.d[2].kernel + x);
                    if (y >= a.d[1].kernel || x >= a.d[2].kernel)
                        continue;
                    for (int v = 0; v < V; v++)
                        sum[r][c][v] += w.v[v] == e ? to_float(dy.v[v]) : 0.f;
                }
        }
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const int at[TT_CUDA_SPACE] = {0, 2 * q.at[1] + r - pad[0],
                                           2 * q.at[2] + c - pad[1]};
            if (at[1] < 0 || at[2] < 0 || at[1] >= a.d[1].in ||
                at[2] >= a.d[2].in)
                continue;
            slice<T, V> dx;
            for (int v = 0; v < V; v++)
                dx.v[v] = from_float<T>(sum[r][c][v]);
            store(a.y, place_of(a, &dimension::in, q, at, V), dx);
        }
}

// ---- launching -------------------------------------------------------------

enum kind { MAX, MAX_GRAD, AVG, AVG_GRAD };

static bool is_back(kind what)
{
    return what == MAX_GRAD || what == AVG_GRAD;
}

// Whether windows are squares of that size.
static bool is_square(const tt_cuda_pool_args *a, int k)
{
    const tt_cuda_slide *s = a->slide;
    return s[0].in == 1 && s[0].out == 1 && s[0].kernel == 1 && s[0].pad == 0 &&
           s[1].kernel == k && s[2].kernel == k;
}

static bool goes_by_twos(const tt_cuda_pool_args *a, kind what)
{
    const tt_cuda_slide *s = a->slide;
    bool fits = what == MAX_GRAD && s[0].in == 1 && s[0].out == 1 &&
                s[0].kernel == 1 && s[0].pad == 0;
    for (int i = 1; i < TT_CUDA_SPACE; i++)
        fits = fits && s[i].stride == 2 && s[i].dilation == 1 &&
               s[i].kernel >= 2 && s[i].kernel <= 4 && s[i].pad >= 0;
    return fits;
}

template <typename T, typename W, int V>
static const char *launch(tt_cuda *cuda, const tt_cuda_pool_args *a, kind what)
{
    const pooling p = describe(a, V);
    const bool by_twos = goes_by_twos(a, what);
    const bool is_small = a->slide[1].kernel == 2 && a->slide[2].kernel == 2;
    const int64_t twos =
        (int64_t)p.packs * p.d[0].twos * p.d[1].twos * p.d[2].twos;
    const int64_t each = by_twos ? twos : (is_back(what) ? p.in : p.out) / V;
    const auto kernel =
        by_twos
            ? (is_small ? max_grad_twos<T, W, V, 1> : max_grad_twos<T, W, V, 2>)
        : what == MAX && is_square(a, 2) ? max_forward_square<T, W, V, 2>
        : what == MAX && is_square(a, 3) ? max_forward_square<T, W, V, 3>
        : what == MAX                    ? max_forward<T, W, V>
        : what == MAX_GRAD               ? grad<T, W, V, true>
        : what == AVG                    ? avg_forward<T, V>
                                         : grad<T, W, V, false>;
    return over_images<T, W>(cuda, a, is_back(what), each, p, kernel);
}

template <typename T>
static const char *pool_type(tt_cuda *cuda, const tt_cuda_pool_args *a,
                             kind what)
{
    enum { V = pack<T>::N };
    if (a->where_type == TT_I32)
        return launch<T, int32_t, 1>(cuda, a, what);
    return is_wide(a, V) ? launch<T, uint8_t, V>(cuda, a, what)
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
