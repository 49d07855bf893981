// turn - transposes matrices in tiles that go through shared memory, so that both
// sides are read and written in runs. Bound by memory bandwidth.

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
            tile[i][threadIdx.x] = x[base + (row + i) * cols + col + threadIdx.x];
    __syncthreads();
    for (int i = threadIdx.y; i < TILE; i += ROWS)
        if (col + i < cols && row + threadIdx.x < rows)
            y[base + (col + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
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

extern "C" const char *tt_cuda_turn(tt_cuda *cuda,
                                    const tt_cuda_turn_args *args)
{
    return args->bytes == 2   ? turn_type<uint16_t>(cuda, args)
           : args->bytes == 4 ? turn_type<uint32_t>(cuda, args)
           : args->bytes == 8 ? turn_type<uint64_t>(cuda, args)
                              : turn_type<uint8_t>(cuda, args);
}
