// batch_norm - batch norm and its gradient, with ReLU and a residual fused. The images
// are a matrix: rows are pixels [n * points], columns are channels.
//
//   first pass     down the rows: sums for each channel       batch_norm_rows.cuh
//   between        sums of blocks -> statistics, coefficients batch_norm_finish.cu
//   second pass    up the rows: y, or dx, from coefficients   batch_norm_second.cuh
//
// A thread owns one pack of channels (16 bytes) and walks over tiles of rows, a few
// rows at a time. The loads of these rows are all in flight before the first is used.
// The grid is one wave of blocks, which take tiles in turn. The second pass walks the
// other way: it begins with the rows that the first has left in the L2 cache. Sums of
// blocks are added by the small kernel in between, in double and in a fixed order.
//
// Bound by memory bandwidth. Forward reads x twice and writes y; backward reads x and
// dy twice and writes dx. With ReLU the first pass backward also reads y for its mask,
// and leaves a bit for each element (marks), so that the second need not read y (3.62
// to 3.30 ms over 33 layers). Where the residual needs a gradient, that is the masked
// dy: the first pass writes it, and the second reads it instead of dy.
//
// Over ResNet-50's layers on an H200 these bytes go at 78 to 93% of a copy's rate
// forward and 91 to 97% backward. Stores of whole 16 bytes (store_whole) and masks by
// pairs of 16-bit numbers made that of 33 to 43%. The order of rows, cache hints and
// the number of threads made no difference.

#include "backend/cuda/dev/norm/batch_norm_second.cuh"

enum { THREADS = 512, MULTIPROCESSORS = 132 };

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
           is_aligned(a->residual) && is_aligned(a->mask) && is_aligned(a->y) &&
           is_aligned(a->d_residual);
}

static cover cover_of(const tt_cuda_bn_args *a, int v, int resident)
{
    cover c = {1, 1, 1};
    const int64_t packs = ceil_div(a->channels, v);
    while (c.tx < 32 && c.tx < packs)
        c.tx *= 2;
    c.columns = ceil_div(packs, c.tx);
    const int64_t rows = a->samples * a->points;
    const int64_t most = ceil_div(rows, THREADS / c.tx * 4);
    c.chunks = MULTIPROCESSORS * resident / (c.columns * a->groups);
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
    float *to = partial +
                (blockIdx.z * (int64_t)gridDim.y + blockIdx.y) * 2 * a.channels;
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

// Blocks take tiles of rows in turn.
template <typename F>
__device__ static inline void walk_rows(const tt_cuda_bn_args &a, F &f, int tx,
                                        int64_t col)
{
    enum { N = F::AT_ONCE };
    const span s = span_of(a, blockIdx.z);
    const int64_t step = THREADS / tx, rows = s.end - s.first;
    const int64_t tiles = (rows + N * step - 1) / (N * step);
    const int64_t next = step * a.channels;
    for (int64_t k = blockIdx.y; k < tiles; k += gridDim.y) {
        const int64_t t = F::IS_UPWARDS ? tiles - 1 - k : k;
        const int64_t first = t * N * step + threadIdx.x / tx;
        const int64_t at = (s.first + first) * a.channels + col;
        const int64_t place =
            ((blockIdx.z * a.tiles + t) * gridDim.x + blockIdx.x) * THREADS +
            threadIdx.x;
        f.begin_tile(a, place);
        if (first + (N - 1) * step < rows) {
            typename F::in in[N];
#pragma unroll
            for (int i = 0; i < N; i++)
                in[i] = f.load_row(a, at + i * next);
#pragma unroll
            for (int i = 0; i < N; i++)
                f.use(a, at + i * next, in[i], i);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++)
                if (first + i * step < rows)
                    f.use(a, at + i * next, f.load_row(a, at + i * next), i);
        }
        f.end_tile(a, place);
    }
}

template <typename F> __device__ static inline void clear(F &f)
{
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < F::V; k++)
            f.sum[i][k] = 0;
}

template <typename F>
__global__ void __launch_bounds__(THREADS, F::RESIDENT)
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
__global__ void __launch_bounds__(THREADS, F::RESIDENT)
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

// The scratch memory: sums of chunks, the pair that backward keeps, coefficients,
// marks.
static int64_t sums_of(const tt_cuda_bn_args *a)
{
    const int v = is_low(a->type) ? 8 : 4;
    const int64_t wide = cover_of(a, v, MORE).chunks;
    const int64_t narrow = cover_of(a, 1, MORE).chunks;
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

static uint32_t *own_marks(const tt_cuda_bn_args *a)
{
    return (uint32_t *)(own_coef(a) + COEFS * a->groups * a->channels);
}

// Tiles of a group, as passes with marks have them.
static int64_t tiles_of(const tt_cuda_bn_args *a, const cover &c)
{
    return ceil_div(a->samples * a->points, THREADS / c.tx * MARKED);
}

static bool has_marks(const tt_cuda_bn_args *a)
{
    return a->has_marks && is_low(a->type) && a->channels % 8 == 0;
}

static int64_t marks_of(const tt_cuda_bn_args *a)
{
    const cover c = cover_of(a, 8, FEW);
    return has_marks(a) ? a->groups * tiles_of(a, c) * c.columns * THREADS : 0;
}

extern "C" int64_t tt_cuda_bn_scratch(const tt_cuda_bn_args *a)
{
    return 4 * (sums_of(a) + (2 * a->rows + COEFS * a->groups) * a->channels +
                marks_of(a));
}

template <typename F>
static const char *sum(tt_cuda *cuda, const tt_cuda_bn_args *a,
                       int64_t *chunks_out)
{
    const cover c = cover_of(a, F::V, F::RESIDENT);
    const dim3 grid((unsigned)c.columns, (unsigned)c.chunks,
                    (unsigned)a->groups);
    *chunks_out = c.chunks;
    sum_pass<F>
        <<<grid, THREADS, 0, cuda->stream>>>(*a, c.tx, (float *)a->scratch);
    return launched();
}

template <typename F>
static const char *map(tt_cuda *cuda, const tt_cuda_bn_args *a)
{
    const cover c = cover_of(a, F::V, F::RESIDENT);
    const dim3 grid((unsigned)c.columns, (unsigned)c.chunks,
                    (unsigned)a->groups);
    map_pass<F><<<grid, THREADS, 0, cuda->stream>>>(*a, c.tx, own_coef(a));
    return launched();
}

// ---- operators -------------------------------------------------------------

// OP<T, V>::run, of packs where all tensors have them.
template <template <typename, int> class OP, typename T>
static const char *by_width(tt_cuda *cuda, const tt_cuda_bn_args *a)
{
    enum { V = pack<T>::N };
    return is_wide(a, V) ? OP<T, V>::run(cuda, *a) : OP<T, 1>::run(cuda, *a);
}

template <template <typename, int> class OP>
static const char *run(tt_cuda *cuda, const tt_cuda_bn_args *a)
{
    return a->type == TT_BF16  ? by_width<OP, bf16>(cuda, a)
           : a->type == TT_F16 ? by_width<OP, f16>(cuda, a)
                               : by_width<OP, float>(cuda, a);
}

template <typename T, int V> struct train {
    static const char *run(tt_cuda *cuda, const tt_cuda_bn_args &a)
    {
        int64_t chunks = 0;
        float *coef = own_coef(&a);
        if (a.is_frozen) {
            TRY(tt_cuda_bn_use_running(cuda, &a, coef));
        } else {
            if (a.pair_in == NULL)
                TRY((sum<moments<T, V>>(cuda, &a, &chunks)));
            TRY(tt_cuda_bn_finish_statistics(cuda, &a, chunks, coef));
        }
        return a.residual != NULL ? map<normalise<T, V, true>>(cuda, &a)
                                  : map<normalise<T, V, false>>(cuda, &a);
    }
};

template <typename T, int V>
static const char *sum_grads(tt_cuda *cuda, const tt_cuda_bn_args *a,
                             int64_t *chunks_out)
{
    const bool keeps = a->d_residual != NULL;
    if constexpr (V == 8)
        if (a->marks != NULL)
            return sum<grads<T, V, BY_MARKS, false>>(cuda, a, chunks_out);
    if (a->mask == NULL)
        return keeps ? sum<grads<T, V, ALL, true>>(cuda, a, chunks_out)
                     : sum<grads<T, V, ALL, false>>(cuda, a, chunks_out);
    return keeps ? sum<grads<T, V, BY_Y, true>>(cuda, a, chunks_out)
                 : sum<grads<T, V, BY_Y, false>>(cuda, a, chunks_out);
}

template <typename T, int V>
static const char *map_grads(tt_cuda *cuda, const tt_cuda_bn_args *a)
{
    const bool keeps = a->d_residual != NULL;
    if constexpr (V == 8)
        if (a->marks != NULL)
            return map<send_back<T, V, BY_MARKS, false>>(cuda, a);
    if (a->mask == NULL)
        return keeps ? map<send_back<T, V, ALL, true>>(cuda, a)
                     : map<send_back<T, V, ALL, false>>(cuda, a);
    return keeps ? map<send_back<T, V, BY_Y, true>>(cuda, a)
                 : map<send_back<T, V, BY_Y, false>>(cuda, a);
}

template <typename T, int V> struct back {
    static const char *run(tt_cuda *cuda, tt_cuda_bn_args a)
    {
        int64_t chunks = 0;
        if (a.pair_in != NULL) {
            TRY(tt_cuda_bn_use_pair(cuda, &a, own_coef(&a)));
            return map_grads<T, V>(cuda, &a);
        }
        a.pair = own_pair(&a);
        if (V == 8 && a.mask != NULL && a.d_residual == NULL && has_marks(&a)) {
            a.tiles = tiles_of(&a, cover_of(&a, V, FEW));
            a.marks = own_marks(&a);
        }
        TRY((sum_grads<T, V>(cuda, &a, &chunks)));
        TRY(tt_cuda_bn_finish_pair(cuda, &a, chunks, own_coef(&a)));
        if (a.d_residual != NULL) { // which is masked already
            a.dy = a.d_residual;
            a.mask = NULL;
            a.d_residual = NULL;
        }
        return map_grads<T, V>(cuda, &a);
    }
};

template <typename T, int V> struct sums {
    static const char *run(tt_cuda *cuda, const tt_cuda_bn_args &a)
    {
        int64_t chunks = 0;
        TRY((a.dy == NULL ? sum<moments<T, V>>(cuda, &a, &chunks)
                          : sum_grads<T, V>(cuda, &a, &chunks)));
        return tt_cuda_bn_finish_pair(cuda, &a, chunks, NULL);
    }
};

// The gradient of an activation, with its sums: dbeta.
template <typename T, int V> struct relu_bias {
    static const char *run(tt_cuda *cuda, tt_cuda_bn_args a)
    {
        int64_t chunks = 0;
        a.pair = own_pair(&a);
        TRY((sum<masks<T, V>>(cuda, &a, &chunks)));
        return tt_cuda_bn_finish_pair(cuda, &a, chunks, NULL);
    }
};

extern "C" const char *tt_cuda_bn_train(tt_cuda *cuda,
                                        const tt_cuda_bn_args *args)
{
    return run<train>(cuda, args);
}

extern "C" const char *tt_cuda_bn_sums(tt_cuda *cuda,
                                       const tt_cuda_bn_args *args)
{
    return run<sums>(cuda, args);
}

extern "C" const char *tt_cuda_bn_grad(tt_cuda *cuda,
                                       const tt_cuda_bn_args *args)
{
    return run<back>(cuda, args);
}

extern "C" const char *tt_cuda_relu_grad_bias(tt_cuda *cuda,
                                              const tt_cuda_bn_args *args)
{
    return run<relu_bias>(cuda, args);
}
