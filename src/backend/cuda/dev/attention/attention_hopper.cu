// attention_hopper - forward flash attention for heads of 64 elements of 16 bits.
//
// The problem: with heads as short as 64, a tile's exponentials, sums and rounding take
// about as long as its two GEMMs. The tensor cores must not wait for them.
//
// The idea: many independent warpgroups. A block has four, with 64 queries each, and
// one more warpgroup of which one thread issues TMA copies:
//
//            TMA thread                  warpgroups 0 to 3, 64 queries each
//   q, k, v ------------> 8 stages of --> s = q k^T       WGMMA
//   (item by item)        k and v,        w = 2^(s - top) special function unit
//                         64 keys each    o += w v        WGMMA, w from registers
//
// Nothing orders the groups. While one waits for its WGMMAs, others compute powers. The
// block is persistent: it goes from item (256 queries of a head) to item, and a group
// that is done begins the next while others still work on the last, up to eight stages
// ahead. Under a causal mask later queries see more keys, so the groups swap places on
// every second item: who had the longest share has the shortest next time.
//
// Online softmax without the maximum. Usually each tile starts with its row maxima, and
// o is rescaled when they grow. But o is divided by the sum of weights in the end, so
// any reference near the maximum will do. Here it is the largest score of the first
// tile (the last keys). Later tiles go straight to the powers. Only where a thread's
// sum of weights leaves the range that products can take (most_weight) is the reference
// raised, o rescaled, and the tile weighed again. A maximum for each tile is 0.19
// slower.
//
// Costs: products alone take 0.55 of the time, the rest of a tile alone 0.8. They are
// in each other's way because WGMMA keeps busy the register file that the rest needs.
// At 1024 causal positions it reaches 500 TFLOP/s, 440 once power limits the clock,
// which is half of what the tensor cores can do; 0.70 to 0.77 of the time of cuDNN
// 9.19.
//
// Tried (bench/gpu/NOTES.md): three groups with the next scores in flight during the
// powers, 0.17 to 0.27 slower; two groups with tiles of 128 keys, 0.22 to 0.3 slower;
// groups in turn by named barriers, no faster; a part of the powers by polynomials on
// the plain cores, 0.06 to 0.1 slower.

#include "backend/cuda/dev/attention/attention_hopper.cuh"
#include "backend/cuda/dev/attention/attention_own.cuh"

enum { GROUPS = 4, ROWS = 64, BLOCK_ROWS = GROUPS * ROWS, STAGES = 8 };
enum { THREADS = 128 * (GROUPS + 1), WARPS = 4 * GROUPS };
// Shared memory: the ring of k and v, two slots of q, o on its way out, mbarriers.
// "Full" barriers are completed by TMA, "empty" ones by the warps that have read.
enum {
    BOX_BYTES = ROWS * HEAD_ROW_BYTES,
    STAGE_BYTES = 2 * BOX_BYTES, // keys, values
    Q_BYTES = GROUPS * BOX_BYTES,
    Q_AT = STAGES * STAGE_BYTES, // of two blocks of queries
    O_AT = Q_AT + 2 * Q_BYTES,
    FULL_AT = O_AT +
              GROUPS * BOX_BYTES, // barriers, for copies and for those who read
    EMPTY_AT = FULL_AT + 8 * STAGES,
    Q_FULL_AT = EMPTY_AT + 8 * STAGES,
    Q_EMPTY_AT = Q_FULL_AT + 8 * 2,
    ITEM_AT = Q_EMPTY_AT + 8 * 2, // what the queries are
    SHARED_BYTES = ITEM_AT + 16 * 2,
};

struct forward_args {
    CUtensorMap q, k, v, o;
    float *lse;
    int heads, share;       // of a sequence; how many have the same keys
    int len, blocks;        // of a head, in positions and in blocks of queries
    int all_heads, section; // see item_of
    bool is_causal;
    float scale; // of scores, for powers of 2
};

// ---- who does what -----------------------------------------------------------------

struct item {
    int batch, head, row; // the first query
    int tiles; // of keys which the last of them sees; 0: no more items
};

// The n-th item of this block. Three things fix the order. Heads come by sections, so
// that keys are still in the L2 cache when the next queries of their head come. Within
// a section the longest items come first, so that blocks end together. Every second
// round goes from the last block to the first, so that no block has the longest item of
// each.
__device__ static inline item item_of(const forward_args &x, int n)
{
    const int me = n % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    const int i = n * gridDim.x + me, whole = x.section * x.blocks;
    if (i >= x.all_heads * x.blocks)
        return {0, 0, 0, 0};
    const int first = i / whole * x.section, at = i % whole;
    const int heads = min(x.section, x.all_heads - first);
    const int block = x.blocks - 1 - at / heads, head = first + at % heads;
    const int all = (x.len + ROWS - 1) / ROWS;
    return {head / x.heads, head % x.heads, block * BLOCK_ROWS,
            x.is_causal ? min(all, (block + 1) * GROUPS) : all};
}

// The TMA thread works out the next item once, and posts it for all warps.
__device__ static inline void post_item(uint32_t at, const item &it)
{
    asm volatile("st.shared.v4.s32 [%0], {%1, %2, %3, %4};" ::"r"(at),
                 "r"(it.batch), "r"(it.head), "r"(it.row), "r"(it.tiles)
                 : "memory");
}

__device__ static inline item read_item(uint32_t at)
{
    item it;
    asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(it.batch), "=r"(it.head), "=r"(it.row), "=r"(it.tiles)
                 : "r"(at)
                 : "memory");
    return {(int)same_in_warp(it.batch), (int)same_in_warp(it.head),
            (int)same_in_warp(it.row), (int)same_in_warp(it.tiles)};
}

// A place in the ring of stages. An mbarrier is waited for by the parity of its phase,
// which flips each time the ring comes around.
struct stage {
    int i, phase;
};

__device__ static inline void go_on(stage *s)
{
    s->phase ^= s->i == STAGES - 1;
    s->i = s->i == STAGES - 1 ? 0 : s->i + 1;
}

// The TMA thread. Keys come last tile first: the tile with the causal diagonal, the
// only one that needs a mask, is then the first one of every group.
__device__ static inline void load_items(const forward_args &x, uint32_t shared)
{
    stage s = {0, 0};
    for (int n = 0;; n++) {
        const item it = item_of(x, n);
        const int slot = n % 2, keys = it.head / x.share;
        const uint32_t q = shared + Q_AT + slot * Q_BYTES;
        const uint32_t q_full = shared + Q_FULL_AT + 8 * slot;
        bar_wait(shared + Q_EMPTY_AT + 8 * slot, (n / 2 & 1) ^ 1);
        post_item(shared + ITEM_AT + 16 * slot, it);
        bar_expect(q_full, it.tiles == 0 ? 0 : Q_BYTES);
        if (it.tiles == 0)
            return;
        for (int g = 0; g < GROUPS; g++)
            load_head(q + g * BOX_BYTES, &x.q, it.row + g * ROWS, it.head,
                      it.batch, q_full);
        for (int t = it.tiles - 1; t >= 0; t--) {
            const uint32_t full = shared + FULL_AT + 8 * s.i;
            const uint32_t at = shared + s.i * STAGE_BYTES;
            bar_wait(shared + EMPTY_AT + 8 * s.i, s.phase ^ 1);
            bar_expect(full, STAGE_BYTES);
            load_head(at, &x.k, t * ROWS, keys, it.batch, full);
            load_head(at + BOX_BYTES, &x.v, t * ROWS, keys, it.batch, full);
            go_on(&s);
        }
    }
}

// ---- a group -----------------------------------------------------------------------

// Only the lower half of a WGMMA descriptor changes from product to product. So kernels
// carry 32 bits, and the constant upper half is put in by the asm: 64-bit additions
// between WGMMAs would hold them up (0.07 to 0.13 of the time).
__device__ static inline uint32_t half_of(uint64_t operand)
{
    return (uint32_t)operand;
}

#define TT_OPERAND(NAME, HALF)                                                 \
    ".reg .b64 " NAME ";\nmov.b64 " NAME ", {" HALF ", 0x40000040};\n"

// d[64, 64] (+)= a[64, 16] b[64, 16]^T, both with rows along k.
template <typename T>
__device__ static inline void scores(float (&d)[32], uint32_t a, uint32_t b,
                                     int adds)
{
#define TT_RUN(TYPE)                                                           \
    asm volatile(                                                              \
        "{\n" TT_OPERAND("a", "%32") TT_OPERAND("b", "%33")                    \
            TT_PRODUCT("64", TYPE, TT_NAMES_32, "a", "b", "%34", "0, 0") "}\n" \
        : TT_FLOATS_32(d, 0)                                                   \
        : "r"(a), "r"(b), "r"(adds))
    TT_RUN_TYPE(T);
#undef TT_RUN
}

// d[64, 64] (+)= a[64, 16] b[16, 64], a in registers, b with rows across k.
template <typename T>
__device__ static inline void values(float (&d)[32], const uint32_t (&a)[4],
                                     uint32_t b, int adds)
{
#define TT_RUN(TYPE)                                                           \
    asm volatile("{\n" TT_OPERAND("b", "%36")                                  \
                     TT_PRODUCT("64", TYPE, TT_NAMES_32,                       \
                                "{%32, %33, %34, %35}", "b", "%37", "1") "}\n" \
                 : TT_FLOATS_32(d, 0)                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b),         \
                   "r"(adds))
    TT_RUN_TYPE(T);
#undef TT_RUN
}
#undef TT_OPERAND

// The largest sum of a thread's weights in a tile that 16 bits and f32 sums still take.
template <typename T>
static constexpr float most_weight =
    is_bf16<T> ? 1152921504606846976.0f /* 2^60 */ : 32768.0f;

// A number for each of the two rows, 8 apart, that WGMMA gives a thread.
struct pair {
    float x, y;
};

// What a thread keeps of its group's 64 queries. `sum` is of this thread's columns
// only: the four threads of a row add theirs up once, in the end (whole_sum).
struct rows {
    float s[32], o[32];
    uint32_t w[4][4]; // weights, as the next product takes them
    pair top, sum;    // of this thread's columns
};

__device__ static inline pair each_max(const pair &a, const pair &b)
{
    return {fmaxf(a.x, b.x), fmaxf(a.y, b.y)};
}

// The row maxima of a tile, scaled: over this thread's columns, then over the four
// threads that share a row.
__device__ static inline pair tops_of(const float (&s)[32], float scale)
{
    pair top = {s[0], s[2]};
#pragma unroll
    for (int j = 0; j < 8; j++) {
        top = each_max(top, {s[4 * j], s[4 * j + 2]});
        top = each_max(top, {s[4 * j + 1], s[4 * j + 3]});
    }
    for (int i = 1; i < 4; i *= 2)
        top = each_max(top, {__shfl_xor_sync(0xffffffffu, top.x, i),
                             __shfl_xor_sync(0xffffffffu, top.y, i)});
    return {top.x * scale, top.y * scale};
}

// Scores become weights 2^(s - top), packed to 16 bits; returns this thread's sums.
template <typename T> __device__ static inline pair weigh(rows *r, float scale)
{
    pair sum = {0, 0};
#pragma unroll
    for (int j = 0; j < 8; j++) {
        float e[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            e[i] = power_of_2(
                fmaf(r->s[4 * j + i], scale, i < 2 ? -r->top.x : -r->top.y));
        sum = {sum.x + e[0], sum.y + e[2]};
        sum = {sum.x + e[1], sum.y + e[3]};
        r->w[j / 2][j % 2 * 2] = low<T>::pack(e[0], e[1]);
        r->w[j / 2][j % 2 * 2 + 1] = low<T>::pack(e[2], e[3]);
    }
    return sum;
}

// The first tile. It alone needs a mask: keys after `last`, counted from this thread's
// first column, are beyond the causal diagonal or the sequence. It also sets `top`.
template <typename T>
__device__ static inline void weigh_first(rows *r, float scale, int last_x,
                                          int last_y)
{
#pragma unroll
    for (int i = 0; i < 32; i++)
        if (i / 4 * 8 + i % 2 > (i % 4 < 2 ? last_x : last_y))
            r->s[i] = -INFINITY;
    r->top = tops_of(r->s, scale);
    r->sum = weigh<T>(r, scale);
}

// The rare path of the online softmax: a new reference, and o and sum scaled to it.
__device__ static inline void raise_top(rows *r, float scale)
{
    const pair top = each_max(r->top, tops_of(r->s, scale));
    const pair keep = {power_of_2(r->top.x - top.x),
                       power_of_2(r->top.y - top.y)};
    r->top = top;
    r->sum = {r->sum.x * keep.x, r->sum.y * keep.y};
#pragma unroll
    for (int i = 0; i < 32; i++)
        r->o[i] *= i % 4 < 2 ? keep.x : keep.y;
}

// All lanes of a warp take the rare path together. NaN takes it too (`fits` is false).
template <typename T>
__device__ static inline void weigh_next(rows *r, float scale)
{
    pair sum = weigh<T>(r, scale);
    const bool fits = sum.x <= most_weight<T> && sum.y <= most_weight<T>;
    if (__any_sync(0xffffffffu, !fits)) {
        raise_top(r, scale);
        sum = weigh<T>(r, scale);
    }
    r->sum = {r->sum.x + sum.x, r->sum.y + sum.y};
}

template <typename T>
__device__ static inline void multiply_keys(rows *r, uint32_t q, uint32_t k)
{
    const uint32_t a = half_of(along_k(q)), b = half_of(along_k(k));
#pragma unroll
    for (int i = 0; i < 4; i++)
        scores<T>(r->s, a + 2 * i, b + 2 * i, i > 0);
}

template <typename T>
__device__ static inline void multiply_values(rows *r, uint32_t v, int adds)
{
    const uint32_t b = half_of(across_k(v, BOX_BYTES));
#pragma unroll
    for (int i = 0; i < 4; i++)
        values<T>(r->o, r->w[i], b + 128 * i, i > 0 || adds);
}

__device__ static inline void give_back(uint32_t shared, int stage)
{
    if (threadIdx.x % 32 == 0)
        bar_arrive(shared + EMPTY_AT + 8 * stage);
}

// The main loop. The values' product of one tile and the scores of the next are issued
// together, so that the tensor cores have eight WGMMAs in a row; then come the powers.
template <typename T>
__device__ static inline void sum_tiles(rows *r, uint32_t shared, stage *s,
                                        int tiles, uint32_t q, float scale)
{
    for (int t = 1; t < tiles; t++) {
        const int last = s->i;
        go_on(s);
        bar_wait(shared + FULL_AT + 8 * s->i, s->phase);
        products_begin();
        multiply_values<T>(r, shared + last * STAGE_BYTES + BOX_BYTES, t > 1);
        multiply_keys<T>(r, q, shared + s->i * STAGE_BYTES);
        products_commit();
        products_wait<0>();
        hold(r->s);
        hold(r->o);
        give_back(shared, last);
        weigh_next<T>(r, scale);
    }
    products_begin();
    multiply_values<T>(r, shared + s->i * STAGE_BYTES + BOX_BYTES, tiles > 1);
    products_commit();
    products_wait<0>();
    hold(r->o);
    give_back(shared, s->i);
    go_on(s);
}

__device__ static inline float whole_sum(float sum)
{
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    return sum + __shfl_xor_sync(0xffffffffu, sum, 2);
}

// The epilogue of a warp: 16 rows from `row` on, divided by their sums. They go through
// swizzled shared memory and TMA; the store before must have read that memory first.
template <typename T>
__device__ static inline void write_rows(const forward_args &x, const item &it,
                                         const rows &r, uint32_t at, int row)
{
    const int lane = threadIdx.x % 32, line = lane % 16;
    const pair sum = {whole_sum(r.sum.x), whole_sum(r.sum.y)};
    const pair by = {1 / sum.x, 1 / sum.y};
    const int mine = row + lane / 4;
    const int64_t head = (int64_t)it.batch * x.heads + it.head;
    float *lse = x.lse + head * x.len + mine;
    if (lane % 4 == 0 && mine < x.len)
        lse[0] = (r.top.x + __log2f(sum.x)) * 0.693147181f;
    if (lane % 4 == 0 && mine + 8 < x.len)
        lse[8] = (r.top.y + __log2f(sum.y)) * 0.693147181f;
    if (lane == 0)
        stores_read();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float *o = r.o + 8 * i;
        const uint32_t words[] = {low<T>::pack(o[0] * by.x, o[1] * by.x),
                                  low<T>::pack(o[2] * by.y, o[3] * by.y),
                                  low<T>::pack(o[4] * by.x, o[5] * by.x),
                                  low<T>::pack(o[6] * by.y, o[7] * by.y)};
        store_words(at + line * HEAD_ROW_BYTES +
                        ((2 * i + lane / 16) ^ line % 8) * 16,
                    words);
    }
    shared_written();
    __syncwarp();
    if (lane == 0)
        store_head(&x.o, row, it.head, it.batch, at);
}

// A group's 64 queries of an item, from `row` on. Stages with keys that only later
// groups see are given back unread: "empty" barriers count all warps of all groups.
template <typename T>
__device__ static inline void do_rows(const forward_args &x, uint32_t shared,
                                      stage *s, const item &it, int row,
                                      uint32_t q)
{
    const int seen = x.is_causal ? min(it.tiles, row / ROWS + 1) : it.tiles;
    const int tiles = row < x.len ? seen : 0;
    for (int t = it.tiles; t > tiles; t--) {
        bar_wait(shared + FULL_AT + 8 * s->i, s->phase);
        give_back(shared, s->i);
        go_on(s);
    }
    if (tiles == 0)
        return;
    rows r;
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const int mine = row + warp * 16 + lane / 4;
    const int from = (tiles - 1) * ROWS + lane % 4 * 2, end = x.len - 1;
    bar_wait(shared + FULL_AT + 8 * s->i, s->phase);
    products_begin();
    multiply_keys<T>(&r, q, shared + s->i * STAGE_BYTES);
    products_commit();
    products_wait<0>();
    hold(r.s);
    weigh_first<T>(&r, x.scale, (x.is_causal ? min(mine, end) : end) - from,
                   (x.is_causal ? min(mine + 8, end) : end) - from);
    sum_tiles<T>(&r, shared, s, tiles, q, x.scale);
    const int own = threadIdx.x / 32 - 4;
    write_rows<T>(x, it, r, shared + O_AT + own * 16 * HEAD_ROW_BYTES,
                  row + warp * 16);
}

template <typename T>
__device__ static inline void do_items(const forward_args &x, uint32_t shared,
                                       int group)
{
    stage s = {0, 0};
    for (int n = 0;; n++) {
        const int slot = n % 2, place = slot == 0 ? group : GROUPS - 1 - group;
        bar_wait(shared + Q_FULL_AT + 8 * slot, n / 2 & 1);
        const item it = read_item(shared + ITEM_AT + 16 * slot);
        if (it.tiles == 0)
            break;
        do_rows<T>(x, shared, &s, it, it.row + place * ROWS,
                   shared + Q_AT + slot * Q_BYTES + place * BOX_BYTES);
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            bar_arrive(shared + Q_EMPTY_AT + 8 * slot);
    }
    if (threadIdx.x % 32 == 0)
        stores_written();
}

template <typename T>
__global__ void __launch_bounds__(THREADS, 1)
    forward_kernel(const __grid_constant__ forward_args x)
{
    extern __shared__ __align__(1024) unsigned char room[];
    const uint32_t shared =
        same_in_warp((uint32_t)__cvta_generic_to_shared(room));
    const int group = (int)same_in_warp(threadIdx.x / 128) - 1;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            bar_init(shared + FULL_AT + 8 * i, 1);
            bar_init(shared + EMPTY_AT + 8 * i, WARPS);
        }
        for (int i = 0; i < 2; i++) {
            bar_init(shared + Q_FULL_AT + 8 * i, 1);
            bar_init(shared + Q_EMPTY_AT + 8 * i, WARPS);
        }
        bars_ready();
    }
    __syncthreads();
    if (group < 0) {
        registers<THREADS, 24, 112>::give();
        if (threadIdx.x == 0)
            load_items(x, shared);
    } else {
        registers<THREADS, 24, 112>::take();
        do_items<T>(x, shared, group);
    }
}

// ---- host --------------------------------------------------------------------------

static int64_t blocks_of(const tt_cuda_attention_args &a)
{
    return ceil_div(a.q_len, BLOCK_ROWS);
}

// With fewer items than SMs some SMs would idle, which matters where sequences are
// long. cuDNN and the plain kernels cut queries into smaller pieces, so they get such
// sites.
bool attention_hopper_can(const tt_cuda *cuda, const tt_cuda_attention_args &a)
{
    const int64_t most = (int64_t)1 << 30, is_short = 512;
    const int64_t items = a.batch * a.q_heads * blocks_of(a);
    return is_hopper(cuda) && is_low(a.type) && a.head == HEAD_SIZE &&
           a.q_len == a.k_len && a.q_first == a.k_first && a.scale > 0 &&
           (items >= cuda->info.cores || a.q_len <= is_short) && items < most;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : common_divisor(b, a % b);
}

static bool describe(const tt_cuda *cuda, const tt_cuda_attention_args &a,
                     forward_args *x)
{
    const int64_t cores = cuda->info.cores, blocks = blocks_of(a);
    tt_cuda_attention_args keys = a;
    keys.q_heads = a.kv_heads;
    x->lse = a.lse;
    x->heads = (int)a.q_heads;
    x->share = (int)(a.q_heads / a.kv_heads);
    x->len = (int)a.q_len;
    x->blocks = (int)blocks;
    x->all_heads = (int)(a.batch * a.q_heads);
    x->section = (int)(2 * cores / common_divisor(2 * cores, blocks));
    x->is_causal = a.is_causal;
    x->scale = a.scale * LOG2_E;
    return show_heads(&x->q, a, a.q, a.q_len, ROWS) &&
           show_heads(&x->k, keys, a.k, a.q_len, ROWS) &&
           show_heads(&x->v, keys, a.v, a.q_len, ROWS) &&
           show_heads(&x->o, a, a.o, a.q_len, 16);
}

const char *attention_hopper_run(tt_cuda *cuda, const tt_cuda_attention_args &a)
{
    forward_args x = {};
    if (!describe(cuda, a, &x))
        return tt_cuda_failed_text("heads cannot be shown to the copy engine");
    const auto kernel =
        a.type == TT_BF16 ? forward_kernel<bf16> : forward_kernel<f16>;
    TRY_CUDA(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    kernel<<<(unsigned)cuda->info.cores, THREADS, SHARED_BYTES, cuda->stream>>>(
        x);
    return launched();
}
