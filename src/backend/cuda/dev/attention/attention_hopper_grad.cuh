// attention_hopper_grad - backward attention: the layout of shared memory, the order of
// tiles, and their loading by TMA. Loader, senders and warpgroups each walk the same
// order of tiles by themselves (first_tile, go_on); only mbarriers keep them together.

#ifndef TT_BACKEND_CUDA_DEV_ATTENTION_ATTENTION_HOPPER_GRAD_CUH
#define TT_BACKEND_CUDA_DEV_ATTENTION_ATTENTION_HOPPER_GRAD_CUH

#include "backend/cuda/dev/attention/attention_hopper.cuh"

enum { TILE = 128, TILE_BYTES = TILE * HEAD_ROW_BYTES, THREADS = 384 };
enum { GROUP_ROWS = TILE / 2, GROUP_BYTES = TILE_BYTES / 2 };
enum { SUM_BYTES = GROUP_ROWS * HEAD_SIZE * 4, SUM_FLOATS = SUM_BYTES / 4 };
enum {
    KEYS_AT = 0, // k and v, twice
    QUERIES_AT = KEYS_AT + 4 * TILE_BYTES,
    GRADS_AT = QUERIES_AT + 4 * TILE_BYTES, // of scores, twice
    OUT_AT = GRADS_AT + 4 * TILE_BYTES,     // rows of each group
    STATS_AT = OUT_AT + TILE_BYTES,
    STATS_BYTES =
        2 * TILE *
        4, // of queries: logarithms and means, see attention_hopper_stats
    KEYS_FULL = STATS_AT + 2 * STATS_BYTES, // barriers
    KEYS_EMPTY = KEYS_FULL + 16,
    QUERIES_FULL = KEYS_EMPTY + 16,
    QUERIES_EMPTY = QUERIES_FULL + 16,
    GRADS_FULL = QUERIES_EMPTY + 16,
    SUM_FULL = GRADS_FULL + 16, // of a group
    SUM_DONE = SUM_FULL + 16,
    SHARED_BYTES = SUM_DONE + 16,
};

struct grad_args {
    CUtensorMap q, k, v, d_o, d_q, d_k, d_v;
    int heads, len, n;      // n: tiles along the sequence
    int whole, rest, parts; // of all heads: see share_of
    float scale;
    const float *stats; // [head of all, tile, 2, TILE]
    float *sums;        // of d_q: [block, tile, group, SUM_FLOATS]
};

// ---- tiles -------------------------------------------------------------------------

// A block takes every gridDim'th whole head, then a part of one of the rest.
struct tile {
    int head, k, q; // head: of all; negative: there are no more
    int own;        // tiles of keys of this head before it
    int n_keys, n;  // of all heads; n: tiles
};

__device__ static inline bool is_there(const tile &t)
{
    return t.head >= 0;
}

// Every second tile of keys takes the queries backwards: those that the tile before had
// last are still in the L2 cache.
template <bool CAUSAL>
__device__ static inline int first_query(const grad_args &x, const tile &t)
{
    return t.own % 2 != 0 ? x.n - 1 : CAUSAL ? t.k : 0;
}

template <bool CAUSAL>
__device__ static inline bool opens(const grad_args &x, const tile &t)
{
    return t.q == first_query<CAUSAL>(x, t);
}

template <bool CAUSAL>
__device__ static inline bool closes(const grad_args &x, const tile &t)
{
    return t.q == (t.own % 2 == 0 ? x.n - 1 : CAUSAL ? t.k : 0);
}

// Blocks that share a head deal its tiles of keys out in a zigzag (0 1 2, 2 1 0, ...):
// under a causal mask the first keys have more queries.
__device__ static inline int key_of(const grad_args &x, const tile &t)
{
    if (t.head < x.whole)
        return t.own;
    const int part = (int)blockIdx.x / x.rest;
    return t.own * x.parts + (t.own % 2 != 0 ? x.parts - 1 - part : part);
}

template <bool CAUSAL>
__device__ static inline void begin_head(const grad_args &x, int head, tile *t)
{
    const int block = (int)blockIdx.x;
    const bool has_part = t->head < x.whole && block < x.rest * x.parts;
    t->head = head < x.whole ? head : has_part ? x.whole + block % x.rest : -1;
    if (!is_there(*t))
        return;
    t->own = 0;
    t->k = key_of(x, *t);
    t->q = first_query<CAUSAL>(x, *t);
}

template <bool CAUSAL>
__device__ static inline tile first_tile(const grad_args &x)
{
    tile t = {-1, 0, 0, 0, 0, 0};
    begin_head<CAUSAL>(x, (int)blockIdx.x, &t);
    return t;
}

template <bool CAUSAL>
__device__ static inline void go_on(const grad_args &x, tile *t)
{
    t->n++;
    if (!closes<CAUSAL>(x, *t)) {
        t->q += t->own % 2 != 0 ? -1 : 1;
        return;
    }
    t->n_keys++;
    t->own++;
    t->k = key_of(x, *t);
    if (t->k < x.n)
        t->q = first_query<CAUSAL>(x, *t);
    else
        begin_head<CAUSAL>(x, t->head + (int)gridDim.x, t);
}

// Whether this tile completes d_q of its queries. Shared heads: the join completes it.
template <bool CAUSAL>
__device__ static inline bool is_last(const grad_args &x, const tile &t)
{
    return t.head < x.whole && t.k == (CAUSAL ? t.q : x.n - 1);
}

// Double buffers: which of the two the n-th use takes, and the parity of its mbarrier.
__device__ static inline int side(int n)
{
    return n & 1;
}
__device__ static inline int turn(int n)
{
    return n >> 1 & 1;
}

// ---- loading -----------------------------------------------------------------------

__device__ static inline void load_keys(const grad_args &x, uint32_t shared,
                                        const tile &t)
{
    const int batch = t.head / x.heads, head = t.head % x.heads,
              b = side(t.n_keys);
    const uint32_t full = shared + KEYS_FULL + 8 * b;
    const uint32_t to = shared + KEYS_AT + b * 2 * TILE_BYTES;
    bar_wait(shared + KEYS_EMPTY + 8 * b, turn(t.n_keys) ^ 1);
    bar_expect(full, 2 * TILE_BYTES);
    load_head(to, &x.k, t.k * TILE, head, batch, full);
    load_head(to + TILE_BYTES, &x.v, t.k * TILE, head, batch, full);
}

__device__ static inline void load_queries(const grad_args &x, uint32_t shared,
                                           const tile &t)
{
    const int batch = t.head / x.heads, head = t.head % x.heads, b = side(t.n);
    const uint32_t full = shared + QUERIES_FULL + 8 * b;
    const uint32_t to = shared + QUERIES_AT + b * 2 * TILE_BYTES;
    bar_wait(shared + QUERIES_EMPTY + 8 * b, turn(t.n) ^ 1);
    bar_expect(full, 2 * TILE_BYTES + STATS_BYTES);
    load_head(to, &x.q, t.q * TILE, head, batch, full);
    load_bytes(shared + STATS_AT + b * STATS_BYTES,
               x.stats + ((int64_t)t.head * x.n + t.q) * 2 * TILE, STATS_BYTES,
               full);
    load_head(to + TILE_BYTES, &x.d_o, t.q * TILE, head, batch, full);
}

template <bool CAUSAL>
__device__ static inline void load_tiles(const grad_args &x, uint32_t shared)
{
    for (tile t = first_tile<CAUSAL>(x); is_there(t); go_on<CAUSAL>(x, &t)) {
        if (opens<CAUSAL>(x, t))
            load_keys(x, shared, t);
        load_queries(x, shared, t);
    }
}

// ---- before and after that -----------------------------------------------------------

// Of every query the logarithm of the sum of exponentials, to base 2, and sum(o d_o),
// the mean of the gradients of its weights: stats of grad_args.
const char *attention_hopper_stats(tt_cuda *cuda,
                                   const tt_cuda_attention_args &a,
                                   float *stats);

// The gradient of q of heads that several blocks had parts of.
const char *attention_hopper_join(tt_cuda *cuda,
                                  const tt_cuda_attention_args &a,
                                  const grad_args &x);

#endif
