// fp8 - operands in 8 bits, and their units. quantise is bound by memory bandwidth: x is
// read once, and the result written once as it lies and once turned, with the largest
// |x| on the way, and a GELU before; 4 bytes an element of 16 bits.

#include "backend/cuda/dev/common.cuh"

#include <cuda_fp8.h>

// A block's tile: a word is four columns of a row. Rows are a word longer than they need
// to be, and words change places in them, so that threads which read or write at the
// same time meet in no bank.
enum { THREADS = 256, ROWS = 128, COLS = 64, STRIDE = COLS / 4 + 1 };

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

// x times the logistic function of twice what tanh would be of.
__device__ static inline float gelu(float x)
{
    const float u = x * (1.59576912f + 0.07135481f * x * x);
    return __fdividef(x, 1 + __expf(-u));
}

// The bytes of four words, turned: byte i of word k becomes byte k of word i.
__device__ static inline void turn(const uint32_t *w, uint32_t *out)
{
    const uint32_t a = __byte_perm(w[0], w[1], 0x5140);
    const uint32_t b = __byte_perm(w[2], w[3], 0x5140);
    const uint32_t c = __byte_perm(w[0], w[1], 0x7362);
    const uint32_t d = __byte_perm(w[2], w[3], 0x7362);
    out[0] = __byte_perm(a, b, 0x5410);
    out[1] = __byte_perm(a, b, 0x7632);
    out[2] = __byte_perm(c, d, 0x5410);
    out[3] = __byte_perm(c, d, 0x7632);
}

__device__ static inline int place_of(int row, int word)
{
    return row * STRIDE + (word ^ 2 * (row / 32));
}

// Eight columns of a row.
template <typename T> struct eight {
    enum { PACKS = 8 / pack<T>::N };
    pack<T> p[PACKS];
};

template <typename T, bool IS_GELU, bool IS_E5M2>
__device__ static inline uint2 quantised(const eight<T> &x, float by,
                                         float *largest)
{
    float v[8];
#pragma unroll
    for (int k = 0; k < eight<T>::PACKS; k++)
        unpack(x.p[k], v + k * pack<T>::N);
#pragma unroll
    for (int k = 0; k < 8; k++) {
        if (IS_GELU)
            v[k] = gelu(v[k]);
        *largest = fmaxf(*largest, fabsf(v[k]));
        v[k] *= by;
    }
    return make_uint2(four_bytes<IS_E5M2>(v), four_bytes<IS_E5M2>(v + 4));
}

// Reads the block's tile, all of it before anything else, writes it as it lies and keeps
// it; returns the largest.
template <typename T, bool IS_GELU, bool IS_E5M2>
__device__ static float read_tile(const tt_cuda_quantise_args &a, int64_t row0,
                                  int64_t col0, uint32_t *tile)
{
    enum { LOADS = ROWS * COLS / 8 / THREADS };
    const int c = threadIdx.x % (COLS / 8) * 8, r0 = threadIdx.x / (COLS / 8);
    const float by = 1 / *a.unit;
    float largest = 0;
    eight<T> x[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int64_t row = row0 + r0 + i * (ROWS / LOADS);
        if (row < a.rows && col0 + c < a.cols)
            x[i] = *(const eight<T> *)((const T *)a.x + row * a.cols + col0 +
                                       c);
    }
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int r = r0 + i * (ROWS / LOADS);
        if (row0 + r >= a.rows || col0 + c >= a.cols)
            continue;
        const uint2 b = quantised<T, IS_GELU, IS_E5M2>(x[i], by, &largest);
        tile[place_of(r, c / 4)] = b.x;
        tile[place_of(r, c / 4 + 1)] = b.y;
        *(uint2 *)((uint8_t *)a.straight + (row0 + r) * a.cols + col0 + c) = b;
    }
    return largest;
}

// A thread turns eight rows of a word; 16 of them write 128 bytes of a row of the result.
__device__ static void write_turned(const tt_cuda_quantise_args &a,
                                    int64_t row0, int64_t col0,
                                    const uint32_t *tile)
{
    const int r = threadIdx.x % (ROWS / 8) * 8, word = threadIdx.x / (ROWS / 8);
    const int64_t col = col0 + 4 * word;
    if (row0 + r >= a.rows || col >= a.cols)
        return;
    uint32_t w[8], first[4], last[4];
#pragma unroll
    for (int k = 0; k < 8; k++)
        w[k] = tile[place_of(r + k, word)];
    turn(w, first);
    turn(w + 4, last);
#pragma unroll
    for (int k = 0; k < 4; k++)
        *(uint2 *)((uint8_t *)a.turned + (col + k) * a.rows + row0 + r) =
            make_uint2(first[k], last[k]);
}

// Rows and columns are multiples of 16.
template <typename T, bool IS_GELU, bool IS_E5M2>
__global__ void __launch_bounds__(THREADS)
    quantise_tiles(tt_cuda_quantise_args a, tt_meeting *meeting)
{
    __shared__ uint32_t tile[ROWS * STRIDE];
    const int64_t row0 = blockIdx.y * (int64_t)ROWS;
    const int64_t col0 = blockIdx.x * (int64_t)COLS;
    const float largest =
        read_tile<T, IS_GELU, IS_E5M2>(a, row0, col0, tile);
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
           ceil_div(a->rows, ROWS) < 65536;
}

template <typename T, bool IS_GELU, bool IS_E5M2>
static void launch_tiles(tt_cuda *cuda, const tt_cuda_quantise_args *a)
{
    const dim3 grid((unsigned)ceil_div(a->cols, COLS),
                    (unsigned)ceil_div(a->rows, ROWS));
    quantise_tiles<T, IS_GELU, IS_E5M2>
        <<<grid, THREADS, 0, cuda->stream>>>(*a, cuda->meeting);
}

template <typename T, bool IS_E5M2>
static const char *launch(tt_cuda *cuda, const tt_cuda_quantise_args *a)
{
    if (!is_even(a))
        quantise_any<T, IS_E5M2>
            <<<(unsigned)ceil_div(a->rows * a->cols, THREADS), THREADS, 0,
               cuda->stream>>>(*a, cuda->meeting);
    else if (a->is_gelu)
        launch_tiles<T, true, IS_E5M2>(cuda, a);
    else
        launch_tiles<T, false, IS_E5M2>(cuda, a);
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
