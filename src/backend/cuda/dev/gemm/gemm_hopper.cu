// gemm_hopper - weight gradients: c (+)= a^T b in f32 where k is long and c is small,
// with the bias gradient (the sums of a or b over k) on the way.
//
// The problem. dw = x^T dy has as many terms as there are tokens (65,536) and few
// results (768 x 3072), so there are fewer tiles than SMs: k must be split. And the
// bias gradient is the sum of dy over the same k. A kernel of its own reads dy again;
// cuBLASLt's epilogue for it takes 25 to 40% more time than the plain product.
//
// The idea. Tiles and stages are those of gemm_hopper_tile.cuh; work is shared out
// along k by gemm_share.cuh. Operands are MN-major for WGMMA, so nothing is transposed.
// The roles in a block (warp specialisation):
//
//   warp 0, one thread    TMA: boxes of 64 x 64 of a and b into the ring of stages
//   warps 1 and 2         sums of a or b: they read the same stages from shared memory,
//                         as one more reader that each stage's "empty" mbarrier counts
//   warps 4 to 11         two warpgroups of WGMMA m64n256k16, sums in registers
//
// All tiles of a column have the same b (dy). Each sums only its share of k's rows, so
// that summing never holds a stage up. The sums cost 0 to 8%.
//
// A tile whose k one block has done all of goes straight to c. Others go to scratch as
// parts, which a second kernel adds up in the order of k. No order depends on timing,
// so runs repeat bit by bit.
//
// Costs: bound by the tensor cores, 690 to 800 of 815 TFLOP/s in a burst with the sums;
// in long runs by power. dw 3072 x 768 with sums takes 0.75 of cuBLASLt's time, without
// sums the same time.
//
// Tried: contiguous runs of k for each block (702 against 765 TFLOP/s: operands are
// read several times); neighbours that share the smaller operand (4 to 6% slower at
// 774M's shapes).

#include "backend/cuda/dev/gemm/gemm_hopper_tile.cuh"
#include "backend/cuda/dev/gemm/gemm_own.cuh"
#include "backend/cuda/dev/gemm/gemm_share.cuh"

enum {
    FULL_AT = STAGES * STAGE_BYTES, // a barrier for each stage
    EMPTY_AT = FULL_AT + 8 * STAGES,
    SHARED_BYTES = EMPTY_AT + 8 * STAGES,
};

struct hopper_args {
    CUtensorMap a, b;
    work_size size;
    int m, n;
    int64_t row;                // of c
    float *c, *sums;            // sums: NULL: none
    float *partial, *some_sums; // [slot, ROWS, COLS], [slot, COLS]
    bool is_of_b;               // the sums
    bool adds;
};

// Boxes that each of two warps takes the sums of.
enum { SUMMERS = 2, OF_A = ROWS / BOX / SUMMERS, OF_B = COLS / BOX / SUMMERS };

// ---- work --------------------------------------------------------------------------

__device__ static inline void load_parts(const hopper_args &x, uint32_t shared)
{
    parts all = own_parts(x.size);
    stage s = {0, 0};
    for (part p; next_part(&all, &p);) {
        const int row = row_of_tile(x.size, p.tile) * ROWS;
        const int col = col_of_tile(x.size, p.tile) * COLS;
        for (int k = p.from; k < p.to; k++) {
            const uint32_t full = shared + FULL_AT + 8 * s.i;
            const uint32_t a = shared + s.i * STAGE_BYTES, b = a + A_BYTES;
            bar_wait(shared + EMPTY_AT + 8 * s.i, s.phase ^ 1);
            bar_expect(full, STAGE_BYTES);
            for (int i = 0; i < ROWS / BOX; i++)
                load_box(a + i * BOX_BYTES, &x.a, row + i * BOX, k * DEPTH,
                         full);
            for (int i = 0; i < COLS / BOX; i++)
                load_box(b + i * BOX_BYTES, &x.b, col + i * BOX, k * DEPTH,
                         full);
            go_on(&s);
        }
    }
}

enum { RUN = 8 }; // of k: the swizzle repeats after 8 rows

// Where this lane's two columns lie in each of the 8 swizzled rows of a run.
struct columns {
    uint32_t at[RUN];
};

__device__ static inline columns columns_of(int lane)
{
    columns c;
#pragma unroll
    for (int j = 0; j < RUN; j++)
        c.at[j] = j * 128 + 16 * (lane / 4 ^ j) + lane % 4 * 4;
    return c;
}

template <typename T>
__device__ static inline void sum_run(float2 *sum, uint32_t at,
                                      const columns &c)
{
    uint32_t w[RUN];
#pragma unroll
    for (int j = 0; j < RUN; j++)
        asm volatile("ld.shared.u32 %0, [%1];"
                     : "=r"(w[j])
                     : "r"(at + c.at[j]));
#pragma unroll
    for (int j = 0; j < RUN; j++) {
        const float2 v = low<T>::both(w[j]);
        sum[j % 2] = {sum[j % 2].x + v.x, sum[j % 2].y + v.y};
    }
}

template <int BOXES>
__device__ static inline void write_sums(const float2 (&sum)[BOXES][2],
                                         float *to)
{
#pragma unroll
    for (int i = 0; i < BOXES; i++)
        *(float2 *)(to + i * BOX) = {sum[i][0].x + sum[i][1].x,
                                     sum[i][0].y + sum[i][1].y};
}

// A summing warp. n tiles have the same a (or b); of each n runs of k, this tile sums
// one: run r belongs to tile r % n among them. Then a stage is given back quickly.
// `first` is the first run of this tile within the current stage.
template <typename T, int BOXES>
__device__ static inline void sum_parts(const hopper_args &x, uint32_t shared,
                                        int half, int lane)
{
    const int per_stage = DEPTH / RUN;
    const int n = BOXES == OF_A ? x.size.n_tiles : x.size.m_tiles;
    const uint32_t place =
        half * BOXES * BOX_BYTES + (BOXES == OF_A ? 0 : A_BYTES);
    const columns c = columns_of(lane);
    parts all = own_parts(x.size);
    stage s = {0, 0};
    for (part p; next_part(&all, &p);) {
        const int number = BOXES == OF_A ? col_of_tile(x.size, p.tile)
                                         : row_of_tile(x.size, p.tile);
        int first = (number - p.from % n * (per_stage % n) % n + n) % n;
        float2 sum[BOXES][2] = {};
        for (int k = p.from; k < p.to; k++) {
            const uint32_t at = shared + s.i * STAGE_BYTES + place;
            bar_wait(shared + FULL_AT + 8 * s.i, s.phase);
            for (int r = first; r < per_stage; r += n)
#pragma unroll
                for (int i = 0; i < BOXES; i++)
                    sum_run<T>(sum[i], at + i * BOX_BYTES + r * RUN * 128, c);
            __syncwarp();
            if (lane == 0)
                bar_arrive(shared + EMPTY_AT + 8 * s.i);
            first -= per_stage % n;
            first += first < 0 ? n : 0;
            go_on(&s);
        }
        write_sums(sum, x.some_sums + (int64_t)p.slot * COLS +
                            half * BOXES * BOX + 2 * lane);
    }
}

template <typename T>
__device__ static inline void multiply_stage(float (&d)[128], uint32_t at,
                                             int group, bool adds)
{
    const uint64_t a = across_k(at + group * BOX_BYTES, BOX_BYTES);
    const uint64_t b = across_k(at + A_BYTES, BOX_BYTES);
    products_begin();
#pragma unroll
    for (int i = 0; i < DEPTH / 16; i++) // 16 of k are 2048 bytes further
        wide_product<T, 1, 1>(d, a + 128 * i, b + 128 * i, i > 0 || adds);
    products_commit();
}

// The first of the two rows, 8 apart, that WGMMA gives a thread.
__device__ static inline int row_of(int group, int thread)
{
    return group * BOX + thread / 32 * 16 + thread % 32 / 4;
}

__device__ static inline void write_part(const hopper_args &x,
                                         const float (&d)[128], int slot,
                                         int group, int thread)
{
    float *to = x.partial + 2 * (thread % 4) +
                ((int64_t)slot * ROWS + row_of(group, thread)) * COLS;
#pragma unroll
    for (int j = 0; j < COLS / 8; j++) {
        *(float2 *)(to + 8 * j) = {d[4 * j], d[4 * j + 1]};
        *(float2 *)(to + 8 * COLS + 8 * j) = {d[4 * j + 2], d[4 * j + 3]};
    }
}

// Accumulates with red: the addition is done at the L2 cache, so nobody waits for the
// old value. Each element of c has one writer, so this keeps the order of sums fixed.
__device__ static inline void write_pair(float *to, bool adds, float u, float v)
{
    if (adds)
        asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(u),
                     "f"(v)
                     : "memory");
    else
        *(float2 *)to = {u, v};
}

// A tile that this block has all of k of: straight to c.
__device__ static inline void write_tile(const hopper_args &x,
                                         const float (&d)[128], int tile,
                                         int group, int thread)
{
    const int row = row_of_tile(x.size, tile) * ROWS + row_of(group, thread);
    const int col = col_of_tile(x.size, tile) * COLS + 2 * (thread % 4);
    float *to = x.c + row * x.row + col;
#pragma unroll
    for (int j = 0; j < COLS / 8; j++) {
        if (row < x.m && col + 8 * j < x.n)
            write_pair(to + 8 * j, x.adds, d[4 * j], d[4 * j + 1]);
        if (row + 8 < x.m && col + 8 * j < x.n)
            write_pair(to + 8 * x.row + 8 * j, x.adds, d[4 * j + 2],
                       d[4 * j + 3]);
    }
}

// A warpgroup's loop. One batch of WGMMAs stays in flight: the stage before is given
// back only after its products are done, while those of the current stage already run.
template <typename T>
__device__ static inline void
multiply_parts(const hopper_args &x, uint32_t shared, int group, int thread)
{
    const bool leads = thread % 32 == 0;
    parts all = own_parts(x.size);
    float d[128];
    stage s = {0, 0};
    for (part p; next_part(&all, &p);) {
        int last = s.i;
        for (int k = p.from; k < p.to; k++) {
            bar_wait(shared + FULL_AT + 8 * s.i, s.phase);
            multiply_stage<T>(d, shared + s.i * STAGE_BYTES, group, k > p.from);
            if (k > p.from) {
                products_wait<1>();
                if (leads)
                    bar_arrive(shared + EMPTY_AT + 8 * last);
            }
            last = s.i;
            go_on(&s);
        }
        products_wait<0>();
        if (leads)
            bar_arrive(shared + EMPTY_AT + 8 * last);
        if (p.from == 0 && p.to == x.size.k_blocks)
            write_tile(x, d, p.tile, group, thread);
        else
            write_part(x, d, p.slot, group, thread);
    }
}

// BOXES: OF_A, OF_B or 0: no sums.
template <typename T, int BOXES>
__global__ void __launch_bounds__(THREADS, 1)
    multiply_kernel(const __grid_constant__ hopper_args x)
{
    extern __shared__ __align__(1024) unsigned char room[];
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(room);
    const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            bar_init(shared + FULL_AT + 8 * i, 1);
            bar_init(shared + EMPTY_AT + 8 * i,
                     8 + (BOXES > 0 ? SUMMERS : 0)); // warps
        }
        bars_ready();
    }
    __syncthreads();
    if (group < 0) {
        registers<THREADS, 56, 224>::give();
        if (threadIdx.x == 0)
            load_parts(x, shared);
        if constexpr (BOXES > 0)
            if (warp >= 1 && warp <= SUMMERS)
                sum_parts<T, BOXES>(x, shared, warp - 1, threadIdx.x % 32);
    } else {
        registers<THREADS, 56, 224>::take();
        multiply_parts<T>(x, shared, group, threadIdx.x % 128);
    }
}

// ---- adding up ---------------------------------------------------------------------

__device__ static inline void add_to(float4 *sum, const float4 &v)
{
    *sum = {sum->x + v.x, sum->y + v.y, sum->z + v.z, sum->w + v.w};
}

// Sum i of a or b, by a warp: each lane adds the parts of every 32nd tile that has it.
__device__ static inline float sum_of(const hopper_args &x, int i, int lane)
{
    const work_size &n = x.size;
    const int extent = x.is_of_b ? COLS : ROWS, line = i / extent;
    float sum = 0;
    for (int t = lane; t < (x.is_of_b ? n.m_tiles : n.n_tiles); t += 32)
        for_slots(n, x.is_of_b ? tile_at(n, t, line) : tile_at(n, line, t),
                  [&](int slot) {
                      sum += x.some_sums[(int64_t)slot * COLS + i % extent];
                  });
    return warp_sum(sum);
}

// All warps of the grid take them in turn.
__device__ static inline void add_sums(const hopper_args &x)
{
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    const int per_block = blockDim.x / 32, lane = threadIdx.x % 32;
    const int n = x.is_of_b ? x.n : x.m;
    for (int i = block * per_block + threadIdx.x / 32; i < n;
         i += gridDim.x * gridDim.y * per_block) {
        const float whole = sum_of(x, i, lane);
        if (lane == 0)
            x.sums[i] = whole;
    }
}

enum { LINES = 4 }; // of a block, by 64 threads each

// The second kernel: parts to c, in order of k. Bound by reading the parts once; most
// are still in the L2 cache.
__global__ void add_parts(const __grid_constant__ hopper_args x)
{
    const int row = blockIdx.y * LINES + threadIdx.x / 64;
    const int at = threadIdx.x % 64 * 4, col = blockIdx.x * COLS + at;
    const int tile = tile_at(x.size, row / ROWS, blockIdx.x);
    if (x.sums != NULL)
        add_sums(x);
    if (row >= x.m || col >= x.n || is_whole(x.size, tile))
        return;
    float4 sum = {0, 0, 0, 0};
    for_slots(x.size, tile, [&](int slot) {
        const int64_t line = (int64_t)slot * ROWS + row % ROWS;
        add_to(&sum, *(const float4 *)(x.partial + line * COLS + at));
    });
    float4 *to = (float4 *)(x.c + row * x.row + col);
    if (x.adds)
        add_to(&sum, *to);
    *to = sum;
}

// ---- host --------------------------------------------------------------------------

// k rows of boxes of 64 x 64, `row` elements apart.
static bool show(CUtensorMap *map, tt_dtype type, const void *p, int64_t row,
                 int64_t k, int64_t n)
{
    return tensor_map(map, {type, p, 2, {n, k}, {1, row}, {BOX, DEPTH}});
}

static work_size size_of(const tt_cuda *cuda, const tt_cuda_gemm_desc &d)
{
    work_size x = {(int)ceil_div(d.m, ROWS), (int)ceil_div(d.n, COLS),
                   (int)ceil_div(d.k, DEPTH), cuda->info.cores, 0};
    const int64_t work = (int64_t)x.m_tiles * x.n_tiles * x.k_blocks;
    x.blocks = work < x.blocks ? (int)work : x.blocks;
    x.budget = (int)ceil_div(work, x.blocks);
    return x;
}

static int64_t scratch(const tt_cuda *cuda, const tt_cuda_gemm_desc &d)
{
    return count_slots(size_of(cuda, d)) * (ROWS + 1) * COLS * 4 + GEMM_ALIGN;
}

// TMA wants rows at multiples of 16 bytes. With many tiles nothing needs to be split
// along k, and cuBLASLt does as well.
static bool can(const tt_cuda *cuda, const tt_cuda_gemm_desc &d)
{
    const int64_t most_k = (int64_t)1 << 30, most_tiles = 2 * cuda->info.cores;
    const bool is_plain = !d.has_gelu && !d.has_gelu_grad && !d.has_plus &&
                          d.bias_type == TT_N_DTYPES && d.batch == 1;
    return is_hopper(cuda) && is_plain && is_low(d.a.type) &&
           d.b.type == d.a.type && d.c.type == TT_F32 && d.a.row == 1 &&
           d.b.col == 1 && d.c.col == 1 && d.a.col % 8 == 0 &&
           d.b.row % 8 == 0 && d.c.row % 4 == 0 && d.n % 4 == 0 &&
           d.k < most_k &&
           ceil_div(d.m, ROWS) * ceil_div(d.n, COLS) <= most_tiles;
}

static bool describe(const tt_cuda *cuda, const tt_cuda_gemm_desc &d,
                     const tt_cuda_gemm_args *x, hopper_args *h)
{
    h->size = size_of(cuda, d);
    h->m = (int)d.m;
    h->n = (int)d.n;
    h->row = d.c.row;
    h->c = (float *)x->c;
    h->sums = d.sums == TT_CUDA_NO_SUMS ? NULL : (float *)x->sums;
    h->partial = (float *)(((uintptr_t)x->scratch + GEMM_ALIGN - 1) &
                           ~(uintptr_t)(GEMM_ALIGN - 1));
    h->some_sums = h->partial + count_slots(h->size) * ROWS * COLS;
    h->is_of_b = d.sums == TT_CUDA_SUMS_OF_B;
    h->adds = x->accumulate;
    return show(&h->a, d.a.type, x->a, d.a.col, d.k, d.m) &&
           show(&h->b, d.b.type, x->b, d.b.row, d.k, d.n);
}

typedef void multiply_fn(hopper_args);

template <typename T> static multiply_fn *kernel_for(tt_cuda_sums sums)
{
    return sums == TT_CUDA_NO_SUMS     ? multiply_kernel<T, 0>
           : sums == TT_CUDA_SUMS_OF_A ? multiply_kernel<T, OF_A>
                                       : multiply_kernel<T, OF_B>;
}

static const char *run(tt_cuda *cuda, const tt_cuda_gemm_desc &d,
                       const tt_cuda_gemm_args *x)
{
    multiply_fn *kernel = d.a.type == TT_BF16 ? kernel_for<bf16>(d.sums)
                                              : kernel_for<f16>(d.sums);
    hopper_args h = {};
    if (!describe(cuda, d, x, &h))
        return tt_cuda_failed_text(
            "a matrix cannot be shown to the copy engine");
    TRY_CUDA(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    kernel<<<(unsigned)h.size.blocks, THREADS, SHARED_BYTES, cuda->stream>>>(h);
    TRY(launched());
    add_parts<<<dim3((unsigned)h.size.n_tiles, (unsigned)ceil_div(d.m, LINES)),
                64 * LINES, 0, cuda->stream>>>(h);
    return launched();
}

const gemm_own gemm_own_grads = {can, scratch, run};
