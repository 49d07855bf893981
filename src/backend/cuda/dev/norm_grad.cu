// norm_grad - all gradients of a norm in one pass: dx with what else flows into x, sums
// over rows for gamma and beta, and the sums of dx itself, which are the gradient of a
// bias in front of it.
//
// A warp takes rows in turn, holds its sums of all columns in registers and copies the
// next rows into shared memory meanwhile; sums are added in a fixed order. Bound by
// reading x, dy and plus and writing dx once.

#include "backend/cuda/dev/norm.cuh"

enum { GRAD_BLOCKS = 264, COLS = 32, ROWS = 8, MOST_PACKS = 8 };

static int64_t grad_blocks(int64_t rows)
{
    const int64_t n = ceil_div(rows, WARPS);
    return n > GRAD_BLOCKS ? (int64_t)GRAD_BLOCKS : n;
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
    const int64_t at_once = 12 * args->n * grad_blocks(args->rows);
    const int64_t behind = tt_cuda_reduce_scratch(&r);
    return at_once > behind ? at_once : behind;
}

enum { FROM_X, FROM_DY, FROM_PLUS, SOURCES };

// How many rows at a time: as many as shared memory has room for.
template <int N_PACKS> struct stages {
    enum { N = N_PACKS <= 2 ? 4 : N_PACKS <= 5 ? 3 : 2 };
};

// ---- sums ---------------------------------------------------------------------

template <int N_PACKS, typename T> struct column_sums {
    enum { N = pack<T>::N };
    float of[N_PACKS][N];

    __device__ inline void clear()
    {
#pragma unroll
        for (int j = 0; j < N_PACKS; j++)
#pragma unroll
            for (int k = 0; k < N; k++)
                of[j][k] = 0;
    }

    // The block's warps one after the other.
    __device__ inline void write(float *room, int n, float *to) const
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        for (int w = 0; w < WARPS; w++) {
            if (warp == w)
#pragma unroll
                for (int j = 0; j < N_PACKS; j++)
#pragma unroll
                    for (int k = 0; k < N; k++) {
                        const int i = (j * 32 + lane) * N + k;
                        room[i] = of[j][k] + (w == 0 ? 0.f : room[i]);
                    }
            __syncthreads();
        }
        for (int i = threadIdx.x; i < n; i += WARPS * 32)
            to[i] = room[i];
        __syncthreads();
    }
};

// ---- the kernel -----------------------------------------------------------------

// What a lane has of a row: dy * gamma, and x without its mean, scaled. Short rows stay
// in registers between the two passes over them, gamma too; of long ones they are
// computed again.
template <int N_PACKS, typename T> struct terms {
    typedef pack<T> P;
    enum { N = P::N, IS_HELD = N_PACKS * N <= 32, ROOM = IS_HELD ? N_PACKS : 1 };

    weights gamma;
    float by[ROOM][N], hat[ROOM][N], g[ROOM][N];
    float mean, rstd;

    __device__ inline void begin(const weights &w, int n, int lane)
    {
        gamma = w;
        if (IS_HELD)
#pragma unroll
            for (int j = 0; j < ROOM; j++)
                if ((j * 32 + lane) * N < n)
                    weights_at<N>(w, (j * 32 + lane) * N, 1, by[j]);
    }

    // Of pack j, which begins at column i; `d` becomes dy.
    __device__ inline void make(const P &px, const P &pd, int j, int i,
                                float *d)
    {
        const int at = IS_HELD ? j : 0;
        unpack(px, hat[at]);
        unpack(pd, d);
        if (!IS_HELD)
            weights_at<N>(gamma, i, 1, by[at]);
#pragma unroll
        for (int k = 0; k < N; k++) {
            hat[at][k] = (hat[at][k] - mean) * rstd;
            g[at][k] = d[k] * by[at][k];
        }
    }
};

// partial[block, 2 or 3, n].
template <int N_PACKS, bool SUMS, typename T>
__global__ void __launch_bounds__(WARPS * 32, 1)
    norm_grad(int64_t rows, int n, const T *x, const T *dy, weights gamma,
              const float *means, const float *rstds, const T *plus, T *dx,
              float *partial)
{
    typedef rows_ahead<N_PACKS, SOURCES, T> rows_here;
    typedef pack<T> P;
    enum { STAGES = stages<N_PACKS>::N };
    extern __shared__ uint4 shared_room[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t step = (int64_t)gridDim.x * WARPS;
    const int64_t first = blockIdx.x * (int64_t)WARPS + warp;
    const rows_here ahead = {(P *)shared_room +
                                 warp * STAGES * rows_here::STAGE,
                             {x, dy, plus},
                             rows,
                             n,
                             lane};
    const float part = 1.f / n;
    column_sums<N_PACKS, T> dgamma, dbeta, dsum;
    terms<N_PACKS, T> t;
    dgamma.clear();
    dbeta.clear();
    dsum.clear();
    t.begin(gamma, n, lane);
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        ahead.copy(s, first + s * step);
    float next_mean = 0, next_rstd = 0;
    if (first < rows) {
        next_mean = means == NULL ? 0 : means[first];
        next_rstd = rstds[first];
    }
    int stage = 0;
    for (int64_t r = first; r < rows; r += step) {
        ahead.copy(stage == 0 ? STAGES - 1 : stage - 1,
                   r + (STAGES - 1) * step);
        t.mean = next_mean;
        t.rstd = next_rstd;
        if (r + step < rows) {
            next_mean = means == NULL ? 0 : means[r + step];
            next_rstd = rstds[r + step];
        }
        __pipeline_wait_prior(STAGES - 1);
        float a = 0, b = 0, d[P::N];
#pragma unroll
        for (int j = 0; j < N_PACKS; j++) {
            const int i = (j * 32 + lane) * P::N, at = t.IS_HELD ? j : 0;
            if (i >= n)
                continue;
            t.make(ahead.at(stage, FROM_X, j), ahead.at(stage, FROM_DY, j), j,
                   i, d);
#pragma unroll
            for (int k = 0; k < P::N; k++) {
                dgamma.of[j][k] += d[k] * t.hat[at][k];
                dbeta.of[j][k] += d[k];
                a += t.g[at][k];
                b += t.g[at][k] * t.hat[at][k];
            }
        }
        a = means == NULL ? 0 : warp_sum(a) * part;
        b = warp_sum(b) * part;
#pragma unroll
        for (int j = 0; j < N_PACKS; j++) {
            const int i = (j * 32 + lane) * P::N, at = t.IS_HELD ? j : 0;
            float y[P::N] = {0};
            if (i >= n)
                continue;
            if (!t.IS_HELD)
                t.make(ahead.at(stage, FROM_X, j), ahead.at(stage, FROM_DY, j),
                       j, i, d);
            if (plus != NULL)
                unpack(ahead.at(stage, FROM_PLUS, j), y);
#pragma unroll
            for (int k = 0; k < P::N; k++) {
                y[k] += t.rstd * (t.g[at][k] - a - t.hat[at][k] * b);
                if (SUMS)
                    dsum.of[j][k] += y[k];
            }
            *(P *)(dx + r * n + i) = packed<T>(y);
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    __pipeline_wait_prior(0);
    __syncthreads();
    float *to = partial + blockIdx.x * (int64_t)(SUMS ? 3 : 2) * n;
    dgamma.write((float *)shared_room, n, to);
    dbeta.write((float *)shared_room, n, to + n);
    if (SUMS)
        dsum.write((float *)shared_room, n, to + 2 * n);
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

template <int N_PACKS, bool SUMS, typename T>
static const char *launch(tt_cuda *cuda, const tt_cuda_norm_args *a)
{
    const weights gamma = {a->weight_type, a->gamma};
    const int64_t most = cuda->info.cores;
    const int64_t wanted = grad_blocks(a->rows);
    const int64_t blocks = wanted < most ? wanted : most;
    const int bytes = WARPS * stages<N_PACKS>::N *
                      rows_ahead<N_PACKS, SOURCES, T>::STAGE * (int)sizeof(pack<T>);
    const auto kernel = norm_grad<N_PACKS, SUMS, T>;
    TRY_CUDA(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    kernel<<<(unsigned)blocks, WARPS * 32, (size_t)bytes, cuda->stream>>>(
        a->rows, (int)a->n, (const T *)a->x, (const T *)a->dy, gamma,
        a->mean_in, a->rstd_in, (const T *)a->plus, (T *)a->y,
        (float *)a->scratch);
    TRY(launched());
    return norm_join(cuda, a, blocks, SUMS ? 3 : 2);
}

template <int N_PACKS, typename T>
static const char *launch_packs(tt_cuda *cuda, const tt_cuda_norm_args *a)
{
    return a->dsum != NULL ? launch<N_PACKS, true, T>(cuda, a)
                           : launch<N_PACKS, false, T>(cuda, a);
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
    const int64_t packs = ceil_div(a->n, 32 * pack<T>::N);
    if (!is_wide<T>(a) || packs > MOST_PACKS)
        return in_turn(cuda, a);
    return packs <= 1   ? launch_packs<1, T>(cuda, a)
           : packs <= 2 ? launch_packs<2, T>(cuda, a)
           : packs <= 3 ? launch_packs<3, T>(cuda, a)
           : packs <= 4 ? launch_packs<4, T>(cuda, a)
           : packs <= 5 ? launch_packs<5, T>(cuda, a)
           : packs <= 7 ? launch_packs<7, T>(cuda, a)
                        : launch_packs<8, T>(cuda, a);
}

extern "C" const char *tt_cuda_norm_grad(tt_cuda *cuda,
                                         const tt_cuda_norm_args *args)
{
    return BY_TYPE(args->type, grad_type, cuda, args);
}
