// gemm - matrix products by cuBLASLt: descriptors and the algorithm are made once,
// at lowering. Large products try the library's first few suggestions on memory of
// their own and keep the fastest; equal shapes share the choice.
//
// Rows here are columns there: c = a b is computed as c' = b' a'.
//
// In 16 bits, extents of contiguous dims that are no multiples of 8 cost the fast
// kernels (k = 50257: ten times as long), so the library gets all but the last few
// columns, rows or terms, and a kernel of this file does these: bound by reading a, b
// or c once.

#include "backend/cuda/dev/common.cuh"

#include <map>
#include <mutex>
#include <new>
#include <string.h>
#include <tuple>

enum { CANDIDATES = 16, TRIALS = 3, ALIGN = 256 };
static const int64_t workspace_bytes = 32 << 20;
static const double least_tuned = 2e9; // flops

struct choice {
    cublasLtMatmulAlgo_t algo;  // for addresses that are multiples of 16
    cublasLtMatmulAlgo_t loose; // for any, where there is a way at all
    bool has_loose;
    int64_t workspace_bytes; // of the two, the larger
};

struct tt_cuda_gemm {
    tt_cuda *cuda;
    tt_cuda_gemm_desc whole; // what was asked for
    tt_cuda_gemm_desc desc;  // what the library does of it
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c; // of the library: b', a', c'
    choice chosen;
    int64_t bias_bytes; // of its copy in the result's type; 0: used as it is
    int64_t scratch_bytes;
};

static const char *failed(const char *what, cublasStatus_t status)
{
    return tt_cuda_failed_text("cuBLASLt: %s: %s", what,
                               cublasLtGetStatusString(status));
}

#define TRY_LT(call)                                                           \
    do {                                                                       \
        const cublasStatus_t try_status = (call);                              \
        if (try_status != CUBLAS_STATUS_SUCCESS)                               \
            return failed(#call, try_status);                                  \
    } while (0)

static cudaDataType_t type_of(tt_dtype type)
{
    return type == TT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

extern "C" void tt_cuda_gemm_destroy(tt_cuda_gemm *g)
{
    if (g == NULL)
        return;
    if (g->op != NULL)
        cublasLtMatmulDescDestroy(g->op);
    if (g->a != NULL)
        cublasLtMatrixLayoutDestroy(g->a);
    if (g->b != NULL)
        cublasLtMatrixLayoutDestroy(g->b);
    if (g->c != NULL)
        cublasLtMatrixLayoutDestroy(g->c);
    delete g;
}

// A matrix [rows, cols] stored by rows is [cols, rows] for the library; one stored
// by columns is transposed.
static const char *make_layout(const tt_cuda_matrix &x, int64_t rows,
                               int64_t cols, int64_t batch,
                               cublasLtMatrixLayout_t *out, bool *transposed)
{
    *transposed = x.col != 1;
    const int64_t ld = *transposed ? x.col : x.row;
    TRY_LT(cublasLtMatrixLayoutCreate(out, type_of(x.type),
                                      *transposed ? rows : cols,
                                      *transposed ? cols : rows, ld));
    if (batch > 1) {
        const int32_t n = (int32_t)batch;
        TRY_LT(cublasLtMatrixLayoutSetAttribute(
            *out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &n, sizeof n));
        TRY_LT(cublasLtMatrixLayoutSetAttribute(
            *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &x.batch,
            sizeof x.batch));
    }
    return NULL;
}

template <typename V>
static const char *set(cublasLtMatmulDesc_t op,
                       cublasLtMatmulDescAttributes_t name, V value)
{
    TRY_LT(cublasLtMatmulDescSetAttribute(op, name, &value, sizeof value));
    return NULL;
}

static const char *set_epilogue(tt_cuda_gemm *g, tt_dtype bias_type)
{
    const tt_cuda_gemm_desc &d = g->desc;
    const bool has_bias = d.bias_type != TT_N_DTYPES;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    if (d.has_gelu)
        epilogue = has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                            : CUBLASLT_EPILOGUE_GELU_AUX;
    else if (has_bias)
        epilogue = CUBLASLT_EPILOGUE_BIAS;
    TRY(set(g->op, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
    if (has_bias) {
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                (int32_t)type_of(bias_type)));
        // Heuristics look at the alignment of an address.
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                (const void *)(uintptr_t)256));
    }
    if (d.has_gelu) {
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, d.c.row));
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                (const void *)(uintptr_t)256));
        if (d.batch > 1)
            TRY(set(g->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
                    d.c.batch));
    }
    return NULL;
}

static const char *describe(tt_cuda_gemm *g)
{
    const tt_cuda_gemm_desc &d = g->desc;
    bool a_turned, b_turned, c_turned;
    TRY_LT(cublasLtMatmulDescCreate(&g->op, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    TRY(make_layout(d.b, d.k, d.n, d.batch, &g->a, &b_turned));
    TRY(make_layout(d.a, d.m, d.k, d.batch, &g->b, &a_turned));
    TRY(make_layout(d.c, d.m, d.n, d.batch, &g->c, &c_turned));
    TRY(set(g->op, CUBLASLT_MATMUL_DESC_TRANSA,
            b_turned ? CUBLAS_OP_T : CUBLAS_OP_N));
    TRY(set(g->op, CUBLASLT_MATMUL_DESC_TRANSB,
            a_turned ? CUBLAS_OP_T : CUBLAS_OP_N));
    return NULL;
}

// ---- choosing ----------------------------------------------------------------

static int suggest(tt_cuda_gemm *g, uint32_t alignment,
                   cublasLtMatmulHeuristicResult_t *out)
{
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    };
    cublasLtMatmulPreference_t wish = NULL;
    int n = 0;
    if (cublasLtMatmulPreferenceCreate(&wish) != CUBLAS_STATUS_SUCCESS)
        return 0;
    const uint64_t bytes = workspace_bytes;
    (void)cublasLtMatmulPreferenceSetAttribute(
        wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
    for (const auto name : aligned)
        (void)cublasLtMatmulPreferenceSetAttribute(wish, name, &alignment,
                                                   sizeof alignment);
    if (cublasLtMatmulAlgoGetHeuristic(g->cuda->lt, g->op, g->a, g->b, g->c,
                                       g->c, wish, CANDIDATES, out,
                                       &n) != CUBLAS_STATUS_SUCCESS)
        n = 0;
    cublasLtMatmulPreferenceDestroy(wish);
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (out[i].state == CUBLAS_STATUS_SUCCESS)
            out[kept++] = out[i];
    return kept;
}

static cublasStatus_t multiply(const tt_cuda_gemm *g,
                               const tt_cuda_gemm_args *x,
                               const cublasLtMatmulAlgo_t *algo,
                               void *workspace, int64_t bytes)
{
    const float one = 1, beta = x->accumulate ? 1 : 0;
    return cublasLtMatmul(g->cuda->lt, g->op, &one, x->b, g->a, x->a, g->b,
                          &beta, x->c, g->c, x->c, g->c, algo,
                          bytes > 0 ? workspace : NULL, (size_t)bytes,
                          g->cuda->stream);
}

// Small numbers that are no powers of two: zeros are multiplied faster.
template <typename T> __global__ void fill_noise(int64_t n, T *x)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 2654435761u;
        h = (h ^ h >> 15) * 2246822519u;
        x[i] = from_float<T>((float)(h >> 8) / 16777216.f - 0.5f);
    }
}

static int64_t elements(const tt_cuda_matrix &x, int64_t rows, int64_t cols,
                        int64_t batch)
{
    return (rows - 1) * x.row + (cols - 1) * x.col +
           (batch > 1 ? (batch - 1) * x.batch : 0) + 1;
}

static void *noise(tt_cuda *cuda, const tt_cuda_matrix &x, int64_t n)
{
    void *p = NULL;
    if (cudaMalloc(&p, (size_t)(n * 4)) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    if (x.type == TT_BF16)
        fill_noise<bf16><<<1024, 256, 0, cuda->stream>>>(n, (bf16 *)p);
    else
        fill_noise<float><<<1024, 256, 0, cuda->stream>>>(n, (float *)p);
    return p;
}

struct trial {
    void *a, *b, *c, *aux, *bias, *workspace;
    cudaEvent_t start, end;
};

static void end_trial(trial *t)
{
    void *blocks[] = {t->a, t->b, t->c, t->aux, t->bias, t->workspace};
    for (void *p : blocks)
        if (p != NULL)
            cudaFree(p);
    if (t->start != NULL)
        cudaEventDestroy(t->start);
    if (t->end != NULL)
        cudaEventDestroy(t->end);
    (void)cudaGetLastError();
}

static bool begin_trial(const tt_cuda_gemm *g, trial *t)
{
    const tt_cuda_gemm_desc &d = g->desc;
    const int64_t nc = elements(d.c, d.m, d.n, d.batch);
    tt_cuda *cuda = g->cuda;
    t->a = noise(cuda, d.a, elements(d.a, d.m, d.k, d.batch));
    t->b = noise(cuda, d.b, elements(d.b, d.k, d.n, d.batch));
    t->c = noise(cuda, d.c, nc);
    if (d.has_gelu)
        t->aux = noise(cuda, d.c, nc);
    t->bias = noise(cuda, d.c, d.n);
    if (t->a == NULL || t->b == NULL || t->c == NULL || t->bias == NULL ||
        (d.has_gelu && t->aux == NULL) ||
        cudaMalloc(&t->workspace, (size_t)workspace_bytes) != cudaSuccess ||
        cudaEventCreate(&t->start) != cudaSuccess ||
        cudaEventCreate(&t->end) != cudaSuccess)
        return false;
    if (d.bias_type != TT_N_DTYPES)
        (void)set(g->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                  (const void *)t->bias);
    if (d.has_gelu)
        (void)set(g->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                  (const void *)t->aux);
    return true;
}

// Milliseconds, the best of a few; negative: it does not work.
static float time_one(const tt_cuda_gemm *g, const trial *t,
                      const cublasLtMatmulAlgo_t *algo)
{
    float best = -1;
    for (int i = 0; i <= TRIALS; i++) {
        float ms = 0;
        (void)cudaEventRecord(t->start, g->cuda->stream);
        const tt_cuda_gemm_args x = {t->a, t->b, t->bias,       t->c,
                                     t->aux, g->desc.adds, NULL};
        if (multiply(g, &x, algo, t->workspace, workspace_bytes) !=
            CUBLAS_STATUS_SUCCESS)
            return -1;
        (void)cudaEventRecord(t->end, g->cuda->stream);
        if (cudaEventSynchronize(t->end) != cudaSuccess ||
            cudaEventElapsedTime(&ms, t->start, t->end) != cudaSuccess)
            return -1;
        if (i > 0 && (best < 0 || ms < best))
            best = ms;
    }
    return best;
}

static int measure(const tt_cuda_gemm *g,
                   const cublasLtMatmulHeuristicResult_t *found, int n)
{
    trial t = {};
    int best = 0;
    float best_ms = -1;
    if (begin_trial(g, &t))
        for (int i = 0; i < n; i++) {
            const float ms = time_one(g, &t, &found[i].algo);
            if (ms >= 0 && (best_ms < 0 || ms < best_ms)) {
                best = i;
                best_ms = ms;
            }
        }
    end_trial(&t);
    return best;
}

typedef std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                   int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int>
    shape_key;

static shape_key key_of(const tt_cuda_gemm_desc &d)
{
    const int flags = (int)d.a.type + 8 * (int)d.c.type +
                      64 * (int)d.bias_type + 1024 * d.has_gelu +
                      2048 * d.adds;
    return shape_key(d.batch, d.m, d.n, d.k, d.a.row, d.a.col, d.a.batch,
                     d.b.row, d.b.col, d.b.batch, d.c.row, d.c.batch, flags);
}

static std::mutex choices_lock;
static std::map<shape_key, choice> choices;

// False: the library has no way.
static bool choose(tt_cuda_gemm *g)
{
    const tt_cuda_gemm_desc &d = g->desc;
    const std::lock_guard<std::mutex> guard(choices_lock);
    const auto known = choices.find(key_of(d));
    if (known != choices.end()) {
        g->chosen = known->second;
        return true;
    }
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    const uint32_t smallest = d.a.type == TT_BF16 ? 2 : 4;
    choice c = {};
    c.has_loose = suggest(g, smallest, found) > 0;
    if (c.has_loose) {
        c.loose = found[0].algo;
        c.workspace_bytes = (int64_t)found[0].workspaceSize;
    }
    const int n = suggest(g, 16, found);
    if (n == 0)
        return false;
    const double flops = 2.0 * d.batch * d.m * d.n * d.k;
    const int best = flops >= least_tuned && n > 1 ? measure(g, found, n) : 0;
    const int64_t bytes = (int64_t)found[best].workspaceSize;
    c.algo = found[best].algo;
    c.workspace_bytes = bytes > c.workspace_bytes ? bytes : c.workspace_bytes;
    choices[key_of(d)] = g->chosen = c;
    return true;
}

static const char *fill_in(tt_cuda_gemm *g, bool *has_way)
{
    const tt_cuda_gemm_desc &d = g->desc;
    TRY(describe(g));
    const bool needs_copy =
        d.bias_type != TT_N_DTYPES && d.bias_type != d.c.type;
    // A bias of another type than the result's is converted before each product.
    TRY(set_epilogue(g, d.c.type));
    g->bias_bytes = needs_copy ? ceil_div(d.n * 4, 256) * 256 : 0;
    *has_way = choose(g);
    g->scratch_bytes = g->bias_bytes + g->chosen.workspace_bytes;
    g->scratch_bytes += g->scratch_bytes > 0 ? ALIGN : 0;
    return NULL;
}

enum { EVEN = 8, LEAST_CUT = 64 };

// Pieces of k whose sums the last rows are made of.
static int64_t row_chunks(const tt_cuda_gemm_desc &d)
{
    const int64_t n = ceil_div(d.k, 512);
    return n > 128 ? 128 : n;
}

// What is left for the library.
static tt_cuda_gemm_desc cut(const tt_cuda_gemm_desc &whole)
{
    tt_cuda_gemm_desc d = whole;
    if (d.a.type != TT_BF16 || d.has_gelu)
        return d;
    if (d.k >= LEAST_CUT && d.k % EVEN != 0)
        d.k -= d.k % EVEN;
    else if (d.n >= LEAST_CUT && d.n % EVEN != 0)
        d.n -= d.n % EVEN;
    else if (d.m >= LEAST_CUT && d.m % EVEN != 0 && d.a.col != 1 &&
             d.batch == 1 && d.bias_type == TT_N_DTYPES)
        d.m -= d.m % EVEN;
    return d;
}

extern "C" const char *tt_cuda_gemm_create(tt_cuda *cuda,
                                           const tt_cuda_gemm_desc *desc,
                                           tt_cuda_gemm **gemm_out)
{
    tt_cuda_gemm *g = new (std::nothrow) tt_cuda_gemm();
    if (g == NULL)
        return tt_cuda_failed_text("no memory");
    g->cuda = cuda;
    g->whole = *desc;
    g->desc = cut(*desc);
    bool has_way = false;
    const char *error = fill_in(g, &has_way);
    const int64_t tail_bytes = 4 * row_chunks(*desc) * desc->n *
                               (desc->m - g->desc.m);
    if (tail_bytes > g->scratch_bytes)
        g->scratch_bytes = tail_bytes;
    if (error != NULL || !has_way) {
        tt_cuda_gemm_destroy(g);
        g = NULL;
    }
    *gemm_out = g;
    return error;
}

extern "C" int64_t tt_cuda_gemm_scratch(const tt_cuda_gemm *gemm)
{
    return gemm->scratch_bytes;
}

static const char *run_one(tt_cuda_gemm *gemm, const tt_cuda_gemm_args *args)
{
    const tt_cuda_gemm_desc &d = gemm->desc;
    const void *bias = args->bias;
    char *scratch = (char *)(((uintptr_t)args->scratch + ALIGN - 1) &
                             ~(uintptr_t)(ALIGN - 1));
    if (gemm->bias_bytes > 0) {
        const tt_cuda_copy_args copy = {
            1, {d.n}, {1}, {1}, d.c.type, d.bias_type, scratch, bias};
        TRY(tt_cuda_copy(gemm->cuda, &copy));
        bias = scratch;
        scratch += gemm->bias_bytes;
    }
    if (d.bias_type != TT_N_DTYPES)
        TRY(set(gemm->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    if (d.has_gelu)
        TRY(set(gemm->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                (const void *)args->aux));
    const bool is_loose =
        !is_aligned(args->a) || !is_aligned(args->b) || !is_aligned(args->c);
    if (is_loose && !gemm->chosen.has_loose)
        return tt_cuda_failed_text("cuBLASLt cannot multiply matrices at odd "
                                   "addresses");
    const cublasStatus_t status =
        multiply(gemm, args, is_loose ? &gemm->chosen.loose : &gemm->chosen.algo,
                 scratch, gemm->chosen.workspace_bytes);
    return status == CUBLAS_STATUS_SUCCESS ? NULL : failed("product", status);
}

// ---- the last columns and terms --------------------------------------------------

struct tail {
    tt_cuda_gemm_desc d;
    int64_t first; // column or term
    const bf16 *a, *b;
    const void *bias;
    void *c;
    bool accumulate;
};

// A warp owns a row of a.
template <typename C> __global__ void tail_columns(tail t)
{
    const tt_cuda_gemm_desc &d = t.d;
    const int lane = threadIdx.x % 32;
    const int64_t row = blockIdx.x * (int64_t)(blockDim.x / 32) + threadIdx.x / 32;
    const int64_t batch = blockIdx.y;
    if (row >= d.m)
        return;
    const bf16 *a = t.a + batch * d.a.batch + row * d.a.row;
    C *c = (C *)t.c + batch * d.c.batch + row * d.c.row;
    for (int64_t j = t.first; j < d.n; j++) {
        const bf16 *b = t.b + batch * d.b.batch + j * d.b.col;
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
template <typename C> __global__ void tail_terms(tail t)
{
    const tt_cuda_gemm_desc &d = t.d;
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    const int64_t batch = blockIdx.y, row = i / d.n, col = i % d.n;
    if (row >= d.m)
        return;
    const bf16 *a = t.a + batch * d.a.batch + row * d.a.row;
    const bf16 *b = t.b + batch * d.b.batch + col * d.b.col;
    C *c = (C *)t.c + batch * d.c.batch + row * d.c.row + col;
    float s = to_float(*c);
    for (int64_t l = t.first; l < d.k; l++)
        s += to_float(a[l * d.a.col]) * to_float(b[l * d.b.row]);
    *c = from_float<C>(s);
}

enum { LANES = 32, GROUPS = 8 };

// partial[chunk, row, n]: a block owns 32 columns and a chunk of the terms of one row.
__global__ void tail_rows(tail t, int64_t per_chunk, float *partial)
{
    __shared__ float room[GROUPS][LANES + 1];
    const tt_cuda_gemm_desc &d = t.d;
    const int64_t col = blockIdx.x * (int64_t)LANES + threadIdx.x;
    const int64_t first = blockIdx.y * per_chunk;
    const int64_t end = min(first + per_chunk, d.k);
    const bf16 *a = t.a + (t.first + blockIdx.z) * d.a.row;
    float s = 0;
    if (col < d.n)
        for (int64_t l = first + threadIdx.y; l < end; l += GROUPS)
            s += to_float(a[l * d.a.col]) *
                 to_float(t.b[l * d.b.row + col * d.b.col]);
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

template <typename C>
static const char *run_rows(tt_cuda_gemm *g, const tail &t, void *scratch)
{
    const tt_cuda_gemm_desc &d = g->whole;
    const int64_t chunks = row_chunks(d), rows = d.m - g->desc.m;
    const dim3 grid((unsigned)ceil_div(d.n, LANES), (unsigned)chunks,
                    (unsigned)rows);
    tail_rows<<<grid, dim3(LANES, GROUPS), 0, g->cuda->stream>>>(
        t, ceil_div(d.k, chunks), (float *)scratch);
    TRY(launched());
    join_rows<C><<<dim3((unsigned)ceil_div(d.n, 256), (unsigned)rows), 256, 0,
                   g->cuda->stream>>>(t, (int)chunks, (const float *)scratch);
    return launched();
}

template <typename C>
static const char *run_tail(tt_cuda_gemm *g, const tt_cuda_gemm_args *x)
{
    enum { THREADS = 256 };
    const tt_cuda_gemm_desc &d = g->whole;
    if (g->desc.m != d.m)
        return run_rows<C>(g,
                           {d, g->desc.m, (const bf16 *)x->a,
                            (const bf16 *)x->b, NULL, x->c, x->accumulate},
                           x->scratch);
    const bool is_columns = g->desc.n != d.n;
    const tail t = {d,
                    is_columns ? g->desc.n : g->desc.k,
                    (const bf16 *)x->a,
                    (const bf16 *)x->b,
                    x->bias,
                    x->c,
                    x->accumulate};
    const int64_t blocks = is_columns ? ceil_div(d.m, THREADS / 32)
                                      : ceil_div(d.m * d.n, THREADS);
    const dim3 grid((unsigned)blocks, (unsigned)d.batch);
    const auto kernel = is_columns ? tail_columns<C> : tail_terms<C>;
    kernel<<<grid, THREADS, 0, g->cuda->stream>>>(t);
    return launched();
}

extern "C" const char *tt_cuda_gemm_run(tt_cuda_gemm *gemm,
                                        const tt_cuda_gemm_args *args)
{
    TRY(run_one(gemm, args));
    if (gemm->desc.n == gemm->whole.n && gemm->desc.k == gemm->whole.k &&
        gemm->desc.m == gemm->whole.m)
        return NULL;
    return BY_TYPE(gemm->whole.c.type, run_tail, gemm, args);
}
