// topk - the k entries with the largest |x|, and their places, for sparse gradients.
//
// The problem: sorting all n is far too much work for k of them, and ties must be
// broken in the same way on every run and on every rank.
//
// The idea: radix select (Alabi et al. 2012). The bits of |x| as an integer have the
// order of the values. The k-th largest is found byte by byte, from the highest down:
// count all entries that match the bytes known so far by their next byte (256 bins), go
// through the bins from the top until k are passed, and keep that byte. After four
// rounds the k-th value (`prefix`) is known exactly, and how many of its equals belong
// to the k (`left`).
//
// Then the entries are written in their order: all above it, and the first `left` of
// its equals. Each piece of 2048 entries counts both, a prefix sum over the pieces says
// where each begins, and each piece writes its own.
//
// Counts are integers, so atomic additions do no harm: nothing depends on the order in
// which threads come. Bound by memory: x is read six times, from the cache when it is
// small.

#include "backend/cuda/dev/common.cuh"

enum { THREADS = 256, EACH = 2048, BINS = 256, MOST_BLOCKS = 2048 };

struct search {
    uint32_t prefix; // the bytes of the size that are known, others 0
    uint32_t mask;   // where they are
    int64_t left;    // of the entries that match them, so many are taken
    unsigned long long bin[BINS];
};

struct piece { // of EACH entries: how many are above and as large
    int64_t above, equal;
};

__device__ static inline uint32_t size_of(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

__global__ void begin(search *s, int64_t k)
{
    if (threadIdx.x == 0) {
        s->prefix = s->mask = 0;
        s->left = k;
    }
    s->bin[threadIdx.x] = 0;
}

template <typename T>
__global__ void count(const T *x, int64_t n, search *s, int shift)
{
    __shared__ unsigned long long bin[BINS];
    bin[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        const uint32_t size = size_of(to_float(x[i]));
        if ((size & s->mask) == s->prefix)
            atomicAdd(&bin[size >> shift & 255], 1ull);
    }
    __syncthreads();
    if (bin[threadIdx.x] > 0)
        atomicAdd(&s->bin[threadIdx.x], bin[threadIdx.x]);
}

// The next byte of the k-th largest: goes through the bins from the top.
__global__ void choose(search *s, int shift)
{
    if (threadIdx.x == 0) {
        int byte = BINS - 1;
        for (; byte > 0 && (int64_t)s->bin[byte] < s->left; byte--)
            s->left -= (int64_t)s->bin[byte];
        s->prefix |= (uint32_t)byte << shift;
        s->mask |= 255u << shift;
    }
    __syncthreads();
    s->bin[threadIdx.x] = 0;
}

template <typename T>
__global__ void measure(const T *x, int64_t n, const search *s, piece *pieces)
{
    __shared__ int64_t room[32];
    const int64_t first = blockIdx.x * (int64_t)EACH;
    int64_t above = 0, equal = 0;
    for (int k = threadIdx.x; k < EACH && first + k < n; k += THREADS) {
        const uint32_t size = size_of(to_float(x[first + k]));
        above += size > s->prefix;
        equal += size == s->prefix;
    }
    above = block_sum(above, room);
    equal = block_sum(equal, room);
    if (threadIdx.x == 0)
        pieces[blockIdx.x] = {above, equal};
}

// Exclusive prefix sum over the pieces: how many entries come before each.
__global__ void add_up(piece *pieces, int64_t n)
{
    __shared__ piece sum[THREADS];
    const int64_t each = (n + THREADS - 1) / THREADS;
    const int64_t first = threadIdx.x * each;
    const int64_t end = first + each < n ? first + each : n;
    piece own = {0, 0}, before = {0, 0};
    for (int64_t i = first; i < end; i++)
        own = {own.above + pieces[i].above, own.equal + pieces[i].equal};
    sum[threadIdx.x] = own;
    __syncthreads();
    for (unsigned t = 0; t < threadIdx.x; t++)
        before = {before.above + sum[t].above, before.equal + sum[t].equal};
    for (int64_t i = first; i < end; i++) {
        const piece p = pieces[i];
        pieces[i] = before;
        before = {before.above + p.above, before.equal + p.equal};
    }
}

// How many threads before this one say yes; all of them in *all.
__device__ static inline int rank_of(bool is, int *room, int *all)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned votes = __ballot_sync(0xffffffffu, is);
    __syncthreads();
    if (lane == 0)
        room[warp] = __popc(votes);
    __syncthreads();
    int before = __popc(votes & ((1u << lane) - 1));
    *all = 0;
    for (int w = 0; w < THREADS / 32; w++) {
        before += w < warp ? room[w] : 0;
        *all += room[w];
    }
    return before;
}

template <typename T>
__global__ void put(const T *x, int64_t n, const search *s, const piece *pieces,
                    T *value, int32_t *place)
{
    __shared__ int room[32];
    const int64_t first = blockIdx.x * (int64_t)EACH;
    int64_t above = pieces[blockIdx.x].above, equal = pieces[blockIdx.x].equal;
    for (int k = 0; k < EACH && first + k < n; k += THREADS) {
        const int64_t i = first + k + threadIdx.x;
        const uint32_t size = i < n ? size_of(to_float(x[i])) : 0;
        const bool is_above = i < n && size > s->prefix;
        const bool is_equal = i < n && size == s->prefix;
        int n_above, n_equal;
        const int64_t a = above + rank_of(is_above, room, &n_above);
        const int64_t e = equal + rank_of(is_equal, room, &n_equal);
        // Before it: all that are above, and of the others as many as are taken.
        if (is_above || (is_equal && e < s->left)) {
            const int64_t at = a + (e < s->left ? e : s->left);
            value[at] = x[i];
            place[at] = (int32_t)i;
        }
        above += n_above;
        equal += n_equal;
    }
}

template <typename T>
static const char *find(tt_cuda *c, const tt_cuda_topk_args *a)
{
    search *s = (search *)a->scratch;
    piece *pieces = (piece *)(s + 1);
    const T *x = (const T *)a->x;
    const int64_t wanted = ceil_div(a->n, THREADS), most = MOST_BLOCKS;
    const unsigned blocks = (unsigned)(wanted < most ? wanted : most);
    const int64_t n_pieces = ceil_div(a->n, EACH);
    begin<<<1, BINS, 0, c->stream>>>(s, a->k);
    for (int shift = 24; shift >= 0; shift -= 8) {
        count<T><<<blocks, THREADS, 0, c->stream>>>(x, a->n, s, shift);
        choose<<<1, BINS, 0, c->stream>>>(s, shift);
    }
    measure<T>
        <<<(unsigned)n_pieces, THREADS, 0, c->stream>>>(x, a->n, s, pieces);
    add_up<<<1, THREADS, 0, c->stream>>>(pieces, n_pieces);
    put<T><<<(unsigned)n_pieces, THREADS, 0, c->stream>>>(
        x, a->n, s, pieces, (T *)a->y, a->place_out);
    return launched();
}

extern "C" int64_t tt_cuda_topk_scratch(int64_t n)
{
    return (int64_t)sizeof(search) + ceil_div(n, EACH) * (int64_t)sizeof(piece);
}

extern "C" const char *tt_cuda_topk(tt_cuda *c, const tt_cuda_topk_args *a)
{
    return BY_TYPE(a->type, find, c, a);
}

// ---- back ------------------------------------------------------------------

template <typename T>
__global__ void scatter(const T *value, const int32_t *place, int64_t k,
                        int64_t n, T *y, int *fault)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= k)
        return;
    if (place[i] < 0 || place[i] >= n)
        *fault = FAULT_POSITION;
    else
        y[place[i]] = value[i];
}

template <typename T>
static const char *decode(tt_cuda *c, const tt_cuda_topk_args *a)
{
    TRY_CUDA(cudaMemsetAsync(a->y, 0, (size_t)a->n * sizeof(T), c->stream));
    scatter<T><<<(unsigned)ceil_div(a->k, THREADS), THREADS, 0, c->stream>>>(
        (const T *)a->x, a->place, a->k, a->n, (T *)a->y, c->fault_device);
    return launched();
}

extern "C" const char *tt_cuda_topk_decode(tt_cuda *c,
                                           const tt_cuda_topk_args *a)
{
    return BY_TYPE(a->type, decode, c, a);
}
