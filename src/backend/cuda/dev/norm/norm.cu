// norm - layer norm and RMS norm, for rows of any length.
//
// Forward: a warp owns a row. Where the row is short enough it stays in registers
// between the sums and the normalising; else it is read again, from the cache. A warp,
// and not a block, because then no barrier stands between rows, and while some warps
// wait for loads others compute.
//
// Bound by reading x and writing y: 54.1 us for 64 x 1024 rows of 768 on an H200, where
// a copy of that size takes 52.7 and the rate of long copies (4,270 GB/s) would allow
// 47.
//
// Gradients of weights: a thread owns columns, a block a chunk of rows. The chunks'
// sums are added by a second kernel in their order, so the result repeats bit by bit.
//
// Tried: rows copied ahead into shared memory (cp.async), persistent blocks that load
// the next row into registers, several rows of a warp, more warps of fewer registers,
// loads and stores with cache hints. None helped.

#include "backend/cuda/dev/norm/norm.cuh"

enum { COLS = 32, ROWS = 8, MAX_CHUNKS = 512, MOST_PACKS = 8 };

// f(i, x[i]) for the lane's elements of a row.
template <bool WIDE, typename T, typename F>
__device__ static inline void each(const T *row, int n, int lane, F f)
{
    typedef pack<T> P;
    if (WIDE) {
        for (int i = lane * P::N; i < n; i += 32 * P::N) {
            const P p = *(const P *)(row + i);
#pragma unroll
            for (int k = 0; k < P::N; k++)
                f(i + k, to_float(p.v[k]));
        }
    } else {
        for (int i = lane; i < n; i += 32)
            f(i, to_float(row[i]));
    }
}

template <bool WIDE, typename T>
__global__ void norm(int64_t rows, int n, float eps, const T *x, weights gamma,
                     weights beta, T *y, float *mean_out, float *rstd_out)
{
    typedef pack<T> P;
    const int lane = threadIdx.x % 32;
    const int64_t r = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    if (r >= rows)
        return;
    const T *row = x + r * n;
    T *to = y + r * n;
    float sum = 0, squares = 0;
    if (mean_out != NULL)
        each<WIDE>(row, n, lane, [&](int, float v) { sum += v; });
    const float mean = mean_out == NULL ? 0 : warp_sum(sum) / n;
    each<WIDE>(row, n, lane,
               [&](int, float v) { squares += (v - mean) * (v - mean); });
    const float rstd = 1 / sqrtf(warp_sum(squares) / n + eps);
    if (WIDE) {
        for (int i = lane * P::N; i < n; i += 32 * P::N) {
            P p = *(const P *)(row + i);
            alignas(16) float by[P::N], plus[P::N];
            weights_at<P::N>(gamma, i, 1, by);
            weights_at<P::N>(beta, i, 0, plus);
#pragma unroll
            for (int k = 0; k < P::N; k++)
                p.v[k] = from_float<T>(
                    (to_float(p.v[k]) - mean) * rstd * by[k] + plus[k]);
            *(P *)(to + i) = p;
        }
    } else {
        for (int i = lane; i < n; i += 32)
            to[i] = from_float<T>((to_float(row[i]) - mean) * rstd *
                                      weight(gamma, i, 1) +
                                  weight(beta, i, 0));
    }
    if (lane == 0) {
        if (mean_out != NULL)
            mean_out[r] = mean;
        rstd_out[r] = rstd;
    }
}

// Rows of at most 32 N * packs elements, a multiple of N. All of a lane's loads are
// issued before the first is used. The last rows come first: the kernel before wrote
// them last, so the L2 cache still has them.
template <int N_PACKS, typename T>
__global__ void __launch_bounds__(WARPS * 32)
    norm_short(int64_t rows, int n, float eps, const T *x, weights gamma,
               weights beta, T *y, float *mean_out, float *rstd_out)
{
    typedef pack<T> P;
    const int lane = threadIdx.x % 32;
    const int64_t r = rows - 1 - blockIdx.x * (int64_t)WARPS - threadIdx.x / 32;
    const float part = 1.f / n;
    P row[N_PACKS];
    float v[P::N], sum = 0, squares = 0;
    if (r < 0)
        return;
#pragma unroll
    for (int j = 0; j < N_PACKS; j++) {
        const int i = (j * 32 + lane) * P::N;
        row[j] = i < n ? *(const P *)(x + r * n + i) : P();
    }
#pragma unroll
    for (int j = 0; j < N_PACKS; j++) {
        unpack(row[j], v);
#pragma unroll
        for (int k = 0; k < P::N; k++)
            sum += v[k];
    }
    const float mean = mean_out == NULL ? 0 : warp_sum(sum) * part;
#pragma unroll
    for (int j = 0; j < N_PACKS; j++) {
        if ((j * 32 + lane) * P::N >= n)
            continue;
        unpack(row[j], v);
#pragma unroll
        for (int k = 0; k < P::N; k++)
            squares += (v[k] - mean) * (v[k] - mean);
    }
    const float rstd = rsqrtf(warp_sum(squares) * part + eps);
#pragma unroll
    for (int j = 0; j < N_PACKS; j++) {
        const int i = (j * 32 + lane) * P::N;
        if (i >= n)
            continue;
        alignas(16) float by[P::N], plus[P::N];
        weights_at<P::N>(gamma, i, 1, by);
        weights_at<P::N>(beta, i, 0, plus);
        unpack(row[j], v);
#pragma unroll
        for (int k = 0; k < P::N; k++)
            v[k] = (v[k] - mean) * rstd * by[k] + plus[k];
        *(P *)(y + r * n + i) = packed<T>(v);
    }
    if (lane == 0) {
        if (mean_out != NULL)
            mean_out[r] = mean;
        rstd_out[r] = rstd;
    }
}

template <int N_PACKS, typename T>
static const char *launch_short(tt_cuda *cuda, const tt_cuda_norm_args *a)
{
    const weights gamma = {a->weight_type, a->gamma};
    const weights beta = {a->weight_type, a->beta};
    norm_short<N_PACKS, T>
        <<<(unsigned)ceil_div(a->rows, WARPS), WARPS * 32, 0, cuda->stream>>>(
            a->rows, (int)a->n, (float)a->eps, (const T *)a->x, gamma, beta,
            (T *)a->y, a->mean, a->rstd);
    return launched();
}

template <typename T>
static const char *norm_type(tt_cuda *cuda, const tt_cuda_norm_args *a)
{
    const int64_t packs = ceil_div(a->n, 32 * pack<T>::N);
    if (is_wide<T>(a) && packs <= MOST_PACKS)
        return packs <= 1   ? launch_short<1, T>(cuda, a)
               : packs <= 2 ? launch_short<2, T>(cuda, a)
               : packs <= 3 ? launch_short<3, T>(cuda, a)
               : packs <= 4 ? launch_short<4, T>(cuda, a)
               : packs <= 5 ? launch_short<5, T>(cuda, a)
               : packs <= 6 ? launch_short<6, T>(cuda, a)
               : packs <= 7 ? launch_short<7, T>(cuda, a)
                            : launch_short<8, T>(cuda, a);
    const weights gamma = {a->weight_type, a->gamma};
    const weights beta = {a->weight_type, a->beta};
    const unsigned blocks = (unsigned)ceil_div(a->rows, WARPS);
    const auto kernel = is_wide<T>(a) ? norm<true, T> : norm<false, T>;
    kernel<<<blocks, WARPS * 32, 0, cuda->stream>>>(
        a->rows, (int)a->n, (float)a->eps, (const T *)a->x, gamma, beta,
        (T *)a->y, a->mean, a->rstd);
    return launched();
}

extern "C" const char *tt_cuda_norm(tt_cuda *cuda,
                                    const tt_cuda_norm_args *args)
{
    return BY_TYPE(args->type, norm_type, cuda, args);
}

// ---- gradient of x -----------------------------------------------------------

template <bool WIDE, typename T>
__global__ void norm_grad_x(int64_t rows, int n, const T *x, const T *dy,
                            weights gamma, const float *means,
                            const float *rstds, const T *plus, T *dx)
{
    typedef pack<T> P;
    const int lane = threadIdx.x % 32;
    const int64_t r = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    if (r >= rows)
        return;
    const T *row = x + r * n, *grad = dy + r * n;
    T *to = dx + r * n;
    const float mean = means == NULL ? 0 : means[r], rstd = rstds[r];
    float a = 0, b = 0;
    const auto add = [&](float by, float v, float d) {
        const float g = d * by;
        a += g;
        b += g * (v - mean) * rstd;
    };
    const auto result = [&](float by, float v, float d) {
        return rstd * (d * by - a - (v - mean) * rstd * b);
    };
    if (WIDE) {
        for (int i = lane * P::N; i < n; i += 32 * P::N) {
            const P p = *(const P *)(row + i), q = *(const P *)(grad + i);
            alignas(16) float by[P::N];
            weights_at<P::N>(gamma, i, 1, by);
#pragma unroll
            for (int k = 0; k < P::N; k++)
                add(by[k], to_float(p.v[k]), to_float(q.v[k]));
        }
    } else {
        for (int i = lane; i < n; i += 32)
            add(weight(gamma, i, 1), to_float(row[i]), to_float(grad[i]));
    }
    a = means == NULL ? 0 : warp_sum(a) / n;
    b = warp_sum(b) / n;
    if (WIDE) {
        for (int i = lane * P::N; i < n; i += 32 * P::N) {
            const P p = *(const P *)(row + i), q = *(const P *)(grad + i);
            P y = p;
            alignas(16) float by[P::N];
            weights_at<P::N>(gamma, i, 1, by);
            if (plus != NULL)
                y = *(const P *)(plus + r * n + i);
#pragma unroll
            for (int k = 0; k < P::N; k++)
                y.v[k] = from_float<T>(
                    result(by[k], to_float(p.v[k]), to_float(q.v[k])) +
                    (plus == NULL ? 0.f : to_float(y.v[k])));
            *(P *)(to + i) = y;
        }
    } else {
        for (int i = lane; i < n; i += 32)
            to[i] =
                from_float<T>(result(weight(gamma, i, 1), to_float(row[i]),
                                     to_float(grad[i])) +
                              (plus == NULL ? 0.f : to_float(plus[r * n + i])));
    }
}

template <typename T>
static const char *grad_x_type(tt_cuda *cuda, const tt_cuda_norm_args *a)
{
    const weights gamma = {a->weight_type, a->gamma};
    const unsigned blocks = (unsigned)ceil_div(a->rows, WARPS);
    const auto kernel =
        is_wide<T>(a) ? norm_grad_x<true, T> : norm_grad_x<false, T>;
    kernel<<<blocks, WARPS * 32, 0, cuda->stream>>>(
        a->rows, (int)a->n, (const T *)a->x, (const T *)a->dy, gamma,
        a->mean_in, a->rstd_in, (const T *)a->plus, (T *)a->y);
    return launched();
}

extern "C" const char *tt_cuda_norm_grad_x(tt_cuda *cuda,
                                           const tt_cuda_norm_args *args)
{
    return BY_TYPE(args->type, grad_x_type, cuda, args);
}

// ---- gradients of the weights --------------------------------------------------

static int64_t chunks_of(const tt_cuda_norm_args *a)
{
    const int64_t v = is_low(a->type) ? 8 : 4;
    int64_t n = ceil_div(132 * 8, ceil_div(a->n, v * COLS));
    const int64_t most = ceil_div(a->rows, ROWS * 4);
    n = n > most ? most : n;
    return n > MAX_CHUNKS ? (int64_t)MAX_CHUNKS : n;
}

extern "C" int64_t tt_cuda_norm_scratch(const tt_cuda_norm_args *args)
{
    const int64_t in_turn = 8 * args->n * chunks_of(args);
    const int64_t at_once = norm_grad_scratch(args);
    return at_once > in_turn ? at_once : in_turn;
}

// V columns per thread. partial[chunk, 2, n].
template <int V, typename T>
__global__ void norm_grad_w(int64_t rows, int n, int64_t per_chunk, const T *x,
                            const T *dy, const float *means, const float *rstds,
                            float *partial)
{
    struct alignas(sizeof(T) * V) part {
        T v[V];
    };
    __shared__ float room[2 * V][ROWS][COLS + 1];
    const int col = (blockIdx.x * COLS + threadIdx.x) * V;
    const int64_t first = blockIdx.y * per_chunk;
    const int64_t end = min(first + per_chunk, rows);
    float gamma[V] = {0}, beta[V] = {0};
    if (col < n)
        for (int64_t r = first + threadIdx.y; r < end; r += ROWS) {
            const part px = *(const part *)(x + r * n + col);
            const part pd = *(const part *)(dy + r * n + col);
            const float mean = means == NULL ? 0 : means[r], rstd = rstds[r];
#pragma unroll
            for (int k = 0; k < V; k++) {
                const float d = to_float(pd.v[k]);
                gamma[k] += d * (to_float(px.v[k]) - mean) * rstd;
                beta[k] += d;
            }
        }
#pragma unroll
    for (int k = 0; k < V; k++) {
        room[2 * k][threadIdx.y][threadIdx.x] = gamma[k];
        room[2 * k + 1][threadIdx.y][threadIdx.x] = beta[k];
    }
    __syncthreads();
    if (col >= n)
        return;
    for (int j = threadIdx.y; j < 2 * V; j += ROWS) {
        float s = 0;
        for (int r = 0; r < ROWS; r++)
            s += room[j][r][threadIdx.x];
        partial[(blockIdx.y * 2 + j % 2) * (int64_t)n + col + j / 2] = s;
    }
}

template <typename T>
static const char *grad_w_type(tt_cuda *cuda, const tt_cuda_norm_args *a)
{
    enum { V = pack<T>::N };
    const int64_t n_chunks = chunks_of(a);
    const bool is_wide = a->n % V == 0 && is_aligned(a->x) && is_aligned(a->dy);
    const int v = is_wide ? (int)V : 1;
    const dim3 grid((unsigned)ceil_div(a->n, v * COLS), (unsigned)n_chunks);
    const auto kernel = is_wide ? norm_grad_w<V, T> : norm_grad_w<1, T>;
    kernel<<<grid, dim3(COLS, ROWS), 0, cuda->stream>>>(
        a->rows, (int)a->n, ceil_div(a->rows, n_chunks), (const T *)a->x,
        (const T *)a->dy, a->mean_in, a->rstd_in, (float *)a->scratch);
    TRY(launched());
    return norm_join(cuda, a, n_chunks, 2);
}

extern "C" const char *tt_cuda_norm_grad_w(tt_cuda *cuda,
                                           const tt_cuda_norm_args *args)
{
    return BY_TYPE(args->type, grad_w_type, cuda, args);
}
