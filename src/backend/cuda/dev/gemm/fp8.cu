// fp8 - operands in 8 bits (e4m3, e5m2) and their units (scales): x = unit * byte.
//
// The problem: cuBLASLt multiplies 8-bit operands only if the inner dimension is
// contiguous in both. Forward and backward products have other inner dimensions, so
// each operand is needed as it lies and transposed. And the unit of the next steps
// needs the largest |x| of this one. By separate kernels that would be many passes over
// memory.
//
// The idea: fp8_pack does all in one pass. A block reads a tile of 128 x 64 into shared
// memory, with GELU (or its gradient) applied, writes the bytes as they lie and
// transposed, and finds the largest |x|. For gradients it also takes sums over rows,
// the bias gradient: a row of sums for each tile, which are added in their order.
//
// Costs: bound by memory bandwidth, 4 bytes an element of 16 bits (6 with GELU's
// gradient, where three kernels would move 12). 70% of a copy's rate on an H200, 76%
// for gradients. The largest |x| costs 3 of 37 us, where blocks meet; that they meet in
// 32 places and not in one saved 0.2 of 17.4 ms.
//
// Tried: tiles of 256 rows, persistent blocks, with loads ahead or not: no faster.

#include "backend/cuda/dev/common.cuh"

#include <cuda_fp8.h>

// A block's tile in shared memory: a word is four columns of a row. Rows are padded by
// a word, and words are permuted within them, to avoid bank conflicts.
enum { THREADS = 256, ROWS = 128, COLS = 64, STRIDE = COLS / 4 + 1 };

// Rounds to 8 bits. Finite numbers saturate and stay finite; infinity becomes NaN.
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
    return two_bytes<IS_E5M2>(x[0], x[1]) | two_bytes<IS_E5M2>(x[2], x[3])
                                                << 16;
}

// Where blocks meet to find the largest |x|. Thousands of atomics on one address would
// wait for each other, so there are 32 places, each in a cache line of its own; the
// last block at each place goes on to the first place.
enum { PLACES = 32, BETWEEN = 128 / sizeof(tt_meeting) };

// Whether this is the last of n blocks to come; if so it gets the largest of all.
__device__ static bool is_last(tt_meeting *at, unsigned n, unsigned *largest)
{
    atomicMax(&at->largest, *largest);
    __threadfence();
    if (atomicAdd(&at->arrived, 1u) != n - 1)
        return false;
    *largest = atomicExch(&at->largest, 0u);
    at->arrived = 0;
    return true;
}

__device__ static void leave_peak(float largest, double of, tt_meeting *meeting,
                                  float *peak)
{
    __shared__ float room[32];
    largest = block_max(largest, room);
    if (threadIdx.x != 0)
        return;
    const unsigned blocks = gridDim.x * gridDim.y;
    const unsigned place = (blockIdx.y * gridDim.x + blockIdx.x) % PLACES;
    const unsigned here = (blocks - 1 - place) / PLACES + 1;
    unsigned all = __float_as_uint(largest);
    if (is_last(meeting + (1 + place) * BETWEEN, here, &all) &&
        is_last(meeting, blocks < PLACES ? blocks : (unsigned)PLACES, &all))
        *peak = (float)((double)__uint_as_float(all) / of);
}

// GELU, tanh form: x times the logistic function of 2 u, where u is tanh's argument.
__device__ static inline float gelu(float x)
{
    const float u = x * (1.59576912f + 0.07135481f * x * x);
    return __fdividef(x, 1 + __expf(-u));
}

// Its slope, with s the logistic function of u: s + x s (1 - s) u'.
__device__ static inline float gelu_slope(float x)
{
    const float u = x * (1.59576912f + 0.07135481f * x * x);
    const float s = __fdividef(1.f, 1 + __expf(-u));
    return s + x * s * (1 - s) * (1.59576912f + 0.21406443f * x * x);
}

// Transposes 4 x 4 bytes: byte i of word k becomes byte k of word i.
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

enum way { PLAIN, GELU, GELU_GRAD };

template <typename T>
__device__ static inline void unpack_eight(const eight<T> &x, float *v)
{
#pragma unroll
    for (int k = 0; k < eight<T>::PACKS; k++)
        unpack(x.p[k], v + k * pack<T>::N);
}

// What is quantized of x (and z): v.
template <typename T, way WAY>
__device__ static inline void values_of(const eight<T> &x, const eight<T> &z,
                                        float *v)
{
    unpack_eight(x, v);
    if (WAY == GELU_GRAD) {
        float at[8];
        unpack_eight(z, at);
#pragma unroll
        for (int k = 0; k < 8; k++)
            v[k] *= gelu_slope(at[k]);
    }
    if (WAY == GELU) {
#pragma unroll
        for (int k = 0; k < 8; k++)
            v[k] = gelu(v[k]);
    }
}

// What a thread knows of its columns.
struct columns {
    float largest, sum[8];
};

template <bool IS_E5M2>
__device__ static inline uint2 quantized(float *v, float by, columns *c)
{
#pragma unroll
    for (int k = 0; k < 8; k++) {
        c->largest = fmaxf(c->largest, fabsf(v[k]));
        c->sum[k] += v[k];
        v[k] *= by;
    }
    return make_uint2(four_bytes<IS_E5M2>(v), four_bytes<IS_E5M2>(v + 4));
}

// Reads the block's tile, with all loads in flight before the first is used; writes it
// as it lies, and keeps it in shared memory.
template <typename T, way WAY, bool IS_E5M2>
__device__ static void read_tile(const tt_cuda_fp8_pack_args &a, int64_t row0,
                                 int64_t col0, uint32_t *tile, columns *of)
{
    enum { LOADS = ROWS * COLS / 8 / THREADS };
    const int c = threadIdx.x % (COLS / 8) * 8, r0 = threadIdx.x / (COLS / 8);
    const float by = 1 / *a.unit;
    eight<T> x[LOADS], z[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int64_t row = row0 + r0 + i * (ROWS / LOADS);
        const int64_t at = row * a.cols + col0 + c;
        if (row >= a.rows || col0 + c >= a.cols)
            continue;
        x[i] = *(const eight<T> *)((const T *)a.x + at);
        if (WAY == GELU_GRAD)
            z[i] = *(const eight<T> *)((const T *)a.z + at);
    }
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int r = r0 + i * (ROWS / LOADS);
        float v[8];
        if (row0 + r >= a.rows || col0 + c >= a.cols)
            continue;
        values_of<T, WAY>(x[i], z[i], v);
        const uint2 b = quantized<IS_E5M2>(v, by, of);
        tile[place_of(r, c / 4)] = b.x;
        tile[place_of(r, c / 4 + 1)] = b.y;
        *(uint2 *)((uint8_t *)a.straight + (row0 + r) * a.cols + col0 + c) = b;
    }
}

// The tile's sums: of lanes that have the same columns, then of warps.
__device__ static void leave_sums(const tt_cuda_fp8_pack_args &a, int64_t col0,
                                  const columns &of)
{
    __shared__ float room[THREADS / 32][COLS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < 8; k++) {
        float sum = of.sum[k];
        sum += __shfl_xor_sync(0xffffffffu, sum, 8);
        sum += __shfl_xor_sync(0xffffffffu, sum, 16);
        if (lane < COLS / 8)
            room[warp][lane * 8 + k] = sum;
    }
    __syncthreads();
    const int64_t col = col0 + threadIdx.x;
    if (threadIdx.x >= COLS || col >= a.cols)
        return;
    float sum = 0;
    for (int w = 0; w < THREADS / 32; w++)
        sum += room[w][threadIdx.x];
    ((float *)a.scratch)[blockIdx.y * a.cols + col] = sum;
}

// A thread turns eight rows of a word; 16 of them write 128 bytes of a row of the
// result.
__device__ static void write_turned(const tt_cuda_fp8_pack_args &a,
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
template <typename T, way WAY, bool IS_E5M2, bool HAS_SUMS>
__global__ void __launch_bounds__(THREADS)
    fp8_pack_tiles(tt_cuda_fp8_pack_args a, tt_meeting *meeting)
{
    __shared__ uint32_t tile[ROWS * STRIDE];
    const int64_t row0 = blockIdx.y * (int64_t)ROWS;
    const int64_t col0 = blockIdx.x * (int64_t)COLS;
    columns of = {};
    read_tile<T, WAY, IS_E5M2>(a, row0, col0, tile, &of);
    __syncthreads();
    write_turned(a, row0, col0, tile);
    if (HAS_SUMS)
        leave_sums(a, col0, of);
    leave_peak(of.largest, a.largest, meeting, a.peak);
}

template <typename T>
__device__ static inline float value_at(const tt_cuda_fp8_pack_args &a,
                                        int64_t i)
{
    const float x = to_float(((const T *)a.x)[i]);
    if (a.z != NULL)
        return x * gelu_slope(to_float(((const T *)a.z)[i]));
    return a.is_gelu ? gelu(x) : x;
}

// Any extents, an element a thread.
template <typename T, bool IS_E5M2>
__global__ void fp8_pack_any(tt_cuda_fp8_pack_args a, tt_meeting *meeting)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    float largest = 0;
    if (i < a.rows * a.cols) {
        const float x = value_at<T>(a, i);
        const uint8_t byte =
            (uint8_t)(two_bytes<IS_E5M2>(x * (1 / *a.unit), 0) & 0xff);
        largest = fmaxf(fabsf(x), 0); // 0 for NaN
        ((uint8_t *)a.straight)[i] = byte;
        ((uint8_t *)a.turned)[i % a.cols * a.rows + i / a.cols] = byte;
    }
    leave_peak(largest, a.largest, meeting, a.peak);
}

// And its sums, a column a thread.
template <typename T> __global__ void sum_any(tt_cuda_fp8_pack_args a)
{
    const int64_t col = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (col >= a.cols)
        return;
    float sum = a.accumulate ? a.sums[col] : 0;
    for (int64_t row = 0; row < a.rows; row++)
        sum += value_at<T>(a, row * a.cols + col);
    a.sums[col] = sum;
}

static bool is_even(const tt_cuda_fp8_pack_args *a)
{
    return a->rows % 16 == 0 && a->cols % 16 == 0 && is_aligned(a->x) &&
           is_aligned(a->z) && is_aligned(a->straight) &&
           is_aligned(a->turned) && ceil_div(a->rows, ROWS) < 65536;
}

// Sums of tiles to sums of all.
static tt_cuda_reduce_args sums_of(const tt_cuda_fp8_pack_args *a)
{
    tt_cuda_reduce_args r = {};
    r.outer = 1;
    r.length = ceil_div(a->rows, ROWS);
    r.inner = a->cols;
    r.accumulate = a->accumulate;
    r.by = 1;
    r.x_type = r.y_type = TT_F32;
    r.x = a->scratch;
    r.y = a->sums;
    return r;
}

static int64_t tiles_bytes(const tt_cuda_fp8_pack_args *a)
{
    return ceil_div(4 * ceil_div(a->rows, ROWS) * a->cols, 256) * 256;
}

extern "C" int64_t tt_cuda_fp8_pack_scratch(const tt_cuda_fp8_pack_args *a)
{
    const tt_cuda_reduce_args r = sums_of(a);
    return tiles_bytes(a) + tt_cuda_reduce_scratch(&r);
}

template <typename T, way WAY, bool IS_E5M2, bool HAS_SUMS>
static void launch_tiles(tt_cuda *cuda, const tt_cuda_fp8_pack_args *a)
{
    const dim3 grid((unsigned)ceil_div(a->cols, COLS),
                    (unsigned)ceil_div(a->rows, ROWS));
    fp8_pack_tiles<T, WAY, IS_E5M2, HAS_SUMS>
        <<<grid, THREADS, 0, cuda->stream>>>(*a, cuda->meeting);
}

template <typename T, bool IS_E5M2>
static const char *launch_any(tt_cuda *cuda, const tt_cuda_fp8_pack_args *a)
{
    fp8_pack_any<T, IS_E5M2><<<(unsigned)ceil_div(a->rows * a->cols, THREADS),
                               THREADS, 0, cuda->stream>>>(*a, cuda->meeting);
    if (a->sums != NULL)
        sum_any<T><<<(unsigned)ceil_div(a->cols, THREADS), THREADS, 0,
                     cuda->stream>>>(*a);
    return launched();
}

template <typename T, bool IS_E5M2>
static const char *launch(tt_cuda *cuda, const tt_cuda_fp8_pack_args *a)
{
    if (!is_even(a))
        return launch_any<T, IS_E5M2>(cuda, a);
    if (a->sums == NULL) {
        if (a->is_gelu)
            launch_tiles<T, GELU, IS_E5M2, false>(cuda, a);
        else
            launch_tiles<T, PLAIN, IS_E5M2, false>(cuda, a);
        return launched();
    }
    if (a->z != NULL)
        launch_tiles<T, GELU_GRAD, IS_E5M2, true>(cuda, a);
    else
        launch_tiles<T, PLAIN, IS_E5M2, true>(cuda, a);
    TRY(launched());
    tt_cuda_reduce_args r = sums_of(a);
    r.scratch = (char *)a->scratch + tiles_bytes(a);
    return tt_cuda_reduce(cuda, &r);
}

template <typename T>
static const char *fp8_pack_type(tt_cuda *cuda, const tt_cuda_fp8_pack_args *a)
{
    return a->to == TT_E5M2 ? launch<T, true>(cuda, a)
                            : launch<T, false>(cuda, a);
}

extern "C" const char *tt_cuda_fp8_pack_open(tt_cuda *cuda)
{
    if (cuda->meeting != NULL)
        return NULL;
    const size_t bytes = (1 + PLACES) * BETWEEN * sizeof *cuda->meeting;
    TRY_CUDA(cudaMalloc((void **)&cuda->meeting, bytes));
    TRY_CUDA(cudaMemsetAsync(cuda->meeting, 0, bytes, cuda->stream));
    return NULL;
}

extern "C" const char *tt_cuda_fp8_pack(tt_cuda *cuda,
                                        const tt_cuda_fp8_pack_args *args)
{
    return BY_TYPE(args->type, fp8_pack_type, cuda, args);
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
    float unit = a.units[s * a.apart], newest = a.peaks[s], most = 0;
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
    a.units_out[s * a.apart] = unit;
    for (int64_t i = s * a.apart + 1; i < (s + 1) * a.apart; i++)
        a.units_out[i] = a.units[i];
}

extern "C" const char *tt_cuda_fp8_units(tt_cuda *cuda,
                                         const tt_cuda_units_args *args)
{
    fp8_units<<<(unsigned)ceil_div(args->sites, THREADS), THREADS, 0,
                cuda->stream>>>(*args);
    return launched();
}
