// batch_norm_finish - between the passes of batch_norm: small kernels with one thread,
// or one row of lanes, for each channel. They also update the running statistics, and
// are where the sums of other ranks come in (pair_in). Bound by latency: a few
// microseconds, which shows in small layers (7 x 7 x 512: 21 us for three launches, 9
// by its bytes).

#include "backend/cuda/dev/norm/batch_norm.cuh"

enum { THREADS = 256, COLS = 8, LANES = 64 };

// Both sums of group g over its chunks, in all threads of a channel; a block is COLS
// channels times LANES.
__device__ static void add_chunks(const tt_cuda_bn_args &a,
                                  const float *partial, int64_t chunks,
                                  int64_t g, double *out)
{
    __shared__ double room[2][LANES][COLS + 1];
    const int64_t c = blockIdx.x * (int64_t)COLS + threadIdx.x;
    const float *from = partial + g * chunks * 2 * a.channels + c;
    const int x = (int)threadIdx.x, y = (int)threadIdx.y;
    double sum[2] = {0, 0};
    if (c < a.channels)
#pragma unroll 8
        for (int64_t k = y; k < chunks; k += LANES) {
            sum[0] += from[k * 2 * a.channels];
            sum[1] += from[(k * 2 + 1) * a.channels];
        }
    __syncthreads(); // of the group before
    room[0][y][x] = sum[0];
    room[1][y][x] = sum[1];
    __syncthreads();
    if (y < 2) {
        double part[4] = {0, 0, 0, 0};
#pragma unroll
        for (int k = 0; k < LANES; k++)
            part[k % 4] += room[y][k][x];
        room[y][0][x] = part[0] + part[1] + (part[2] + part[3]);
    }
    __syncthreads();
    out[0] = room[0][0][x];
    out[1] = room[1][0][x];
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

__device__ static inline void keep(const tt_cuda_bn_args &a, float *coef,
                                   int64_t g, int64_t c, const float *value)
{
    for (int i = 0; i < COEFS; i++)
        coef[(g * COEFS + i) * a.channels + c] = value[i];
}

// Mean, gamma rstd and beta for the second pass.
__device__ static inline void keep_forward(const tt_cuda_bn_args &a,
                                           float *coef, int64_t g, int64_t c,
                                           float mean, float rstd)
{
    const float value[COEFS] = {
        mean, rstd * (float)load_any(a.gamma_type, a.gamma, c),
        (float)load_any(a.beta_type, a.beta, c)};
    keep(a, coef, g, c, value);
}

// Statistics of all groups, and the running ones. The moments are sums of chunks, or
// with `pair_in` those of all ranks.
__global__ void finish_statistics(tt_cuda_bn_args a, const float *partial,
                                  int64_t chunks, float *coef)
{
    const int64_t c = blockIdx.x * (int64_t)COLS + threadIdx.x;
    const bool is_mine = c < a.channels && threadIdx.y == 0;
    double mean = 0, var = 0;
    for (int64_t row = 0; row < a.rows; row++) {
        double sum[2] = {0, 0};
        if (a.pair_in == NULL) {
            add_chunks(a, partial, chunks, row, sum);
        } else if (is_mine) {
            sum[0] = a.pair_in[row * a.channels + c];
            sum[1] = a.pair_in[(a.rows + row) * a.channels + c];
        }
        if (!is_mine)
            continue;
        const int64_t g = row - a.first_row;
        const double shift = sum[0] / a.count;
        const double v = fmax(sum[1] / a.count - shift * shift, 0.0);
        const double m = a.shift[c] + shift;
        const float rstd = (float)(1 / sqrt(v + a.eps));
        a.mean[row * a.channels + c] = (float)m;
        a.rstd[row * a.channels + c] = rstd;
        if (g >= 0 && g < a.groups)
            keep_forward(a, coef, g, c, (float)m, rstd);
        mean += m / a.whole_groups;
        var += v * a.count / (a.count - 1) / a.whole_groups;
    }
    if (!is_mine)
        return;
    const double by = a.momentum;
    a.new_mean[c] = (float)((1 - by) * a.running_mean[c] + by * mean);
    a.new_var[c] = (float)((1 - by) * a.running_var[c] + by * var);
}

__global__ void use_running(tt_cuda_bn_args a, float *coef)
{
    const int64_t c = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    float mean, rstd;
    if (c >= a.channels)
        return;
    statistics(a, 0, c, &mean, &rstd);
    for (int64_t g = 0; g < a.groups; g++)
        keep_forward(a, coef, g, c, mean, rstd);
}

// u, v and w of the second pass backward.
__device__ static inline void keep_back(const tt_cuda_bn_args &a, float *coef,
                                        int64_t g, int64_t c, float dgamma,
                                        float dbeta)
{
    float value[COEFS] = {}, mean, rstd;
    statistics(a, g, c, &mean, &rstd);
    const float u = rstd * (float)load_any(a.gamma_type, a.gamma, c);
    value[0] = u;
    if (!a.is_frozen) {
        const double v = -u * rstd * (double)dgamma / a.count;
        value[1] = (float)v;
        value[2] = (float)(-u * (double)dbeta / a.count - v * mean);
    }
    keep(a, coef, g, c, value);
}

__global__ void use_pair(tt_cuda_bn_args a, float *coef)
{
    const int64_t c = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    const int64_t g = blockIdx.y;
    const int64_t at = (a.first_row + g) * a.channels + c;
    if (c < a.channels)
        keep_back(a, coef, g, c, a.pair_in[at],
                  a.pair_in[a.rows * a.channels + at]);
}

// Sums as a pair [2, rows, channels], zero for groups that are elsewhere; their totals
// over groups to dgamma and dbeta. The first of a norm's gradients are with x - mean,
// still to be divided by the deviation.
__global__ void finish_pair(tt_cuda_bn_args a, const float *partial,
                            int64_t chunks, float *coef)
{
    const int64_t c = blockIdx.x * (int64_t)COLS + threadIdx.x;
    const bool is_mine = c < a.channels && threadIdx.y == 0;
    double total[2] = {0, 0};
    for (int64_t row = 0; row < a.rows; row++) {
        const int64_t g = row - a.first_row;
        const bool is_here = g >= 0 && g < a.groups;
        double sum[2] = {0, 0};
        if (is_here)
            add_chunks(a, partial, chunks, g, sum);
        if (!is_mine)
            continue;
        if (a.mean_in != NULL && a.dy != NULL && is_here) {
            float mean, rstd;
            statistics(a, g, c, &mean, &rstd);
            sum[0] *= rstd;
        }
        for (int i = 0; i < 2; i++) {
            a.pair[(i * a.rows + row) * a.channels + c] = (float)sum[i];
            total[i] += sum[i];
        }
        if (coef != NULL && is_here)
            keep_back(a, coef, g, c, (float)sum[0], (float)sum[1]);
    }
    if (is_mine && a.dgamma != NULL)
        a.dgamma[c] = (float)total[0];
    if (is_mine && a.dbeta != NULL)
        a.dbeta[c] = (float)total[1];
}

// ---- launching -------------------------------------------------------------

static dim3 blocks_of(const tt_cuda_bn_args *a, int cols, int64_t groups)
{
    return dim3((unsigned)ceil_div(a->channels, cols), (unsigned)groups);
}

const char *tt_cuda_bn_finish_statistics(tt_cuda *cuda,
                                         const tt_cuda_bn_args *a,
                                         int64_t chunks, float *coef)
{
    finish_statistics<<<blocks_of(a, COLS, 1), dim3(COLS, LANES), 0,
                        cuda->stream>>>(*a, (const float *)a->scratch, chunks,
                                        coef);
    return launched();
}

const char *tt_cuda_bn_use_running(tt_cuda *cuda, const tt_cuda_bn_args *a,
                                   float *coef)
{
    use_running<<<blocks_of(a, THREADS, 1), THREADS, 0, cuda->stream>>>(*a,
                                                                        coef);
    return launched();
}

const char *tt_cuda_bn_finish_pair(tt_cuda *cuda, const tt_cuda_bn_args *a,
                                   int64_t chunks, float *coef)
{
    finish_pair<<<blocks_of(a, COLS, 1), dim3(COLS, LANES), 0, cuda->stream>>>(
        *a, (const float *)a->scratch, chunks, coef);
    return launched();
}

const char *tt_cuda_bn_use_pair(tt_cuda *cuda, const tt_cuda_bn_args *a,
                                float *coef)
{
    use_pair<<<blocks_of(a, THREADS, a->groups), THREADS, 0, cuda->stream>>>(
        *a, coef);
    return launched();
}
