// gemm_tail - the last columns, rows or terms of products of 16 bits.
//
// The problem: GPT-2's vocabulary is 50257. cuBLASLt's fast kernels need contiguous
// extents that are multiples of 8; without them it takes up to ten times as long (82 ms
// instead of 8 for the logits' gradient).
//
// The idea: cuBLASLt gets 50256, and the last one is done here. The odd extent can be
// any of the three:
//
//   n: the last columns of c     a warp has a row of a         tail_columns
//   m: the last rows of c        a block has a chunk of k      tail_rows, join_rows
//   k: the last terms of sums    a thread adds to all of c     tail_terms
//
// Costs: bound by reading a, b or c once, 16 bytes at a time where aligned, at two
// thirds of a copy's rate on an H200. For the three products of the vocabulary that is
// 37, 76 and 35 us.

#include "backend/cuda/dev/gemm/gemm.cuh"

// The last rows are few, so k is cut into chunks to fill the device.
static int64_t row_chunks(const tt_cuda_gemm_desc &d)
{
    const int64_t n = ceil_div(d.k, 512);
    return n > 128 ? 128 : n;
}

int64_t gemm_tail_scratch(const gemm_product *p)
{
    const tt_cuda_gemm_desc &d = p->whole;
    return 4 * row_chunks(d) * d.n * (d.m - p->desc.m);
}

struct tail {
    tt_cuda_gemm_desc d;
    int64_t first; // row, column or term
    const void *a, *b, *bias;
    void *c;
    bool accumulate;
};

// A warp owns a row of a. WIDE: rows of a and columns of b are contiguous, and are read
// 16 bytes at a time.
template <bool WIDE, typename A, typename C>
__global__ void tail_columns(tail t)
{
    enum { N = pack<A>::N };
    const tt_cuda_gemm_desc &d = t.d;
    const int lane = threadIdx.x % 32, k = (int)d.k;
    const int64_t row =
        blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32;
    const int64_t batch = blockIdx.y;
    if (row >= d.m)
        return;
    const A *a = (const A *)t.a + batch * d.a.batch + row * d.a.row;
    C *c = (C *)t.c + batch * d.c.batch + row * d.c.row;
    for (int64_t j = t.first; j < d.n; j++) {
        const A *b = (const A *)t.b + batch * d.b.batch + j * d.b.col;
        float s = 0;
        if (WIDE) {
#pragma unroll 4
            for (int l = lane * N; l < k; l += 32 * N) {
                float x[N], y[N];
                unpack(*(const pack<A> *)(a + l), x);
                unpack(*(const pack<A> *)(b + l), y);
#pragma unroll
                for (int i = 0; i < N; i++)
                    s += x[i] * y[i];
            }
        } else {
            for (int64_t l = lane; l < d.k; l += 32)
                s += to_float(a[l * d.a.col]) * to_float(b[l * d.b.row]);
        }
        s = warp_sum(s);
        if (t.bias != NULL)
            s += (float)load_any(d.bias_type, t.bias, j);
        if (lane == 0)
            c[j] = from_float<C>(s + (t.accumulate ? to_float(c[j]) : 0.f));
    }
}

// A thread owns an element of c.
template <typename A, typename C> __global__ void tail_terms(tail t)
{
    const tt_cuda_gemm_desc &d = t.d;
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    const int64_t batch = blockIdx.y, row = i / d.n, col = i % d.n;
    if (row >= d.m)
        return;
    const A *a = (const A *)t.a + batch * d.a.batch + row * d.a.row;
    const A *b = (const A *)t.b + batch * d.b.batch + col * d.b.col;
    C *c = (C *)t.c + batch * d.c.batch + row * d.c.row + col;
    float s = to_float(*c);
    for (int64_t l = t.first; l < d.k; l++)
        s += to_float(a[l * d.a.col]) * to_float(b[l * d.b.row]);
    *c = from_float<C>(s);
}

// A warp owns a row of c, which is contiguous, as are the rows of b; both of 16 bits.
template <typename A> __global__ void tail_terms_wide(tail t)
{
    enum { N = pack<A>::N };
    const tt_cuda_gemm_desc &d = t.d;
    const int lane = threadIdx.x % 32, n = (int)d.n;
    const int64_t row =
        blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32;
    const int64_t batch = blockIdx.y;
    if (row >= d.m)
        return;
    const A *a = (const A *)t.a + batch * d.a.batch + row * d.a.row;
    const A *b = (const A *)t.b + batch * d.b.batch;
    A *c = (A *)t.c + batch * d.c.batch + row * d.c.row;
#pragma unroll 4
    for (int col = lane * N; col < n; col += 32 * N) {
        float s[N], y[N];
        unpack(*(const pack<A> *)(c + col), s);
        for (int64_t l = t.first; l < d.k; l++) {
            const float x = to_float(a[l * d.a.col]);
            unpack(*(const pack<A> *)(b + l * d.b.row + col), y);
#pragma unroll
            for (int i = 0; i < N; i++)
                s[i] += x * y[i];
        }
        store_whole(c + col, packed<A>(s));
    }
}

enum { LANES = 32, GROUPS = 8 };

// partial[chunk, row, n]: a block owns 32 times N columns and a chunk of the terms of
// one row. N > 1: rows of b are contiguous.
template <int N, typename A>
__global__ void tail_rows(tail t, int64_t per_chunk, float *partial)
{
    __shared__ float room[GROUPS][N][LANES + 1];
    const tt_cuda_gemm_desc &d = t.d;
    const int64_t col = (blockIdx.x * (int64_t)LANES + threadIdx.x) * N;
    const int64_t first = blockIdx.y * per_chunk;
    const int64_t end = min(first + per_chunk, d.k);
    const A *a = (const A *)t.a + (t.first + blockIdx.z) * d.a.row;
    const A *b = (const A *)t.b + col * d.b.col;
    float s[N] = {0};
    if (col < d.n)
#pragma unroll 4
        for (int64_t l = first + threadIdx.y; l < end; l += GROUPS) {
            const float x = to_float(a[l * d.a.col]);
            float y[N];
            if constexpr (N == 1)
                y[0] = to_float(b[l * d.b.row]);
            else
                unpack(*(const pack<A> *)(b + l * d.b.row), y);
#pragma unroll
            for (int i = 0; i < N; i++)
                s[i] += x * y[i];
        }
#pragma unroll
    for (int i = 0; i < N; i++)
        room[threadIdx.y][i][threadIdx.x] = s[i];
    __syncthreads();
    if (col >= d.n)
        return;
    float *to = partial + (blockIdx.y * (int64_t)gridDim.z + blockIdx.z) * d.n;
    for (int i = threadIdx.y; i < N; i += GROUPS) {
        float sum = 0;
        for (int g = 0; g < GROUPS; g++)
            sum += room[g][i][threadIdx.x];
        to[col + i] = sum;
    }
}

template <typename C>
__global__ void join_rows(tail t, int n_chunks, const float *partial)
{
    const tt_cuda_gemm_desc &d = t.d;
    const int64_t col = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    const int64_t row = blockIdx.y, rows = gridDim.y;
    if (col >= d.n)
        return;
    C *c = (C *)t.c + (t.first + row) * d.c.row + col;
    float s = t.accumulate ? to_float(*c) : 0.f;
    for (int k = 0; k < n_chunks; k++)
        s += partial[(k * rows + row) * d.n + col];
    *c = from_float<C>(s);
}

// Whether a matrix's 16-byte pieces along its contiguous dim begin where loads of 16
// bytes may; `other` is the stride along the other.
static bool is_even(const void *p, int64_t along, int64_t other, int64_t batch,
                    int64_t extent)
{
    return along == 1 && is_aligned(p) && other % 8 == 0 && batch % 8 == 0 &&
           extent % 8 == 0;
}

template <typename A, typename C>
static const char *run_rows(gemm_product *g, const tail &t, void *scratch)
{
    const tt_cuda_gemm_desc &d = g->whole;
    const int64_t chunks = row_chunks(d), rows = d.m - g->desc.m;
    const bool is_wide = is_even(t.b, d.b.col, d.b.row, d.b.batch, d.n);
    const int64_t columns =
        is_wide ? (int64_t)LANES * pack<A>::N : (int64_t)LANES;
    const auto kernel = is_wide ? tail_rows<pack<A>::N, A> : tail_rows<1, A>;
    kernel<<<dim3((unsigned)ceil_div(d.n, columns), (unsigned)chunks,
                  (unsigned)rows),
             dim3(LANES, GROUPS), 0, g->cuda->stream>>>(
        t, ceil_div(d.k, chunks), (float *)scratch);
    TRY(launched());
    join_rows<C><<<dim3((unsigned)ceil_div(d.n, 256), (unsigned)rows), 256, 0,
                   g->cuda->stream>>>(t, (int)chunks, (const float *)scratch);
    return launched();
}

enum { THREADS = 256 };
static const int64_t most_batches = 65535; // of a grid

template <typename A, typename C>
static const char *run_columns(gemm_product *g, const tail &t)
{
    const tt_cuda_gemm_desc &d = t.d;
    const bool is_wide = is_even(t.a, d.a.col, d.a.row, d.a.batch, d.k) &&
                         is_even(t.b, d.b.row, d.b.col, d.b.batch, d.k);
    const auto kernel =
        is_wide ? tail_columns<true, A, C> : tail_columns<false, A, C>;
    const dim3 grid((unsigned)ceil_div(d.m, THREADS / 32), (unsigned)d.batch);
    kernel<<<grid, THREADS, 0, g->cuda->stream>>>(t);
    return launched();
}

template <typename A, typename C>
static const char *run_terms(gemm_product *g, const tail &t)
{
    const tt_cuda_gemm_desc &d = t.d;
    const bool is_wide = sizeof(C) == sizeof(A) &&
                         is_even(t.c, d.c.col, d.c.row, d.c.batch, d.n) &&
                         is_even(t.b, d.b.col, d.b.row, d.b.batch, d.n);
    const int64_t blocks =
        is_wide ? ceil_div(d.m, THREADS / 32) : ceil_div(d.m * d.n, THREADS);
    const auto kernel = is_wide ? tail_terms_wide<A> : tail_terms<A, C>;
    kernel<<<dim3((unsigned)blocks, (unsigned)d.batch), THREADS, 0,
             g->cuda->stream>>>(t);
    return launched();
}

template <typename A, typename C>
static const char *run_tail(gemm_product *g, const tt_cuda_gemm_args *x)
{
    const tt_cuda_gemm_desc &d = g->whole, &cut = g->desc;
    tail t = {d, cut.m, x->a, x->b, x->bias, x->c, x->accumulate};
    if (cut.m != d.m)
        return run_rows<A, C>(g, t, x->scratch);
    t.first = cut.n != d.n ? cut.n : cut.k;
    const auto run = cut.n != d.n ? run_columns<A, C> : run_terms<A, C>;
    for (int64_t i = 0; i < d.batch; i += most_batches) {
        t.d.batch = d.batch - i < most_batches ? d.batch - i : most_batches;
        t.a = (const A *)x->a + i * d.a.batch;
        t.b = (const A *)x->b + i * d.b.batch;
        t.c = (C *)x->c + i * d.c.batch;
        TRY(run(g, t));
    }
    return NULL;
}

const char *gemm_tail_run(gemm_product *p, const tt_cuda_gemm_args *args)
{
    const bool is_wide = p->whole.c.type == TT_F32;
    if (p->whole.a.type == TT_F16)
        return is_wide ? run_tail<f16, float>(p, args)
                       : run_tail<f16, f16>(p, args);
    return is_wide ? run_tail<bf16, float>(p, args)
                   : run_tail<bf16, bf16>(p, args);
}
