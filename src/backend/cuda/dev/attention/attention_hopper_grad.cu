// attention_hopper_grad - backward flash attention (heads of 64): five GEMMs for a
// tile, in one pass over the scores. A block owns heads, or a part of one head's keys.
// For each 128 keys it goes through tiles of 128 queries (from the diagonal on, if
// causal):
//
//   s^T = k q^T, w = 2^(s - lse)     g^T = v d_o^T, d_s = w (g - mean)
//   d_v += w^T d_o, d_k += d_s^T q   in registers, over all queries of these keys
//   d_q += d_s k                     over keys: in memory, see below
//
// Two warpgroups have 64 keys each, so s^T and d_s^T are operands in registers already.
// d_q needs d_s of all 128 keys, so d_s also goes through shared memory: there each
// group takes 64 queries for d_q, one tile late, while it computes the next tile's
// weights. One thread loads by TMA, and one for each group sends d_q:
// cp.reduce.async.bulk adds tiles to f32 sums of this block, which mostly stay in the
// L2 cache. Each waits for the one before, so the order of all sums is fixed and runs
// repeat bit by bit.
//
// Costs: half the tensor cores' rate; memory at 57% of its rate (queries come again for
// each tile of keys); power at its limit. 0.57 of the time of cuDNN's deterministic
// one. Tried (NOTES.md): d_q added from registers (red.v4) 0.91 ms, by TMA 0.755,
// 32-bit descriptors 0.70; cache hints and exponentials in thirds made no difference.

#include "backend/cuda/dev/attention/attention_hopper_grad.cuh"
#include "backend/cuda/dev/attention/attention_own.cuh"

// ---- threads of a group --------------------------------------------------------------

struct worker {
    uint32_t shared;
    int group, warp, lane; // warp: of the group
};

__device__ static inline bool leads(const worker &w)
{
    return w.warp == 0 && w.lane == 0;
}

// A named barrier of a group's 128 threads.
__device__ static inline void meet(const worker &w)
{
    if (w.group == 0)
        asm volatile("bar.sync 1, 128;" ::: "memory");
    else
        asm volatile("bar.sync 2, 128;" ::: "memory");
}

// One arrival for the whole warp.
__device__ static inline void give(const worker &w, uint32_t bar)
{
    __syncwarp();
    if (w.lane == 0)
        bar_arrive(w.shared + bar);
}

__device__ static inline uint32_t keys_at(const worker &w, const tile &t)
{
    return w.shared + KEYS_AT + side(t.n_keys) * 2 * TILE_BYTES;
}

__device__ static inline uint32_t values_at(const worker &w, const tile &t)
{
    return keys_at(w, t) + TILE_BYTES;
}

__device__ static inline uint32_t queries_at(const worker &w, const tile &t)
{
    return w.shared + QUERIES_AT + side(t.n) * 2 * TILE_BYTES;
}

// [half of the queries, key, query]; when a group has read its half, that has room for
// the gradient of its queries.
__device__ static inline uint32_t grads_at(const worker &w, const tile &t)
{
    return w.shared + GRADS_AT + side(t.n) * 2 * TILE_BYTES;
}

// ---- results -------------------------------------------------------------------------

// 64 rows of a product as rows of 16 bits.
template <typename T>
__device__ static inline void put_rows(const worker &w, uint32_t to,
                                       const float (&d)[32], float scale)
{
    const uint32_t row = to + (16 * w.warp + w.lane % 16) * HEAD_ROW_BYTES;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t words[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            words[k] = low<T>::pack(d[8 * i + 2 * k] * scale,
                                    d[8 * i + 2 * k + 1] * scale);
        store_words(row + (((2 * i + w.lane / 16) ^ w.lane % 8) << 4), words);
    }
}

__device__ static inline float *sum_of(const grad_args &x, const worker &w,
                                       const tile &t)
{
    return x.sums +
           (((int64_t)blockIdx.x * x.n + t.q) * 2 + w.group) * SUM_FLOATS;
}

// The last tile of keys reads the sum of those before it, and writes the whole d_q.
template <bool CAUSAL>
__device__ static inline bool has_sum(const grad_args &x, const tile &t)
{
    return t.k > 0 && is_last<CAUSAL>(x, t);
}

// n_sums: those before.
template <bool CAUSAL>
__device__ static inline void begin_queries(const grad_args &x, const worker &w,
                                            const tile &t, int *n_sums,
                                            float (&d)[32])
{
    if (!has_sum<CAUSAL>(x, t)) {
#pragma unroll
        for (int i = 0; i < 32; i++)
            d[i] = 0;
        return;
    }
    bar_wait(w.shared + SUM_DONE + 8 * w.group, (*n_sums)++ & 1);
    const float *from = sum_of(x, w, t) + (w.warp * 32 + w.lane) * 4;
#pragma unroll
    for (int i = 0; i < 8; i++)
        asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(d[4 * i]), "=f"(d[4 * i + 1]), "=f"(d[4 * i + 2]),
                       "=f"(d[4 * i + 3])
                     : "l"(from + 512 * i)
                     : "memory");
}

// Into shared memory: the whole gradient of queries in 16 bits, or what is added.
template <typename T, bool CAUSAL>
__device__ static inline void put_queries(const grad_args &x, const worker &w,
                                          const tile &t, const float (&d)[32])
{
    const uint32_t room = grads_at(w, t) + w.group * TILE_BYTES;
    if (is_last<CAUSAL>(x, t)) {
        put_rows<T>(w, room, d, x.scale);
        return;
    }
    const uint32_t to = room + (w.warp * 32 + w.lane) * 16;
#pragma unroll
    for (int i = 0; i < 8; i++)
        asm volatile(
            "st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + 2048 * i),
            "f"(d[4 * i]), "f"(d[4 * i + 1]), "f"(d[4 * i + 2]),
            "f"(d[4 * i + 3])
            : "memory");
}

// Bytes of shared memory into memory, or added to the floats there.
__device__ static inline void add_bytes(float *to, uint32_t from, int bytes,
                                        bool adds)
{
    if (adds)
        asm volatile(
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
            "[%0], [%1], %2;" ::"l"(to),
            "r"(from), "r"(bytes)
            : "memory");
    else
        asm volatile(
            "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                to),
            "r"(from), "r"(bytes)
            : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Sends it. First the store before must have been written: that fixes the order of
// sums.
template <bool CAUSAL>
__device__ static inline void send_queries(const grad_args &x, const worker &w,
                                           const tile &t)
{
    const uint32_t room = grads_at(w, t) + w.group * TILE_BYTES;
    bar_wait(w.shared + SUM_FULL + 8 * w.group, t.n & 1);
    stores_written();
    if (is_last<CAUSAL>(x, t))
        store_head(&x.d_q, t.q * TILE + GROUP_ROWS * w.group, t.head % x.heads,
                   t.head / x.heads, room);
    else
        add_bytes(sum_of(x, w, t), room, SUM_BYTES, t.own > 0);
}

// One thread does that for each group, so that the group itself never waits for stores.
template <bool CAUSAL>
__device__ static inline void send_tiles(const grad_args &x, const worker &w)
{
    tile t = first_tile<CAUSAL>(x), last = t;
    while (is_there(t)) {
        if (t.n > 0) {
            send_queries<CAUSAL>(x, w, last);
            stores_read();
        }
        bar_arrive(w.shared + GRADS_FULL + 8 * side(t.n));
        if (has_sum<CAUSAL>(x, t)) {
            if (last.q == t.q)
                stores_written();
            bar_arrive(w.shared + SUM_DONE + 8 * w.group);
        }
        last = t;
        go_on<CAUSAL>(x, &t);
    }
    send_queries<CAUSAL>(x, w, last);
    stores_read();
}

// d_k and d_v leave through shared memory: this group's part of v, now unused, and
// OUT_AT.
template <typename T>
__device__ static inline void write_keys(const grad_args &x, const worker &w,
                                         const tile &t, const float (&d_k)[32],
                                         const float (&d_v)[32])
{
    const uint32_t values = values_at(w, t) + w.group * GROUP_BYTES;
    const uint32_t out = w.shared + OUT_AT + w.group * GROUP_BYTES;
    const int row = t.k * TILE + GROUP_ROWS * w.group;
    if (leads(w))
        stores_read();
    meet(w);
    put_rows<T>(w, values, d_v, 1);
    put_rows<T>(w, out, d_k, x.scale);
    shared_written();
    meet(w);
    if (!leads(w))
        return;
    store_head(&x.d_v, row, t.head % x.heads, t.head / x.heads, values);
    store_head(&x.d_k, row, t.head % x.heads, t.head / x.heads, out);
}

// ---- products ----------------------------------------------------------------------

// A WGMMA descriptor of an address / 16. Only its lower word changes, which saves many
// instructions. The same bits serve along k and across it: no operand is wider than 64.
__device__ static inline uint64_t matrix_at(uint32_t part)
{
    return (uint64_t)0x40000040u << 32 | (part | 1u << 16);
}

// 64 rows of a by the 128 of b.
template <typename T>
__device__ static inline void multiply_rows(float (&d)[64], uint32_t a,
                                            uint32_t b)
{
    products_begin();
#pragma unroll
    for (int i = 0; i < HEAD_SIZE / 16; i++)
        rows_by_rows<T>(d, matrix_at((a >> 4) + 2 * i),
                        matrix_at((b >> 4) + 2 * i), i > 0);
    products_commit();
}

// Words of 128 columns by the 128 rows of b.
template <typename T>
__device__ static inline void multiply_words(float (&d)[32],
                                             const uint32_t (&words)[8][4],
                                             uint32_t b, bool adds)
{
    products_begin();
#pragma unroll
    for (int i = 0; i < TILE / 16; i++)
        words_by_rows<T>(d, words[i], matrix_at((b >> 4) + 128 * i),
                         i > 0 || adds);
    products_commit();
}

// The gradient of q: 64 queries, over 128 keys.
template <typename T>
__device__ static inline void multiply_grads(float (&d)[32], uint32_t grads,
                                             uint32_t keys)
{
    products_begin();
#pragma unroll
    for (int i = 0; i < TILE / 16; i++)
        turned_by_rows<T>(d, matrix_at((grads >> 4) + 128 * i),
                          matrix_at((keys >> 4) + 128 * i), 1);
    products_commit();
}

// ---- scores ------------------------------------------------------------------------

template <typename T, int HALF>
__device__ static inline void pack_words(uint32_t (&words)[8][4],
                                         const float (&s)[64])
{
#pragma unroll
    for (int i = 4 * HALF; i < 4 * HALF + 4; i++)
#pragma unroll
        for (int k = 0; k < 4; k++)
            words[i][k] = low<T>::pack(s[8 * i + 2 * k], s[8 * i + 2 * k + 1]);
}

__device__ static inline void put_words(const worker &w, uint32_t grads,
                                        const uint32_t (&words)[8][4])
{
    const uint32_t row =
        grads + (GROUP_ROWS * w.group + 16 * w.warp + w.lane % 16) * 128;
#pragma unroll
    for (int i = 0; i < 8; i++)
        store_words(row + i / 4 * TILE_BYTES +
                        (((2 * (i % 4) + w.lane / 16) ^ w.lane % 8) << 4),
                    words[i]);
}

// Two neighbours of each 8 of a half of the queries: those of this lane.
template <int HALF>
__device__ static inline void load_pairs(float2 (&v)[8], uint32_t at)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                     : "=f"(v[j].x), "=f"(v[j].y)
                     : "r"(at + 32 * (8 * HALF + j)));
}

// Scores become weights.
template <int HALF>
__device__ static inline void weigh(float (&s)[64], const float2 (&log)[8],
                                    float factor)
{
#pragma unroll
    for (int i = 32 * HALF; i < 32 * HALF + 32; i++)
        s[i] = power_of_2(s[i] * factor -
                          (i % 2 ? log[i / 4 % 8].y : log[i / 4 % 8].x));
}

// No weight where the key comes after the query or is beyond the sequence.
template <bool CAUSAL>
__device__ static inline void hide(const worker &w, float (&s)[64], int n_keys)
{
    const int row = GROUP_ROWS * w.group + 16 * w.warp + w.lane / 4;
    const int col = 2 * (w.lane % 4);
#pragma unroll
    for (int i = 0; i < 64; i++) {
        const int r = row + i % 4 / 2 * 8, c = col + i / 4 * 8 + i % 2;
        s[i] = (CAUSAL ? r <= c : r < n_keys) ? s[i] : 0;
    }
}

// Gradients of weights become those of scores.
template <int HALF>
__device__ static inline void score_grads(float (&g)[64], const float (&s)[64],
                                          const float2 (&mean)[8])
{
#pragma unroll
    for (int i = 32 * HALF; i < 32 * HALF + 32; i++)
        g[i] = s[i] * (g[i] - (i % 2 ? mean[i / 4 % 8].y : mean[i / 4 % 8].x));
}

// ---- a group's work ----------------------------------------------------------------

// Scores of a tile; there may be none after the last one.
template <typename T>
__device__ static inline void begin_scores(const grad_args &x, const worker &w,
                                           const tile &t, float (&s)[64])
{
    if (is_there(t)) {
        bar_wait(w.shared + KEYS_FULL + 8 * side(t.n_keys), turn(t.n_keys));
        bar_wait(w.shared + QUERIES_FULL + 8 * side(t.n), turn(t.n));
    }
    multiply_rows<T>(s, keys_at(w, t) + w.group * GROUP_BYTES,
                     queries_at(w, t));
}

template <bool CAUSAL>
__device__ static inline void leave(const grad_args &x, const worker &w,
                                    const tile &last)
{
    shared_written();
    give(w, SUM_FULL + 8 * w.group);
    if (!closes<CAUSAL>(x, last))
        return;
    if (leads(w))
        stores_read();
    give(w, KEYS_EMPTY + 8 * side(last.n_keys));
}

// The last tile's d_q, with no next tile to overlap it with.
template <typename T, bool CAUSAL>
__device__ static inline void finish(const grad_args &x, const worker &w,
                                     const tile &last, float (&d_q)[32])
{
    bar_wait(w.shared + GRADS_FULL + 8 * side(last.n), turn(last.n));
    multiply_grads<T>(d_q, grads_at(w, last) + w.group * TILE_BYTES,
                      keys_at(w, last));
    products_wait<0>();
    hold(d_q);
    put_queries<T, CAUSAL>(x, w, last, d_q);
    shared_written();
    give(w, SUM_FULL + 8 * w.group);
    if (leads(w))
        stores_read();
}

// The main loop: WGMMAs of the tile before, then of this one, run under the
// exponentials. ptxas serialises WGMMAs it cannot prove safe; this order of waits keeps
// them in flight.
template <typename T, bool CAUSAL>
__device__ static inline void multiply_tiles(const grad_args &x,
                                             const worker &w)
{
    const float factor = x.scale * LOG2_E;
    float s[64], g[64], d_k[32], d_v[32], d_q[32];
#pragma unroll
    for (int i = 0; i < 32; i++)
        d_q[i] = 0;
    int n_sums = 0;
    tile t = first_tile<CAUSAL>(x), last = t;
    begin_scores<T>(x, w, t, s);
    while (is_there(t)) {
        const uint32_t queries = queries_at(w, t), d_o = queries + TILE_BYTES;
        const uint32_t stats =
            w.shared + STATS_AT + side(t.n) * STATS_BYTES + 8 * (w.lane % 4);
        const bool adds = !opens<CAUSAL>(x, t);
        uint32_t words[8][4], words_g[8][4];
        float2 pairs[8];
        load_pairs<0>(pairs, stats);
        products_wait<0>();
        hold(s);
        if (t.n > 0)
            bar_wait(w.shared + GRADS_FULL + 8 * side(last.n), turn(last.n));
        multiply_grads<T>(d_q, grads_at(w, last) + w.group * TILE_BYTES,
                          keys_at(w, last));
        weigh<0>(s, pairs, factor);
        load_pairs<1>(pairs, stats);
        products_wait<0>();
        hold(d_q);
        if (t.n > 0)
            put_queries<T, CAUSAL>(x, w, last, d_q);
        multiply_rows<T>(g, values_at(w, t) + w.group * GROUP_BYTES, d_o);
        weigh<1>(s, pairs, factor);
        if (t.n > 0)
            leave<CAUSAL>(x, w, last);
        if (CAUSAL ? t.k == t.q : (t.k + 1) * TILE > x.len)
            hide<CAUSAL>(w, s, x.len - t.k * TILE);
        load_pairs<0>(pairs, stats + 4 * TILE);
        products_wait<0>();
        hold(g);
        score_grads<0>(g, s, pairs);
        pack_words<T, 0>(words, s);
        pack_words<T, 0>(words_g, g);
        load_pairs<1>(pairs, stats + 4 * TILE);
        score_grads<1>(g, s, pairs);
        pack_words<T, 1>(words, s);
        pack_words<T, 1>(words_g, g);
        put_words(w, grads_at(w, t), words_g);
        multiply_words<T>(d_v, words, d_o, adds);
        multiply_words<T>(d_k, words_g, queries, adds);
        last = t;
        go_on<CAUSAL>(x, &t);
        begin_scores<T>(x, w, t, s);
        shared_written();
        give(w, GRADS_FULL + 8 * side(last.n));
        products_wait<1>();
        hold(d_k);
        hold(d_v);
        begin_queries<CAUSAL>(x, w, last, &n_sums, d_q);
        give(w, QUERIES_EMPTY + 8 * side(last.n));
        if (closes<CAUSAL>(x, last))
            write_keys<T>(x, w, last, d_k, d_v);
    }
    finish<T, CAUSAL>(x, w, last, d_q);
}

template <typename T, bool CAUSAL>
__global__ void __launch_bounds__(THREADS, 1)
    grad_kernel(const __grid_constant__ grad_args x)
{
    extern __shared__ __align__(1024) unsigned char room[];
    const uint32_t shared = (uint32_t)__cvta_generic_to_shared(room);
    const int warp = (int)same_in_warp(threadIdx.x / 32);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) {
            bar_init(shared + KEYS_FULL + 8 * i, 1);
            bar_init(shared + KEYS_EMPTY + 8 * i, 8); // warps
            bar_init(shared + QUERIES_FULL + 8 * i, 1);
            bar_init(shared + QUERIES_EMPTY + 8 * i, 8);
            bar_init(shared + GRADS_FULL + 8 * i, 8 + 2);
            bar_init(shared + SUM_FULL + 8 * i, 4);
            bar_init(shared + SUM_DONE + 8 * i, 1);
        }
        bars_ready();
    }
    __syncthreads();
    if (warp < 4) {
        registers<THREADS, 24, 240>::give();
        if (threadIdx.x == 0)
            load_tiles<CAUSAL>(x, shared);
        else if (threadIdx.x == 32 || threadIdx.x == 64)
            send_tiles<CAUSAL>(x, {shared, warp - 1, 0, 0});
    } else {
        registers<THREADS, 24, 240>::take();
        multiply_tiles<T, CAUSAL>(
            x, {shared, warp / 4 - 1, warp % 4, (int)threadIdx.x % 32});
    }
}

// ---- host --------------------------------------------------------------------------

struct share {
    int whole, rest, parts, blocks;
};

// Heads that fill whole rounds of blocks are whole. Of the rest, each is split by keys
// among several blocks where that is possible; attention_hopper_join adds their d_q.
static share share_of(const tt_cuda *cuda, const tt_cuda_attention_args &a)
{
    const int heads = (int)(a.batch * a.q_heads), cores = cuda->info.cores;
    const int n = (int)ceil_div(a.q_len, TILE), rest = heads % cores;
    const int parts = rest == 0 ? 1 : cores / rest < n ? cores / rest : n;
    if (parts == 1)
        return {heads, 0, 0, heads < cores ? heads : cores};
    return {heads - rest, rest, parts, heads < cores ? rest * parts : cores};
}

// Whether at least 60% of the SMs' time would be work; short sequences are quick
// anyhow.
static bool fills(const tt_cuda *cuda, const tt_cuda_attention_args &a)
{
    const share s = share_of(cuda, a);
    const int64_t cores = cuda->info.cores, n = ceil_div(a.q_len, TILE),
                  few = 3;
    const int64_t tiles = a.is_causal ? n * (n + 1) / 2 : n * n;
    int64_t most = ceil_div(s.whole, cores) * tiles; // of a block
    if (s.parts > 0 && a.is_causal)
        most += tiles / s.parts + 1 > n ? tiles / s.parts + 1 : n;
    else if (s.parts > 0)
        most += n * ceil_div(n, s.parts);
    return n <= few || 10 * a.batch * a.q_heads * tiles >= 6 * cores * most;
}

bool attention_hopper_grad_can(const tt_cuda *cuda,
                               const tt_cuda_attention_args &a)
{
    const int64_t most = (int64_t)1 << 30, heads = a.batch * a.q_heads;
    return hopper_heads(cuda, a) && heads < most &&
           heads * ceil_div(a.q_len, TILE) < most && fills(cuda, a);
}

static int64_t stats_bytes(const tt_cuda_attention_args &a)
{
    return a.batch * a.q_heads * ceil_div(a.q_len, TILE) * STATS_BYTES;
}

int64_t attention_hopper_grad_scratch(const tt_cuda *cuda,
                                      const tt_cuda_attention_args &a)
{
    return stats_bytes(a) +
           share_of(cuda, a).blocks * ceil_div(a.q_len, TILE) * 2 * SUM_BYTES;
}

static bool describe(const tt_cuda_attention_args &a, const share &s,
                     grad_args *x)
{
    char *scratch = (char *)(((uintptr_t)a.scratch + 255) & ~(uintptr_t)255);
    x->heads = (int)a.q_heads;
    x->len = (int)a.q_len;
    x->n = (int)ceil_div(a.q_len, TILE);
    x->whole = s.whole;
    x->rest = s.rest;
    x->parts = s.parts;
    x->scale = a.scale;
    x->stats = (const float *)scratch;
    x->sums = (float *)(scratch + stats_bytes(a));
    return show_heads(&x->q, a, a.q, a.q_len, TILE) &&
           show_heads(&x->k, a, a.k, a.k_len, TILE) &&
           show_heads(&x->v, a, a.v, a.k_len, TILE) &&
           show_heads(&x->d_o, a, a.d_o, a.q_len, TILE) &&
           show_heads(&x->d_q, a, a.d_q, a.q_len, GROUP_ROWS) &&
           show_heads(&x->d_k, a, a.d_k, a.k_len, GROUP_ROWS) &&
           show_heads(&x->d_v, a, a.d_v, a.k_len, GROUP_ROWS);
}

template <typename T>
static const char *launch(tt_cuda *cuda, bool is_causal, int blocks,
                          const grad_args &x)
{
    const auto kernel =
        is_causal ? grad_kernel<T, true> : grad_kernel<T, false>;
    TRY_CUDA(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    kernel<<<(unsigned)blocks, THREADS, SHARED_BYTES, cuda->stream>>>(x);
    return launched();
}

const char *attention_hopper_grad_run(tt_cuda *cuda,
                                      const tt_cuda_attention_args &a)
{
    const share s = share_of(cuda, a);
    grad_args x = {};
    if (!describe(a, s, &x))
        return tt_cuda_failed_text("heads cannot be shown to the copy engine");
    TRY(attention_hopper_stats(cuda, a, (float *)x.stats));
    TRY(a.type == TT_BF16 ? launch<bf16>(cuda, a.is_causal, s.blocks, x)
                          : launch<f16>(cuda, a.is_causal, s.blocks, x));
    return s.rest == 0 ? NULL : attention_hopper_join(cuda, a, x);
}
