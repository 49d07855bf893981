// pick - codecs that send some entries of a vector and their places: the largest ones,
// those above a threshold, those that are not zero (ops/codec/sparse.h). Codes have the
// CPU's bits, but for the payload of NaN.
//
// The problem: how many entries are sent, and where each goes, depends on all of them.
// The order is that of the places, and of equal entries the first ones are taken.
//
// The idea: bits of |e| as an integer have the order of the values. Where no more than k
// entries may be sent, the k-th largest is found 11, 10 and 10 bits at a time (radix
// select, as in topk.cu); bits that are known are the prefix. The first round also counts
// what is above the threshold: where that is not too many, the others return at once.
//
//   squares   the threshold, where it is relative                   1 pass
//   count     how many entries have which next bits                 1 to 3 passes
//   measure   tiles of 2048: how many are above the cut, how many equal   1 pass
//   scan      where each tile begins (scan.cuh)
//   put       each tile writes its entries, and what is left        1 pass
//
// Each is a launch of its own, so no block waits for another; all that depends on the
// data stays on the device. Counts are integers, so atomic additions do no harm. Bound by
// memory: passes read 4 bytes an entry; the first reads the residual too and writes e.
// The sum of squares has an order: a thread adds up one of 16 chains of 4096 numbers.

#include "backend/cuda/dev/codec/pick.cuh"

enum { THREADS = 256, MOST_BLOCKS = 512, MINUS = 31 };
enum { CHAINS = 16, SQUARE_THREADS = 64, BATCH = 8 };
enum { WARPS = THREADS / 32, STRIPES = TT_CUDA_TILE / THREADS };

__device__ static inline uint32_t size_of(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

// ---- squares ---------------------------------------------------------------

// A product of two floats is exact as a double, so it may be fused with the addition.
__global__ void add_squares(pick_source e, int64_t n, double *piece)
{
    const int64_t p =
        blockIdx.x * (int64_t)(SQUARE_THREADS / CHAINS) + threadIdx.x / CHAINS;
    const int lane = threadIdx.x % CHAINS;
    const int64_t first = p * TT_CUDA_SQUARES;
    // Threads without a piece take part in the shuffles of their warp.
    const int64_t end =
        first + TT_CUDA_SQUARES < n ? first + TT_CUDA_SQUARES : n;
    double chain = 0;
    for (int64_t i = first + lane; i < end; i += BATCH * CHAINS) {
        float x[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const int64_t at = i + k * CHAINS;
            x[k] = at < end ? e.x[at] : 0.f;
            if (e.residual != NULL && at < end)
                x[k] = __fadd_rn(x[k], e.residual[at]);
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            if (i + k * CHAINS >= end)
                break;
            if (e.residual != NULL)
                e.left[i + k * CHAINS] = x[k];
            chain += (double)x[k] * (double)x[k];
        }
    }
    for (int k = CHAINS / 2; k > 0; k /= 2)
        chain += __shfl_xor_sync(0xffffffffu, chain, k);
    if (lane == 0 && first < n)
        piece[p] = chain;
}

// Pieces are added one after another.
__global__ void join_squares(const double *piece, int64_t n, pick_state *s)
{
    __shared__ double room[THREADS];
    double sum = 0;
    for (int64_t first = 0; first < n; first += THREADS) {
        const int64_t left = n - first;
        __syncthreads();
        if (threadIdx.x < left)
            room[threadIdx.x] = piece[first + threadIdx.x];
        __syncthreads();
        for (int k = 0; k < THREADS && k < left && threadIdx.x == 0; k++)
            sum += room[k];
    }
    if (threadIdx.x == 0)
        s->squares = sum;
}

const char *tt_cuda_pick_squares(tt_cuda *c, pick_source *e, int64_t n,
                                 const pick_room *room)
{
    const int64_t pieces = ceil_div(n, TT_CUDA_SQUARES);
    const unsigned blocks = (unsigned)ceil_div(pieces, SQUARE_THREADS / CHAINS);
    add_squares<<<blocks, SQUARE_THREADS, 0, c->stream>>>(*e, n, room->squares);
    pick_taken(e);
    join_squares<<<1, THREADS, 0, c->stream>>>(room->squares, pieces,
                                               room->state);
    return launched();
}

// ---- the k-th largest ------------------------------------------------------

// The next bits of all entries that match the prefix.
__global__ void count(pick_source e, int64_t n, pick_state *s, int shift,
                      int bins)
{
    __shared__ unsigned bin[PICK_BINS];
    __shared__ int64_t room[32];
    const uint32_t prefix = s->prefix, mask = s->mask, least = s->least;
    int64_t found = 0;
    if (s->is_done)
        return; // all threads
    for (int b = threadIdx.x; b < bins; b += THREADS)
        bin[b] = 0;
    __syncthreads();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        const uint32_t size = size_of(pick_take(e, i));
        found += size >= least;
        if ((size & mask) == prefix)
            atomicAdd(&bin[size >> shift & (bins - 1)], 1u);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += THREADS)
        if (bin[b] > 0)
            atomicAdd(&s->bin[b], (unsigned long long)bin[b]);
    found = block_sum(found, room);
    if (mask == 0 && threadIdx.x == 0)
        atomicAdd(&s->found, (unsigned long long)found);
}

// The bin that the k-th largest is in: goes through them from the top.
__device__ static inline int bin_of(const pick_state *s, int bins,
                                    const int64_t *part, int64_t *left)
{
    const int each = bins / THREADS;
    int p = THREADS - 1;
    for (; p > 0 && part[p] < *left; p--)
        *left -= part[p];
    int b = (p + 1) * each - 1;
    for (; b > p * each && (int64_t)s->bin[b] < *left; b--)
        *left -= (int64_t)s->bin[b];
    return b;
}

__global__ void choose(pick_state *s, int shift, int bins)
{
    __shared__ int64_t part[THREADS];
    const int each = bins / THREADS, first = threadIdx.x * each;
    const bool is_done =
        s->is_done || (s->mask == 0 && (int64_t)s->found <= s->k);
    part[threadIdx.x] = 0;
    for (int b = first; b < first + each; b++)
        part[threadIdx.x] += (int64_t)s->bin[b];
    __syncthreads();
    if (threadIdx.x == 0) {
        s->is_done = is_done;
        if (!is_done) {
            s->prefix |= (uint32_t)bin_of(s, bins, part, &s->left) << shift;
            s->mask |= (uint32_t)(bins - 1) << shift;
        }
    }
    __syncthreads();
    for (int b = threadIdx.x; b < PICK_BINS; b += THREADS)
        s->bin[b] = 0;
}

// ---- the list --------------------------------------------------------------

// Entries above the cut are picked, and the first `equal` of those that are as large.
struct bounds {
    uint32_t cut;
    int64_t equal;
};

__device__ static inline bounds bounds_of(const pick_state *s, int64_t n)
{
    if (s->is_done)
        return {s->least, n};
    return {s->prefix, s->left};
}

// One in the half of the word that counts it.
__device__ static inline uint64_t class_of(uint32_t size, uint32_t cut)
{
    return (uint64_t)(size > cut) << 32 | (uint64_t)(size == cut);
}

__global__ void measure(pick_source e, int64_t n, pick_state *s, uint64_t *tile)
{
    __shared__ uint64_t room[32];
    const bounds b = bounds_of(s, n);
    const int64_t first = blockIdx.x * (int64_t)TT_CUDA_TILE + threadIdx.x;
    uint64_t own = 0;
    for (int k = 0; k < STRIPES; k++) {
        const int64_t i = first + k * THREADS;
        if (i >= n)
            break;
        const uint32_t size = size_of(pick_take(e, i));
        own += class_of(size, b.cut);
        if (size >= 0x7f800000u)
            s->is_bad = 1; // all say the same
    }
    own = block_sum(own, room);
    if (threadIdx.x == 0)
        tile[blockIdx.x] = own;
}

// The list in the body.
struct list {
    float *value; // NULL: none
    uint32_t *place;
    uint32_t tau; // its bits
};

__device__ static inline list list_of(const pick_job &job, int64_t count,
                                      const pick_state *s)
{
    uint8_t *body = job.out + PACKET_HEADER;
    const uint32_t tau = s->is_bad ? 0x7fc00000u : s->tau;
    if (job.is_threshold && !job.has_values)
        return {NULL, (uint32_t *)(body + 8), tau};
    return {(float *)(body + 8), (uint32_t *)(body + 8) + count, tau};
}

// The first bytes of the body, and how many it has.
__device__ static inline void write_count(const pick_job &job, const list &l,
                                          int64_t count, pick_state *s)
{
    uint32_t *body = (uint32_t *)(job.out + PACKET_HEADER);
    body[0] = (uint32_t)count;
    body[1] = l.value == NULL ? l.tau : (uint32_t)((uint64_t)count >> 32);
    s->used = 8 + (l.value == NULL ? 4 : 8) * count;
}

// Entry i is sent at position `at`; returns what is left of it.
__device__ static inline float write_entry(const pick_job &job, const list &l,
                                           int64_t at, int64_t i, float e)
{
    const uint32_t minus = e < 0.f ? 1u << MINUS : 0u;
    if (!job.is_threshold) {
        l.value[at] = e;
        l.place[at] = (uint32_t)i;
        return 0.f;
    }
    const float sent = __uint_as_float(l.tau ^ minus);
    if (l.value != NULL)
        l.value[at] = sent;
    l.place[at] = (uint32_t)i | (l.value != NULL ? 0u : minus);
    const float rest = __fadd_rn(e, -sent);
    return is_finite(rest) ? rest : 0.f;
}

// A warp has neighbouring entries, so that lists are written in their order: votes say
// how many of them come before each.
__global__ void put(pick_job job, pick_state *s, const uint64_t *tile)
{
    __shared__ uint64_t of_warp[WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int64_t n = job.packet.n;
    const bounds b = bounds_of(s, n);
    const int64_t first = blockIdx.x * (int64_t)TT_CUDA_TILE +
                          warp * (TT_CUDA_TILE / WARPS) + lane;
    float e[STRIPES];
    unsigned above[STRIPES], equal[STRIPES];
    uint64_t own = 0;
#pragma unroll
    for (int k = 0; k < STRIPES; k++) {
        const int64_t i = first + 32 * k;
        e[k] = i < n ? job.e.x[i] : 0.f;
        const uint64_t is = i < n ? class_of(size_of(e[k]), b.cut) : 0;
        above[k] = __ballot_sync(0xffffffffu, is >> 32 != 0);
        equal[k] = __ballot_sync(0xffffffffu, (uint32_t)is != 0);
        own += (uint64_t)__popc(above[k]) << 32 | (uint64_t)__popc(equal[k]);
    }
    if (lane == 0)
        of_warp[warp] = own;
    __syncthreads();
    uint64_t before = tile[blockIdx.x];
    for (int w = 0; w < warp; w++)
        before += of_warp[w];
    const int64_t all_equal = (int64_t)(uint32_t)s->total;
    const int64_t total =
        (int64_t)(s->total >> 32) + (all_equal < b.equal ? all_equal : b.equal);
    const list l = list_of(job, total, s);
    int64_t a = (int64_t)(before >> 32), q = (int64_t)(uint32_t)before;
    const unsigned lower = (1u << lane) - 1;
#pragma unroll
    for (int k = 0; k < STRIPES; k++) {
        const int64_t i = first + 32 * k;
        const int64_t at_a = a + __popc(above[k] & lower);
        const int64_t at_q = q + __popc(equal[k] & lower);
        const bool is_picked = (above[k] >> lane & 1) ||
                               ((equal[k] >> lane & 1) && at_q < b.equal);
        float rest = is_finite(e[k]) ? e[k] : 0.f;
        if (is_picked)
            rest = write_entry(job, l, at_a + (at_q < b.equal ? at_q : b.equal),
                               i, e[k]);
        if (job.left != NULL && i < n && (is_picked || !is_finite(e[k])))
            job.left[i] = rest;
        if (job.masked != NULL && is_picked)
            job.masked[i] = 0.f;
        a += __popc(above[k]);
        q += __popc(equal[k]);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        write_count(job, l, total, s);
}

// ---- launchers -------------------------------------------------------------

static const char *find_cut(tt_cuda *c, pick_job *job, pick_state *s)
{
    static const int shifts[3] = {20, 10, 0};
    const int64_t n = job->packet.n, most = MOST_BLOCKS;
    const int64_t wanted = ceil_div(n, TT_CUDA_TILE);
    const unsigned blocks = (unsigned)(wanted < most ? wanted : most);
    for (int k = 0; k < 3; k++) {
        const int bins = k == 0 ? PICK_BINS : PICK_BINS / 2;
        count<<<blocks, THREADS, 0, c->stream>>>(job->e, n, s, shifts[k], bins);
        pick_taken(&job->e);
        choose<<<1, THREADS, 0, c->stream>>>(s, shifts[k], bins);
    }
    return launched();
}

const char *tt_cuda_pick_write(tt_cuda *c, pick_job *job, const pick_room *room)
{
    const int64_t n = job->packet.n, tiles = ceil_div(n, TT_CUDA_TILE);
    pick_state *s = room->state;
    if (!job->is_all)
        TRY(find_cut(c, job, s));
    measure<<<(unsigned)tiles, THREADS, 0, c->stream>>>(job->e, n, s,
                                                        room->count);
    pick_taken(&job->e);
    TRY(tt_cuda_scan_sums(c, room->count, tiles, room->scan, &s->total));
    put<<<(unsigned)tiles, THREADS, 0, c->stream>>>(*job, s, room->count);
    TRY(launched());
    return tt_cuda_packet_close(c, &job->packet, &s->used, job->out, &s->sum);
}

__global__ void begin(pick_state *s, int64_t k, uint32_t least, bool is_all)
{
    s->k = s->left = k;
    s->least = s->tau = least;
    s->is_done = is_all;
}

__global__ void find_tau(pick_state *s, double relative, int64_t n)
{
    const float least = __uint_as_float(s->least);
    const float tau = (float)(relative * sqrt(s->squares / (double)n));
    s->least = s->tau = __float_as_uint(tau >= least ? tau : least);
}

extern "C" const char *tt_cuda_pick(tt_cuda *c, const tt_cuda_pick_args *a)
{
    const int64_t n = a->packet.n;
    const pick_room room = pick_room_of(a->scratch, n);
    pick_job job = {.packet = a->packet,
                    .e = {a->x, a->residual, a->left},
                    .left = a->left,
                    .masked = NULL,
                    .is_all = a->k == n,
                    .is_threshold = a->is_threshold,
                    .has_values = a->has_values,
                    .out = a->out};
    TRY_CUDA(cudaMemsetAsync(room.state, 0, sizeof *room.state, c->stream));
    begin<<<1, 1, 0, c->stream>>>(room.state, a->k, a->least, job.is_all);
    if (a->is_relative) {
        TRY(tt_cuda_pick_squares(c, &job.e, n, &room));
        find_tau<<<1, 1, 0, c->stream>>>(room.state, a->relative, n);
    }
    TRY(launched());
    return tt_cuda_pick_write(c, &job, &room);
}
