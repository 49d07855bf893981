// embed - embedding tables, positions, rotary embedding.
//
// The problem is the table's gradient: rows of dy are added to the table's row of their
// id. The usual atomic additions give other bits on each run. One owner for each id is
// slow, since words are skewed: one block would add up all rows of "the" (500 us).
//
// The idea: sort the ids (a stable radix sort), so that equal ids lie side by side in
// the order of the text. Each warp adds up 32 places of the sorted list, whatever their
// ids (drawn here with 8 places):
//
//   ids     | 3 3 3 3 7 7 9 9 | 9 9 9 9 9 9 9 9 | 9 9 12 15 ... |
//   warps   | 0               | 1               | 2             |
//
// An id that lies within one warp's places is written at once (7). Of an id that goes
// on (9), each warp leaves its part in scratch memory, and join_chunks adds the parts
// in order. So work is even however skewed ids are, and runs repeat bit by bit.
//
// Bound by reading dy once and the table's rows that have an id: 159 us for 65536 rows
// of 768 on an H200, 36% of a copy's rate; 173 for ids as skewed as words. Reading rows
// takes 52 us, where a copy takes 57.

#include "backend/cuda/dev/common.cuh"

#include <cub/device/device_radix_sort.cuh>

enum { THREADS = 256, WARPS = 4 };

// ---- reading -------------------------------------------------------------------

// A warp copies a row. Bound by reading rows and writing y.
template <bool WIDE, typename T>
__global__ void embed(tt_cuda_embed_args a, int *fault)
{
    typedef pack<T> P;
    const int lane = threadIdx.x % 32;
    const int64_t k = blockIdx.x * (int64_t)(THREADS / 32) + threadIdx.x / 32;
    if (k >= a.n)
        return;
    const int64_t id = a.ids[k];
    const bool is_bad = id < 0 || id >= a.vocab;
    if (is_bad && lane == 0)
        *fault = FAULT_ID;
    const int64_t row = is_bad ? 0 : id - a.first;
    const bool is_here = row >= 0 && row < a.local;
    const T *from = (const T *)a.table + (is_here ? row : 0) * a.width;
    T *to = (T *)a.y + k * a.width;
    const int width = (int)a.width;
    if (WIDE) {
#pragma unroll 4
        for (int i = lane * P::N; i < width; i += 32 * P::N) {
            P p = *(const P *)(from + i);
            for (int j = 0; j < P::N; j++)
                p.v[j] = is_here ? p.v[j] : from_float<T>(0);
            *(P *)(to + i) = p;
        }
    } else {
        for (int i = lane; i < width; i += 32)
            to[i] = is_here ? from[i] : from_float<T>(0);
    }
}

template <typename T>
static const char *embed_type(tt_cuda *cuda, const tt_cuda_embed_args *a)
{
    const bool is_wide =
        a->width % pack<T>::N == 0 && is_aligned(a->table) && is_aligned(a->y);
    const auto kernel = is_wide ? embed<true, T> : embed<false, T>;
    kernel<<<(unsigned)ceil_div(a->n, THREADS / 32), THREADS, 0,
             cuda->stream>>>(*a, cuda->fault_device);
    return launched();
}

extern "C" const char *tt_cuda_embed(tt_cuda *cuda,
                                     const tt_cuda_embed_args *args)
{
    return BY_TYPE(args->type, embed_type, cuda, args);
}

// ---- the gradient ----------------------------------------------------------------

static int64_t round_up(int64_t bytes)
{
    return ceil_div(bytes, 256) * 256;
}

static int bits_of(int64_t local)
{
    int bits = 1;
    while (bits < 31 && (int64_t)1 << bits <= local)
        bits++;
    return bits;
}

static size_t sort_bytes(const tt_cuda_embed_args *a)
{
    size_t bytes = 0;
    (void)cub::DeviceRadixSort::SortPairs(
        NULL, bytes, (const int32_t *)NULL, (int32_t *)NULL,
        (const int32_t *)NULL, (int32_t *)NULL, (int)a->n, 0,
        bits_of(a->local));
    return bytes;
}

enum { CHUNK = 32 }; // places of a warp

// Two rows for each chunk: of an id that began before it, and of one that goes on.
static int64_t partial_bytes(const tt_cuda_embed_args *a)
{
    return round_up(8 * ceil_div(a->n, CHUNK) * a->width);
}

// The scratch memory: keys, places, both sorted, sums to be joined, the sort's own.
extern "C" int64_t tt_cuda_embed_scratch(const tt_cuda_embed_args *args)
{
    return 4 * round_up(4 * args->n) + partial_bytes(args) +
           round_up((int64_t)sort_bytes(args));
}

// Keys are rows of this rank's part of the table; ids of other ranks sort after them
// all.
__global__ void make_keys(tt_cuda_embed_args a, int32_t *keys, int32_t *places,
                          int *fault)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= a.n)
        return;
    const int64_t id = a.ids[i], row = id - a.first;
    if (id < 0 || id >= a.vocab)
        *fault = FAULT_ID;
    keys[i] = (int32_t)(row >= 0 && row < a.local ? row : a.local);
    places[i] = (int32_t)i;
}

// V neighbours in a row of floats.
template <int V>
__device__ static inline void add_to(float *to, const float *x, bool is_new)
{
    enum { N = V < 4 ? V : 4 };
    struct alignas(4 * N) part {
        float v[N];
    };
#pragma unroll
    for (int k = 0; k < V; k += N) {
        part p;
#pragma unroll
        for (int i = 0; i < N; i++)
            p.v[i] = 0;
        if (!is_new)
            p = *(const part *)(to + k);
#pragma unroll
        for (int i = 0; i < N; i++)
            p.v[i] += x[k + i];
        *(part *)(to + k) = p;
    }
}

// A warp owns V * 32 columns of the rows of a chunk.
template <int V, typename T>
__global__ void add_chunks(tt_cuda_embed_args a, const int32_t *keys,
                           const int32_t *places, float *partial)
{
    enum { AHEAD = 8 };
    struct alignas(sizeof(T) * V) part {
        T v[V];
    };
    const int lane = threadIdx.x % 32;
    const int64_t chunk = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    const int64_t first = chunk * CHUNK, at = first + lane;
    const int64_t col = (blockIdx.y * (int64_t)32 + lane) * V;
    if (first >= a.n)
        return;
    const bool is_in = col < a.width;
    const T *dy = (const T *)a.dy + col;
    const int32_t none = (int32_t)a.local;
    const int32_t my_key = at < a.n ? keys[at] : none;
    const int32_t my_place = at < a.n ? places[at] : 0;
    const int32_t before = first > 0 ? keys[first - 1] : -1;
    const int32_t after = first + CHUNK < a.n ? keys[first + CHUNK] : -1;
    float s[V] = {0};
    for (int j = 0; j < CHUNK; j += AHEAD) {
        part p[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int64_t place = __shfl_sync(0xffffffffu, my_place, j + i);
            const int32_t key = __shfl_sync(0xffffffffu, my_key, j + i);
            if (is_in && key < none)
                p[i] = *(const part *)(dy + place * a.width);
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            const int32_t key = __shfl_sync(0xffffffffu, my_key, j + i);
            const int32_t next =
                __shfl_sync(0xffffffffu, my_key, (j + i + 1) % CHUNK);
            const bool is_last = j + i == CHUNK - 1;
            if (key >= none)
                break;
#pragma unroll
            for (int k = 0; k < V; k++)
                s[k] += to_float(p[i].v[k]);
            if (!is_last && next == key)
                continue;
            const bool is_begun = before == key;
            const bool goes_on = is_last && after == key;
            if (is_in && (is_begun || goes_on))
                add_to<V>(partial + (2 * chunk + !is_begun) * a.width + col, s,
                          true);
            else if (is_in)
                add_to<V>(a.dtable + key * a.width + col, s, false);
#pragma unroll
            for (int k = 0; k < V; k++)
                s[k] = 0;
        }
    }
}

// Adds up the parts of ids that go on over several chunks. The warp of the chunk in
// which an id begins does it.
template <int V>
__global__ void join_chunks(tt_cuda_embed_args a, const int32_t *keys,
                            const float *partial)
{
    const int lane = threadIdx.x % 32;
    const int64_t chunk = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    const int64_t first = chunk * CHUNK, after = first + CHUNK;
    const int64_t col = (blockIdx.y * (int64_t)32 + lane) * V;
    if (after >= a.n)
        return;
    const int32_t key = keys[after];
    if (key >= a.local || keys[after - 1] != key ||
        (first > 0 && keys[first - 1] == key))
        return;
    int64_t end = chunk + 1; // of the chunks that begin with it
    unsigned same = ~0u;
    while (same == ~0u) {
        const int64_t start = (end + lane) * CHUNK;
        same = __ballot_sync(0xffffffffu, start < a.n && keys[start] == key);
        end += same == ~0u ? 32 : __ffs((int)~same) - 1;
    }
    if (col >= a.width)
        return;
    float s[V];
#pragma unroll
    for (int k = 0; k < V; k++)
        s[k] = partial[(2 * chunk + 1) * a.width + col + k];
#pragma unroll 4
    for (int64_t c = chunk + 1; c < end; c++)
#pragma unroll
        for (int k = 0; k < V; k++)
            s[k] += partial[2 * c * a.width + col + k];
    add_to<V>(a.dtable + key * a.width + col, s, false);
}

template <int V, typename T>
static const char *add_sorted(tt_cuda *cuda, const tt_cuda_embed_args *a,
                              const int32_t *keys, const int32_t *places,
                              float *partial)
{
    const dim3 grid((unsigned)ceil_div(a->n, CHUNK * WARPS),
                    (unsigned)ceil_div(a->width, 32 * V));
    add_chunks<V, T>
        <<<grid, 32 * WARPS, 0, cuda->stream>>>(*a, keys, places, partial);
    TRY(launched());
    join_chunks<V><<<grid, 32 * WARPS, 0, cuda->stream>>>(*a, keys, partial);
    return launched();
}

template <typename T>
static const char *embed_grad_type(tt_cuda *cuda, const tt_cuda_embed_args *a)
{
    char *at = (char *)a->scratch;
    const int64_t step = round_up(4 * a->n);
    int32_t *keys = (int32_t *)at, *places = (int32_t *)(at + step);
    int32_t *sorted_keys = (int32_t *)(at + 2 * step);
    int32_t *sorted_places = (int32_t *)(at + 3 * step);
    size_t bytes = sort_bytes(a);
    if (!a->accumulate)
        TRY_CUDA(cudaMemsetAsync(
            a->dtable, 0, (size_t)(4 * a->local * a->width), cuda->stream));
    make_keys<<<(unsigned)ceil_div(a->n, THREADS), THREADS, 0, cuda->stream>>>(
        *a, keys, places, cuda->fault_device);
    TRY(launched());
    float *partial = (float *)(at + 4 * step);
    TRY_CUDA(cub::DeviceRadixSort::SortPairs(
        at + 4 * step + partial_bytes(a), bytes, keys, sorted_keys, places,
        sorted_places, (int)a->n, 0, bits_of(a->local), cuda->stream));
    enum { V = pack<T>::N };
    const bool is_wide = a->width % V == 0 && is_aligned(a->dy) &&
                         is_aligned(a->dtable) && is_aligned(partial);
    return (is_wide ? add_sorted<V, T> : add_sorted<1, T>)(cuda, a, sorted_keys,
                                                           sorted_places,
                                                           partial);
}

extern "C" const char *tt_cuda_embed_grad(tt_cuda *cuda,
                                          const tt_cuda_embed_args *args)
{
    return BY_TYPE(args->type, embed_grad_type, cuda, args);
}

// ---- positions: bound by reading x and writing y ------------------------------------

__device__ static inline int64_t first_row(int64_t first,
                                           const int64_t *position)
{
    return first + (position == NULL ? 0 : *position);
}

// A warp adds a row.
template <bool WIDE, typename T>
__global__ void position(tt_cuda_position_args a, int *fault)
{
    typedef pack<T> P;
    const int lane = threadIdx.x % 32, width = (int)a.width;
    const int64_t k = blockIdx.x * (int64_t)(THREADS / 32) + threadIdx.x / 32;
    if (k >= a.batch * a.seq)
        return;
    const int64_t s = k % a.seq;
    int64_t row = first_row(a.first, a.position) + s + (s < a.turn ? 0 : a.gap);
    if (row < 0 || row >= a.rows) {
        *fault = FAULT_POSITION;
        row = 0;
    }
    const T *x = (const T *)a.x + k * width;
    const T *table = (const T *)a.table + row * width;
    T *y = (T *)a.y + k * width;
    if (WIDE) {
#pragma unroll 4
        for (int i = lane * P::N; i < width; i += 32 * P::N) {
            P p = *(const P *)(x + i);
            const P q = *(const P *)(table + i);
#pragma unroll
            for (int j = 0; j < P::N; j++)
                p.v[j] = from_float<T>(to_float(p.v[j]) + to_float(q.v[j]));
            *(P *)(y + i) = p;
        }
    } else {
        for (int i = lane; i < width; i += 32)
            y[i] = from_float<T>(to_float(x[i]) + to_float(table[i]));
    }
}

template <typename T>
static const char *position_type(tt_cuda *cuda, const tt_cuda_position_args *a)
{
    const bool is_wide = a->width % pack<T>::N == 0 && is_aligned(a->x) &&
                         is_aligned(a->table) && is_aligned(a->y);
    const auto kernel = is_wide ? position<true, T> : position<false, T>;
    kernel<<<(unsigned)ceil_div(a->batch * a->seq, THREADS / 32), THREADS, 0,
             cuda->stream>>>(*a, cuda->fault_device);
    return launched();
}

extern "C" const char *tt_cuda_position(tt_cuda *cuda,
                                        const tt_cuda_position_args *args)
{
    return BY_TYPE(args->type, position_type, cuda, args);
}

template <typename T>
__global__ void position_grad(tt_cuda_position_args a, int64_t n, int *fault)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    const int64_t first = first_row(a.first, a.position);
    const int64_t ahead = i / a.width - first;
    const int64_t s = ahead < a.turn           ? ahead
                      : ahead < a.turn + a.gap ? -1 // between the runs
                                               : ahead - a.gap;
    if (i == 0 && (first < 0 || first + a.seq + a.gap > a.rows))
        *fault = FAULT_POSITION;
    float sum = a.accumulate ? a.dtable[i] : 0.f;
    const T *x = (const T *)a.x + s * a.width + i % a.width;
    if (s >= 0 && s < a.seq)
        for (int64_t b = 0; b < a.batch; b++)
            sum += to_float(x[b * a.seq * a.width]);
    a.dtable[i] = sum;
}

template <typename T>
static const char *position_grad_type(tt_cuda *cuda,
                                      const tt_cuda_position_args *a)
{
    const int64_t n = a->rows * a->width;
    position_grad<T>
        <<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(
            *a, n, cuda->fault_device);
    return launched();
}

extern "C" const char *tt_cuda_position_grad(tt_cuda *cuda,
                                             const tt_cuda_position_args *args)
{
    return BY_TYPE(args->type, position_grad_type, cuda, args);
}

// ---- rotary: bound by reading x and writing y --------------------------------------

// A thread owns a position and a pair of elements, and rotates it in all heads: the
// sine and cosine are computed once.
template <typename T> __global__ void rotary(tt_cuda_rotary_args a, int64_t n)
{
    const int64_t k = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (k >= n)
        return;
    const int64_t half = a.head / 2, i = k % half, row = k / half;
    const int64_t at = row % a.seq;
    const int64_t s =
        first_row(a.first, a.position) + at + (at < a.turn ? 0 : a.gap);
    const double f = pow(a.theta, -2.0 * (double)i / (double)a.head);
    const double m = a.at + a.per_pair * (double)i + a.per_frequency * f;
    const double kept = fmin(fmax(m, 0.0), 1.0);
    double sine, cosine;
    sincos((double)s * (f * (kept + (1 - kept) / a.factor)), &sine, &cosine);
    const float c = (float)(a.amplitude * cosine);
    const float t = (float)(a.amplitude * (a.inverse ? -sine : sine));
    for (int64_t h = 0; h < a.heads; h++) {
        const int64_t lo = (row * a.heads + h) * a.head + i, hi = lo + half;
        const float u = to_float(((const T *)a.x)[lo]);
        const float v = to_float(((const T *)a.x)[hi]);
        ((T *)a.y)[lo] = from_float<T>(u * c - v * t);
        ((T *)a.y)[hi] = from_float<T>(v * c + u * t);
    }
}

template <typename T>
static const char *rotary_type(tt_cuda *cuda, const tt_cuda_rotary_args *a)
{
    const int64_t n = a->batch * a->seq * (a->head / 2);
    rotary<T>
        <<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(*a, n);
    return launched();
}

extern "C" const char *tt_cuda_rotary(tt_cuda *cuda,
                                      const tt_cuda_rotary_args *args)
{
    return BY_TYPE(args->type, rotary_type, cuda, args);
}
