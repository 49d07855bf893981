// fp8 - operands in 8 bits, and their units. quantise is bound by memory bandwidth: x is
// read once, and the result written once as it lies and once turned, in pieces of 32
// bytes, with the largest |x| on the way, and a GELU before; 4 bytes an element of 16
// bits.

#include "backend/cuda/dev/common.cuh"

#include <cuda_fp8.h>

enum { THREADS = 256, TILE = 128, WORDS = TILE / 4 };

// Infinity becomes NaN, and what is finite stays so.
template <bool IS_E5M2>
__device__ static inline uint32_t two_bytes(float a, float b)
{
    float2 both;
    both.x = fabsf(a) == INFINITY ? NAN : a;
    both.y = fabsf(b) == INFINITY ? NAN : b;
    return __nv_cvt_float2_to_fp8x2(both, __NV_SATFINITE,
                                    IS_E5M2 ? __NV_E5M2 : __NV_E4M3);
}

template <bool IS_E5M2>
__device__ static inline uint32_t four_bytes(const float *x)
{
    return two_bytes<IS_E5M2>(x[0], x[1]) |
           two_bytes<IS_E5M2>(x[2], x[3]) << 16;
}

// All blocks: the last to come knows the largest of all.
__device__ static void leave_peak(float largest, double of, tt_meeting *meeting,
                                  float *peak)
{
    __shared__ float room[32];
    largest = block_max(largest, room);
    if (threadIdx.x != 0)
        return;
    atomicMax(&meeting->largest, __float_as_uint(largest));
    __threadfence();
    const unsigned blocks = gridDim.x * gridDim.y;
    if (atomicAdd(&meeting->arrived, 1u) != blocks - 1)
        return;
    const unsigned all = atomicExch(&meeting->largest, 0u);
    *peak = (float)((double)__uint_as_float(all) / of);
    meeting->arrived = 0;
}

__device__ static inline float gelu(float x)
{
    return 0.5f * x *
           (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

// Byte k of each of four words.
__device__ static inline uint32_t turn(const uint32_t *w, int k)
{
    const int s = 8 * k;
    return (w[0] >> s & 0xff) | (w[1] >> s & 0xff) << 8 |
           (w[2] >> s & 0xff) << 16 | (w[3] >> s & 0xff) << 24;
}

// Reads the block's tile, writes it as it lies and keeps it; returns the largest.
template <typename T, bool IS_E5M2>
__device__ static float read_tile(const tt_cuda_quantise_args &a, int64_t row0,
                                  int64_t col0, uint32_t (*tile)[WORDS + 1])
{
    typedef pack<T> P;
    enum { PER_ROW = TILE / P::N };
    const float by = 1 / *a.unit;
    float largest = 0;
    for (int i = threadIdx.x; i < TILE * PER_ROW; i += THREADS) {
        const int r = i / PER_ROW, c = i % PER_ROW * P::N;
        if (row0 + r >= a.rows || col0 + c >= a.cols)
            continue;
        const int64_t at = (row0 + r) * a.cols + col0 + c;
        const P x = *(const P *)((const T *)a.x + at);
        float v[P::N];
#pragma unroll
        for (int k = 0; k < P::N; k++) {
            v[k] = to_float(x.v[k]);
            if (a.is_gelu)
                v[k] = gelu(v[k]);
            largest = fmaxf(largest, fabsf(v[k]));
            v[k] *= by;
        }
        struct alignas(P::N) bytes {
            uint32_t word[P::N / 4];
        } b;
#pragma unroll
        for (int k = 0; k < P::N / 4; k++)
            tile[r][c / 4 + k] = b.word[k] = four_bytes<IS_E5M2>(v + 4 * k);
        *(bytes *)((uint8_t *)a.straight + at) = b;
    }
    return largest;
}

// Eight lanes write 32 bytes of one row of the result.
__device__ static void write_turned(const tt_cuda_quantise_args &a,
                                    int64_t row0, int64_t col0,
                                    const uint32_t (*tile)[WORDS + 1])
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int i = 0; i < 4; i++) {
        const int r = 4 * (i * 8 + lane % 8), c = warp * 4 + lane / 8;
        if (row0 + r >= a.rows || col0 + 4 * c >= a.cols)
            continue;
        uint32_t w[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            w[k] = tile[r + k][c];
#pragma unroll
        for (int k = 0; k < 4; k++)
            *(uint32_t *)((uint8_t *)a.turned +
                          (col0 + 4 * c + k) * a.rows + row0 + r) = turn(w, k);
    }
}

// Rows and columns are multiples of 16.
template <typename T, bool IS_E5M2>
__global__ void quantise_tiles(tt_cuda_quantise_args a, tt_meeting *meeting)
{
    __shared__ uint32_t tile[TILE][WORDS + 1];
    const int64_t row0 = blockIdx.y * (int64_t)TILE;
    const int64_t col0 = blockIdx.x * (int64_t)TILE;
    const float largest = read_tile<T, IS_E5M2>(a, row0, col0, tile);
    __syncthreads();
    write_turned(a, row0, col0, tile);
    leave_peak(largest, a.largest, meeting, a.peak);
}

// Any extents, an element a thread.
template <typename T, bool IS_E5M2>
__global__ void quantise_any(tt_cuda_quantise_args a, tt_meeting *meeting)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    float largest = 0;
    if (i < a.rows * a.cols) {
        float x = to_float(((const T *)a.x)[i]);
        x = a.is_gelu ? gelu(x) : x;
        const uint8_t byte =
            (uint8_t)(two_bytes<IS_E5M2>(x * (1 / *a.unit), 0) & 0xff);
        largest = fmaxf(fabsf(x), 0); // 0 for NaN
        ((uint8_t *)a.straight)[i] = byte;
        ((uint8_t *)a.turned)[i % a.cols * a.rows + i / a.cols] = byte;
    }
    leave_peak(largest, a.largest, meeting, a.peak);
}

static bool is_even(const tt_cuda_quantise_args *a)
{
    return a->rows % 16 == 0 && a->cols % 16 == 0 && is_aligned(a->x) &&
           is_aligned(a->straight) && is_aligned(a->turned) &&
           ceil_div(a->rows, TILE) < 65536;
}

template <typename T, bool IS_E5M2>
static const char *launch(tt_cuda *cuda, const tt_cuda_quantise_args *a)
{
    if (is_even(a)) {
        const dim3 grid((unsigned)ceil_div(a->cols, TILE),
                        (unsigned)ceil_div(a->rows, TILE));
        quantise_tiles<T, IS_E5M2>
            <<<grid, THREADS, 0, cuda->stream>>>(*a, cuda->meeting);
    } else {
        quantise_any<T, IS_E5M2>
            <<<(unsigned)ceil_div(a->rows * a->cols, THREADS), THREADS, 0,
               cuda->stream>>>(*a, cuda->meeting);
    }
    return launched();
}

template <typename T>
static const char *quantise_type(tt_cuda *cuda, const tt_cuda_quantise_args *a)
{
    return a->to == TT_E5M2 ? launch<T, true>(cuda, a)
                            : launch<T, false>(cuda, a);
}

extern "C" const char *tt_cuda_quantise_open(tt_cuda *cuda)
{
    if (cuda->meeting != NULL)
        return NULL;
    TRY_CUDA(cudaMalloc((void **)&cuda->meeting, sizeof *cuda->meeting));
    TRY_CUDA(cudaMemsetAsync(cuda->meeting, 0, sizeof *cuda->meeting,
                             cuda->stream));
    return NULL;
}

extern "C" const char *tt_cuda_quantise(tt_cuda *cuda,
                                        const tt_cuda_quantise_args *args)
{
    return BY_TYPE(args->type, quantise_type, cuda, args);
}

// ---- numbers -------------------------------------------------------------------

__global__ void largest_of(tt_cuda_largest_args a)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i < a.n)
        a.y[i] = a.accumulate ? fmaxf(a.y[i], a.x[i]) : a.x[i];
}

extern "C" const char *tt_cuda_largest(tt_cuda *cuda,
                                       const tt_cuda_largest_args *args)
{
    largest_of<<<(unsigned)ceil_div(args->n, THREADS), THREADS, 0,
                 cuda->stream>>>(*args);
    return launched();
}

__device__ static float power_above(float x)
{
    int exponent = 0;
    const double m = frexp((double)x, &exponent); // in [0.5, 1)
    return (float)ldexp(1.0, m == 0.5 ? exponent - 1 : exponent);
}

__global__ void fp8_units(tt_cuda_units_args a)
{
    const int64_t s = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (s >= a.sites)
        return;
    const bool is_skipped = *a.skip != 0;
    float unit = a.units[s], newest = a.peaks[s], most = 0;
    newest = isfinite(newest) ? newest : 0;
    for (int64_t i = 0; i < a.steps; i++) {
        const float old = a.history[i * a.sites + s];
        const float now = is_skipped ? old : newest;
        a.history_out[i * a.sites + s] = now;
        most = fmaxf(most, now);
        newest = old;
    }
    if (!is_skipped && most > 0)
        unit = power_above(most);
    a.units_out[s] = unit;
}

extern "C" const char *tt_cuda_fp8_units(tt_cuda *cuda,
                                         const tt_cuda_units_args *args)
{
    fp8_units<<<(unsigned)ceil_div(args->sites, THREADS), THREADS, 0,
                cuda->stream>>>(*args);
    return launched();
}
