// turn - transposes matrices, mostly between channels first and channels last. Tiles go
// through shared memory, so that both sides are read and written in runs. Matrices of
// up to four rows or columns (images of three channels) go through registers: a thread
// has 16 bytes of each row. Bound by memory bandwidth: 51 to 57% of a copy's rate in
// steps of ResNet-50 and ViT-B/16 on an H200.

#include "backend/cuda/dev/common.cuh"

enum { TILE = 32, ROWS = 8 };

template <typename T>
__global__ void turn(int64_t rows, int64_t cols, int64_t row_tiles, const T *x,
                     T *y)
{
    __shared__ T tile[TILE][TILE + 1];
    const int64_t row = blockIdx.x % row_tiles * TILE;
    const int64_t col = blockIdx.x / row_tiles * TILE;
    const int64_t base = blockIdx.y * rows * cols;
    for (int i = threadIdx.y; i < TILE; i += ROWS)
        if (row + i < rows && col + threadIdx.x < cols)
            tile[i][threadIdx.x] =
                x[base + (row + i) * cols + col + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < TILE; i += ROWS)
        if (col + i < cols && row + threadIdx.x < rows)
            y[base + (col + i) * rows + row + threadIdx.x] =
                tile[threadIdx.x][i];
}

template <typename T>
static const char *turn_type(tt_cuda *cuda, const tt_cuda_turn_args *a)
{
    enum { MOST = 65535 }; // the grid's limit
    const int64_t row_tiles = ceil_div(a->rows, TILE);
    const int64_t tiles = row_tiles * ceil_div(a->cols, TILE);
    for (int64_t b = 0; b < a->batch; b += MOST) {
        const int64_t n = a->batch - b < MOST ? a->batch - b : (int64_t)MOST;
        const int64_t at = b * a->rows * a->cols;
        turn<T><<<dim3((unsigned)tiles, (unsigned)n), dim3(TILE, ROWS), 0,
                  cuda->stream>>>(a->rows, a->cols, row_tiles,
                                  (const T *)a->x + at, (T *)a->y + at);
        TRY(launched());
    }
    return NULL;
}

// ---- few rows or columns ---------------------------------------------------

// Between [FEW, many] and [many, FEW]; IS_BACK: to the former.
template <typename T, int FEW, bool IS_BACK>
__global__ void turn_few(int64_t runs, int64_t each, const T *x, T *y)
{
    enum { N = pack<T>::N };
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    const int64_t matrix = i / each, run = i - matrix * each;
    pack<T> in[FEW], out[FEW];
    if (i >= runs)
        return;
    // Packs of a matrix: row r, run k is number r * each + k; the other way they
    // lie together.
    const int64_t base = matrix * each * FEW;
#pragma unroll
    for (int r = 0; r < FEW; r++)
        in[r] = ((const pack<T> *)
                     x)[base + (IS_BACK ? run * FEW + r : r * each + run)];
#pragma unroll
    for (int r = 0; r < FEW; r++)
#pragma unroll
        for (int k = 0; k < N; k++) {
            const int e = k * FEW + r;
            if (IS_BACK)
                out[r].v[k] = in[e / N].v[e % N];
            else
                out[e / N].v[e % N] = in[r].v[k];
        }
#pragma unroll
    for (int r = 0; r < FEW; r++)
        ((pack<T> *)y)[base + (IS_BACK ? r * each + run : run * FEW + r)] =
            out[r];
}

template <typename T, int FEW>
static const char *launch_few(tt_cuda *cuda, const tt_cuda_turn_args *a)
{
    enum { THREADS = 256 };
    const bool is_back = a->cols == FEW;
    const int64_t each = (is_back ? a->rows : a->cols) / pack<T>::N;
    const int64_t runs = a->batch * each;
    const auto kernel =
        is_back ? turn_few<T, FEW, true> : turn_few<T, FEW, false>;
    kernel<<<(unsigned)ceil_div(runs, THREADS), THREADS, 0, cuda->stream>>>(
        runs, each, (const T *)a->x, (T *)a->y);
    return launched();
}

// Whether it has been done.
template <typename T>
static bool try_few(tt_cuda *cuda, const tt_cuda_turn_args *a,
                    const char **error_out)
{
    const int64_t few = a->rows < a->cols ? a->rows : a->cols;
    const int64_t many = a->rows < a->cols ? a->cols : a->rows;
    if (few < 2 || few > 4 || many % pack<T>::N != 0 || !is_aligned(a->x) ||
        !is_aligned(a->y))
        return false;
    *error_out = few == 2   ? launch_few<T, 2>(cuda, a)
                 : few == 3 ? launch_few<T, 3>(cuda, a)
                            : launch_few<T, 4>(cuda, a);
    return true;
}

extern "C" const char *tt_cuda_turn(tt_cuda *cuda,
                                    const tt_cuda_turn_args *args)
{
    const char *error = NULL;
    if (args->bytes == 2 && try_few<uint16_t>(cuda, args, &error))
        return error;
    if (args->bytes == 4 && try_few<uint32_t>(cuda, args, &error))
        return error;
    return args->bytes == 2   ? turn_type<uint16_t>(cuda, args)
           : args->bytes == 4 ? turn_type<uint32_t>(cuda, args)
           : args->bytes == 8 ? turn_type<uint64_t>(cuda, args)
                              : turn_type<uint8_t>(cuda, args);
}
