// batch_norm - statistics of channels over rows, and functions of elements with a few
// numbers per channel. Rows are [n * points], columns the channels.
//
// A thread owns a column of one pack of channels and walks down tiles of rows, a few
// rows at a time: their loads, of 16 bytes each, are all under way before the first is
// used. The grid is one wave of blocks, which take tiles in turn. Sums of blocks are
// added up by a small kernel, in double and in a fixed order; it also leaves what the
// second pass needs per channel. That pass walks up, from the rows that the first has
// left in the L2 cache.
//
// Bound by memory bandwidth: forward reads x twice and writes y, backward reads x, dy
// and y (for the activation's mask) twice and writes dx; where the residual has a
// gradient too, it is the masked dy, written by the first pass and read by the second
// instead of dy and y.

#include "backend/cuda/dev/batch_norm.cuh"
#include "backend/cuda/dev/slice.cuh"

enum { THREADS = 256, RESIDENT = 3, BLOCKS = 132 * RESIDENT };

// ---- shapes ----------------------------------------------------------------

// How a grid covers groups of rows: blocks of tx packs of channels times THREADS / tx
// rows.
struct cover {
    int tx;
    int64_t columns, chunks; // blocks across channels, and along rows
};

static bool is_wide(const tt_cuda_bn_args *a, int v)
{
    return a->channels % v == 0 && is_aligned(a->x) && is_aligned(a->dy) &&
           is_aligned(a->residual) && is_aligned(a->mask) &&
           is_aligned(a->y) && is_aligned(a->d_residual);
}

static cover cover_of(const tt_cuda_bn_args *a, int v)
{
    cover c = {1, 1, 1};
    const int64_t packs = ceil_div(a->channels, v);
    while (c.tx < 32 && c.tx < packs)
        c.tx *= 2;
    c.columns = ceil_div(packs, c.tx);
    const int64_t rows = a->samples * a->points;
    const int64_t most = ceil_div(rows, THREADS / c.tx * 4);
    c.chunks = BLOCKS / (c.columns * a->groups);
    c.chunks = c.chunks > most ? most : c.chunks;
    c.chunks = c.chunks < 1 ? 1 : c.chunks;
    return c;
}

// Rows of a group here, [first, end).
struct span {
    int64_t first, end;
};

__device__ static inline span span_of(const tt_cuda_bn_args &a, int64_t group)
{
    const int64_t lo = group * a.samples - a.before, hi = lo + a.samples;
    const span s = {max(lo, (int64_t)0) * a.points, min(hi, a.n) * a.points};
    return s;
}

// Coefficient i of the channels from `col` on, as the kernels between the passes have
// left it.
template <int V>
__device__ static inline void coefficients(const tt_cuda_bn_args &a,
                                           const float *coef, int i,
                                           int64_t col, float *out)
{
    const float *from = coef + ((int64_t)blockIdx.z * COEFS + i) * a.channels;
#pragma unroll
    for (int k = 0; k < V; k++)
        out[k] = from[col + k];
}

// ---- what is done to rows --------------------------------------------------

// Sums of x - shift and of its square.
template <typename E, int N> struct moments {
    typedef E T;
    enum { V = N, AT_ONCE = 8, IS_UPWARDS = false };
    struct in {
        slice<T, V> x;
    };
    float sum[2][V], shift[V];

    __device__ void begin(const tt_cuda_bn_args &a, const float *, int64_t col)
    {
        for (int k = 0; k < V; k++)
            shift[k] = a.shift[col + k];
    }
    __device__ in load_row(const tt_cuda_bn_args &a, int64_t at) const
    {
        return {load<T, V>(a.x, at)};
    }
    __device__ void use(const tt_cuda_bn_args &, int64_t, const in &i)
    {
        float x[V];
        unpack(i.x, x);
#pragma unroll
        for (int k = 0; k < V; k++) {
            const float d = x[k] - shift[k];
            sum[0][k] += d;
            sum[1][k] += d * d;
        }
    }
};

// x and dy, and y where there is an activation.
template <typename T, int V, bool HAS_MASK> struct grad_in {
    slice<T, V> x, dy, y;

    __device__ static grad_in of(const tt_cuda_bn_args &a, int64_t at)
    {
        grad_in i;
        i.x = load<T, V>(a.x, at);
        i.dy = load<T, V>(a.dy, at);
        if (HAS_MASK)
            i.y = load<T, V>(a.mask, at);
        return i;
    }
    // dz: dy where y > 0.
    __device__ slice<T, V> masked() const
    {
        slice<T, V> dz = dy;
        if (HAS_MASK)
            dz = where_above<false>(dy, y);
        return dz;
    }
};

// Sums of dz * (x - mean) and of dz; dz to d_residual where that is wanted.
template <typename E, int N, bool HAS_MASK, bool KEEPS> struct grads {
    typedef E T;
    enum { V = N, AT_ONCE = HAS_MASK ? 3 : 4, IS_UPWARDS = false };
    typedef grad_in<T, V, HAS_MASK> in;
    float sum[2][V], mean[V];

    __device__ void begin(const tt_cuda_bn_args &a, const float *, int64_t col)
    {
        const int64_t row = a.is_frozen ? 0 : a.first_row + blockIdx.z;
        for (int k = 0; k < V; k++)
            mean[k] = a.mean_in[row * a.channels + col + k];
    }
    __device__ in load_row(const tt_cuda_bn_args &a, int64_t at) const
    {
        return in::of(a, at);
    }
    __device__ void use(const tt_cuda_bn_args &a, int64_t at, const in &i)
    {
        const slice<T, V> dz = i.masked();
        float x[V], d[V];
        if (KEEPS)
            store(a.d_residual, at, dz);
        unpack(i.x, x);
        unpack(dz, d);
#pragma unroll
        for (int k = 0; k < V; k++) {
            sum[0][k] += d[k] * (x[k] - mean[k]);
            sum[1][k] += d[k];
        }
    }
};

// dz = dy where y > 0, and its sums, the second ones.
template <typename E, int N> struct masks {
    typedef E T;
    enum { V = N, AT_ONCE = 4, IS_UPWARDS = false };
    struct in {
        slice<T, V> dy, y;
    };
    float sum[2][V];

    __device__ void begin(const tt_cuda_bn_args &, const float *, int64_t) {}
    __device__ in load_row(const tt_cuda_bn_args &a, int64_t at) const
    {
        return {load<T, V>(a.dy, at), load<T, V>(a.mask, at)};
    }
    __device__ void use(const tt_cuda_bn_args &a, int64_t at, const in &i)
    {
        const slice<T, V> dz = where_above<true>(i.dy, i.y);
        float d[V];
        store(a.d_residual, at, dz);
        unpack(dz, d);
#pragma unroll
        for (int k = 0; k < V; k++)
            sum[1][k] += d[k];
    }
};

// y = activation((x - mean) by + beta + residual)
template <typename E, int N, bool HAS_RESIDUAL> struct normalise {
    typedef E T;
    enum { V = N, AT_ONCE = HAS_RESIDUAL ? 4 : 6, IS_UPWARDS = true };
    struct in {
        slice<T, V> x, more;
    };
    float mean[V], by[V], beta[V];

    __device__ void begin(const tt_cuda_bn_args &a, const float *coef,
                          int64_t col)
    {
        coefficients<V>(a, coef, 0, col, mean);
        coefficients<V>(a, coef, 1, col, by);
        coefficients<V>(a, coef, 2, col, beta);
    }
    __device__ in load_row(const tt_cuda_bn_args &a, int64_t at) const
    {
        in i;
        i.x = load<T, V>(a.x, at);
        if (HAS_RESIDUAL)
            i.more = load<T, V>(a.residual, at);
        return i;
    }
    __device__ void use(const tt_cuda_bn_args &a, int64_t at, const in &i)
    {
        float x[V], more[V];
        unpack(i.x, x);
        if (HAS_RESIDUAL)
            unpack(i.more, more);
#pragma unroll
        for (int k = 0; k < V; k++) {
            x[k] = (x[k] - mean[k]) * by[k] + beta[k];
            if (HAS_RESIDUAL)
                x[k] += more[k];
            if (a.has_relu && x[k] <= 0)
                x[k] = 0;
        }
        store(a.y, at, sliced<T, V>(x));
    }
};

// dx = gamma rstd (dz - (dbeta + xhat dgamma) / count) = u dz + v x + w; dz to
// d_residual where that is wanted.
template <typename E, int N, bool HAS_MASK, bool KEEPS> struct send_back {
    typedef E T;
    enum { V = N, AT_ONCE = HAS_MASK ? 3 : 4, IS_UPWARDS = true };
    typedef grad_in<T, V, HAS_MASK> in;
    float u[V], v[V], w[V];

    __device__ void begin(const tt_cuda_bn_args &a, const float *coef,
                          int64_t col)
    {
        coefficients<V>(a, coef, 0, col, u);
        coefficients<V>(a, coef, 1, col, v);
        coefficients<V>(a, coef, 2, col, w);
    }
    __device__ in load_row(const tt_cuda_bn_args &a, int64_t at) const
    {
        return in::of(a, at);
    }
    __device__ void use(const tt_cuda_bn_args &a, int64_t at, const in &i)
    {
        const slice<T, V> dz = i.masked();
        float x[V], d[V];
        unpack(i.x, x);
        unpack(dz, d);
#pragma unroll
        for (int k = 0; k < V; k++)
            x[k] = u[k] * d[k] + v[k] * x[k] + w[k];
        if (KEEPS)
            store(a.d_residual, at, dz);
        store(a.y, at, sliced<T, V>(x));
    }
};

// ---- walking ---------------------------------------------------------------

// Adds a thread's sums to those of the block's other rows and writes the block's to
// partial[group, chunk, 2, channels].
template <int V>
__device__ static void write_sums(const tt_cuda_bn_args &a, int tx,
                                  float (*sum)[V], float *partial)
{
    enum { WARPS = THREADS / 32 };
    __shared__ float room[WARPS][2 * V * 32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int k = 0; k < V; k++) {
            float all = sum[i][k];
            for (int by = tx; by < 32; by *= 2)
                all += __shfl_xor_sync(0xffffffffu, all, by);
            if (lane < tx)
                room[warp][(i * tx + lane) * V + k] = all;
        }
    __syncthreads();
    const int64_t first = (int64_t)blockIdx.x * tx * V;
    float *to = partial + (blockIdx.z * (int64_t)gridDim.y + blockIdx.y) * 2 *
                              a.channels;
    for (int e = threadIdx.x; e < 2 * tx * V; e += THREADS) {
        float all = 0;
#pragma unroll
        for (int r = 0; r < WARPS; r++)
            all += room[r][e];
        const int i = e / (tx * V), c = e - i * tx * V;
        if (first + c < a.channels)
            to[i * a.channels + first + c] = all;
    }
}

// Blocks take tiles of rows in turn, so that the whole grid is at one place of memory
// at a time: far apart they would meet in the same channels.
template <typename F>
__device__ static inline void walk_rows(const tt_cuda_bn_args &a, F &f, int tx,
                                        int64_t col)
{
    enum { N = F::AT_ONCE };
    const span s = span_of(a, blockIdx.z);
    const int64_t step = THREADS / tx, rows = s.end - s.first;
    const int64_t tiles = (rows + N * step - 1) / (N * step);
    const int64_t next = step * a.channels;
    for (int64_t t = blockIdx.y; t < tiles; t += gridDim.y) {
        const int64_t first =
            (F::IS_UPWARDS ? tiles - 1 - t : t) * N * step + threadIdx.x / tx;
        const int64_t at = (s.first + first) * a.channels + col;
        if (first + (N - 1) * step < rows) {
            typename F::in in[N];
#pragma unroll
            for (int i = 0; i < N; i++)
                in[i] = f.load_row(a, at + i * next);
#pragma unroll
            for (int i = 0; i < N; i++)
                f.use(a, at + i * next, in[i]);
            continue;
        }
        for (int i = 0; i < N && first + i * step < rows; i++)
            f.use(a, at + i * next, f.load_row(a, at + i * next));
    }
}

template <typename F> __device__ static inline void clear(F &f)
{
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < F::V; k++)
            f.sum[i][k] = 0;
}

template <typename F>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    sum_pass(tt_cuda_bn_args a, int tx, float *partial)
{
    const int64_t col = (blockIdx.x * (int64_t)tx + threadIdx.x % tx) * F::V;
    F f;
    clear(f);
    if (col < a.channels) {
        f.begin(a, NULL, col);
        walk_rows(a, f, tx, col);
    }
    write_sums<F::V>(a, tx, f.sum, partial);
}

template <typename F>
__global__ void __launch_bounds__(THREADS, RESIDENT)
    map_pass(tt_cuda_bn_args a, int tx, const float *coef)
{
    const int64_t col = (blockIdx.x * (int64_t)tx + threadIdx.x % tx) * F::V;
    F f;
    if (col >= a.channels)
        return;
    f.begin(a, coef, col);
    walk_rows(a, f, tx, col);
}

// ---- launching -------------------------------------------------------------

// Sums of chunks, then the pair that backward keeps, then coefficients.
static int64_t sums_of(const tt_cuda_bn_args *a)
{
    const int v = is_low(a->type) ? 8 : 4;
    const int64_t wide = cover_of(a, v).chunks, narrow = cover_of(a, 1).chunks;
    return 2 * a->channels * a->groups * (wide > narrow ? wide : narrow);
}

static float *own_pair(const tt_cuda_bn_args *a)
{
    return (float *)a->scratch + sums_of(a);
}

static float *own_coef(const tt_cuda_bn_args *a)
{
    return own_pair(a) + 2 * a->rows * a->channels;
}

extern "C" int64_t tt_cuda_bn_scratch(const tt_cuda_bn_args *a)
{
    return 4 * (sums_of(a) + (2 * a->rows + COEFS * a->groups) * a->channels);
}

enum pass { // sums first
    MOMENTS,
    GRADS,
    MASKS,
    NORMALISE,
    SEND_BACK,
    SEND_MASKED,
};

template <typename T, int V>
static const char *launch_sums(tt_cuda *cuda, const tt_cuda_bn_args *a, pass p,
                               const cover &c)
{
    const dim3 grid((unsigned)c.columns, (unsigned)c.chunks,
                    (unsigned)a->groups);
    const bool has_mask = a->mask != NULL, keeps = a->d_residual != NULL;
    const auto kernel = p == MOMENTS ? sum_pass<moments<T, V>>
                        : p == MASKS ? sum_pass<masks<T, V>>
                        : has_mask
                            ? (keeps ? sum_pass<grads<T, V, true, true>>
                                     : sum_pass<grads<T, V, true, false>>)
                            : (keeps ? sum_pass<grads<T, V, false, true>>
                                     : sum_pass<grads<T, V, false, false>>);
    kernel<<<grid, THREADS, 0, cuda->stream>>>(*a, c.tx, (float *)a->scratch);
    return launched();
}

template <typename T, int V>
static const char *launch_map(tt_cuda *cuda, const tt_cuda_bn_args *a, pass p,
                              const cover &c)
{
    const dim3 grid((unsigned)c.columns, (unsigned)c.chunks,
                    (unsigned)a->groups);
    tt_cuda_bn_args b = *a;
    if (p == SEND_MASKED) {
        b.dy = a->d_residual;
        b.mask = NULL;
        b.d_residual = NULL;
    }
    const bool has_mask = b.mask != NULL, keeps = b.d_residual != NULL;
    const auto kernel =
        p == NORMALISE ? (a->residual != NULL ? map_pass<normalise<T, V, true>>
                                              : map_pass<normalise<T, V, false>>)
        : has_mask ? (keeps ? map_pass<send_back<T, V, true, true>>
                            : map_pass<send_back<T, V, true, false>>)
                   : (keeps ? map_pass<send_back<T, V, false, true>>
                            : map_pass<send_back<T, V, false, false>>);
    kernel<<<grid, THREADS, 0, cuda->stream>>>(b, c.tx, own_coef(a));
    return launched();
}

template <typename T, int V>
static const char *launch(tt_cuda *cuda, const tt_cuda_bn_args *a, pass p,
                          const cover &c)
{
    return p <= MASKS ? launch_sums<T, V>(cuda, a, p, c)
                      : launch_map<T, V>(cuda, a, p, c);
}

template <typename T>
static const char *walk_type(tt_cuda *cuda, const tt_cuda_bn_args *a, pass p,
                             int64_t *chunks_out)
{
    enum { V = pack<T>::N };
    const bool wide = is_wide(a, V);
    const cover c = cover_of(a, wide ? (int)V : 1);
    *chunks_out = c.chunks;
    return wide ? launch<T, V>(cuda, a, p, c) : launch<T, 1>(cuda, a, p, c);
}

static const char *walk(tt_cuda *cuda, const tt_cuda_bn_args *a, pass p,
                        int64_t *chunks_out)
{
    return BY_TYPE(a->type, walk_type, cuda, a, p, chunks_out);
}

extern "C" const char *tt_cuda_bn_train(tt_cuda *cuda,
                                        const tt_cuda_bn_args *args)
{
    tt_cuda_bn_args a = *args;
    int64_t chunks = 0;
    if (a.is_frozen) {
        TRY(tt_bn_use_running(cuda, &a, own_coef(&a)));
    } else {
        if (a.pair_in == NULL)
            TRY(walk(cuda, &a, MOMENTS, &chunks));
        TRY(tt_bn_finish_statistics(cuda, &a, chunks, own_coef(&a)));
    }
    return walk(cuda, &a, NORMALISE, &chunks);
}

extern "C" const char *tt_cuda_bn_sums(tt_cuda *cuda,
                                       const tt_cuda_bn_args *args)
{
    int64_t chunks = 0;
    TRY(walk(cuda, args, args->dy == NULL ? MOMENTS : GRADS, &chunks));
    return tt_bn_finish_pair(cuda, args, chunks, NULL);
}

extern "C" const char *tt_cuda_bn_grad(tt_cuda *cuda,
                                       const tt_cuda_bn_args *args)
{
    tt_cuda_bn_args a = *args;
    int64_t chunks = 0;
    const bool has_sums = a.pair_in != NULL;
    if (has_sums) {
        TRY(tt_bn_use_pair(cuda, &a, own_coef(&a)));
    } else {
        a.pair = own_pair(&a);
        TRY(walk(cuda, &a, GRADS, &chunks));
        TRY(tt_bn_finish_pair(cuda, &a, chunks, own_coef(&a)));
    }
    const bool is_masked = !has_sums && a.d_residual != NULL;
    return walk(cuda, &a, is_masked ? SEND_MASKED : SEND_BACK, &chunks);
}

// The gradient of an activation, with its sums: dbeta.
extern "C" const char *tt_cuda_relu_grad_bias(tt_cuda *cuda,
                                              const tt_cuda_bn_args *args)
{
    tt_cuda_bn_args a = *args;
    int64_t chunks = 0;
    a.pair = own_pair(&a);
    TRY(walk(cuda, &a, MASKS, &chunks));
    return tt_bn_finish_pair(cuda, &a, chunks, NULL);
}
