// norm_grad - all gradients of a norm in one pass over the rows:
//
//   dx             with `plus` added: the gradient that reaches x by the residual
//   dgamma, dbeta  sums over rows
//   dsum           sums of dx over rows: the gradient of a bias added before the norm
//
// The problem: dx needs sums along a row, the weights' gradients need sums along
// columns. Done by separate kernels, x and dy are read from memory several times.
//
// The idea: a thread owns the 8 columns of one pack, a group of warps a row. Column
// sums stay in registers for as long as the block runs. Row sums go from warp to warp
// through shared memory, with one barrier for each pair of rows. Meanwhile the next
// rows are already on their way into registers. In the end each block writes its column
// sums as a part, and a second kernel adds the parts in a fixed order.
//
// Bound by reading x, dy and plus and writing dx once: 106 us for 64 x 1024 rows of 768
// in a training step on an H200, 88% of the rate of long copies; 3 of them are for
// joining the sums. These kernels were bound by instructions before: 16-bit numbers are
// converted in pairs, and packs are held as words, because the compiler moves 16-bit
// elements one by one (179 us).

#include "backend/cuda/dev/norm/norm.cuh"

enum { GRAD_BLOCKS = 264, COLS = 32, ROWS = 32 };

// A thread owns the columns of one pack, the warps of a group a row; a block's groups
// take AT_ONCE rows each, in turn, and load the next before they work on these.
enum { AT_ONCE = 2, MOST_WARPS = 16, MOST_GROUPS = 15 };

struct grad_shape {
    int warps, groups; // of a row, of a block
    int64_t blocks;
};

static grad_shape shape_of(const tt_cuda_norm_args *a)
{
    const int64_t warps = ceil_div(a->n, 32 * (is_low(a->type) ? 8 : 4));
    int64_t groups = warps > MOST_WARPS ? 1 : MOST_WARPS / warps;
    if (groups > MOST_GROUPS)
        groups = MOST_GROUPS;
    const int64_t blocks = ceil_div(a->rows, groups * AT_ONCE);
    return {(int)warps, (int)groups,
            blocks > GRAD_BLOCKS ? (int64_t)GRAD_BLOCKS : blocks};
}

static tt_cuda_reduce_args sums_of_dx(const tt_cuda_norm_args *a)
{
    tt_cuda_reduce_args r = {};
    r.outer = 1;
    r.length = a->rows;
    r.inner = a->n;
    r.by = 1;
    r.x_type = a->type;
    r.y_type = TT_F32;
    r.x = a->y;
    r.y = a->dsum;
    r.scratch = a->scratch;
    return r;
}

int64_t norm_grad_scratch(const tt_cuda_norm_args *args)
{
    const tt_cuda_reduce_args r = sums_of_dx(args);
    const int64_t at_once = 12 * args->n * shape_of(args).blocks;
    const int64_t after = tt_cuda_reduce_scratch(&r);
    return at_once > after ? at_once : after;
}

enum { FROM_X, FROM_DY, FROM_PLUS, SOURCES };

template <typename T> struct grad_args {
    int64_t rows;
    int n;
    const T *from[SOURCES]; // the last may be NULL
    weights gamma;
    const float *mean, *rstd; // mean NULL: RMS norm
    T *dx;
    float *partial; // [block, 2 or 3, n]
};

// ---- rows -----------------------------------------------------------------------

template <typename T>
__device__ static inline void unpack_words(const uint4 &words, float *out)
{
    pack<T> p;
    memcpy(&p, &words, sizeof p);
    unpack(p, out);
}

// What a thread has of AT_ONCE rows; zeros where there are none. The last rows come
// first: the kernel before wrote them last, so the L2 cache still has them.
template <typename T> struct rows_held {
    uint4 from[SOURCES][AT_ONCE];
    float mean[AT_ONCE], rstd[AT_ONCE];

    __device__ inline void load(const grad_args<T> &a, int64_t first,
                                int column)
    {
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int64_t r = first + k;
            const int64_t at = r * a.n + column;
            const bool is_row = r >= 0 && r < a.rows;
            const bool is_in = is_row && column < a.n;
            mean[k] = is_row && a.mean != NULL ? a.mean[r] : 0;
            rstd[k] = is_row ? a.rstd[r] : 0;
#pragma unroll
            for (int s = 0; s < SOURCES; s++)
                from[s][k] = is_in && (s != FROM_PLUS || a.from[s] != NULL)
                                 ? *(const uint4 *)(a.from[s] + at)
                                 : uint4();
        }
    }
};

// ---- sums ---------------------------------------------------------------------

// Sums of V values over a warp: lane l gets that of value l / (32 / V).
template <int V> __device__ static inline float warp_sums(float *v, int lane)
{
    int bit = 16;
#pragma unroll
    for (int half = V / 2; half >= 1; half /= 2, bit /= 2) {
        const bool is_upper = (lane & bit) != 0;
#pragma unroll
        for (int k = 0; k < half; k++) {
            const float keep = is_upper ? v[k + half] : v[k];
            const float give = is_upper ? v[k] : v[k + half];
            v[k] = keep + __shfl_xor_sync(0xffffffffu, give, bit);
        }
    }
    float sum = v[0];
    for (int k = 16 / V; k > 0; k /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, k);
    return sum;
}

// The sums of a group's warps, two for each row: [turn, group, 2 AT_ONCE, warps]. The
// two turns are a double buffer, so that one barrier for each turn is enough: a warp
// that writes a turn again has met all others at the barrier of the turn between.
template <int WIDE> struct shared_sums { // WIDE: at least the group's warps
    enum { VALUES = 2 * AT_ONCE };
    float *room; // of the group
    int of_turn, turn;

    // Entries beyond the group's warps stay 0.
    __device__ inline void begin(float *all)
    {
        of_turn = VALUES * WIDE * blockDim.y;
        room = all + VALUES * WIDE * threadIdx.y;
        turn = 0;
        const int t = threadIdx.x + blockDim.x * threadIdx.y;
        for (int i = t; i < 2 * of_turn; i += blockDim.x * blockDim.y)
            all[i] = 0;
        __syncthreads();
    }

    __device__ inline void join(float *value)
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        float *const here = room + turn * of_turn;
        const float sum = warp_sums<VALUES>(value, lane);
        if (lane % (32 / VALUES) == 0)
            here[lane / (32 / VALUES) * WIDE + warp] = sum;
        __barrier_sync_count(1 + threadIdx.y, blockDim.x);
#pragma unroll
        for (int v = 0; v < VALUES; v++) {
            value[v] = 0;
#pragma unroll
            for (int w = 0; w < WIDE; w += 4) {
                const float4 p = *(const float4 *)(here + v * WIDE + w);
                value[v] += (p.x + p.y) + (p.z + p.w);
            }
        }
        turn ^= 1;
    }
};

// The column sums of a block: its groups add theirs one after the other.
template <int N>
__device__ static inline void write_sums(const float *sum, int n, int column,
                                         float *room, float *to)
{
    for (int g = 0; g < (int)blockDim.y; g++) {
        if ((int)threadIdx.y == g && column < n)
#pragma unroll
            for (int k = 0; k < N; k += 4) {
                float4 *const at = (float4 *)(room + column + k);
                const float4 before = g == 0 ? float4() : *at;
                *at = {before.x + sum[k], before.y + sum[k + 1],
                       before.z + sum[k + 2], before.w + sum[k + 3]};
            }
        __syncthreads();
    }
    const int t = threadIdx.x + blockDim.x * threadIdx.y;
    for (int i = t; i < n; i += blockDim.x * blockDim.y)
        to[i] = room[i];
    __syncthreads();
}

// ---- the kernel -----------------------------------------------------------------

template <int N> struct column_sums {
    float dgamma[N], dbeta[N], dx[N];
};

struct row_stats {
    float mean, rstd;
};

// The terms of a row for the sums over it, and of its columns.
template <typename T>
__device__ static inline void
add_row(const uint4 &px, const uint4 &pd, const float *gamma, row_stats s,
        column_sums<pack<T>::N> *sums, float *of_row)
{
    enum { N = pack<T>::N };
    float x[N], dy[N], a = 0, b = 0;
    unpack_words<T>(px, x);
    unpack_words<T>(pd, dy);
#pragma unroll
    for (int k = 0; k < N; k++) {
        const float hat = (x[k] - s.mean) * s.rstd, g = dy[k] * gamma[k];
        a += g;
        b += g * hat;
        sums->dgamma[k] += dy[k] * hat;
        sums->dbeta[k] += dy[k];
    }
    of_row[0] = a;
    of_row[1] = b;
}

// Adds dx to y; `by` are the means over the row.
template <typename T>
__device__ static inline void finish_row(const uint4 &px, const uint4 &pd,
                                         const float *gamma, row_stats s,
                                         const float *by, float *y)
{
    enum { N = pack<T>::N };
    float x[N], dy[N];
    unpack_words<T>(px, x);
    unpack_words<T>(pd, dy);
#pragma unroll
    for (int k = 0; k < N; k++) {
        const float hat = (x[k] - s.mean) * s.rstd;
        y[k] += s.rstd * (dy[k] * gamma[k] - by[0] - hat * by[1]);
    }
}

template <int WIDE, bool SUMS, typename T>
__global__ void __launch_bounds__(MOST_WARPS * 32, 1) norm_grad(grad_args<T> a)
{
    typedef pack<T> P;
    enum { N = P::N };
    extern __shared__ uint4 shared_room[];
    const int column = threadIdx.x * N;
    const int64_t n_chunks = (a.rows + AT_ONCE - 1) / AT_ONCE;
    const int64_t step = (int64_t)gridDim.x * blockDim.y * AT_ONCE;
    const float part = 1.f / a.n;
    column_sums<N> sums = {};
    alignas(16) float gamma[N] = {};
    shared_sums<WIDE> shared;
    rows_held<T> now, next;
    shared.begin((float *)shared_room);
    if (column < a.n)
        weights_at<N>(a.gamma, column, 1, gamma);
    int64_t first =
        (n_chunks - 1 - blockIdx.x * (int64_t)blockDim.y - threadIdx.y) *
        AT_ONCE;
    next.load(a, first, column);
    for (; first >= 0; first -= step) {
        float of_rows[2 * AT_ONCE];
        now = next;
        next.load(a, first - step, column);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            add_row<T>(now.from[FROM_X][k], now.from[FROM_DY][k], gamma,
                       {now.mean[k], now.rstd[k]}, &sums, of_rows + 2 * k);
        shared.join(of_rows);
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            const int64_t r = first + k;
            if (column >= a.n || r >= a.rows)
                continue;
            const float by[2] = {a.mean == NULL ? 0 : of_rows[2 * k] * part,
                                 of_rows[2 * k + 1] * part};
            float y[N];
            unpack_words<T>(now.from[FROM_PLUS][k], y);
            finish_row<T>(now.from[FROM_X][k], now.from[FROM_DY][k], gamma,
                          {now.mean[k], now.rstd[k]}, by, y);
            if (SUMS)
#pragma unroll
                for (int i = 0; i < N; i++)
                    sums.dx[i] += y[i];
            *(P *)(a.dx + r * a.n + column) = packed<T>(y);
        }
    }
    __syncthreads();
    float *const room = (float *)shared_room;
    float *to = a.partial + blockIdx.x * (int64_t)(SUMS ? 3 : 2) * a.n;
    write_sums<N>(sums.dgamma, a.n, column, room, to);
    write_sums<N>(sums.dbeta, a.n, column, room, to + a.n);
    if (SUMS)
        write_sums<N>(sums.dx, a.n, column, room, to + 2 * a.n);
}

// A warp's threads own columns, its block's warps chunks in turn.
__global__ void join_sums(int n, int n_chunks, const float *partial,
                          float *dgamma, float *dbeta, float *dsum)
{
    __shared__ float room[ROWS][COLS + 1];
    const int i = blockIdx.x * COLS + threadIdx.x;
    const int kind = blockIdx.y, kinds = gridDim.y;
    float *const to = kind == 0 ? dgamma : kind == 1 ? dbeta : dsum;
    float s = 0;
    if (i < n)
        for (int k = threadIdx.y; k < n_chunks; k += ROWS)
            s += partial[(kinds * k + kind) * (int64_t)n + i];
    room[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.y != 0 || i >= n || to == NULL)
        return;
    for (int r = 1; r < ROWS; r++)
        s += room[r][threadIdx.x];
    to[i] = s;
}

const char *norm_join(tt_cuda *cuda, const tt_cuda_norm_args *a,
                      int64_t n_chunks, int kinds)
{
    join_sums<<<dim3((unsigned)ceil_div(a->n, COLS), (unsigned)kinds),
                dim3(COLS, ROWS), 0, cuda->stream>>>(
        (int)a->n, (int)n_chunks, (const float *)a->scratch, a->dgamma,
        a->dbeta, a->dsum);
    return launched();
}

template <int WIDE, bool SUMS, typename T>
static const char *launch(tt_cuda *cuda, const tt_cuda_norm_args *a)
{
    const grad_shape s = shape_of(a);
    const int64_t most = cuda->info.cores;
    const int64_t blocks = s.blocks < most ? s.blocks : most;
    const int64_t of_rows = 2 * shared_sums<WIDE>::VALUES * s.groups * WIDE;
    const int64_t bytes = 4 * (of_rows > a->n ? of_rows : a->n);
    const grad_args<T> args = {
        a->rows,
        (int)a->n,
        {(const T *)a->x, (const T *)a->dy, (const T *)a->plus},
        {a->weight_type, a->gamma},
        a->mean_in,
        a->rstd_in,
        (T *)a->y,
        (float *)a->scratch};
    norm_grad<WIDE, SUMS, T>
        <<<(unsigned)blocks, dim3((unsigned)s.warps * 32, (unsigned)s.groups),
           (size_t)bytes, cuda->stream>>>(args);
    TRY(launched());
    return norm_join(cuda, a, blocks, SUMS ? 3 : 2);
}

template <bool SUMS, typename T>
static const char *launch_wide(tt_cuda *cuda, const tt_cuda_norm_args *a)
{
    const int warps = shape_of(a).warps;
    return warps <= 4   ? launch<4, SUMS, T>(cuda, a)
           : warps <= 8 ? launch<8, SUMS, T>(cuda, a)
                        : launch<16, SUMS, T>(cuda, a);
}

// dx may be x: the weights' gradients come first where they have a kernel of their own.
static const char *in_turn(tt_cuda *cuda, const tt_cuda_norm_args *a)
{
    TRY(tt_cuda_norm_grad_w(cuda, a));
    TRY(tt_cuda_norm_grad_x(cuda, a));
    if (a->dsum == NULL)
        return NULL;
    const tt_cuda_reduce_args r = sums_of_dx(a);
    return tt_cuda_reduce(cuda, &r);
}

template <typename T>
static const char *grad_type(tt_cuda *cuda, const tt_cuda_norm_args *a)
{
    if (!is_wide<T>(a) || shape_of(a).warps > MOST_WARPS)
        return in_turn(cuda, a);
    return a->dsum != NULL ? launch_wide<true, T>(cuda, a)
                           : launch_wide<false, T>(cuda, a);
}

extern "C" const char *tt_cuda_norm_grad(tt_cuda *cuda,
                                         const tt_cuda_norm_args *args)
{
    return BY_TYPE(args->type, grad_type, cuda, args);
}
