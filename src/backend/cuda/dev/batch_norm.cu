// batch_norm - statistics of channels over rows, and functions of elements with a few
// numbers per channel. Rows are [n * points], columns the channels.
//
// A thread owns a column of one pack of channels and walks down a chunk of rows, so
// that what it needs per channel stays in registers and every access is 16 bytes
// wide. Sums of chunks are added up by a second kernel, in double and in a fixed
// order. Bound by memory bandwidth: forward reads x twice and writes y, backward
// reads x, dy and y (for the activation's mask) twice and writes dx; where the
// residual has a gradient too, it is the masked dy, written by the first pass and
// read by the second instead of dy and y.

#include "backend/cuda/dev/common.cuh"

enum { THREADS = 256, BLOCKS = 132 * 8, COLS = 32, LANES = 16 };

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
    c.chunks = ceil_div(BLOCKS, c.columns * a->groups);
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

// What the block of a grid of that cover works on.
__device__ static inline span chunk_of(const tt_cuda_bn_args &a)
{
    span s = span_of(a, blockIdx.z);
    const int64_t per = (s.end - s.first + gridDim.y - 1) / gridDim.y;
    s.first = min(s.first + blockIdx.y * per, s.end);
    s.end = min(s.first + per, s.end);
    return s;
}

template <typename T, int V> struct alignas(sizeof(T) * V) slice {
    T v[V];
};

template <typename T, int V>
__device__ static inline slice<T, V> load(const void *p, int64_t at)
{
    return *(const slice<T, V> *)((const T *)p + at);
}

// ---- sums ------------------------------------------------------------------

// Adds a thread's sums to those of the block's other rows and writes the block's to
// partial[group, chunk, 2, channels].
template <int V>
__device__ static void write_sums(const tt_cuda_bn_args &a, int tx, int64_t col,
                                  float (*sum)[V], float *partial)
{
    __shared__ float room[2 * V * THREADS];
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < V; k++)
            room[(i * V + k) * THREADS + threadIdx.x] = sum[i][k];
    __syncthreads();
    if ((int)threadIdx.x >= tx || col >= a.channels)
        return;
    float *to = partial + (blockIdx.z * (int64_t)gridDim.y + blockIdx.y) * 2 *
                              a.channels;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < V; k++) {
            float all = 0;
            for (int r = threadIdx.x; r < THREADS; r += tx)
                all += room[(i * V + k) * THREADS + r];
            to[i * a.channels + col + k] = all;
        }
}

// Sums of x - shift and of its square.
template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    sum_moments(tt_cuda_bn_args a, int tx, float *partial)
{
    const int64_t col =
        (blockIdx.x * (int64_t)tx + threadIdx.x % tx) * V;
    const span s = chunk_of(a);
    float sum[2][V] = {}, shift[V] = {};
    if (col < a.channels) {
        for (int k = 0; k < V; k++)
            shift[k] = a.shift[col + k];
#pragma unroll 4
        for (int64_t r = s.first + threadIdx.x / tx; r < s.end;
             r += THREADS / tx) {
            const slice<T, V> x = load<T, V>(a.x, r * a.channels + col);
            for (int k = 0; k < V; k++) {
                const float d = to_float(x.v[k]) - shift[k];
                sum[0][k] += d;
                sum[1][k] += d * d;
            }
        }
    }
    write_sums<V>(a, tx, col, sum, partial);
}

// Mean and 1 / deviation of a channel in a group.
__device__ static inline void statistics(const tt_cuda_bn_args &a,
                                         int64_t group, int64_t c, float *mean,
                                         float *rstd)
{
    const int64_t at = a.is_frozen ? c : (a.first_row + group) * a.channels + c;
    *mean = a.mean_in[at];
    *rstd = a.is_frozen ? (float)(1 / sqrt((double)a.rstd_in[at] + a.eps))
                        : a.rstd_in[at];
}

// dz: dy where y > 0.
template <typename T, int V>
__device__ static inline slice<T, V> masked(const tt_cuda_bn_args &a,
                                            int64_t at)
{
    slice<T, V> dz = load<T, V>(a.dy, at);
    if (a.mask != NULL) {
        const slice<T, V> y = load<T, V>(a.mask, at);
        for (int k = 0; k < V; k++)
            if (!(to_float(y.v[k]) > 0))
                dz.v[k] = from_float<T>(0.f);
    }
    return dz;
}

// Sums of dz * xhat and of dz; dz to d_residual unless that is NULL.
template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    sum_grads(tt_cuda_bn_args a, int tx, float *partial)
{
    const int64_t col =
        (blockIdx.x * (int64_t)tx + threadIdx.x % tx) * V;
    const span s = chunk_of(a);
    float sum[2][V] = {}, mean[V] = {}, rstd[V] = {};
    if (col < a.channels) {
        for (int k = 0; k < V; k++)
            statistics(a, blockIdx.z, col + k, &mean[k], &rstd[k]);
#pragma unroll 2
        for (int64_t r = s.first + threadIdx.x / tx; r < s.end;
             r += THREADS / tx) {
            const int64_t at = r * a.channels + col;
            const slice<T, V> x = load<T, V>(a.x, at);
            const slice<T, V> dz = masked<T, V>(a, at);
            if (a.d_residual != NULL)
                *(slice<T, V> *)((T *)a.d_residual + at) = dz;
            for (int k = 0; k < V; k++) {
                const float d = to_float(dz.v[k]);
                sum[0][k] += d * (to_float(x.v[k]) - mean[k]) * rstd[k];
                sum[1][k] += d;
            }
        }
    }
    write_sums<V>(a, tx, col, sum, partial);
}

// ---- from sums to statistics -----------------------------------------------

// The sum i of group g and channel c over its chunks, in every lane's thread of the
// channel; a block is COLS channels times LANES.
__device__ static double add_chunks(const tt_cuda_bn_args &a,
                                    const float *partial, int64_t chunks,
                                    int64_t g, int i)
{
    __shared__ double room[LANES][COLS + 1];
    const int64_t c = blockIdx.x * (int64_t)COLS + threadIdx.x;
    double sum = 0;
    if (c < a.channels)
        for (int64_t k = threadIdx.y; k < chunks; k += LANES)
            sum += partial[((g * chunks + k) * 2 + i) * a.channels + c];
    __syncthreads();
    room[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    double all = 0;
    for (int l = 0; l < LANES; l++)
        all += room[l][threadIdx.x];
    return all;
}

// Statistics of all groups, and the running ones. The moments are sums of chunks, or
// with `pair_in` those of all ranks.
__global__ void finish_statistics(tt_cuda_bn_args a, const float *partial,
                                  int64_t chunks)
{
    const int64_t c = blockIdx.x * (int64_t)COLS + threadIdx.x;
    const bool is_mine = c < a.channels && threadIdx.y == 0;
    double mean = 0, var = 0;
    for (int64_t row = 0; row < a.rows; row++) {
        double sum = 0, square = 0;
        if (a.pair_in == NULL) {
            sum = add_chunks(a, partial, chunks, row, 0);
            square = add_chunks(a, partial, chunks, row, 1);
        } else if (is_mine) {
            sum = a.pair_in[row * a.channels + c];
            square = a.pair_in[(a.rows + row) * a.channels + c];
        }
        if (!is_mine)
            continue;
        const double shift = sum / a.count;
        const double v = fmax(square / a.count - shift * shift, 0.0);
        const double m = a.shift[c] + shift;
        a.mean[row * a.channels + c] = (float)m;
        a.rstd[row * a.channels + c] = (float)(1 / sqrt(v + a.eps));
        mean += m / a.whole_groups;
        var += v * a.count / (a.count - 1) / a.whole_groups;
    }
    if (!is_mine)
        return;
    const double by = a.momentum;
    a.new_mean[c] = (float)((1 - by) * a.running_mean[c] + by * mean);
    a.new_var[c] = (float)((1 - by) * a.running_var[c] + by * var);
}

// Sums as a pair [2, rows, channels], zero for groups that are elsewhere; their totals
// over groups to dgamma and dbeta.
__global__ void finish_pair(tt_cuda_bn_args a, const float *partial,
                            int64_t chunks)
{
    const int64_t c = blockIdx.x * (int64_t)COLS + threadIdx.x;
    double total[2] = {0, 0};
    for (int64_t row = 0; row < a.rows; row++)
        for (int i = 0; i < 2; i++) {
            const int64_t g = row - a.first_row;
            double sum = 0;
            if (g >= 0 && g < a.groups)
                sum = add_chunks(a, partial, chunks, g, i);
            if (c < a.channels && threadIdx.y == 0)
                a.pair[(i * a.rows + row) * a.channels + c] = (float)sum;
            total[i] += sum;
        }
    if (c >= a.channels || threadIdx.y != 0 || a.dgamma == NULL)
        return;
    a.dgamma[c] = (float)total[0];
    a.dbeta[c] = (float)total[1];
}

// ---- elements --------------------------------------------------------------

template <typename T, int V>
__global__ void __launch_bounds__(THREADS) normalise(tt_cuda_bn_args a, int tx)
{
    const int64_t col =
        (blockIdx.x * (int64_t)tx + threadIdx.x % tx) * V;
    const span s = chunk_of(a);
    float mean[V], by[V], beta[V];
    if (col >= a.channels)
        return;
    for (int k = 0; k < V; k++) {
        float rstd;
        statistics(a, blockIdx.z, col + k, &mean[k], &rstd);
        by[k] = rstd * (float)load_any(a.gamma_type, a.gamma, col + k);
        beta[k] = (float)load_any(a.beta_type, a.beta, col + k);
    }
#pragma unroll 2
    for (int64_t r = s.first + threadIdx.x / tx; r < s.end; r += THREADS / tx) {
        const int64_t at = r * a.channels + col;
        const slice<T, V> x = load<T, V>(a.x, at);
        slice<T, V> y;
        float z[V];
        for (int k = 0; k < V; k++)
            z[k] = (to_float(x.v[k]) - mean[k]) * by[k] + beta[k];
        if (a.residual != NULL) {
            const slice<T, V> more = load<T, V>(a.residual, at);
            for (int k = 0; k < V; k++)
                z[k] += to_float(more.v[k]);
        }
        for (int k = 0; k < V; k++)
            y.v[k] = from_float<T>(a.has_relu && z[k] <= 0 ? 0.f : z[k]);
        *(slice<T, V> *)((T *)a.y + at) = y;
    }
}

// dx = gamma rstd (dz - (dbeta + xhat dgamma) / count) = u dz + v (x - mean) + w.
// With `is_masked`, d_residual has dz already.
template <typename T, int V>
__global__ void __launch_bounds__(THREADS)
    send_back(tt_cuda_bn_args a, int tx, bool is_masked)
{
    const int64_t col =
        (blockIdx.x * (int64_t)tx + threadIdx.x % tx) * V;
    const span s = chunk_of(a);
    float mean[V], u[V], v[V], w[V];
    if (col >= a.channels)
        return;
    for (int k = 0; k < V; k++) {
        const int64_t row = a.first_row + blockIdx.z;
        const int64_t at = row * a.channels + col + k;
        float rstd;
        statistics(a, blockIdx.z, col + k, &mean[k], &rstd);
        u[k] = rstd * (float)load_any(a.gamma_type, a.gamma, col + k);
        v[k] = w[k] = 0;
        if (a.is_frozen)
            continue;
        const double dgamma = a.pair_in[at];
        const double dbeta = a.pair_in[a.rows * a.channels + at];
        v[k] = (float)(-u[k] * rstd * dgamma / a.count);
        w[k] = (float)(-u[k] * dbeta / a.count);
    }
#pragma unroll 2
    for (int64_t r = s.first + threadIdx.x / tx; r < s.end; r += THREADS / tx) {
        const int64_t at = r * a.channels + col;
        const slice<T, V> x = load<T, V>(a.x, at);
        const slice<T, V> dz =
            is_masked ? load<T, V>(a.d_residual, at) : masked<T, V>(a, at);
        slice<T, V> dx;
        for (int k = 0; k < V; k++)
            dx.v[k] = from_float<T>(u[k] * to_float(dz.v[k]) +
                                    v[k] * (to_float(x.v[k]) - mean[k]) + w[k]);
        if (!is_masked && a.d_residual != NULL)
            *(slice<T, V> *)((T *)a.d_residual + at) = dz;
        *(slice<T, V> *)((T *)a.y + at) = dx;
    }
}

// ---- launching -------------------------------------------------------------

extern "C" int64_t tt_cuda_bn_scratch(const tt_cuda_bn_args *a)
{
    const int v = a->type == TT_BF16 ? 8 : 4;
    const int64_t wide = cover_of(a, v).chunks, narrow = cover_of(a, 1).chunks;
    const int64_t chunks = wide > narrow ? wide : narrow;
    return 4 * 2 * a->channels * (a->groups * chunks + a->rows);
}

// The pair that backward keeps, behind the sums of chunks.
static float *own_pair(const tt_cuda_bn_args *a)
{
    return (float *)((char *)a->scratch + tt_cuda_bn_scratch(a)) -
           2 * a->rows * a->channels;
}

enum pass { MOMENTS, GRADS, NORMALISE, SEND_BACK, SEND_MASKED };

template <typename T, int V>
static const char *launch(tt_cuda *cuda, const tt_cuda_bn_args *a, pass p,
                          const cover &c)
{
    const dim3 grid((unsigned)c.columns, (unsigned)c.chunks,
                    (unsigned)a->groups);
    float *partial = (float *)a->scratch;
    if (p == MOMENTS)
        sum_moments<T, V>
            <<<grid, THREADS, 0, cuda->stream>>>(*a, c.tx, partial);
    else if (p == GRADS)
        sum_grads<T, V><<<grid, THREADS, 0, cuda->stream>>>(*a, c.tx, partial);
    else if (p == NORMALISE)
        normalise<T, V><<<grid, THREADS, 0, cuda->stream>>>(*a, c.tx);
    else
        send_back<T, V><<<grid, THREADS, 0, cuda->stream>>>(*a, c.tx,
                                                            p == SEND_MASKED);
    return launched();
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

static const char *finish(tt_cuda *cuda, const tt_cuda_bn_args *a,
                          bool is_statistics, int64_t chunks)
{
    const unsigned blocks = (unsigned)ceil_div(a->channels, COLS);
    const auto kernel = is_statistics ? finish_statistics : finish_pair;
    kernel<<<blocks, dim3(COLS, LANES), 0, cuda->stream>>>(
        *a, (const float *)a->scratch, chunks);
    return launched();
}

extern "C" const char *tt_cuda_bn_train(tt_cuda *cuda,
                                        const tt_cuda_bn_args *args)
{
    tt_cuda_bn_args a = *args;
    int64_t chunks = 0;
    if (!a.is_frozen) {
        if (a.pair_in == NULL)
            TRY(walk(cuda, &a, MOMENTS, &chunks));
        TRY(finish(cuda, &a, true, chunks));
        a.mean_in = a.mean;
        a.rstd_in = a.rstd;
    }
    return walk(cuda, &a, NORMALISE, &chunks);
}

extern "C" const char *tt_cuda_bn_sums(tt_cuda *cuda,
                                       const tt_cuda_bn_args *args)
{
    int64_t chunks = 0;
    TRY(walk(cuda, args, args->dy == NULL ? MOMENTS : GRADS, &chunks));
    return finish(cuda, args, false, chunks);
}

extern "C" const char *tt_cuda_bn_grad(tt_cuda *cuda,
                                       const tt_cuda_bn_args *args)
{
    tt_cuda_bn_args a = *args;
    int64_t chunks = 0;
    const bool has_sums = a.pair_in != NULL;
    if (!has_sums) {
        a.pair = own_pair(&a);
        TRY(tt_cuda_bn_sums(cuda, &a));
        a.pair_in = a.pair;
    }
    const bool is_masked = !has_sums && a.d_residual != NULL;
    return walk(cuda, &a, is_masked ? SEND_MASKED : SEND_BACK, &chunks);
}
