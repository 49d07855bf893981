// gemm_share - split-k: how blocks share few tiles with a long k. It says which block
// does which range of k of which tile, and in which slot of scratch memory the part
// then lies.
//
// The problem: a weight gradient of 768 x 3072 has 72 tiles, and an H200 has 132 SMs.
// One tile for each block would leave 60 idle. Cutting all work (tiles x k) into 132
// equal contiguous runs, as stream-k does, balances it. But then neighbours work at
// different places of k, and dy and x are read from memory several times (702 TFLOP/s
// against 765).
//
// The idea: steps that keep blocks at the same k. In each step either
//   - there are no fewer blocks than tiles: each tile gets blocks / tiles ranges of k,
//     each of which uses up a block; or
//   - there are more tiles than blocks: each block takes all the k that is left of some
//     tiles, as far as its budget goes.
// What is left (tiles, range of k, blocks) goes to the next step. 3 tiles with 10 of k
// for 5 blocks of budget 6 take three steps:
//
//   k ->     0           6         10
//   tile 0   [ block 0   ][ block 3 ]
//   tile 1   [ block 1   ][ block 4 ]
//   tile 2   [ block 2   ][ 3  ][ 4 ]
//
// Everything is a function of the sizes, so blocks agree without talking, and the
// second kernel (add_parts) finds the slots of a tile again, in order of k: sums are
// repeatable.

#ifndef TT_BACKEND_CUDA_DEV_GEMM_GEMM_SHARE_CUH
#define TT_BACKEND_CUDA_DEV_GEMM_GEMM_SHARE_CUH

struct work_size {
    int m_tiles, n_tiles, k_blocks;
    int blocks,
        budget; // how many share it, and how many k_blocks each has at most
};

// Neighbours share the right operand, the larger of a tile (256 against 128): 4 to 6%
// faster than sharing the smaller one at some shapes.
__device__ static inline int tile_at(const work_size &x, int row, int col)
{
    return col * x.m_tiles + row;
}

__device__ static inline int row_of_tile(const work_size &x, int tile)
{
    return tile % x.m_tiles;
}

__device__ static inline int col_of_tile(const work_size &x, int tile)
{
    return tile / x.m_tiles;
}

// The state between two steps.
struct share {
    int tiles, first;   // those that are not done
    int from, length;   // what is left of k for them
    int blocks, budget; // who is left, and what each may do
    int slot;           // the next
    int ways, each; // of this step: ranges of `each` blocks; or rounds, and 0
};

__host__ __device__ static inline share first_share(const work_size &x)
{
    return {
        x.m_tiles * x.n_tiles, 0, 0, x.k_blocks, x.blocks, x.budget, 0, 0, 0};
}

// Plans a step; false: all is done. A small rest of k (under a third of a budget) is
// added to the ranges: a part of its own would cost a tile's way through memory.
__host__ __device__ static inline bool plan_step(share *s)
{
    if (s->tiles <= 0 || s->length <= 0 || s->blocks <= 0)
        return false;
    if (s->tiles <= s->blocks) {
        s->ways = s->blocks / s->tiles;
        s->each = s->budget;
        if (s->length - s->ways * s->each < s->budget / 3)
            s->each = (s->length + s->ways - 1) / s->ways;
    } else {
        const int rounds = s->budget / s->length, most = s->tiles / s->blocks;
        s->ways = rounds < 1 ? 1 : rounds < most ? rounds : most;
        s->each = 0;
    }
    return true;
}

__host__ __device__ static inline void end_step(share *s)
{
    const int n = s->ways * (s->each > 0 ? s->tiles : s->blocks);
    s->slot += n;
    if (s->each > 0) {
        s->blocks -= n;
        s->from += s->ways * s->each;
        s->length -= s->ways * s->each;
    } else {
        s->first += n;
        s->tiles -= n;
        s->budget -= s->ways * s->length;
    }
}

// One piece of work: k blocks [from, to) of a tile.
struct part {
    int tile, from, to, slot;
};

struct parts { // of one block
    share s;
    int me, round;
};

__device__ static inline parts own_parts(const work_size &x)
{
    return {first_share(x), (int)blockIdx.x, 0};
}

// This block's part of the current step; false: it has none, or no more.
__device__ static inline bool part_of_step(parts *p, part *out)
{
    const share &s = p->s;
    const int i = p->me / s.tiles, from = s.from + i * s.each;
    if (s.each > 0 && p->me < s.ways * s.tiles) {
        *out = {s.first + p->me % s.tiles, from,
                min(from + s.each, s.from + s.length), s.slot + p->me};
        return true;
    }
    if (s.each == 0 && p->round < s.ways) {
        const int t = p->round++ * s.blocks + p->me;
        *out = {s.first + t, s.from, s.from + s.length, s.slot + t};
        return true;
    }
    return false;
}

__device__ static inline bool next_part(parts *p, part *out)
{
    while (plan_step(&p->s)) {
        if (part_of_step(p, out)) {
            if (p->s.each > 0)
                p->s.tiles = 0; // the last of this block
            return out->from < out->to;
        }
        p->me -= p->s.each > 0 ? p->s.ways * p->s.tiles : 0;
        p->round = 0;
        end_step(&p->s);
    }
    return false;
}

// The slots of a tile, in order of k.
template <typename F>
__device__ static inline void for_slots(const work_size &x, int tile, F f)
{
    for (share s = first_share(x); plan_step(&s); end_step(&s)) {
        if (s.each > 0) {
            for (int i = 0; i < s.ways && i * s.each < s.length; i++)
                f(s.slot + i * s.tiles + tile - s.first);
        } else if (tile - s.first < s.ways * s.blocks) {
            f(s.slot + tile - s.first);
            return;
        }
    }
}

// Whether one part has all of a tile's k: it then goes straight to c.
__device__ static inline bool is_whole(const work_size &x, int tile)
{
    share s = first_share(x);
    for (; plan_step(&s) && s.each == 0; end_step(&s))
        if (tile - s.first < s.ways * s.blocks)
            return s.from == 0;
    return s.from == 0 && s.each >= s.length;
}

static inline int64_t count_slots(const work_size &x)
{
    share s = first_share(x);
    while (plan_step(&s))
        end_step(&s);
    return s.slot;
}

#endif
