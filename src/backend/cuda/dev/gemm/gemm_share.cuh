// gemm_share - how the blocks of a kernel share out few tiles with a long k: which of
// them does which range of k of which tile, and where the parts of a tile then lie.

#ifndef TT_BACKEND_CUDA_DEV_GEMM_GEMM_SHARE_CUH
#define TT_BACKEND_CUDA_DEV_GEMM_GEMM_SHARE_CUH

struct work_size {
    int m_tiles, n_tiles, k_blocks;
    int blocks,
        budget; // how many share it, and how many k_blocks each has at most
};

// Those that share the right operand, which is the larger of a tile, are neighbours.
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

// While there are no fewer blocks than tiles, all tiles get the same number of ranges;
// blocks that are left take whole tiles of what is left of k, in rounds; tiles that are
// left are split again.
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

// A rest that is small beside the ranges is added to them: each part costs a tile's
// way through memory.
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

// Of the step at hand; false: none, or no more.
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

// Whether one part has all of a tile's k.
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
