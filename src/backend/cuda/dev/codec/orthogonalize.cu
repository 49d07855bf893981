// orthogonalize - Gram-Schmidt for low-rank compression (PowerSGD): one block, column
// after column, in double. Bound by the latency of its sums, one for each pair of
// columns. There are few columns, and the products around it are far larger.

#include "backend/cuda/dev/common.cuh"

enum { MOST_THREADS = 512, ROWS = 4 }; // of a thread, at least

// In scratch memory each column is contiguous.
__global__ void orthogonalize(tt_cuda_orthogonalize_args a)
{
    __shared__ double room[32];
    double *m = (double *)a.scratch;
    for (int64_t i = threadIdx.x; i < a.rows * a.cols; i += blockDim.x)
        m[i % a.cols * a.rows + i / a.cols] = load_any(a.type, a.x, i);
    __syncthreads();
    for (int64_t j = 0; j < a.cols; j++) {
        double *column = m + j * a.rows;
        double before = 0, after = 0;
        for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x)
            before += column[i] * column[i];
        before = block_sum(before, room);
        for (int64_t k = 0; k < j; k++) {
            const double *other = m + k * a.rows;
            double dot = 0;
            for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x)
                dot += other[i] * column[i];
            dot = block_sum(dot, room);
            for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x)
                column[i] -= dot * other[i];
        }
        for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x)
            after += column[i] * column[i];
        after = block_sum(after, room);
        const double by = after > 1e-12 * before ? 1 / sqrt(after) : 0;
        for (int64_t i = threadIdx.x; i < a.rows; i += blockDim.x) {
            column[i] *= by;
            store_any(a.type, a.y, i * a.cols + j, column[i]);
        }
    }
}

extern "C" const char *
tt_cuda_orthogonalize(tt_cuda *c, const tt_cuda_orthogonalize_args *args)
{
    const int64_t wanted = ceil_div(args->rows, 32 * ROWS) * 32;
    const int64_t most = MOST_THREADS;
    const unsigned threads = (unsigned)(wanted < most ? wanted : most);
    orthogonalize<<<1, threads, 0, c->stream>>>(*args);
    return launched();
}
