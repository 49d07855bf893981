// threelc - three values, five in a byte, and runs of zeros made short (3lc,
// ops/codec/entropy.h). Codes have the CPU's bits.
//
// The problem: a run of bytes "121" goes on from block to block and is cut into groups
// of 14 from where it begins, which may be far back.
//
//   bytes     7 121 121 121 ... 121 121  40        last: 1 + the place of the last byte
//             |  `- 14, one byte -' `- 2 -' |       before that is not 121
//
//   pack      a block's largest number, its scale, its bytes to scratch memory
//   last      tiles of 2048 bytes: the last one that is not 121; a scan of maxima says
//             where the run that reaches into a tile begins
//   count     a byte is written if it is not 121, or a group begins there: it is a
//             multiple of 14 after the beginning of its run. A scan of sums follows
//   write     the byte, or the length of the group, found by looking ahead
//
// A sum goes back: runs are counted in tiles and scanned, bytes written out in scratch
// memory, their digits added up, one replica after another. Bound by memory: numbers are
// read once where a block fits into shared memory; there is a byte for five of them. A packet
// that no encoder writes is noted as a fault; nothing outside is touched.

#include "backend/cuda/dev/codec/entropy.cuh"

enum { THREADS = SCAN_THREADS, EACH = TT_CUDA_TILE / THREADS };
enum { PER = 5, ZEROS = 121, RUN = 243, LONGEST = 14 };
enum { MOST_KEPT = 40 << 10 }; // bytes

// Numbers of block b, and the bytes of all.
__device__ static inline int length_of(int64_t n, int64_t block, int64_t b)
{
    const int64_t left = n - b * block;
    return (int)(left < block ? left : block);
}

static int64_t all_bytes(int64_t n, int64_t block)
{
    return n / block * ceil_div(block, PER) + ceil_div(n % block, PER);
}

// Threads for a block.
static unsigned threads_for(int64_t block)
{
    return block <= 256 ? 32 : (unsigned)THREADS;
}

// ---- pack ------------------------------------------------------------------

// The largest size of a block, in all threads; e goes to `to`, if there is one.
__device__ static inline uint32_t most_of(const tt_cuda_entropy_args &a,
                                          int64_t from, int n, float *to)
{
    __shared__ uint32_t room[THREADS / 32];
    uint32_t most = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float e = a.x[from + i];
        if (a.residual != NULL)
            e = __fadd_rn(e, a.residual[from + i]);
        if (to != NULL)
            to[i] = e;
        const uint32_t size = __float_as_uint(e) & 0x7fffffffu;
        most = size > most ? size : most;
    }
    for (int k = 16; k > 0; k /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, most, k);
        most = other > most ? other : most;
    }
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = most;
    __syncthreads();
    for (unsigned w = 0; w < blockDim.x / 32; w++)
        most = room[w] > most ? room[w] : most;
    return most;
}

// NaN keeps its bits, as on the CPU.
__device__ static inline float scale_of(uint32_t most, float sparsity)
{
    return most > 0x7f800000u ? __uint_as_float(most | 0x00400000u)
                              : __fmul_rn(__uint_as_float(most), sparsity);
}

__device__ static inline int digit_of(float e, float by)
{
    float v = __fadd_rn(__fmul_rn(e, by), 0.5f);
    v = v >= -1.f ? v : -1.f;
    v = v <= 1.f ? v : 1.f;
    return (int)floorf(v) + 1;
}

// A CUDA block has a block, and keeps it in shared memory (IS_KEPT) where it has room. A
// thread makes whole bytes, whose digits lie in five parts of the block, so neighbours
// read neighbours. It has other numbers than in the first loop: they are read after the
// barrier in most_of.
template <bool IS_KEPT>
__global__ void pack_blocks(tt_cuda_entropy_args a, int64_t each,
                            uint8_t *bytes)
{
    extern __shared__ float kept[];
    const int64_t b = blockIdx.x, from = b * a.block;
    const int n = length_of(a.packet.n, a.block, b), m = (n + PER - 1) / PER;
    float *sum = IS_KEPT ? kept : a.residual != NULL ? a.left + from : NULL;
    const float scale = scale_of(most_of(a, from, n, sum), a.sparsity);
    const float by = inverse(1.f, scale);
    const float *e = sum != NULL ? sum : a.x + from;
    for (int j = threadIdx.x; j < m; j += blockDim.x) {
        int byte = 0, weight = 1;
#pragma unroll
        for (int k = 0; k < PER; k++, weight *= 3) {
            const int i = j + k * m;
            const float x = i < n ? e[i] : 0.f;
            const int digit = i < n ? digit_of(x, by) : 1;
            byte += digit * weight;
            if (a.residual != NULL && i < n) {
                const float rest =
                    __fadd_rn(x, -__fmul_rn((float)(digit - 1), scale));
                a.left[from + i] = is_finite(rest) ? rest : 0.f;
            }
        }
        bytes[b * each + j] = (uint8_t)byte;
    }
    if (threadIdx.x == 0)
        ((float *)(a.out + PACKET_HEADER))[b] = scale;
}

// ---- runs made short -------------------------------------------------------

// A thread's bytes: EACH of a tile, one after another. -1 after the end.
__device__ static inline int64_t load_bytes(const uint8_t *bytes, int64_t n,
                                            int *own)
{
    const int64_t first =
        blockIdx.x * (int64_t)TT_CUDA_TILE + (int64_t)threadIdx.x * EACH;
#pragma unroll
    for (int k = 0; k < EACH; k++)
        own[k] = first + k < n ? bytes[first + k] : -1;
    return first;
}

// 1 + the place of the last of them that is not 121; 0: there is none.
__device__ static inline uint64_t last_of(const int *own, int64_t first)
{
    uint64_t last = 0;
#pragma unroll
    for (int k = 0; k < EACH; k++)
        last =
            own[k] != ZEROS && own[k] >= 0 ? (uint64_t)(first + k + 1) : last;
    return last;
}

__global__ void find_last(const uint8_t *bytes, int64_t n, uint64_t *last)
{
    __shared__ uint64_t room[THREADS / 32];
    int own[EACH];
    uint64_t all;
    const int64_t first = load_bytes(bytes, n, own);
    scan_block<true>(last_of(own, first), room, &all);
    if (threadIdx.x == 0)
        last[blockIdx.x] = all;
}

// A bit for each byte where something is written. `before`: the scan of find_last.
__device__ static inline unsigned written(const int *own, int64_t first,
                                          uint64_t before, uint64_t *room)
{
    uint64_t all;
    const uint64_t of_tile = scan_block<true>(last_of(own, first), room, &all);
    uint64_t begin = before > of_tile ? before : of_tile;
    unsigned is = 0;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const uint64_t at = (uint64_t)(first + k);
        if (own[k] == ZEROS) {
            is |= (at - begin) % LONGEST == 0 ? 1u << k : 0u;
        } else if (own[k] >= 0) {
            is |= 1u << k;
            begin = at + 1;
        }
    }
    return is;
}

__global__ void count(const uint8_t *bytes, int64_t n, const uint64_t *before,
                      uint64_t *count_out)
{
    __shared__ uint64_t room[THREADS / 32];
    int own[EACH];
    uint64_t all;
    const int64_t first = load_bytes(bytes, n, own);
    const unsigned is = written(own, first, before[blockIdx.x], room);
    scan_block<false>((uint64_t)__popc(is), room, &all);
    if (threadIdx.x == 0)
        count_out[blockIdx.x] = all;
}

// What stands for the zeros from place `at` on.
__device__ static inline uint8_t group_at(const uint8_t *bytes, int64_t n,
                                          int64_t at)
{
    int run = 1;
    while (run < LONGEST && at + run < n && bytes[at + run] == ZEROS)
        run++;
    return (uint8_t)(run == 1 ? ZEROS : RUN + run - 2);
}

__global__ void shorten(const uint8_t *bytes, int64_t n, const uint64_t *before,
                        const uint64_t *begin, const uint64_t *total,
                        int64_t blocks, uint8_t *body, int64_t *used)
{
    __shared__ uint64_t room[THREADS / 32];
    int own[EACH];
    uint64_t all;
    const int64_t first = load_bytes(bytes, n, own);
    const unsigned is = written(own, first, before[blockIdx.x], room);
    uint8_t *to = body + 4 * blocks + begin[blockIdx.x] +
                  scan_block<false>((uint64_t)__popc(is), room, &all);
#pragma unroll
    for (int k = 0; k < EACH; k++)
        if (is >> k & 1)
            *to++ = own[k] == ZEROS ? group_at(bytes, n, first + k)
                                    : (uint8_t)own[k];
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *used = 4 * blocks + (int64_t)*total;
}

extern "C" const char *tt_cuda_threelc(tt_cuda *c,
                                       const tt_cuda_entropy_args *a)
{
    const int64_t n = a->packet.n, blocks = ceil_div(n, a->block);
    const int64_t bytes = all_bytes(n, a->block);
    const int64_t tiles = ceil_div(bytes, TT_CUDA_TILE);
    const entropy_room r = entropy_room_of(a->scratch, 1, tiles, 2);
    uint64_t *before = r.count, *begin = r.count + tiles;
    const unsigned grid = (unsigned)tiles;
    const int64_t own = a->block * (int64_t)sizeof(float);
    const int64_t each = ceil_div(a->block, PER);
    if (own <= MOST_KEPT)
        pack_blocks<true>
            <<<(unsigned)blocks, threads_for(a->block), own, c->stream>>>(
                *a, each, r.bytes);
    else
        pack_blocks<false>
            <<<(unsigned)blocks, threads_for(a->block), 0, c->stream>>>(
                *a, each, r.bytes);
    find_last<<<grid, THREADS, 0, c->stream>>>(r.bytes, bytes, before);
    TRY(tt_cuda_scan_most(c, before, tiles, r.scan, NULL));
    count<<<grid, THREADS, 0, c->stream>>>(r.bytes, bytes, before, begin);
    TRY(tt_cuda_scan_sums(c, begin, tiles, r.scan, r.total));
    shorten<<<grid, THREADS, 0, c->stream>>>(r.bytes, bytes, before, begin,
                                             r.total, blocks,
                                             a->out + PACKET_HEADER, r.used);
    TRY(launched());
    return tt_cuda_packet_close(c, &a->packet, r.used, a->out, r.sums);
}

// ---- sum -------------------------------------------------------------------

// A thread's bytes of a packet, as how many bytes they stand for.
__device__ static inline int runs_of(const int *own)
{
    int runs = 0;
#pragma unroll
    for (int k = 0; k < EACH; k++)
        runs += own[k] < 0 ? 0 : own[k] < RUN ? 1 : own[k] - RUN + 2;
    return runs;
}

// Bytes of a packet after its scales.
__device__ static inline int64_t
short_bytes(const tt_cuda_packet &p, const uint8_t *packet, int64_t blocks)
{
    const int64_t bytes = packet_used(p, packet) - 4 * blocks;
    const int64_t most = p.body - 4 * blocks;
    return bytes < 0 ? 0 : bytes < most ? bytes : most;
}

__global__ void count_runs(tt_cuda_packet p, const uint8_t *packet,
                           int64_t blocks, uint64_t *count_out)
{
    __shared__ uint64_t room[THREADS / 32];
    int own[EACH];
    uint64_t all;
    load_bytes(packet + PACKET_HEADER + 4 * blocks,
               short_bytes(p, packet, blocks), own);
    scan_block<false>((uint64_t)runs_of(own), room, &all);
    if (threadIdx.x == 0)
        count_out[blockIdx.x] = all;
}

// The packed bytes, n of them.
__global__ void lengthen(tt_cuda_packet p, const uint8_t *packet,
                         int64_t blocks, const uint64_t *begin,
                         const uint64_t *total, uint8_t *bytes, int64_t n,
                         int *fault)
{
    __shared__ uint64_t room[THREADS / 32];
    int own[EACH];
    uint64_t all;
    load_bytes(packet + PACKET_HEADER + 4 * blocks,
               short_bytes(p, packet, blocks), own);
    int64_t at =
        (int64_t)(begin[blockIdx.x] +
                  scan_block<false>((uint64_t)runs_of(own), room, &all));
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int run = own[k] < 0 ? 0 : own[k] < RUN ? 1 : own[k] - RUN + 2;
        for (int64_t end = at + run; at < end; at++)
            if (at < n)
                bytes[at] = (uint8_t)(own[k] < RUN ? own[k] : (int)ZEROS);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0 &&
        ((int64_t)*total != n || packet_used(p, packet) < 4 * blocks))
        *fault = FAULT_CODE;
}

// Adds a replica's block to y; the first one's is y.
__global__ void add(tt_cuda_entropy_sum_args a, const uint8_t *packet,
                    int64_t each, const uint8_t *bytes)
{
    const int64_t b = blockIdx.x;
    const int n = length_of(a.packet.n, a.block, b), m = (n + PER - 1) / PER;
    const float scale = ((const float *)(packet + PACKET_HEADER))[b];
    float *y = a.y + b * a.block;
    for (int j = threadIdx.x; j < m; j += blockDim.x) {
        int byte = bytes[b * each + j];
#pragma unroll
        for (int k = 0; k < PER; k++, byte /= 3) {
            const int i = j + k * m;
            const float v = __fmul_rn((float)(byte % 3 - 1), scale);
            if (i < n)
                y[i] = packet == a.packets ? v : __fadd_rn(y[i], v);
        }
    }
}

extern "C" const char *tt_cuda_threelc_sum(tt_cuda *c,
                                           const tt_cuda_entropy_sum_args *a)
{
    const tt_cuda_packet *p = &a->packet;
    const int64_t n = p->n, blocks = ceil_div(n, a->block);
    const int64_t bytes = all_bytes(n, a->block);
    const int64_t tiles = ceil_div(bytes, TT_CUDA_TILE);
    const entropy_room r = entropy_room_of(a->scratch, a->peers, tiles, 2);
    const unsigned grid = (unsigned)tiles;
    TRY(tt_cuda_packet_open(c, p, a->peers, a->packets, r.sums));
    for (int64_t k = 0; k < a->peers; k++) {
        const uint8_t *packet = a->packets + k * p->capacity;
        count_runs<<<grid, THREADS, 0, c->stream>>>(*p, packet, blocks,
                                                    r.count);
        TRY(tt_cuda_scan_sums(c, r.count, tiles, r.scan, r.total));
        lengthen<<<grid, THREADS, 0, c->stream>>>(*p, packet, blocks, r.count,
                                                  r.total, r.bytes, bytes,
                                                  c->fault_device);
        add<<<(unsigned)blocks, threads_for(a->block), 0, c->stream>>>(
            *a, packet, ceil_div(a->block, PER), r.bytes);
    }
    return launched();
}
