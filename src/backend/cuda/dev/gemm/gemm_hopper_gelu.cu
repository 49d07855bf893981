// gemm_hopper_gelu - y = a b + bias and gelu(y), all in 16 bits. The epilogue of a tile
// is done during the products of the next tile.
//
// The problem. The first product of an MLP has a short k (768) and a heavy epilogue:
// bias, GELU, and two results of 400 MB (y is kept for the gradient). In the usual
// kernel the tensor cores wait for it. Two sets of sums would overlap them, but a tile
// of 128 x 256 already takes 128 registers of a thread for one set.
//
// The idea. When a tile's sums are complete, they get the bias and are rounded to y at
// once, two to a register. That takes 64 registers and frees the 128 sums for the next
// tile. The rest of the epilogue is cut into 16 pieces of 16 columns, which are spread
// over the first 12 blocks of k of the next tile:
//
//   tensor cores   | k0 | k1 | ... | k11 |       | k0 | k1 | ...
//   plain cores    | p0 | p1 | ... | p15 | round | p0 | p1 | ...
//                    pieces of the tile before     pieces of this tile
//
// A piece is GELU of 16 columns of y, and stmatrix of both to shared memory; after
// every second piece TMA stores a box of y and one of gelu(y).
//
// Rounding is the only seam. It is hidden too: the second warpgroup runs one block of k
// after the first, so one multiplies while the other rounds.
//
// Tiles are taken in groups of 16 rows of tiles, column by column, so that what is read
// stays in the L2 cache.
//
// Costs: bound by power in long runs, 0.565 ms where cuBLASLt takes 0.674. The products
// alone take 0.458; the stores add 0.080, GELU 0.022.
//
// Tried (bench/gpu/NOTES.md): two sets of sums with tiles of 128 x 192, no seam (0.62);
// store boxes of 64 columns, not 32 (0.65); a piece after the wait for the products
// before it (7% more); 1, 4 or 64 rows of tiles in a group (1 to 5% more); tanh.approx
// (2.5% less, but gelu(-3) would be off by up to 0.0007).

#include "backend/cuda/dev/gemm/gemm_hopper_tile.cuh"
#include "backend/cuda/dev/gemm/gemm_own.cuh"

// Store boxes: a warp has one of 16 rows and 32 columns for y, and one for gelu(y).
enum { OUT_COLS = 32, OUT_BYTES = 16 * OUT_COLS * 2, OUT_ALL = 8 * OUT_BYTES };
enum { PIECE = 16, PIECES = COLS / PIECE };
enum { GROUP = 16 };        // rows of tiles
enum { LEAST_BLOCKS = 12 }; // of k: those that pieces are spread over
enum {
    OUT_AT = STAGES * STAGE_BYTES,
    BIAS_AT = OUT_AT + 2 * OUT_ALL, // two, in turn
    FULL_AT = BIAS_AT + 2 * COLS * 4,
    EMPTY_AT = FULL_AT + 8 * STAGES,
    BIAS_FULL_AT = EMPTY_AT + 8 * STAGES,
    BIAS_EMPTY_AT = BIAS_FULL_AT + 8 * 2,
    SHARED_BYTES = BIAS_EMPTY_AT + 8 * 2,
};

struct gelu_args {
    CUtensorMap a, b, y, c;
    int n, m_tiles, n_tiles, k_blocks;
    tt_dtype bias_type;
    const void *bias; // NULL: none
};

// Of a tile, in elements.
struct place {
    int row, col;
};

__device__ static inline place tile_at(const gelu_args &x, int tile)
{
    const int per = GROUP * x.n_tiles, first = tile / per * GROUP;
    const int rows = min((int)GROUP, x.m_tiles - first), i = tile % per;
    return {(first + i % rows) * ROWS, i / rows * COLS};
}

// ---- what is read ------------------------------------------------------------------

template <bool B_ACROSS>
__device__ static inline void load_tiles(const gelu_args &x, uint32_t shared)
{
    stage s = {0, 0};
    for (int t = blockIdx.x; t < x.m_tiles * x.n_tiles; t += gridDim.x) {
        const place p = tile_at(x, t);
        for (int k = 0; k < x.k_blocks; k++) {
            const uint32_t full = shared + FULL_AT + 8 * s.i;
            const uint32_t a = shared + s.i * STAGE_BYTES, b = a + A_BYTES;
            bar_wait(shared + EMPTY_AT + 8 * s.i, s.phase ^ 1);
            bar_expect(full, STAGE_BYTES);
            load_box(a, &x.a, k * DEPTH, p.row, full);
            if (B_ACROSS)
                for (int i = 0; i < COLS / BOX; i++)
                    load_box(b + i * BOX_BYTES, &x.b, p.col + i * BOX,
                             k * DEPTH, full);
            else
                load_box(b, &x.b, k * DEPTH, p.col, full);
            go_on(&s);
        }
    }
}

// One warp converts each tile's bias to f32, in two buffers; zeros where there is none.
__device__ static inline void load_bias(const gelu_args &x, uint32_t shared,
                                        float *room, int lane)
{
    int count = 0;
    for (int t = blockIdx.x; t < x.m_tiles * x.n_tiles; t += gridDim.x) {
        const int first = tile_at(x, t).col, turn = count % 2;
        bar_wait(shared + BIAS_EMPTY_AT + 8 * turn, count / 2 % 2 ^ 1);
        for (int i = lane; i < COLS; i += 32)
            room[turn * COLS + i] =
                x.bias != NULL && first + i < x.n
                    ? (float)load_any(x.bias_type, x.bias, first + i)
                    : 0.f;
        __syncwarp();
        if (lane == 0)
            bar_arrive(shared + BIAS_FULL_AT + 8 * turn);
        count++;
    }
}

// ---- work --------------------------------------------------------------------------

// A thread of the warpgroups.
struct worker {
    uint32_t shared;
    uint32_t out;   // this warp's box of y
    uint32_t lines; // in it, this lane's row of matrices
    int lane, group;
    stage s;
    int last;  // stage that is not given back
    int count; // of tiles whose pieces are done
    place at;  // of this warp in the tile of these
};

__device__ static inline worker worker_of(uint32_t shared, int group)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = lane % 16, part = lane / 16;
    worker w = {};
    w.shared = shared;
    w.out = shared + OUT_AT + (group * 4 + warp) * OUT_BYTES;
    w.lines = w.out + row * OUT_COLS * 2 + ((part ^ row / 2 % 4) << 4);
    w.lane = lane;
    w.group = group;
    return w;
}

__device__ static inline void give_back(const worker &w)
{
    if (w.lane == 0)
        bar_arrive(w.shared + EMPTY_AT + 8 * w.last);
}

// GELU in its tanh form: x (1 + tanh u) / 2 = x / (1 + exp(-2 u)). That needs one exp
// and one reciprocal, 7 instructions in all.
__device__ static inline float gelu(float x)
{
    const float u = x * (-2.3022081985f - 0.1029432397f * (x * x)); // for 2^u
    float gate;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(gate) : "f"(1 + power_of_2(u)));
    return x * gate;
}

// Piece i of the epilogue: columns 16 i to 16 i + 15 of the tile before. i must be
// known at compile time, since y is in registers.
template <typename T>
__device__ static inline void finish_piece(const gelu_args &x, const worker &w,
                                           const uint32_t *y, int i)
{
    const int in_box = i % (OUT_COLS / PIECE);
    const uint32_t at = w.lines ^ in_box << 5;
    uint32_t v[4], u[4];
    if (in_box == 0) {
        if (w.lane == 0)
            stores_read();
        __syncwarp();
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const float2 both = low<T>::both(v[k] = y[4 * i + k]);
        u[k] = low<T>::pack(gelu(both.x), gelu(both.y));
    }
    store_words(at, v);
    store_words(at + OUT_ALL, u);
    if (in_box < OUT_COLS / PIECE - 1)
        return;
    shared_written();
    __syncwarp();
    if (w.lane == 0) {
        const int col = w.at.col + i * PIECE / OUT_COLS * OUT_COLS;
        store_box(&x.y, col, w.at.row, w.out);
        store_box(&x.c, col, w.at.row, w.out + OUT_ALL);
    }
}

template <typename T, bool B_ACROSS>
__device__ static inline void multiply_stage(const worker &w, float (&d)[128],
                                             bool adds)
{
    const uint32_t at = w.shared + w.s.i * STAGE_BYTES;
    bar_wait(w.shared + FULL_AT + 8 * w.s.i, w.s.phase);
    const uint64_t a = along_k(at + w.group * BOX_BYTES);
    const uint64_t b =
        B_ACROSS ? across_k(at + A_BYTES, BOX_BYTES) : along_k(at + A_BYTES);
    products_begin();
#pragma unroll
    for (int i = 0; i < DEPTH / 16; i++)
        wide_product<T, 0, B_ACROSS>(d, a + 2 * i, b + (B_ACROSS ? 128 : 2) * i,
                                     i > 0 || adds);
    products_commit();
}

// Waits for all but the last block of k, gives that stage back, and goes to the next.
__device__ static inline void settle(worker *w)
{
    products_wait<1>();
    give_back(*w);
    w->last = w->s.i;
    go_on(&w->s);
}

// Multiplies one tile, with the pieces of the tile before (y) between its blocks of k.
// The first group arrives at named barrier 1 after its first block; the second waits
// there once, at the start, which sets it one block later for good.
template <typename T, bool B_ACROSS>
__device__ static inline void multiply_tile(const gelu_args &x, worker *w,
                                            float (&d)[128], const uint32_t *y,
                                            bool is_first)
{
#pragma unroll
    for (int k = 0; k < LEAST_BLOCKS; k++) {
        multiply_stage<T, B_ACROSS>(*w, d, k > 0);
        if (!is_first)
#pragma unroll
            for (int i = 0; i < PIECES; i++)
                if (i >= k * PIECES / LEAST_BLOCKS &&
                    i < (k + 1) * PIECES / LEAST_BLOCKS)
                    finish_piece<T>(x, *w, y, i);
        if (k > 0) {
            settle(w);
            continue;
        }
        w->last = w->s.i;
        go_on(&w->s);
        if (is_first && w->group == 0)
            asm volatile("bar.arrive 1, 256;" ::: "memory");
    }
    for (int k = LEAST_BLOCKS; k < x.k_blocks; k++) {
        multiply_stage<T, B_ACROSS>(*w, d, true);
        settle(w);
    }
    products_wait<0>();
    give_back(*w);
    w->count += !is_first;
}

template <typename T>
__device__ static inline void round_tile(const worker &w, const float (&d)[128],
                                         const float *bias, uint32_t *y)
{
    const int turn = w.count % 2;
    bar_wait(w.shared + BIAS_FULL_AT + 8 * turn, w.count / 2 % 2);
    bias += turn * COLS + 2 * (w.lane % 4);
#pragma unroll
    for (int j = 0; j < COLS / 8; j++) {
        const float2 b = *(const float2 *)(bias + 8 * j);
        y[2 * j] = low<T>::pack(d[4 * j] + b.x, d[4 * j + 1] + b.y);
        y[2 * j + 1] = low<T>::pack(d[4 * j + 2] + b.x, d[4 * j + 3] + b.y);
    }
    __syncwarp();
    if (w.lane == 0)
        bar_arrive(w.shared + BIAS_EMPTY_AT + 8 * turn);
}

template <typename T, bool B_ACROSS>
__device__ static inline void work(const gelu_args &x, uint32_t shared,
                                   const float *bias, int group)
{
    worker w = worker_of(shared, group);
    float d[128];
    uint32_t y[64];
    bool is_first = true;
    if (group == 1)
        asm volatile("bar.sync 1, 256;" ::: "memory");
    for (int t = blockIdx.x; t < x.m_tiles * x.n_tiles; t += gridDim.x) {
        multiply_tile<T, B_ACROSS>(x, &w, d, y, is_first);
        round_tile<T>(w, d, bias, y);
        w.at = tile_at(x, t);
        w.at.row += group * BOX + threadIdx.x / 32 % 4 * 16;
        is_first = false;
    }
#pragma unroll
    for (int i = 0; i < PIECES; i++)
        finish_piece<T>(x, w, y, i);
    if (w.lane == 0)
        stores_written();
}

template <typename T, bool B_ACROSS>
__global__ void __launch_bounds__(THREADS, 1)
    gelu_kernel(const __grid_constant__ gelu_args x)
{
    extern __shared__ __align__(1024) unsigned char room[];
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(room);
    const int group = (int)same_in_warp(threadIdx.x / 128) - 1;
    float *bias = (float *)(room + BIAS_AT);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            bar_init(shared + FULL_AT + 8 * i, 1);
            bar_init(shared + EMPTY_AT + 8 * i, 8); // warps
        }
        for (int i = 0; i < 2; i++) {
            bar_init(shared + BIAS_FULL_AT + 8 * i, 1);
            bar_init(shared + BIAS_EMPTY_AT + 8 * i, 8);
        }
        bars_ready();
    }
    __syncthreads();
    if (group < 0) {
        registers<THREADS, 40, 232>::give();
        if (threadIdx.x == 0)
            load_tiles<B_ACROSS>(x, shared);
        else if (threadIdx.x / 32 == 1)
            load_bias(x, shared, bias, threadIdx.x % 32);
    } else {
        registers<THREADS, 40, 232>::take();
        work<T, B_ACROSS>(x, shared, bias, group);
    }
}

// ---- host --------------------------------------------------------------------------

static bool is_across(const tt_cuda_matrix &b)
{
    return b.col == 1;
}

// TMA wants rows at multiples of 16 bytes.
static bool can(const tt_cuda *cuda, const tt_cuda_gemm_desc &d)
{
    const int64_t most = (int64_t)1 << 30;
    const int64_t b_row = is_across(d.b) ? d.b.row : d.b.col;
    return is_hopper(cuda) && d.has_gelu && !d.adds && d.batch == 1 &&
           is_low(d.a.type) && d.b.type == d.a.type && d.c.type == d.a.type &&
           d.a.col == 1 && d.c.col == 1 && (is_across(d.b) || d.b.row == 1) &&
           d.a.row % 8 == 0 && b_row % 8 == 0 && d.c.row % 8 == 0 &&
           d.m < most && d.n < most && d.k < most;
}

static int64_t scratch(const tt_cuda *, const tt_cuda_gemm_desc &)
{
    return 0;
}

struct extent {
    int64_t rows, cols;
};

// Rows are `row` elements apart.
static bool show(CUtensorMap *map, tt_dtype type, const void *p, int64_t row,
                 extent whole, extent box)
{
    return tensor_map(
        map,
        {type, p, 2, {whole.cols, whole.rows}, {1, row}, {box.cols, box.rows}});
}

// A k shorter than LEAST_BLOCKS is padded: TMA reads 0 beyond it.
static bool describe(const tt_cuda_gemm_desc &d, const tt_cuda_gemm_args *x,
                     gelu_args *g)
{
    const int64_t blocks = ceil_div(d.k, DEPTH), least = LEAST_BLOCKS;
    const extent out = {16, OUT_COLS};
    g->n = (int)d.n;
    g->m_tiles = (int)ceil_div(d.m, ROWS);
    g->n_tiles = (int)ceil_div(d.n, COLS);
    g->k_blocks = (int)(blocks > least ? blocks : least);
    g->bias_type = d.bias_type;
    g->bias = d.bias_type == TT_N_DTYPES ? NULL : x->bias;
    return show(&g->a, d.a.type, x->a, d.a.row, {d.m, d.k}, {ROWS, DEPTH}) &&
           (is_across(d.b)
                ? show(&g->b, d.b.type, x->b, d.b.row, {d.k, d.n}, {DEPTH, BOX})
                : show(&g->b, d.b.type, x->b, d.b.col, {d.n, d.k},
                       {COLS, DEPTH})) &&
           show(&g->y, d.c.type, x->aux, d.c.row, {d.m, d.n}, out) &&
           show(&g->c, d.c.type, x->c, d.c.row, {d.m, d.n}, out);
}

typedef void gelu_fn(gelu_args);

template <typename T> static gelu_fn *kernel_for(const tt_cuda_gemm_desc &d)
{
    return is_across(d.b) ? gelu_kernel<T, true> : gelu_kernel<T, false>;
}

static const char *run(tt_cuda *cuda, const tt_cuda_gemm_desc &d,
                       const tt_cuda_gemm_args *x)
{
    gelu_fn *kernel =
        d.a.type == TT_BF16 ? kernel_for<bf16>(d) : kernel_for<f16>(d);
    gelu_args g = {};
    if (!describe(d, x, &g))
        return tt_cuda_failed_text(
            "a matrix cannot be shown to the copy engine");
    const int64_t tiles = (int64_t)g.m_tiles * g.n_tiles;
    const int64_t blocks = tiles < cuda->info.cores ? tiles : cuda->info.cores;
    TRY_CUDA(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    kernel<<<(unsigned)blocks, THREADS, SHARED_BYTES, cuda->stream>>>(g);
    return launched();
}

const gemm_own gemm_own_gelu = {can, scratch, run};
