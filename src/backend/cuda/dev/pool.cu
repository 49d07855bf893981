// pool - pooling of images whose channels lie together, and its gradients. A thread
// owns a pack of channels of one pixel of the result and gathers what belongs to it, so
// nothing is added by two threads. Bound by memory bandwidth: neighbouring windows
// overlap in the caches. Places within an image are 32-bit numbers, which divide
// several times faster than those of 64 bits.

#include "backend/cuda/dev/common.cuh"

enum { THREADS = 256, MOST = 1 << 30 }; // threads of a launch

template <typename T, int V> struct alignas(sizeof(T) * V) slice {
    T v[V];
};

template <typename T, int V>
__device__ static inline slice<T, V> load(const void *p, int64_t at)
{
    return *(const slice<T, V> *)((const T *)p + at);
}

// As tt_cuda_slide.
struct dimension {
    int in, out, kernel, stride, dilation, pad, origin, whole_in;
    int twos; // pairs of inputs, counted from the padding on
};

struct pooling {
    dimension d[TT_CUDA_SPACE];
    int threads, packs;
    int64_t in, out; // elements of an image
    bool count_pad;
    const void *x; // or dy
    void *y;       // or dx
    void *where;
};

struct pixel {
    int n, at[TT_CUDA_SPACE], pack;
};

// The work of a thread; false: none.
__device__ static inline bool place(const pooling &a, int dimension::*of,
                                    pixel *p)
{
    int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i >= a.threads)
        return false;
    int next = i / a.packs;
    p->pack = i - next * a.packs;
    i = next;
#pragma unroll
    for (int k = TT_CUDA_SPACE - 1; k >= 0; k--) {
        const int extent = a.d[k].*of;
        next = i / extent;
        p->at[k] = i - next * extent;
        i = next;
    }
    p->n = i;
    return true;
}

// Where the result of the thread's pixel lies.
__device__ static inline int64_t own_place(int v)
{
    return (blockIdx.x * (int64_t)THREADS + threadIdx.x) * v;
}

// Where the pack of a pixel lies: of input or output.
__device__ static inline int64_t place_of(const pooling &a, int dimension::*of,
                                          const pixel &p, const int *at, int v)
{
    const int64_t image = of == &dimension::in ? a.in : a.out;
    const int pixels =
        (at[0] * (a.d[1].*of) + at[1]) * (a.d[2].*of) + at[2];
    return p.n * image + (int64_t)(pixels * a.packs + p.pack) * v;
}

// What a thread looks at: [lo, hi) per dimension.
struct box {
    int lo[TT_CUDA_SPACE], hi[TT_CUDA_SPACE];
};

// The entries of the window of an output that exist.
__device__ static inline box window_of(const pooling &a, const pixel &o)
{
    box b;
#pragma unroll
    for (int i = 0; i < TT_CUDA_SPACE; i++) {
        const dimension &d = a.d[i];
        const int first = o.at[i] * d.stride - d.pad;
        b.lo[i] = first >= 0 ? 0 : (-first + d.dilation - 1) / d.dilation;
        b.hi[i] = first >= d.in ? 0
                                : min(d.kernel, (d.in - first + d.dilation - 1) /
                                                    d.dilation);
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
        at[d] = o.at[d] * a.d[d].stride - a.d[d].pad +
                entry[d] * a.d[d].dilation;
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
            if (where[v] < 0 || f > best[v] ||
                (f != f && best[v] == best[v])) {
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
        *(slice<T, V> *)((T *)a.y + own_place(V)) = y;
        *(slice<W, V> *)((W *)a.where + own_place(V)) = w;
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

// Windows of K by K, whose loads are all under way before the first is looked at.
template <typename T, typename W, int V, int K>
__global__ void max_forward_square(pooling a)
{
    pixel o;
    if (!place(a, &dimension::out, &o))
        return;
    const box b = window_of(a, o);
    slice<T, V> x[K][K];
    largest<T, W, V> found;
#pragma unroll
    for (int j = 0; j < K; j++)
#pragma unroll
        for (int k = 0; k < K; k++)
            if (j >= b.lo[1] && j < b.hi[1] && k >= b.lo[2] && k < b.hi[2])
                x[j][k] = load<T, V>(a.x, input_at(a, o, 0, j, k, V));
#pragma unroll
    for (int j = 0; j < K; j++)
#pragma unroll
        for (int k = 0; k < K; k++)
            if (j >= b.lo[1] && j < b.hi[1] && k >= b.lo[2] && k < b.hi[2])
                found.look(x[j][k], j * K + k);
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
    *(slice<T, V> *)((T *)a.y + own_place(V)) = y;
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
    *(slice<T, V> *)((T *)a.y + own_place(V)) = dx;
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
                        sum[r][c][v] +=
                            w.v[v] == e ? to_float(dy.v[v]) : 0.f;
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
            *(slice<T, V> *)((T *)a.y +
                             place_of(a, &dimension::in, q, at, V)) = dx;
        }
}

// ---- adaptive --------------------------------------------------------------

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
                const float points =
                    IS_BACK ? outer * points_of(a.d[2], k) : 1;
                const slice<T, V> x = load<T, V>(
                    a.x, place_of(a, IS_BACK ? &dimension::out : &dimension::in,
                                  p, other, V));
                for (int v = 0; v < V; v++)
                    sum[v] += IS_BACK ? to_float(x.v[v]) / points
                                      : to_float(x.v[v]);
            }
        }
    slice<T, V> y;
    for (int v = 0; v < V; v++)
        y.v[v] = from_float<T>(sum[v] / own);
    *(slice<T, V> *)((T *)a.y + own_place(V)) = y;
}

// ---- launching -------------------------------------------------------------

enum kind { MAX, MAX_GRAD, AVG, AVG_GRAD, ADAPTIVE, ADAPTIVE_GRAD };

static bool is_back(kind what)
{
    return what == MAX_GRAD || what == AVG_GRAD || what == ADAPTIVE_GRAD;
}

// Whether windows are squares of that size.
static bool is_square(const tt_cuda_pool_args *a, int k)
{
    const tt_cuda_slide *s = a->slide;
    return s[0].in == 1 && s[0].out == 1 && s[0].kernel == 1 && s[0].pad == 0 &&
           s[1].kernel == k && s[2].kernel == k;
}

// Everything but threads and addresses; those of a result's image.
static int64_t describe(const tt_cuda_pool_args *a, int v, kind what,
                        pooling *p)
{
    p->packs = (int)(a->channels / v);
    p->in = p->out = a->channels;
    p->count_pad = a->count_pad;
    for (int i = 0; i < TT_CUDA_SPACE; i++) {
        const tt_cuda_slide &s = a->slide[i];
        p->d[i] = {(int)s.in,       (int)s.out,    (int)s.kernel,
                   (int)s.stride,   (int)s.dilation, (int)s.pad,
                   (int)s.origin,   (int)s.whole_in,
                   (int)(s.in + s.pad + 1) / 2};
        p->in *= s.in;
        p->out *= s.out;
    }
    return (is_back(what) ? p->in : p->out) / v;
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
    pooling p = {};
    int64_t each = describe(a, V, what, &p);
    if (p.in / V > MOST || p.out / V > MOST)
        return tt_cuda_failed_text("an image is too large for pooling");
    const bool by_twos = goes_by_twos(a, what);
    const bool is_small = a->slide[1].kernel == 2 && a->slide[2].kernel == 2;
    if (by_twos)
        each = (int64_t)p.packs * p.d[0].twos * p.d[1].twos * p.d[2].twos;
    const int64_t at_once = MOST / each;
    const auto kernel = by_twos ? (is_small ? max_grad_twos<T, W, V, 1>
                                            : max_grad_twos<T, W, V, 2>)
                        : what == MAX && is_square(a, 2)
                            ? max_forward_square<T, W, V, 2>
                        : what == MAX && is_square(a, 3)
                            ? max_forward_square<T, W, V, 3>
                        : what == MAX      ? max_forward<T, W, V>
                        : what == MAX_GRAD ? grad<T, W, V, true>
                        : what == AVG      ? avg_forward<T, V>
                        : what == AVG_GRAD ? grad<T, W, V, false>
                        : what == ADAPTIVE ? adaptive<T, V, false>
                                           : adaptive<T, V, true>;
    for (int64_t first = 0; first < a->n; first += at_once) {
        const int64_t n = a->n - first < at_once ? a->n - first : at_once;
        p.threads = (int)(n * each);
        p.x = (const T *)a->x + first * (is_back(what) ? p.out : p.in);
        p.y = (T *)a->y + first * (is_back(what) ? p.in : p.out);
        p.where = (W *)a->where + first * p.out;
        kernel<<<(unsigned)ceil_div(p.threads, THREADS), THREADS, 0,
                 cuda->stream>>>(p);
        TRY(launched());
    }
    return NULL;
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
