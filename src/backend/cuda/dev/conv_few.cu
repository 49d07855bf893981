// conv_few - convolutions of images with few channels, as the first of a network are:
// the libraries' kernels want channels by eights, and reach a tenth of the memory's
// rate on three. Bound by writing y, or reading dy, once.
//
// A block works on tiles of 16 x 16 outputs. What their windows cover lies in shared
// memory, so that a row of a window is a run of numbers, taken by pairs: products of
// tiles (mma.cuh) read their operand there, each lane its own pairs, and no row of
// windows is ever written down. The next tile's input is copied there meanwhile, in
// words, so a row begins one number early where its first would be the second of a
// word; where every second window still begins within a word there is a copy of it
// all, shifted by one.

#include "backend/cuda/dev/conv.cuh"
#include "backend/cuda/dev/mma.cuh"

#include <cuda_pipeline.h>

enum {
    TILE = 16,
    FILTERS = 64, // of a block
    WARPS = 8,
    MOST_STEPS = 16,
    DY_STRIDE = FILTERS + 8,
};

// Extents of it all; a `step` is 8 pairs of a window.
struct few {
    int c, o, in[2], out[2], kernel[2], stride[2], pad[2];
    int height; // of a tile
    int tiles[2], n_tiles;
    int lead;                        // numbers in front of a row of a window
    int pairs, steps;                // of a row of a window; of a window
    int rows, row_words, copy_words; // of a tile's input
    bool has_copy, has_words; // rows of x are words
};

static few few_of(const tt_cuda_conv_desc &d)
{
    few f = {};
    f.height = d.way == TT_CUDA_FORWARD ? TILE : TILE / 2;
    f.c = (int)d.c;
    f.o = (int)d.o;
    for (int i = 0; i < 2; i++) {
        const tt_cuda_slide &s = d.slide[i + 1];
        f.in[i] = (int)s.in;
        f.out[i] = (int)s.out;
        f.kernel[i] = (int)s.kernel;
        f.stride[i] = (int)s.stride;
        f.pad[i] = (int)s.pad;
        f.tiles[i] = (int)ceil_div(s.out, i == 0 ? f.height : TILE);
    }
    f.n_tiles = (int)d.n * f.tiles[0] * f.tiles[1];
    f.lead = f.pad[1] * f.c % 2 != 0 ? 1 : 0;
    f.pairs = (f.kernel[1] * f.c + f.lead + 1) / 2;
    f.steps = (int)ceil_div((int64_t)f.kernel[0] * f.pairs, 8);
    f.has_copy = f.stride[1] * f.c % 2 != 0;
    f.has_words = f.in[1] * f.c % 2 == 0;
    f.rows = (f.height - 1) * f.stride[0] + f.kernel[0];
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

// Where pair p of a window lies behind the window's first.
__device__ static inline int pair_at(const few &f, int p)
{
    return p < f.kernel[0] * f.pairs
               ? p / f.pairs * f.row_words + p % f.pairs
               : 0;
}

// Where the window of a tile's column begins.
__device__ static inline int column_at(const few &f, int column)
{
    const int at = column * f.stride[1] * f.c;
    return at / 2 + (at % 2 != 0 ? f.copy_words : 0);
}

struct place {
    int image, y, x; // of a tile's first output
};

__device__ static inline place place_of(const few &f, int tile)
{
    const int x = tile % f.tiles[1], y = tile / f.tiles[1] % f.tiles[0];
    return {tile / f.tiles[1] / f.tiles[0], y * f.height, x * TILE};
}

// What the windows of a tile cover, zeros around the image; on its way when this
// returns.
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

// Every thread of the block comes here when its part of the image has arrived.
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

// Filters are dealt to columns of tiles so that a lane has 8 in a row of its sums.
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
            v[k] = filter < f.o && row < f.kernel[0] && e + k >= 0 &&
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

// Sums of one row of windows, to 16 filters in two runs of 8.
template <typename T>
__device__ static inline void store_sums(const few &f, const few_tail &tail,
                                         int first, const float (*sum)[4],
                                         int half, T *y)
{
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int part = 0; part < 2; part++) {
        const int filter = first + part * 32 + t * 8;
        float v[8];
        if (filter >= f.o)
            return;
#pragma unroll
        for (int k = 0; k < 8; k++) {
            v[k] = sum[part * 4 + k / 2][half * 2 + k % 2];
            if (tail.bias != NULL)
                v[k] += tail.bias_type == TT_F32
                            ? ((const float *)tail.bias)[filter + k]
                            : (float)load_any(tail.bias_type, tail.bias,
                                              filter + k);
            if (tail.has_relu && v[k] <= 0)
                v[k] = 0;
        }
        *(pack<T> *)(y + filter) = packed<T>(v);
    }
}

template <typename T>
__global__ void __launch_bounds__(32 * WARPS, 2)
    few_forward(few f, const T *x, const T *w, few_tail tail, T *y)
{
    extern __shared__ uint4 room[];
    enum { ROWS = TILE / WARPS };
    uint32_t *images = (uint32_t *)(room + f.steps * 128);
    int *table = (int *)(images + 2 * image_words(f));
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4;
    const int first = blockIdx.y * FILTERS;
    const int column[2] = {column_at(f, g), column_at(f, g + 8)};
    int now = 0;
    if ((int)blockIdx.x < f.n_tiles)
        load_image(f, place_of(f, blockIdx.x), x, images);
    __pipeline_commit();
    load_weights(f, first, w, (uint32_t *)room);
    for (int p = threadIdx.x; p < 8 * f.steps; p += blockDim.x)
        table[p] = pair_at(f, p);
    for (int tile = blockIdx.x; tile < f.n_tiles; tile += gridDim.x, now ^= 1) {
        const place at = place_of(f, tile);
        const int next = tile + gridDim.x;
        uint32_t *image = images + now * image_words(f);
        float sum[ROWS][8][4] = {};
        if (next < f.n_tiles)
            load_image(f, place_of(f, next), x,
                       images + (now ^ 1) * image_words(f));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        finish_image(f, image);
        for (int step = 0; step < f.steps; step++) {
            uint32_t b[16];
#pragma unroll
            for (int i = 0; i < 4; i++)
                *(uint4 *)&b[4 * i] = room[(step * 4 + i) * 32 + lane];
            const int near = table[step * 8 + lane % 4];
            const int far = table[step * 8 + lane % 4 + 4];
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                if (at.y + warp * ROWS + i >= f.out[0])
                    break;
                const int row = (warp * ROWS + i) * f.stride[0] * f.row_words;
                const uint32_t a[4] = {image[column[0] + row + near],
                                       image[column[1] + row + near],
                                       image[column[0] + row + far],
                                       image[column[1] + row + far]};
#pragma unroll
                for (int k = 0; k < 8; k++)
                    mma<T>(a, &b[2 * k], sum[i][k]);
            }
        }
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int r = at.y + warp * ROWS + i, c = at.x + g + 8 * half;
                if (r < f.out[0] && c < f.out[1])
                    store_sums(f, tail, first, sum[i], half,
                               y + (((int64_t)at.image * f.out[0] + r) *
                                        f.out[1] +
                                    c) *
                                       f.o);
            }
        __syncthreads();
    }
}

// ---- gradient of the weights -----------------------------------------------

// Two pairs to one of their first and one of their second numbers.
__device__ static inline void regroup(uint32_t u, uint32_t v, uint32_t *low,
                                      uint32_t *high)
{
    *low = (u & 0xffffu) | v << 16;
    *high = u >> 16 | (v & 0xffff0000u);
}

// [outputs of a tile, 64 filters], zeros where there are none.
template <typename T>
__device__ static void load_dy(const few &f, const place &at, int first,
                               const T *dy, T *to)
{
    enum { PARTS = FILTERS / 8 };
    for (int i = threadIdx.x; i < f.height * TILE * PARTS; i += blockDim.x) {
        const int pixel = i / PARTS, part = i % PARTS * 8;
        const int r = at.y + pixel / TILE, c = at.x + pixel % TILE;
        T *room = to + pixel * DY_STRIDE + part;
        if (r < f.out[0] && c < f.out[1] && first + part < f.o)
            __pipeline_memcpy_async(
                room,
                dy + (((int64_t)at.image * f.out[0] + r) * f.out[1] + c) * f.o +
                    first + part,
                16);
        else
            *(uint4 *)room = uint4{0, 0, 0, 0};
    }
}

// Products of one row of a tile with two steps of its windows.
template <typename T>
__device__ static inline void add_row(const uint32_t *image,
                                      const int *column, const int *offset,
                                      int n, const T *dy, float (*sum)[2][4][4])
{
    uint32_t a[4][4];
#pragma unroll
    for (int k = 0; k < 4; k++)
        load_turned(dy + 16 * k, DY_STRIDE, a[k]);
#pragma unroll
    for (int i = 0; i < 2; i++) {
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
__device__ static void add_teams(const few &f, int team, int teams, int step,
                                 int n, const float (*sum)[2][4][4],
                                 float *total)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int who = 0; who < teams; who++) {
        __syncthreads();
        if (who != team)
            continue;
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int odd = 0; odd < 2; odd++)
#pragma unroll
                for (int k = 0; k < 4; k++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        if (i >= n)
                            continue;
                        const int filter = k * 16 + g + e / 2 * 8;
                        const int at = filter * 16 * f.steps +
                                       (step + i) * 16 + 2 * (2 * t + e % 2) +
                                       odd;
                        total[at] = (who > 0 ? total[at] : 0.f) + sum[i][odd][k][e];
                    }
    }
    __syncthreads();
}

// partial[block, 64 filters, 16 steps]. Two steps are a warp's, as many warps as it
// takes are a team, and teams take the rows of a tile in turn.
template <typename T>
__global__ void __launch_bounds__(512)
    few_grad_w(few f, int teams, const T *x, const T *dy, float *partial)
{
    extern __shared__ uint4 room[];
    const int dy_length = f.height * TILE * DY_STRIDE;
    T *dys = (T *)room;
    uint32_t *images = (uint32_t *)(dys + 2 * dy_length);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int g = lane / 4, t = lane % 4;
    const int team = warp % teams, step = warp / teams * 2;
    const int n = min(2, f.steps - step), first = blockIdx.y * FILTERS;
    const int offset[2] = {pair_at(f, step * 8 + g),
                           pair_at(f, (step + 1) * 8 + g)};
    int column[4], now = 0;
    float sum[2][2][4][4] = {};
    for (int i = 0; i < 4; i++)
        column[i] = column_at(f, 2 * t + i % 2 + i / 2 * 8);
    if ((int)blockIdx.x < f.n_tiles) {
        load_dy(f, place_of(f, blockIdx.x), first, dy, dys);
        load_image(f, place_of(f, blockIdx.x), x, images);
    }
    __pipeline_commit();
    for (int tile = blockIdx.x; tile < f.n_tiles; tile += gridDim.x, now ^= 1) {
        const int next = tile + gridDim.x, then = now ^ 1;
        uint32_t *image = images + now * image_words(f);
        if (next < f.n_tiles) {
            const place at = place_of(f, next);
            load_dy(f, at, first, dy, dys + then * dy_length);
            load_image(f, at, x, images + then * image_words(f));
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        finish_image(f, image);
        const int rows = min(f.height, f.out[0] - place_of(f, tile).y);
        for (int row = team; row < rows; row += teams)
            add_row(image + row * f.stride[0] * f.row_words, column, offset, n,
                    dys + now * dy_length + row * TILE * DY_STRIDE, sum);
        __syncthreads();
    }
    float *total = (float *)room;
    const int length = FILTERS * 16 * f.steps;
    add_teams(f, team, teams, step, n, sum, total);
    partial += ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * length;
    for (int i = threadIdx.x; i < length; i += blockDim.x)
        partial[i] = total[i];
}

// dw: the sums of all blocks, 8 threads to one of it.
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
    const float *from = partial +
                        (int64_t)(filter / FILTERS) * blocks * FILTERS * length +
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
    const int tiles = 2 * f.height * TILE * DY_STRIDE * 2 + 8 * image_words(f);
    const int sums = FILTERS * 16 * f.steps * 4;
    return tiles > sums ? tiles : sums;
}

bool tt_conv_few_can(const tt_cuda_conv_desc &d)
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

static int members_of(const few &f)
{
    return (f.steps + 1) / 2;
}

static int teams_of(const few &f)
{
    return members_of(f) < WARPS ? WARPS / members_of(f) : 1;
}

// As many as are there at the same time: 16 warps to a multiprocessor.
static int blocks_of(const tt_cuda *cuda, const tt_cuda_conv_desc &d,
                     const few &f)
{
    const int warps =
        d.way == TT_CUDA_FORWARD ? (int)WARPS : members_of(f) * teams_of(f);
    const int most = cuda->info.cores * (2 * WARPS / warps);
    return f.n_tiles < most ? f.n_tiles : most;
}

int64_t tt_conv_few_scratch(const tt_cuda *cuda, const tt_cuda_conv_desc &d)
{
    const few f = few_of(d);
    return d.way == TT_CUDA_GRAD_W
               ? 4 * ceil_div(f.o, FILTERS) * blocks_of(cuda, d, f) * FILTERS *
                     16 * f.steps
               : 0;
}

template <typename T>
static const char *run_forward(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                               const tt_cuda_conv_args *a)
{
    const few f = few_of(d);
    const few_tail tail = {d.bias_type, a->bias, d.has_relu};
    const dim3 grid((unsigned)blocks_of(cuda, d, f),
                    (unsigned)ceil_div(f.o, FILTERS));
    TRY_CUDA(cudaFuncSetAttribute(few_forward<T>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  shared_forward(f)));
    few_forward<T>
        <<<grid, 32 * WARPS, (size_t)shared_forward(f), cuda->stream>>>(
            f, (const T *)a->x, (const T *)a->w, tail, (T *)a->y);
    return launched();
}

template <typename T>
static const char *run_grad_w(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                              const tt_cuda_conv_args *a)
{
    const few f = few_of(d);
    const int members = members_of(f), teams = teams_of(f);
    const dim3 grid((unsigned)blocks_of(cuda, d, f),
                    (unsigned)ceil_div(f.o, FILTERS));
    const unsigned sums = (unsigned)ceil_div((int64_t)f.o * 16 * f.steps, 32);
    TRY_CUDA(cudaFuncSetAttribute(few_grad_w<T>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  shared_grad_w(f)));
    few_grad_w<T><<<grid, (unsigned)(32 * members * teams),
                    (size_t)shared_grad_w(f), cuda->stream>>>(
        f, teams, (const T *)a->x, (const T *)a->y, (float *)a->scratch);
    TRY(launched());
    few_finish<<<sums, 256, 0, cuda->stream>>>(f, (int)grid.x, a->accumulate,
                                               (const float *)a->scratch,
                                               (float *)a->w);
    return launched();
}

const char *tt_conv_few(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                        const tt_cuda_conv_args *args)
{
    if (d.way == TT_CUDA_FORWARD)
        return d.type == TT_BF16 ? run_forward<bf16>(cuda, d, args)
                                 : run_forward<f16>(cuda, d, args);
    return d.type == TT_BF16 ? run_grad_w<bf16>(cuda, d, args)
                             : run_grad_w<f16>(cuda, d, args);
}
