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

// How many rows ahead: as many as shared memory has room for beside the registers that
// the sums take.
template <int N_PACKS> struct stages {
    enum { N = N_PACKS <= 5 ? 3 : 2, BLOCKS = N_PACKS <= 3 ? 2 : 1 };
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

// partial[block, 2 or 3, n].
template <int N_PACKS, bool SUMS, typename T>
__global__ void __launch_bounds__(WARPS * 32, stages<N_PACKS>::BLOCKS)
    norm_grad(int64_t rows, int n, const T *x, const T *dy, weights gamma,
              const float *means, const float *rstds, const T *plus, T *dx,
              float *partial)
{
    typedef pack<T> P;
    enum { STAGES = stages<N_PACKS>::N };
    extern __shared__ uint4 shared_room[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int64_t step = (int64_t)gridDim.x * WARPS;
    const int64_t first = blockIdx.x * (int64_t)WARPS + warp;
    const rows_ahead<N_PACKS, SOURCES, T> ahead = {
        (P *)shared_room + warp * STAGES * rows_ahead<N_PACKS, SOURCES, T>::STAGE,
        {x, dy, plus},
        rows,
        n,
        lane};
    column_sums<N_PACKS, T> dgamma, dbeta, dsum;
    dgamma.clear();
    dbeta.clear();
    dsum.clear();
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        ahead.copy(s, first + s * step);
    int stage = 0;
    for (int64_t r = first; r < rows; r += step) {
        const float mean = means == NULL ? 0 : means[r], rstd = rstds[r];
        ahead.copy((stage + STAGES - 1) % STAGES, r + (STAGES - 1) * step);
        __pipeline_wait_prior(STAGES - 1);
        float a = 0, b = 0;
#pragma unroll
        for (int j = 0; j < N_PACKS; j++) {
            const int i = (j * 32 + lane) * P::N;
            if (i >= n)
                continue;
            const P px = ahead.at(stage, FROM_X, j);
            const P pd = ahead.at(stage, FROM_DY, j);
            alignas(16) float by[P::N];
            weights_at<P::N>(gamma, i, 1, by);
#pragma unroll
            for (int k = 0; k < P::N; k++) {
                const float d = to_float(pd.v[k]);
                const float hat = (to_float(px.v[k]) - mean) * rstd;
                dgamma.of[j][k] += d * hat;
                dbeta.of[j][k] += d;
                a += d * by[k];
                b += d * by[k] * hat;
            }
        }
        a = means == NULL ? 0 : warp_sum(a) / n;
        b = warp_sum(b) / n;
#pragma unroll
        for (int j = 0; j < N_PACKS; j++) {
            const int i = (j * 32 + lane) * P::N;
            if (i >= n)
                continue;
            const P px = ahead.at(stage, FROM_X, j);
            const P pd = ahead.at(stage, FROM_DY, j);
            P pp = px;
            if (plus != NULL)
                pp = ahead.at(stage, FROM_PLUS, j);
            alignas(16) float by[P::N];
            weights_at<P::N>(gamma, i, 1, by);
#pragma unroll
            for (int k = 0; k < P::N; k++) {
                const float hat = (to_float(px.v[k]) - mean) * rstd;
                const float g = to_float(pd.v[k]) * by[k];
                pp.v[k] = from_float<T>(
                    rstd * (g - a - hat * b) +
                    (plus == NULL ? 0.f : to_float(pp.v[k])));
                if (SUMS)
                    dsum.of[j][k] += to_float(pp.v[k]);
            }
            *(P *)(dx + r * n + i) = pp;
        }
        stage = (stage + 1) % STAGES;
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
    const int64_t most = (int64_t)cuda->info.cores * stages<N_PACKS>::BLOCKS;
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
