// gemm_tail - the last columns, rows or terms of products of 16 bits. Extents of
// contiguous dims that are no multiples of 8 cost the library's fast kernels (k = 50257:
// ten times as long), so it gets all but the last few, and these are done here. Bound by
// reading a, b or c once.

#include "backend/cuda/dev/gemm.cuh"

// Pieces of k whose sums the last rows are made of.
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
    int64_t first; // column or term
    const void *a, *b, *bias;
    void *c;
    bool accumulate;
};

// A warp owns a row of a.
template <typename A, typename C> __global__ void tail_columns(tail t)
{
    const tt_cuda_gemm_desc &d = t.d;
    const int lane = threadIdx.x % 32;
    const int64_t row = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32;
    const int64_t batch = blockIdx.y;
    if (row >= d.m)
        return;
    const A *a = (const A *)t.a + batch * d.a.batch + row * d.a.row;
    C *c = (C *)t.c + batch * d.c.batch + row * d.c.row;
    for (int64_t j = t.first; j < d.n; j++) {
        const A *b = (const A *)t.b + batch * d.b.batch + j * d.b.col;
        float s = 0;
        for (int64_t l = lane; l < d.k; l += 32)
            s += to_float(a[l * d.a.col]) * to_float(b[l * d.b.row]);
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

enum { LANES = 32, GROUPS = 8 };

// partial[chunk, row, n]: a block owns 32 columns and a chunk of the terms of one row.
template <typename A>
__global__ void tail_rows(tail t, int64_t per_chunk, float *partial)
{
    __shared__ float room[GROUPS][LANES + 1];
    const tt_cuda_gemm_desc &d = t.d;
    const int64_t col = blockIdx.x * (int64_t)LANES + threadIdx.x;
    const int64_t first = blockIdx.y * per_chunk;
    const int64_t end = min(first + per_chunk, d.k);
    const A *a = (const A *)t.a + (t.first + blockIdx.z) * d.a.row;
    const A *b = (const A *)t.b;
    float s = 0;
    if (col < d.n)
        for (int64_t l = first + threadIdx.y; l < end; l += GROUPS)
            s += to_float(a[l * d.a.col]) *
                 to_float(b[l * d.b.row + col * d.b.col]);
    room[threadIdx.y][threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.y != 0 || col >= d.n)
        return;
    for (int g = 1; g < GROUPS; g++)
        s += room[g][threadIdx.x];
    partial[(blockIdx.y * (int64_t)gridDim.z + blockIdx.z) * d.n + col] = s;
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

template <typename A, typename C>
static const char *run_rows(gemm_product *g, const tail &t, void *scratch)
{
    const tt_cuda_gemm_desc &d = g->whole;
    const int64_t chunks = row_chunks(d), rows = d.m - g->desc.m;
    const dim3 grid((unsigned)ceil_div(d.n, LANES), (unsigned)chunks,
                    (unsigned)rows);
    tail_rows<A><<<grid, dim3(LANES, GROUPS), 0, g->cuda->stream>>>(
        t, ceil_div(d.k, chunks), (float *)scratch);
    TRY(launched());
    join_rows<C><<<dim3((unsigned)ceil_div(d.n, 256), (unsigned)rows), 256, 0,
                   g->cuda->stream>>>(t, (int)chunks, (const float *)scratch);
    return launched();
}

template <typename A, typename C>
static const char *run_tail(gemm_product *g, const tt_cuda_gemm_args *x)
{
    enum { THREADS = 256 };
    const tt_cuda_gemm_desc &d = g->whole;
    if (g->desc.m != d.m)
        return run_rows<A, C>(
            g, {d, g->desc.m, x->a, x->b, NULL, x->c, x->accumulate},
            x->scratch);
    const bool is_columns = g->desc.n != d.n;
    const tail t = {d,
                    is_columns ? g->desc.n : g->desc.k,
                    x->a,
                    x->b,
                    x->bias,
                    x->c,
                    x->accumulate};
    const int64_t blocks = is_columns ? ceil_div(d.m, THREADS / 32)
                                      : ceil_div(d.m * d.n, THREADS);
    const dim3 grid((unsigned)blocks, (unsigned)d.batch);
    const auto kernel = is_columns ? tail_columns<A, C> : tail_terms<A, C>;
    kernel<<<grid, THREADS, 0, g->cuda->stream>>>(t);
    return launched();
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
