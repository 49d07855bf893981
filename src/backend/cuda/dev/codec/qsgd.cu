// qsgd - few levels at random, with Elias codes (ops/codec/entropy.h). Codes have the
// CPU's bits.
//
// The problem: a block's bytes begin where those of the block before end, and an entry's
// bits where those of the entry before end.
//
//   find    a warp has a block: its norm, its levels, and how many bits they take. Votes
//           say where the level before is that is not 0
//   scan    where each block's bytes begin (scan.cuh)
//   write   a warp has a block: a scan over its lanes says where each entry's bits
//           begin; they are put together in shared memory
//
// The norm's chains are added up by 16 lanes, which get the other half's numbers by
// shuffles. Numbers are read twice, the second time from the cache; levels go through
// scratch memory, a byte each. Bound by memory.
//
//   sum     a replica's sizes are scanned; a warp has a block. Entries are read one after
//           another by one lane, since none says where the next begins: bound by that
//
// A packet that no encoder writes is noted as a fault; nothing outside is touched.

#include "backend/cuda/dev/codec/entropy.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };
enum { SUM_THREADS = 128, SUM_WARPS = SUM_THREADS / 32 };
enum { DENSE = 0x8000, GAP_BITS = 12, LEVEL_BITS = 6, PAD = 4 };

__device__ static inline int bits_after_first(uint32_t x)
{
    return 31 - __clz((int)x);
}

// Numbers of block b.
__device__ static inline int length_of(int64_t n, int64_t block, int64_t b)
{
    const int64_t left = n - b * block;
    return (int)(left < block ? left : block);
}

__device__ static inline int dense_bytes(int n, int bits)
{
    return (n * bits + 7) / 8;
}

// ---- find ------------------------------------------------------------------

// The norm of a block, in all lanes; e goes to `left`. A product of two floats is exact
// as a double, so it may be fused with the addition.
__device__ static inline float norm_of(const tt_cuda_entropy_args &a,
                                       int64_t from, int n)
{
    const int lane = threadIdx.x % 32;
    double chain = 0;
    for (int i = 0; i < n; i += 32) {
        const int at = i + lane;
        float e = at < n ? a.x[from + at] : 0.f;
        if (a.residual != NULL && at < n) {
            e = __fadd_rn(e, a.residual[from + at]);
            a.left[from + at] = e;
        }
        const float next = __shfl_down_sync(0xffffffffu, e, 16);
        chain += (double)e * (double)e;
        chain += (double)next * (double)next;
    }
    for (int k = 8; k > 0; k /= 2)
        chain += __shfl_xor_sync(0xffffffffu, chain, k);
    return (float)sqrt(__shfl_sync(0xffffffffu, chain, 0));
}

__device__ static inline int level_of(float e, float by, int levels,
                                      uint32_t random)
{
    const float u = __fmul_rn((float)(random >> 8), 1.f / 16777216.f);
    const float size = __uint_as_float(__float_as_uint(e) & 0x7fffffffu);
    const float x = __fadd_rn(__fmul_rn(size, by), u);
    const int level = x < (float)levels ? (int)x : levels;
    return e < 0.f ? -level : level;
}

// The entry of a lane's level: how far it is from the one before, sign and size.
// `before`, the place of the last level that was not 0, goes on to the next 32.
struct entry {
    uint32_t gap, size;
    bool is_minus;
    int bits; // 0: there is none
};

__device__ static inline entry entry_of(int level, int first, int *before)
{
    const int lane = threadIdx.x % 32;
    const unsigned set = __ballot_sync(0xffffffffu, level != 0);
    const unsigned lower = set & ((1u << lane) - 1);
    const int last = lower != 0 ? first + bits_after_first(lower) : *before;
    entry e = {(uint32_t)(first + lane - last),
               (uint32_t)(level < 0 ? -level : level), level < 0, 0};
    if (level != 0)
        e.bits = 2 * (bits_after_first(e.gap) + bits_after_first(e.size)) + 3;
    *before = set != 0 ? first + bits_after_first(set) : *before;
    return e;
}

__global__ void find(tt_cuda_entropy_args a, int64_t blocks, int8_t *level,
                     uint64_t *count)
{
    const int64_t b = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (b >= blocks)
        return; // the whole warp
    const int64_t from = b * a.block;
    const int n = length_of(a.packet.n, a.block, b);
    const float norm = norm_of(a, from, n);
    const float by = inverse((float)a.levels, norm);
    const float sent = a.residual != NULL ? __fmul_rn(norm, a.shrink) : norm;
    const float unit = __fdiv_rn(sent, (float)a.levels);
    const uint64_t key =
        key_of(a.origin_hash, (uint64_t)*a.seed, (uint64_t)*a.step);
    const float *from_e = a.residual != NULL ? a.left : a.x;
    int before = -1, bits = 0;
    for (int i = 0; i < n; i += 32) {
        const int64_t at = from + i + lane;
        int l = 0;
        if (i + lane < n) {
            const float e = from_e[at];
            l = level_of(e, by, a.levels, packet_random(key, (uint32_t)at));
            level[at] = (int8_t)l;
            if (a.residual != NULL) {
                const float rest = __fadd_rn(e, -__fmul_rn((float)l, unit));
                a.left[at] = is_finite(rest) ? rest : 0.f;
            }
        }
        bits += entry_of(l, i, &before).bits;
    }
    bits = warp_sum(bits);
    if (lane != 0)
        return;
    const int dense = dense_bytes(n, a.bits), bytes = (bits + 7) / 8;
    uint8_t *body = a.out + PACKET_HEADER;
    ((float *)body)[b] = sent;
    ((uint16_t *)(body + 4 * blocks))[b] =
        (uint16_t)(bytes < dense ? bytes : dense | DENSE);
    count[b] = (uint64_t)(bytes < dense ? bytes : dense);
}

// ---- write -----------------------------------------------------------------

// Elias gamma, its first bit lowest: 2 g + 1 bits, where g follow the first of x.
__device__ static inline uint64_t gamma_code(uint32_t x)
{
    const int g = bits_after_first(x);
    return (uint64_t)(__brev(x) >> (31 - g)) << g;
}

__device__ static inline uint64_t code_of(const entry &e)
{
    const int g = bits_after_first(e.gap);
    return gamma_code(e.gap) | (uint64_t)e.is_minus << (2 * g + 1) |
           gamma_code(e.size) << (2 * g + 2);
}

// Bits that no other lane has.
__device__ static inline void put_bits(uint32_t *words, int at, uint64_t code)
{
    const int shift = at % 32;
    const uint64_t low = code << shift;
    const uint32_t part[3] = {(uint32_t)low, (uint32_t)(low >> 32),
                              shift != 0 ? (uint32_t)(code >> (64 - shift))
                                         : 0u};
    for (int k = 0; k < 3; k++)
        if (part[k] != 0)
            atomicOr(&words[at / 32 + k], part[k]);
}

// How many bits all lanes before this one have; those of all in *all.
__device__ static inline int bits_before(int bits, int *all)
{
    const int lane = threadIdx.x % 32;
    int up_to = bits;
    for (int k = 1; k < 32; k *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, up_to, k);
        up_to += lane >= k ? other : 0;
    }
    *all = __shfl_sync(0xffffffffu, up_to, 31);
    return up_to - bits;
}

__global__ void write_blocks(tt_cuda_entropy_args a, int64_t blocks,
                             const int8_t *level, const uint64_t *begin,
                             const uint64_t *total, int64_t *used, int room)
{
    extern __shared__ uint32_t words[];
    const int64_t b = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *used = 6 * blocks + (int64_t)*total;
    if (b >= blocks)
        return; // the whole warp
    uint8_t *body = a.out + PACKET_HEADER;
    uint32_t *own = words + threadIdx.x / 32 * room;
    const int n = length_of(a.packet.n, a.block, b);
    const int size = ((const uint16_t *)(body + 4 * blocks))[b];
    const int bytes = size & ~DENSE;
    for (int w = lane; w < room; w += 32)
        own[w] = 0;
    __syncwarp();
    int before = -1, at = 0;
    for (int i = 0; i < n; i += 32) {
        const int l = i + lane < n ? level[b * a.block + i + lane] : 0;
        const entry e = entry_of(l, i, &before);
        int all;
        const int mine = at + bits_before(e.bits, &all);
        if ((size & DENSE) != 0 && i + lane < n)
            put_bits(own, (i + lane) * a.bits, (uint64_t)(l + a.levels));
        else if ((size & DENSE) == 0 && e.bits > 0)
            put_bits(own, mine, code_of(e));
        at += all;
    }
    __syncwarp();
    uint8_t *to = body + 6 * blocks + begin[b];
    for (int j = lane; j < bytes; j += 32)
        to[j] = (uint8_t)(own[j / 4] >> 8 * (j % 4));
}

extern "C" const char *tt_cuda_qsgd(tt_cuda *c, const tt_cuda_entropy_args *a)
{
    const int64_t blocks = ceil_div(a->packet.n, a->block);
    const entropy_room r = entropy_room_of(a->scratch, 1, blocks, 1);
    const unsigned grid = (unsigned)ceil_div(blocks, WARPS);
    const int room = (int)ceil_div(a->block * a->bits, 32);
    int8_t *level = (int8_t *)r.bytes;
    find<<<grid, THREADS, 0, c->stream>>>(*a, blocks, level, r.count);
    TRY(tt_cuda_scan_sums(c, r.count, blocks, r.scan, r.total));
    write_blocks<<<grid, THREADS, WARPS * room * sizeof(uint32_t), c->stream>>>(
        *a, blocks, level, r.count, r.total, r.used, room);
    TRY(launched());
    return tt_cuda_packet_close(c, &a->packet, r.used, a->out, r.sums);
}

// ---- sum -------------------------------------------------------------------

// The sizes of a packet's blocks; one that cannot be is 0.
__global__ void read_sizes(tt_cuda_entropy_sum_args a, int64_t blocks,
                           const uint8_t *packet, uint64_t *count, int *fault)
{
    const int64_t b = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (b >= blocks)
        return;
    const uint16_t *sizes =
        (const uint16_t *)(packet + PACKET_HEADER + 4 * blocks);
    const int dense = dense_bytes(length_of(a.packet.n, a.block, b), a.bits);
    const int bytes = sizes[b] & ~DENSE;
    const bool is_right =
        ((sizes[b] & DENSE) != 0) == (bytes == dense) && bytes <= dense;
    if (!is_right)
        *fault = FAULT_CODE;
    count[b] = is_right ? (uint64_t)bytes : 0;
}

// 64 bits from bit `at` on.
__device__ static inline uint64_t peek(const uint32_t *words, int at)
{
    const uint32_t *w = words + at / 32;
    const int shift = at % 32;
    const uint64_t low = (uint64_t)w[1] << 32 | w[0];
    return shift == 0 ? low : low >> shift | (uint64_t)w[2] << (64 - shift);
}

__device__ static inline int zeros_of(uint64_t word)
{
    return word == 0 ? 64 : __ffsll((long long)word) - 1;
}

__device__ static inline uint32_t gamma_of(uint64_t word, int zeros)
{
    const uint32_t bits = (uint32_t)(word >> zeros) & ((2u << zeros) - 1);
    return __brev(bits) >> (31 - zeros);
}

// The entries of a block; false: no encoder writes these. One lane does it.
__device__ static inline bool read_entries(const uint32_t *words, int bytes,
                                           int n, int levels, int8_t *level)
{
    const int end = 8 * bytes;
    int bit = 0, at = -1;
    for (;;) {
        const uint64_t word = peek(words, bit);
        if (end - bit < 8 && word == 0)
            return true;
        const int g = zeros_of(word);
        if (g > GAP_BITS)
            return false;
        const uint64_t rest = word >> (2 * g + 1);
        const int s = zeros_of(rest >> 1);
        if (s > LEVEL_BITS)
            return false;
        const int size = (int)gamma_of(rest >> 1, s);
        at += (int)gamma_of(word, g);
        bit += 2 * (g + s) + 3;
        if (bit > end || size > levels || at >= n)
            return false;
        level[at] = (int8_t)((rest & 1) != 0 ? -size : size);
    }
}

// The levels of a block where all are written. All lanes do it.
__device__ static inline bool read_dense(const uint32_t *words, int n,
                                         int levels, int bits, int8_t *level)
{
    bool is_right = true;
    for (int i = threadIdx.x % 32; i < n; i += 32) {
        const int word = (int)(peek(words, i * bits) & ((1u << bits) - 1));
        is_right &= word <= 2 * levels;
        level[i] = (int8_t)(word - levels);
    }
    return is_right;
}

// Adds a replica's block to y; the first one's is y. `room` words for its bytes, then its
// levels.
__global__ void add(tt_cuda_entropy_sum_args a, int64_t blocks,
                    const uint8_t *packet, const uint64_t *begin, int room,
                    int own_words, int *fault)
{
    extern __shared__ uint32_t words[];
    const int64_t b = blockIdx.x * (int64_t)SUM_WARPS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (b >= blocks)
        return; // the whole warp
    const uint8_t *body = packet + PACKET_HEADER;
    uint32_t *own = words + threadIdx.x / 32 * own_words;
    int8_t *level = (int8_t *)(own + room);
    const int n = length_of(a.packet.n, a.block, b);
    const int dense = dense_bytes(n, a.bits);
    const int size = ((const uint16_t *)(body + 4 * blocks))[b] & ~DENSE;
    const int bytes = size <= dense ? size : 0;
    for (int w = lane; w < own_words; w += 32)
        own[w] = 0;
    __syncwarp();
    const uint8_t *from = body + 6 * blocks + begin[b];
    for (int j = lane; j < bytes; j += 32)
        ((uint8_t *)own)[j] = from[j];
    __syncwarp();
    bool is_right = true;
    if (bytes == dense)
        is_right = read_dense(own, n, a.levels, a.bits, level);
    else if (lane == 0)
        is_right = read_entries(own, bytes, n, a.levels, level);
    if (!is_right)
        *fault = FAULT_CODE;
    __syncwarp();
    const float unit = __fdiv_rn(((const float *)body)[b], (float)a.levels);
    float *y = a.y + b * a.block;
    for (int i = lane; i < n; i += 32) {
        const float v = __fmul_rn((float)level[i], unit);
        y[i] = packet == a.packets ? v : __fadd_rn(y[i], v);
    }
}

// Whether the blocks have as many bytes as the packet.
__global__ void check_total(tt_cuda_packet p, int64_t blocks,
                            const uint8_t *packet, const uint64_t *total,
                            int *fault)
{
    if (packet_used(p, packet) != 6 * blocks + (int64_t)*total)
        *fault = FAULT_CODE;
}

extern "C" const char *tt_cuda_qsgd_sum(tt_cuda *c,
                                        const tt_cuda_entropy_sum_args *a)
{
    const tt_cuda_packet *p = &a->packet;
    const int64_t blocks = ceil_div(p->n, a->block);
    const entropy_room r = entropy_room_of(a->scratch, a->peers, blocks, 1);
    const int room = (int)ceil_div(a->block * a->bits, 32) + PAD;
    const int own = room + (int)ceil_div(a->block, 4);
    TRY(tt_cuda_packet_open(c, p, a->peers, a->packets, r.sums));
    for (int64_t k = 0; k < a->peers; k++) {
        const uint8_t *packet = a->packets + k * p->capacity;
        read_sizes<<<(unsigned)ceil_div(blocks, THREADS), THREADS, 0,
                     c->stream>>>(*a, blocks, packet, r.count, c->fault_device);
        TRY(tt_cuda_scan_sums(c, r.count, blocks, r.scan, r.total));
        check_total<<<1, 1, 0, c->stream>>>(*p, blocks, packet, r.total,
                                            c->fault_device);
        add<<<(unsigned)ceil_div(blocks, SUM_WARPS), SUM_THREADS,
              SUM_WARPS * own * sizeof(uint32_t), c->stream>>>(
            *a, blocks, packet, r.count, room, own, c->fault_device);
    }
    return launched();
}
