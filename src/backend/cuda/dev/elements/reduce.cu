// reduce - sums and maxima of x [outer, length, inner] over length; the global norm of
// gradients; clipping and the guard of an update.
//
// With inner > 1 a thread owns a column and a block a chunk of the length, so that
// reads are coalesced; a second kernel adds the chunks up in their order. With inner =
// 1 a block owns a row. Nothing is added atomically, so results repeat bit by bit.
//
// Sums of squares of a model's gradients are batched like updates (optim.cu): they wait
// for each other, and two launches do them all.
//
// Bound by reading x once: sums of squares of a model's gradients reach 84% (GPT-2
// 124M) to 99% (774M) of a copy's rate on an H200.

#include "backend/cuda/dev/common.cuh"

#include <new>

enum { COLS = 32, ROWS = 8, THREADS = 256, MAX_CHUNKS = 512, AHEAD = 4 };

__device__ static inline float combine(float a, float b, bool is_max)
{
    if (!is_max)
        return a + b;
    return b != b || b > a ? b : a; // a NaN stays
}

template <typename Y>
__device__ static inline void finish(Y *y, int64_t at, float sum, float by,
                                     bool accumulate)
{
    y[at] = from_float<Y>((accumulate ? to_float(y[at]) : 0.f) + sum * by);
}

static int64_t chunks_of(const tt_cuda_reduce_args *a)
{
    const int64_t v = is_low(a->x_type) ? 8 : 4;
    const int64_t blocks = a->outer * ceil_div(a->inner, v * COLS);
    int64_t n = ceil_div(132 * 8, blocks);
    const int64_t most = ceil_div(a->length, ROWS * 4);
    n = n > most ? most : n;
    n = n > MAX_CHUNKS ? (int64_t)MAX_CHUNKS : n;
    return n < 1 ? 1 : n;
}

// partial[chunk, outer, inner] of the chunk's rows, V columns per thread.
template <int V, typename X>
__global__ void reduce_columns(int64_t length, int64_t inner, int64_t per_chunk,
                               bool is_max, const X *x, float *partial)
{
    struct alignas(sizeof(X) * V) part {
        X v[V];
    };
    __shared__ float room[V][ROWS][COLS + 1];
    const int64_t col = (blockIdx.x * (int64_t)COLS + threadIdx.x) * V;
    const int64_t first = blockIdx.y * per_chunk;
    const int64_t end = min(first + per_chunk, length);
    const X *from = x + blockIdx.z * length * inner;
    float s[V];
#pragma unroll
    for (int k = 0; k < V; k++)
        s[k] = is_max ? -INFINITY : 0.f;
    int64_t r = col < inner ? first + threadIdx.y : end;
    for (; r + (AHEAD - 1) * ROWS < end; r += AHEAD * ROWS) {
        part p[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
            p[j] = *(const part *)(from + (r + j * ROWS) * inner + col);
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
#pragma unroll
            for (int k = 0; k < V; k++)
                s[k] = combine(s[k], to_float(p[j].v[k]), is_max);
    }
    for (; r < end; r += ROWS) {
        const part p = *(const part *)(from + r * inner + col);
#pragma unroll
        for (int k = 0; k < V; k++)
            s[k] = combine(s[k], to_float(p.v[k]), is_max);
    }
#pragma unroll
    for (int k = 0; k < V; k++)
        room[k][threadIdx.y][threadIdx.x] = s[k];
    __syncthreads();
    if (col >= inner)
        return;
    float *to =
        partial + (blockIdx.y * (int64_t)gridDim.z + blockIdx.z) * inner;
    for (int k = threadIdx.y; k < V; k += ROWS) {
        float sum = room[k][0][threadIdx.x];
        for (int r = 1; r < ROWS; r++)
            sum = combine(sum, room[k][r][threadIdx.x], is_max);
        to[col + k] = sum;
    }
}

// What is made of terms and becomes of their sum.
struct reduction {
    bool is_max;
    float by;
    bool accumulate;
};

// Chunks in turn by the block's rows, then these.
template <typename Y>
__global__ void reduce_chunks(int64_t n, int n_chunks, reduction how,
                              const float *partial, Y *y)
{
    const bool is_max = how.is_max;
    __shared__ float room[ROWS][COLS + 1];
    const int64_t i = blockIdx.x * (int64_t)COLS + threadIdx.x;
    float s = is_max ? -INFINITY : 0.f;
    if (i < n)
        for (int k = threadIdx.y; k < n_chunks; k += ROWS)
            s = combine(s, partial[k * n + i], is_max);
    room[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.y != 0 || i >= n)
        return;
    for (int r = 1; r < ROWS; r++)
        s = combine(s, room[r][threadIdx.x], is_max);
    finish(y, i, s, how.by, how.accumulate);
}

template <typename X, typename Y>
__global__ void reduce_rows(int64_t length, bool is_max, float by,
                            bool accumulate, const X *x, Y *y)
{
    __shared__ float room[32];
    const X *row = x + blockIdx.x * length;
    float s = is_max ? -INFINITY : 0.f, c = 0.f;
    bool has_nan = false;
    for (int64_t i = threadIdx.x; i < length; i += THREADS) {
        const float v = to_float(row[i]);
        if (is_max) {
            has_nan |= v != v;
            s = fmaxf(s, v);
        } else { // Kahan summation: a row may be long
            const float t = v - c, u = s + t;
            c = (u - s) - t;
            s = u;
        }
    }
    if (is_max && has_nan)
        s = NAN;
    const bool any_nan = __syncthreads_or(is_max && has_nan);
    const float all = is_max ? block_max(s, room) : block_sum(s, room);
    if (threadIdx.x == 0)
        finish(y, blockIdx.x, any_nan ? NAN : all, by, accumulate);
}

extern "C" int64_t tt_cuda_reduce_scratch(const tt_cuda_reduce_args *a)
{
    return a->inner == 1 ? 0 : 4 * a->outer * a->inner * chunks_of(a);
}

template <typename X, typename Y>
static const char *reduce_types(tt_cuda *cuda, const tt_cuda_reduce_args *a)
{
    if (a->inner == 1) {
        reduce_rows<X, Y><<<(unsigned)a->outer, THREADS, 0, cuda->stream>>>(
            a->length, a->is_max, (float)a->by, a->accumulate, (const X *)a->x,
            (Y *)a->y);
        return launched();
    }
    enum { V = pack<X>::N };
    const int64_t n_chunks = chunks_of(a);
    const int64_t n = a->outer * a->inner;
    const bool is_wide = a->inner % V == 0 && is_aligned(a->x);
    const int64_t v = is_wide ? (int64_t)V : 1;
    const dim3 grid((unsigned)ceil_div(a->inner, v * COLS), (unsigned)n_chunks,
                    (unsigned)a->outer);
    const auto columns = is_wide ? reduce_columns<V, X> : reduce_columns<1, X>;
    columns<<<grid, dim3(COLS, ROWS), 0, cuda->stream>>>(
        a->length, a->inner, ceil_div(a->length, n_chunks), a->is_max,
        (const X *)a->x, (float *)a->scratch);
    TRY(launched());
    reduce_chunks<Y>
        <<<(unsigned)ceil_div(n, COLS), dim3(COLS, ROWS), 0, cuda->stream>>>(
            n, (int)n_chunks, reduction{a->is_max, (float)a->by, a->accumulate},
            (const float *)a->scratch, (Y *)a->y);
    return launched();
}

template <typename X>
static const char *reduce_type(tt_cuda *cuda, const tt_cuda_reduce_args *a)
{
    return a->y_type == TT_F32 ? reduce_types<X, float>(cuda, a)
                               : reduce_types<X, X>(cuda, a);
}

extern "C" const char *tt_cuda_reduce(tt_cuda *cuda,
                                      const tt_cuda_reduce_args *args)
{
    return BY_TYPE(args->x_type, reduce_type, cuda, args);
}

// ---- squares, totals, clip, guard ----------------------------------------------

// The thread's part of n elements, in packs, several on their way at once. Bound by
// reading them.
template <typename T>
__device__ static inline double squares_here(const T *x, int n)
{
    typedef pack<T> P;
    const int whole = ((uintptr_t)x & 15) == 0 ? n / P::N : 0;
    double s = 0, t = 0;
#pragma unroll 4
    for (int i = threadIdx.x; i < whole; i += THREADS) {
        float v[P::N];
        unpack(((const P *)x)[i], v);
#pragma unroll
        for (int k = 0; k < P::N; k += 2) {
            s += (double)v[k] * v[k];
            t += (double)v[k + 1] * v[k + 1];
        }
    }
    for (int i = whole * P::N + threadIdx.x; i < n; i += THREADS)
        s += (double)to_float(x[i]) * to_float(x[i]);
    return s + t;
}

enum { SQUARES_CHUNK = 16384 };

// The thread's part of every `blocks`th chunk from `chunk` on.
template <typename T>
__device__ static inline double squares_from(const T *x, int64_t n,
                                             int64_t chunk, int64_t blocks)
{
    double s = 0;
    for (int64_t first = chunk * SQUARES_CHUNK; first < n;
         first += blocks * SQUARES_CHUNK)
        s += squares_here(x + first,
                          (int)min(n - first, (int64_t)SQUARES_CHUNK));
    return s;
}

template <typename T>
__global__ void squares(int64_t n, const T *x, double *partial)
{
    __shared__ double room[32];
    const double s = block_sum(squares_from(x, n, blockIdx.x, gridDim.x), room);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = s;
}

__global__ void join_squares(int n, bool first, double *scratch, tt_dtype type,
                             void *y)
{
    __shared__ double room[32];
    double s = 0;
    for (int i = threadIdx.x; i < n; i += THREADS)
        s += scratch[1 + i];
    s = block_sum(s, room);
    if (threadIdx.x != 0)
        return;
    s += first ? 0 : scratch[0];
    scratch[0] = s;
    store_any(type, y, 0, s);
}

template <typename T>
static const char *squares_type(tt_cuda *cuda, const tt_cuda_squares_args *a)
{
    int64_t blocks = ceil_div(a->n, SQUARES_CHUNK);
    if (blocks > TT_CUDA_SQUARES_BLOCKS)
        blocks = TT_CUDA_SQUARES_BLOCKS;
    double *scratch = (double *)a->scratch;
    squares<T><<<(unsigned)blocks, THREADS, 0, cuda->stream>>>(
        a->n, (const T *)a->x, scratch + 1);
    TRY(launched());
    join_squares<<<1, THREADS, 0, cuda->stream>>>((int)blocks, a->first,
                                                  scratch, a->y_type, a->y);
    return launched();
}

// The batch of sums of squares, done in two launches: a block sums a chunk of one
// vector, then a block adds up the chunks of one vector in their order.
enum { SQUARES = 128, SQUARES_ROOM = 1 << 16 };

struct squares_item {
    const void *x;
    void *y;
    int64_t n;
    tt_dtype type, y_type;
    int first_block, blocks;
};

struct squares_batch {
    int n, blocks;
    double *partial; // SQUARES_ROOM of them
    squares_item item[SQUARES];
};

__global__ void squares_of_all(squares_batch b)
{
    __shared__ double room[32];
    int low = 0, high = b.n - 1;
    while (low < high) {
        const int k = (low + high + 1) / 2;
        if (b.item[k].first_block <= (int)blockIdx.x)
            low = k;
        else
            high = k - 1;
    }
    const squares_item &x = b.item[low];
    const int chunk = (int)blockIdx.x - x.first_block;
    double s;
    if (x.type == TT_BF16)
        s = squares_from((const bf16 *)x.x, x.n, chunk, x.blocks);
    else if (x.type == TT_F16)
        s = squares_from((const f16 *)x.x, x.n, chunk, x.blocks);
    else
        s = squares_from((const float *)x.x, x.n, chunk, x.blocks);
    s = block_sum(s, room);
    if (threadIdx.x == 0)
        b.partial[blockIdx.x] = s;
}

__global__ void join_all(squares_batch b)
{
    __shared__ double room[32];
    const squares_item &x = b.item[blockIdx.x];
    double s = 0;
    for (int i = threadIdx.x; i < x.blocks; i += THREADS)
        s += b.partial[x.first_block + i];
    s = block_sum(s, room);
    if (threadIdx.x == 0)
        store_any(x.y_type, x.y, 0, s);
}

const char *tt_cuda_flush_squares(tt_cuda *cuda)
{
    squares_batch *b = cuda->squares;
    if (b == NULL || b->n == 0)
        return NULL;
    const int n = b->n, blocks = b->blocks;
    squares_of_all<<<(unsigned)blocks, THREADS, 0, cuda->stream>>>(*b);
    join_all<<<(unsigned)n, THREADS, 0, cuda->stream>>>(*b);
    b->n = b->blocks = 0;
    return launched();
}

void tt_cuda_forget_squares(tt_cuda *cuda)
{
    if (cuda->squares != NULL)
        cudaFree(cuda->squares->partial);
    delete cuda->squares;
    cuda->squares = NULL;
}

static const char *queue_squares(tt_cuda *cuda, const tt_cuda_squares_args *a)
{
    if (cuda->squares == NULL) {
        squares_batch *made = new (std::nothrow) squares_batch();
        if (made == NULL)
            return tt_cuda_failed_text("no memory");
        const cudaError_t status =
            cudaMalloc(&made->partial, SQUARES_ROOM * sizeof(double));
        if (status != cudaSuccess) {
            delete made;
            return tt_cuda_failed(status);
        }
        cuda->squares = made;
    }
    squares_batch *b = cuda->squares;
    int64_t blocks = ceil_div(a->n, SQUARES_CHUNK);
    blocks = blocks > SQUARES_ROOM ? (int64_t)SQUARES_ROOM : blocks;
    if (b->n == SQUARES || b->blocks + blocks > SQUARES_ROOM)
        TRY(tt_cuda_flush_squares(cuda));
    b->item[b->n++] = {a->x,      a->y,      a->n,       a->type,
                       a->y_type, b->blocks, (int)blocks};
    b->blocks += (int)blocks;
    return NULL;
}

extern "C" const char *tt_cuda_squares(tt_cuda *cuda,
                                       const tt_cuda_squares_args *args)
{
    if (args->is_only)
        return queue_squares(cuda, args);
    TRY(tt_cuda_flush_squares(cuda));
    return BY_TYPE(args->type, squares_type, cuda, args);
}

__global__ void total(tt_cuda_total_args a)
{
    double *sum = (double *)a.scratch;
    double s = a.first ? 0 : *sum;
    for (int i = 0; i < a.n; i++)
        s += load_any(a.in_type[i], a.in[i], 0);
    *sum = s;
    if (a.last)
        store_any(a.y_type, a.y, 0, s);
}

extern "C" const char *tt_cuda_total(tt_cuda *cuda,
                                     const tt_cuda_total_args *args)
{
    total<<<1, 1, 0, cuda->stream>>>(*args);
    return launched();
}

__global__ void clip(tt_cuda_clip_args a)
{
    const double count = load_any(a.type[1], a.count, 0);
    double scale = count > 0 ? 1 / count : 0;
    if (a.norm != NULL) {
        const double norm = sqrt(load_any(a.type[0], a.sumsq, 0)) * scale;
        if (a.max_norm > 0)
            scale *= fmin(1.0, a.max_norm / (norm + 1e-6));
        store_any(a.type[3], a.norm, 0, norm);
    }
    store_any(a.type[2], a.scale, 0, scale);
}

extern "C" const char *tt_cuda_clip(tt_cuda *cuda,
                                    const tt_cuda_clip_args *args)
{
    clip<<<1, 1, 0, cuda->stream>>>(*args);
    return launched();
}

__global__ void guard(tt_cuda_guard_args a)
{
    double in[5];
    for (int i = 0; i < 5; i++)
        in[i] = load_any(a.type[i], a.in[i], 0);
    const double mean = in[3] > 0 ? in[2] / in[3] : 0;
    const bool is_bad = !isfinite(in[1]) || !isfinite(in[2]) || mean > in[4];
    store_any(a.type[5], a.y, 0, is_bad || in[0] != 0 ? 1 : 0);
}

extern "C" const char *tt_cuda_guard(tt_cuda *cuda,
                                     const tt_cuda_guard_args *args)
{
    guard<<<1, 1, 0, cuda->stream>>>(*args);
    return launched();
}

__global__ void loss_scale(tt_cuda_loss_scale_args a)
{
    double in[4];
    for (int i = 0; i < 4; i++)
        in[i] = load_any(a.type[i], a.in[i], 0);
    double scale = in[0], good = in[1];
    if (isfinite(in[2]) && !isfinite(in[3])) {
        scale = fmax(scale / 2, a.least);
        good = 0;
    } else if (isfinite(in[2])) {
        good += 1;
    }
    if (a.growth > 0 && good >= (double)a.growth) {
        scale = fmin(scale * 2, a.most);
        good = 0;
    }
    store_any(a.type[4], a.scale, 0, scale);
    store_any(a.type[5], a.good, 0, good);
}

extern "C" const char *tt_cuda_loss_scale(tt_cuda *cuda,
                                          const tt_cuda_loss_scale_args *args)
{
    loss_scale<<<1, 1, 0, cuda->stream>>>(*args);
    return launched();
}
