// conv_few - the first layer of a network: implicit GEMM for images of few channels.
// The libraries want channels by eights, and reach a tenth of the memory's rate on
// three.
//
// The idea: with channels last, a row of a window is one run of numbers (7 x 3 = 21),
// so all of k is dense, whatever the channels. A block has tiles of 16 x 16 outputs;
// what their windows cover lies in shared memory, and mma (mma.cuh) reads its operand
// there, each lane its own pairs of 16 bits: im2col by addresses, never written down.
// cp.async brings the next tile meanwhile. A pair must not straddle two words: rows
// begin one number early where needed (lead), and where every second window still
// begins within a word (odd stride x channels) there is a second copy of the tile,
// shifted by one number.
//
// Bound by writing y, or reading dy, once: on an H200 forward reaches 37% of that rate
// for ResNet-50's first layer and 60% for VGG-16's, the gradient 30 and 68%.

#include "backend/cuda/dev/conv/conv.cuh"
#include "backend/cuda/dev/mma.cuh"

#include <cuda_pipeline.h>

enum {
    TILE = 16,
    FILTERS = 64,        // of a block
    WARPS = 8,           // of a block, forward
    ROWS = TILE / WARPS, // of a warp
    SUM_WARPS = 4,       // of a block that sums up a gradient
    MOST_STEPS = 16,
    DY_STRIDE = FILTERS + 8,
};

// All extents; a `step` is 8 pairs of a window.
struct few {
    int c, o, in[2], out[2], kernel[2], stride[2], pad[2];
    int tiles[2], n_tiles;
    int lead;                        // numbers before a row of a window
    int pairs, steps;                // of a row of a window; of a window
    int rows, row_words, copy_words; // of a tile's input
    bool has_copy, has_words;        // rows of x are words
};

static few few_of(const tt_cuda_conv_desc &d)
{
    few f = {};
    f.c = (int)d.c;
    f.o = (int)d.o;
    for (int i = 0; i < 2; i++) {
        const tt_cuda_slide &s = d.slide[i + 1];
        f.in[i] = (int)s.in;
        f.out[i] = (int)s.out;
        f.kernel[i] = (int)s.kernel;
        f.stride[i] = (int)s.stride;
        f.pad[i] = (int)s.pad;
        f.tiles[i] = (int)ceil_div(s.out, TILE);
    }
    f.n_tiles = (int)d.n * f.tiles[0] * f.tiles[1];
    f.lead = f.pad[1] * f.c % 2 != 0 ? 1 : 0;
    f.pairs = (f.kernel[1] * f.c + f.lead + 1) / 2;
    f.steps = (int)ceil_div((int64_t)f.kernel[0] * f.pairs, 8);
    f.has_copy = f.stride[1] * f.c % 2 != 0;
    f.has_words = f.in[1] * f.c % 2 == 0;
    f.rows = (TILE - 1) * f.stride[0] + f.kernel[0];
    f.row_words = ((TILE - 1) * f.stride[1] * f.c + 2 * f.pairs + 2) / 2;
    // Copies lie half of the banks apart.
    f.copy_words = f.rows * f.row_words;
    f.copy_words += (16 - f.copy_words % 32 + 32) % 32;
    return f;
}

__host__ __device__ static int image_words(const few &f)
{
    return f.copy_words * (f.has_copy ? 2 : 1);
}

// ---- inside of kernels -----------------------------------------------------

// Where pair p of a window lies, counted in words from the window's first.
__device__ static inline int pair_at(const few &f, int p)
{
    return p < f.kernel[0] * f.pairs ? p / f.pairs * f.row_words + p % f.pairs
                                     : 0;
}

// Where the window of a tile's column begins.
__device__ static inline int column_at(const few &f, int column)
{
    const int at = column * f.stride[1] * f.c;
    return at / 2 + (at % 2 != 0 ? f.copy_words : 0);
}

// Of a tile's first output.
struct place {
    int image, y, x;
};

__device__ static inline place place_of(const few &f, int tile)
{
    const int x = tile % f.tiles[1], y = tile / f.tiles[1] % f.tiles[0];
    return {tile / f.tiles[1] / f.tiles[0], y * TILE, x * TILE};
}

__device__ static inline place after(const few &f, place at)
{
    at.x += TILE;
    if (at.x >= f.out[1]) {
        at.x = 0;
        at.y += TILE;
    }
    if (at.y >= f.out[0]) {
        at.y = 0;
        at.image++;
    }
    return at;
}

// The tiles of a block are a run of all.
__device__ static inline int first_tile(const few &f, int block)
{
    return (int)((int64_t)f.n_tiles * block / gridDim.x);
}

// Begins to copy what a tile's windows cover (cp.async), with zeros around the image.
template <typename T>
__device__ static void load_image(const few &f, const place &at,
                                  const T *__restrict__ x, uint32_t *to)
{
    const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const int length = f.in[1] * f.c;
    const int top = at.y * f.stride[0] - f.pad[0];
    const int left = (at.x * f.stride[1] - f.pad[1]) * f.c - f.lead;
    x += (int64_t)at.image * f.in[0] * length;
    for (int row = threadIdx.x / 32; row < f.rows; row += warps) {
        const int r = top + row;
        const bool is_row = r >= 0 && r < f.in[0];
        const T *from = x + (int64_t)r * length;
        for (int i = lane; i < f.row_words; i += 32) {
            const int c = left + 2 * i;
            uint32_t *word = to + row * f.row_words + i;
            if (f.has_words && is_row && c >= 0 && c < length) {
                __pipeline_memcpy_async(word, from + c, sizeof *word);
                continue;
            }
            T v[2];
            for (int k = 0; k < 2; k++)
                v[k] = is_row && c + k >= 0 && c + k < length
                           ? from[c + k]
                           : from_float<T>(0.f);
            memcpy(word, v, sizeof *word);
        }
    }
}

// All threads meet here once their copies have arrived; then the shifted copy is made.
__device__ static inline void finish_image(const few &f, uint32_t *image)
{
    const int n = f.rows * f.row_words;
    __syncthreads();
    if (!f.has_copy)
        return;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        image[f.copy_words + i] =
            image[i] >> 16 | (i + 1 < n ? image[i + 1] << 16 : 0);
    __syncthreads();
}

// ---- forward ---------------------------------------------------------------

// Deals filters to mma columns so that a lane's sums are 8 neighbours: 16-byte stores.
__device__ static inline int filter_of(int tile, int column)
{
    return tile / 4 * 32 + column / 2 * 8 + tile % 4 * 2 + column % 2;
}

// The weights as the lanes of a warp hold them: [step, tile, lane, half].
template <typename T>
__device__ static void load_weights(const few &f, int first,
                                    const T *__restrict__ w, uint32_t *to)
{
    const int length = f.kernel[1] * f.c;
    for (int i = threadIdx.x; i < f.steps * FILTERS / 8 * 64; i += blockDim.x) {
        const int step = i / 512, pair = i / 128 % 4, lane = i / 4 % 32;
        const int tile = 2 * pair + i / 2 % 2, half = i % 2;
        const int p = step * 8 + lane % 4 + 4 * half;
        const int filter = first + filter_of(tile, lane / 4);
        const int row = p / f.pairs, e = p % f.pairs * 2 - f.lead;
        T v[2];
        for (int k = 0; k < 2; k++)
            v[k] =
                filter < f.o && row < f.kernel[0] && e + k >= 0 &&
                        e + k < length
                    ? w[((int64_t)filter * f.kernel[0] + row) * length + e + k]
                    : from_float<T>(0.f);
        memcpy(&to[i], v, sizeof to[i]);
    }
}

struct few_tail {
    tt_dtype bias_type;
    const void *bias; // NULL: none
    bool has_relu;
};

__device__ static inline void load_bias(const few &f, const few_tail &tail,
                                        int first, float (*bias)[8])
{
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int part = 0; part < 2; part++)
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const int filter = first + part * 32 + t * 8 + k;
            bias[part][k] =
                tail.bias != NULL && filter < f.o
                    ? (float)load_any(tail.bias_type, tail.bias, filter)
                    : 0.f;
        }
}

// Sums of one window, to 16 filters in two runs of 8.
template <typename T>
__device__ static inline void store_sums(const float (*sum)[4], int half,
                                         const float (*bias)[8], float least,
                                         int filters, T *y)
{
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int part = 0; part < 2; part++) {
        float v[8];
        if (part * 32 + t * 8 >= filters)
            return;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            const float z =
                sum[part * 4 + k / 2][half * 2 + k % 2] + bias[part][k];
            v[k] = z <= least ? least : z;
        }
        store_whole(y + part * 32 + t * 8, packed<T>(v));
    }
}

// Products of a warp's rows of windows with all weights.
template <typename T>
__device__ static inline void
add_windows(const few &f, const uint4 *weights, const int *table,
            const uint32_t *image, float (*sum)[8][4])
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int down = f.stride[0] * f.row_words;
    const uint32_t *column[2] = {image + column_at(f, g),
                                 image + column_at(f, g + 8)};
    for (int step = 0; step < f.steps; step++) {
        uint32_t b[16];
#pragma unroll
        for (int i = 0; i < 4; i++)
            *(uint4 *)&b[4 * i] = weights[(step * 4 + i) * 32 + lane];
        const int near = table[step * 8 + t], far = table[step * 8 + t + 4];
        uint32_t a[ROWS][4];
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            a[i][0] = column[0][near + i * down];
            a[i][1] = column[1][near + i * down];
            a[i][2] = column[0][far + i * down];
            a[i][3] = column[1][far + i * down];
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int k = 0; k < 8; k++)
                mma<T>(a[i], &b[2 * k], sum[i][k]);
    }
}

template <typename T>
__global__ void __launch_bounds__(32 * WARPS, 2)
    few_forward(few f, const T *x, const T *w, few_tail tail, T *y)
{
    extern __shared__ uint4 room[];
    uint32_t *images = (uint32_t *)(room + f.steps * 128);
    int *table = (int *)(images + 2 * image_words(f));
    const int top = threadIdx.x / 32 * ROWS, left = threadIdx.x % 32 / 4;
    const int first = blockIdx.y * FILTERS;
    const int end = first_tile(f, blockIdx.x + 1);
    const float least = tail.has_relu ? 0.f : -INFINITY;
    float bias[2][8];
    int tile = first_tile(f, blockIdx.x), now = 0;
    place at = place_of(f, tile);
    load_image(f, at, x, images);
    __pipeline_commit();
    load_weights(f, first, w, (uint32_t *)room);
    load_bias(f, tail, first, bias);
    for (int p = threadIdx.x; p < 8 * f.steps; p += blockDim.x)
        table[p] = pair_at(f, p);
    for (; tile < end; tile++, now ^= 1) {
        const place next = after(f, at);
        uint32_t *image = images + now * image_words(f);
        float sum[ROWS][8][4] = {};
        if (tile + 1 < end)
            load_image(f, next, x, images + (now ^ 1) * image_words(f));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        finish_image(f, image);
        const int rows = f.out[0] - at.y - top;
        if (rows > 0)
            add_windows<T>(f, room, table,
                           image + top * f.stride[0] * f.row_words, sum);
        T *to = y +
                (((int64_t)at.image * f.out[0] + at.y + top) * f.out[1] + at.x +
                 left) *
                    f.o +
                first;
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                if (i < rows && at.x + left + 8 * half < f.out[1])
                    store_sums(sum[i], half, bias, least, f.o - first,
                               to + ((int64_t)i * f.out[1] + 8 * half) * f.o);
        at = next;
        __syncthreads();
    }
}

// ---- gradient of the weights -----------------------------------------------

// Two pairs to one pair of their first numbers and one of their second numbers.
__device__ static inline void regroup(uint32_t u, uint32_t v, uint32_t *low,
                                      uint32_t *high)
{
    *low = (u & 0xffffu) | v << 16;
    *high = u >> 16 | (v & 0xffff0000u);
}

// Begins to copy dy [outputs of a tile, 64 filters] (cp.async), zeros beyond the image.
template <typename T>
__device__ static void load_dy(const few &f, const place &at, int first,
                               const T *dy, T *to)
{
    enum {
        PARTS = FILTERS / 8
    }; // as many threads as a row of a tile has parts
    const int column = threadIdx.x / PARTS, part = threadIdx.x % PARTS * 8;
    const bool is_in = at.x + column < f.out[1] && first + part < f.o;
    const int64_t step = (int64_t)f.out[1] * f.o;
    const T *from =
        dy +
        (((int64_t)at.image * f.out[0] + at.y) * f.out[1] + at.x + column) *
            f.o +
        first + part;
    to += column * DY_STRIDE + part;
    for (int row = 0; row < TILE; row++) {
        if (is_in && at.y + row < f.out[0])
            __pipeline_memcpy_async(to, from, 16);
        else
            *(uint4 *)to = uint4{0, 0, 0, 0};
        to += TILE * DY_STRIDE;
        from += step;
    }
}

// What a warp sums up: `n` steps of k, over the rows of the tile that are its team's.
struct share {
    int team, teams, step, n;
};

// Products of one row of a tile with the steps of its windows.
template <typename T, int STEPS>
__device__ static inline void add_row(const uint32_t *image, const int *column,
                                      const int *offset, int n, const T *dy,
                                      float (*sum)[2][4][4])
{
    uint32_t a[4][4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        load_turned(dy + 16 * k, DY_STRIDE, a[k]);
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        uint32_t b[2][2];
        if (i >= n)
            break;
        const uint32_t *at = image + offset[i];
        regroup(at[column[0]], at[column[1]], &b[0][0], &b[1][0]);
        regroup(at[column[2]], at[column[3]], &b[0][1], &b[1][1]);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            mma<T>(a[k], b[0], sum[i][0][k]);
            mma<T>(a[k], b[1], sum[i][1][k]);
        }
    }
}

// The sums of all teams, one after the other, to total[64, 16 steps].
template <int STEPS>
__device__ static void add_teams(const few &f, const share &s,
                                 const float (*sum)[2][4][4], float *total)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int who = 0; who < s.teams; who++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < STEPS * 32; i++) {
            const int step = i / 32, odd = i / 16 % 2, k = i / 4 % 4, e = i % 4;
            const int filter = k * 16 + g + e / 2 * 8;
            const int at = filter * 16 * f.steps + (s.step + step) * 16 +
                           2 * (2 * t + e % 2) + odd;
            if (who == s.team && step < s.n)
                total[at] = (who > 0 ? total[at] : 0.f) + sum[step][odd][k][e];
        }
    }
    __syncthreads();
}

// partial[block, 64 filters, 16 steps]. Steps are dealt to the warps of a team, rows
// of a tile to teams.
template <typename T, int STEPS>
__global__ void __launch_bounds__(32 * SUM_WARPS, 2)
    few_grad_w(few f, int teams, const T *x, const T *dy, float *partial)
{
    extern __shared__ uint4 room[];
    enum { DY = TILE * TILE * DY_STRIDE };
    T *dys = (T *)room;
    uint32_t *images = (uint32_t *)(dys + 2 * DY);
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int warp = threadIdx.x / 32, step = warp / teams * STEPS;
    const share mine = {warp % teams, teams, step,
                        min((int)STEPS, f.steps - step)};
    const int first = blockIdx.y * FILTERS;
    const int end = first_tile(f, blockIdx.x + 1);
    int offset[STEPS], column[4];
    float sum[STEPS][2][4][4] = {};
    int tile = first_tile(f, blockIdx.x), now = 0;
    place at = place_of(f, tile);
    load_dy(f, at, first, dy, dys);
    load_image(f, at, x, images);
    __pipeline_commit();
    for (int i = 0; i < STEPS; i++)
        offset[i] = pair_at(f, (step + i) * 8 + g);
    for (int i = 0; i < 4; i++)
        column[i] = column_at(f, 2 * t + i % 2 + i / 2 * 8);
    for (; tile < end; tile++, now ^= 1) {
        const place next = after(f, at);
        const int then = now ^ 1, rows = min((int)TILE, f.out[0] - at.y);
        uint32_t *image = images + now * image_words(f);
        if (tile + 1 < end) {
            load_dy(f, next, first, dy, dys + then * DY);
            load_image(f, next, x, images + then * image_words(f));
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        finish_image(f, image);
        for (int row = mine.team; row < rows; row += teams)
            add_row<T, STEPS>(image + row * f.stride[0] * f.row_words, column,
                              offset, mine.n,
                              dys + now * DY + row * TILE * DY_STRIDE, sum);
        at = next;
        __syncthreads();
    }
    float *total = (float *)room;
    const int length = FILTERS * 16 * f.steps;
    add_teams<STEPS>(f, mine, sum, total);
    partial += ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * length;
    for (int i = threadIdx.x; i < length; i += blockDim.x)
        partial[i] = total[i];
}

// dw: the sums of all blocks in a fixed order, 8 threads for each element.
__global__ void few_finish(few f, int blocks, bool accumulate,
                           const float *partial, float *dw)
{
    enum { PARTS = 8 };
    __shared__ float part[PARTS][32];
    const int length = 16 * f.steps, row_length = f.kernel[1] * f.c;
    const int me = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int i = blockIdx.x * 32 + lane, filter = i / length;
    const int p = i % length / 2, row = p / f.pairs;
    const int e = p % f.pairs * 2 + i % 2 - f.lead;
    const float *from =
        partial + (int64_t)(filter / FILTERS) * blocks * FILTERS * length +
        filter % FILTERS * length + i % length;
    float sum = 0;
    if (filter < f.o)
        for (int b = me; b < blocks; b += PARTS)
            sum += from[(int64_t)b * FILTERS * length];
    part[me][lane] = sum;
    __syncthreads();
    if (me > 0 || filter >= f.o || row >= f.kernel[0] || e < 0 ||
        e >= row_length)
        return;
    for (int k = 1; k < PARTS; k++)
        sum += part[k][lane];
    float *to = dw + ((int64_t)filter * f.kernel[0] + row) * row_length + e;
    *to = accumulate ? *to + sum : sum;
}

// ---- launching -------------------------------------------------------------

static const int most_shared = 200 << 10;

static int shared_forward(const few &f)
{
    return f.steps * 2048 + 8 * image_words(f) + 32 * f.steps;
}

static int shared_grad_w(const few &f)
{
    const int tiles = 2 * TILE * TILE * DY_STRIDE * 2 + 8 * image_words(f);
    const int sums = FILTERS * 16 * f.steps * 4;
    return tiles > sums ? tiles : sums;
}

bool tt_cuda_conv_few_can(const tt_cuda_conv_desc &d)
{
    const tt_cuda_slide &depth = d.slide[0];
    if (!is_low(d.type) || d.way == TT_CUDA_GRAD_X || d.groups != 1 ||
        d.o % 8 != 0 || d.c >= 8 || depth.in != 1 || depth.out != 1 ||
        depth.kernel != 1 || depth.pad != 0)
        return false;
    for (int i = 1; i < TT_CUDA_SPACE; i++) {
        const tt_cuda_slide &s = d.slide[i];
        if (s.dilation != 1 || s.in * s.stride > 1 << 20 || s.kernel > 64 ||
            s.stride > 64 || s.in * d.c > 1 << 24)
            return false;
    }
    if (d.n * d.slide[1].out * d.slide[2].out > INT32_MAX)
        return false;
    const few f = few_of(d);
    return f.steps <= MOST_STEPS && shared_forward(f) <= most_shared &&
           shared_grad_w(f) <= most_shared;
}

static int blocks_of(const tt_cuda *cuda, const few &f)
{
    const int most = 2 * cuda->info.cores;
    return f.n_tiles < most ? f.n_tiles : most;
}

int64_t tt_cuda_conv_few_scratch(const tt_cuda *cuda,
                                 const tt_cuda_conv_desc &d)
{
    const few f = few_of(d);
    return d.way == TT_CUDA_GRAD_W
               ? 4 * ceil_div(f.o, FILTERS) * blocks_of(cuda, f) * FILTERS *
                     16 * f.steps
               : 0;
}

template <typename T>
static const char *run_forward(tt_cuda *cuda, const few &f,
                               const few_tail &tail, const tt_cuda_conv_args *a)
{
    const dim3 grid((unsigned)blocks_of(cuda, f),
                    (unsigned)ceil_div(f.o, FILTERS));
    TRY_CUDA(cudaFuncSetAttribute(few_forward<T>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  shared_forward(f)));
    few_forward<T>
        <<<grid, 32 * WARPS, (size_t)shared_forward(f), cuda->stream>>>(
            f, (const T *)a->x, (const T *)a->w, tail, (T *)a->y);
    return launched();
}

template <typename T, int STEPS>
static const char *run_grad_w(tt_cuda *cuda, const few &f,
                              const tt_cuda_conv_args *a)
{
    const int members = (int)ceil_div(f.steps, STEPS);
    const dim3 grid((unsigned)blocks_of(cuda, f),
                    (unsigned)ceil_div(f.o, FILTERS));
    const unsigned sums = (unsigned)ceil_div((int64_t)f.o * 16 * f.steps, 32);
    const auto kernel = few_grad_w<T, STEPS>;
    TRY_CUDA(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_grad_w(f)));
    kernel<<<grid, 32 * SUM_WARPS, (size_t)shared_grad_w(f), cuda->stream>>>(
        f, SUM_WARPS / members, (const T *)a->x, (const T *)a->y,
        (float *)a->scratch);
    TRY(launched());
    few_finish<<<sums, 256, 0, cuda->stream>>>(f, (int)grid.x, a->accumulate,
                                               (const float *)a->scratch,
                                               (float *)a->w);
    return launched();
}

// Steps of a warp: two, or as many as its registers hold sums of.
template <typename T>
static const char *run(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                       const tt_cuda_conv_args *a)
{
    const few f = few_of(d);
    if (d.way == TT_CUDA_FORWARD)
        return run_forward<T>(cuda, f, {d.bias_type, a->bias, d.has_relu}, a);
    return f.steps <= 2 ? run_grad_w<T, 2>(cuda, f, a)
                        : run_grad_w<T, 5>(cuda, f, a);
}

const char *tt_cuda_conv_few(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                             const tt_cuda_conv_args *args)
{
    return d.type == TT_BF16 ? run<bf16>(cuda, d, args)
                             : run<f16>(cuda, d, args);
}
