// gemm_product - one product by cuBLASLt. Descriptors and the algorithm are made once,
// when a plan is lowered; a step binds addresses and multiplies, and before that
// converts the bias or copies units where cuBLASLt would not take them.
//
// cuBLASLt stores matrices by columns and we store them by rows. The same memory is
// then the transposed matrix, so c = a b is asked for as c' = b' a': a and b change
// places, and so do m and n, and the sums that its epilogue takes of a or b.
//
// Bound by the tensor cores.

#include "backend/cuda/dev/gemm/gemm.cuh"

#include <new>

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
    return type == TT_BF16   ? CUDA_R_16BF
           : type == TT_F16  ? CUDA_R_16F
           : type == TT_E4M3 ? CUDA_R_8F_E4M3
           : type == TT_E5M2 ? CUDA_R_8F_E5M2
                             : CUDA_R_32F;
}

void gemm_product_destroy(gemm_product *g)
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

static cublasLtEpilogue_t epilogue_of(const tt_cuda_gemm_desc &d)
{
    const bool has_bias = d.bias_type != TT_N_DTYPES;
    if (d.has_gelu_grad)
        return CUBLASLT_EPILOGUE_DGELU;
    if (d.sums != TT_CUDA_NO_SUMS) // a and b have changed places
        return d.sums == TT_CUDA_SUMS_OF_B ? CUBLASLT_EPILOGUE_BGRADA
                                           : CUBLASLT_EPILOGUE_BGRADB;
    if (d.has_gelu)
        return has_bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                        : CUBLASLT_EPILOGUE_GELU_AUX;
    return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

// The heuristics look at the alignment of the epilogue's addresses, so they get some
// address before the real ones are known.
static const char *set_epilogue(gemm_product *g)
{
    const tt_cuda_gemm_desc &d = g->desc;
    void *const any = (void *)(uintptr_t)256;
    TRY(set(g->op, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(d)));
    if (d.bias_type != TT_N_DTYPES || d.sums != TT_CUDA_NO_SUMS) {
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                (int32_t)type_of(d.c.type)));
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, any));
    }
    if (d.has_gelu || d.has_gelu_grad) {
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, d.c.row));
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, any));
        if (d.batch > 1)
            TRY(set(g->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
                    d.c.batch));
    }
    return NULL;
}

const char *gemm_product_bind(const gemm_product *g, const void *bias,
                              const void *aux)
{
    const tt_cuda_gemm_desc &d = g->desc;
    if (d.bias_type != TT_N_DTYPES || d.sums != TT_CUDA_NO_SUMS)
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    if (d.has_gelu || d.has_gelu_grad)
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux));
    return NULL;
}

static const char *describe(gemm_product *g)
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
    if (is_tiny(d.a.type)) { // heuristics look whether there are units
        void *const any = (void *)(uintptr_t)256;
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_FAST_ACCUM, (int8_t)d.is_fast));
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, any));
        TRY(set(g->op, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, any));
    }
    return NULL;
}

static const char *resize(cublasLtMatrixLayout_t layout,
                          const tt_cuda_matrix &x, int64_t rows, int64_t cols)
{
    const bool is_turned = x.col != 1;
    const uint64_t r = (uint64_t)(is_turned ? rows : cols);
    const uint64_t c = (uint64_t)(is_turned ? cols : rows);
    int64_t ld = is_turned ? x.col : x.row;
    ld = ld < (int64_t)r ? (int64_t)r : ld;
    TRY_LT(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ROWS,
                                            &r, sizeof r));
    TRY_LT(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_COLS,
                                            &c, sizeof c));
    TRY_LT(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_LD,
                                            &ld, sizeof ld));
    return NULL;
}

const char *gemm_product_resize(const gemm_product *p, int64_t m, int64_t n,
                                int64_t k)
{
    const tt_cuda_gemm_desc &d = p->desc;
    TRY(resize(p->a, d.b, k, n));
    TRY(resize(p->b, d.a, m, k));
    if (d.has_gelu || d.has_gelu_grad)
        TRY(set(p->op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                d.c.row < n ? n : d.c.row));
    return resize(p->c, d.c, m, n);
}

// cuBLASLt takes units (the scales of 8-bit operands) at multiples of 16 bytes only,
// which its documentation does not say.
__global__ void copy_units(const float *a, const float *b, float *to)
{
    to[0] = *a;
    to[4] = *b;
}

static void move_units(const gemm_product *g, tt_cuda_gemm_args *x, void *room)
{
    float *to = (float *)room;
    if (!is_tiny(g->desc.a.type) ||
        (is_aligned(x->a_unit) && is_aligned(x->b_unit)))
        return;
    copy_units<<<1, 1, 0, g->cuda->stream>>>(x->a_unit, x->b_unit, to);
    x->a_unit = to;
    x->b_unit = to + 4;
}

// a and b have changed places.
static bool bind_units(const gemm_product *g, const tt_cuda_gemm_args *x)
{
    return set(g->op, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, x->b_unit) ==
               NULL &&
           set(g->op, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, x->a_unit) == NULL;
}

cublasStatus_t gemm_multiply(const gemm_product *g, const tt_cuda_gemm_args *x,
                             const cublasLtMatmulAlgo_t *algo, void *workspace,
                             int64_t bytes)
{
    const void *plus = g->desc.has_plus ? x->plus : x->c;
    if (is_tiny(g->desc.a.type) && !bind_units(g, x))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const float one = 1, beta = x->accumulate || g->desc.has_plus ? 1 : 0;
    return cublasLtMatmul(g->cuda->lt, g->op, &one, x->b, g->a, x->a, g->b,
                          &beta, plus, g->c, x->c, g->c, algo,
                          bytes > 0 ? workspace : NULL, (size_t)bytes,
                          g->cuda->stream);
}

static const char *fill_in(gemm_product *g, bool *has_way)
{
    const tt_cuda_gemm_desc &d = g->desc;
    TRY(describe(g));
    // A bias of another type than the result's is converted before each product.
    const bool needs_copy =
        d.bias_type != TT_N_DTYPES && d.bias_type != d.c.type;
    TRY(set_epilogue(g));
    g->bias_bytes = needs_copy ? ceil_div(d.n * 4, 256) * 256 : 0;
    g->units_bytes = is_tiny(d.a.type) ? GEMM_ALIGN : 0;
    *has_way = gemm_choose(g);
    g->scratch_bytes =
        g->bias_bytes + g->units_bytes + g->chosen.workspace_bytes;
    g->scratch_bytes += g->scratch_bytes > 0 ? GEMM_ALIGN : 0;
    return NULL;
}

enum { EVEN = 8, LEAST_CUT = 64 };

// What cuBLASLt does of a product: extents cut to multiples of 8; gemm_tail does the
// rest.
static tt_cuda_gemm_desc cut(const tt_cuda_gemm_desc &whole)
{
    tt_cuda_gemm_desc d = whole;
    if (!is_low(d.a.type) || has_epilogue(d) || d.has_plus)
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

gemm_product *gemm_product_create(tt_cuda *cuda, const tt_cuda_gemm_desc &desc,
                                  const char **error_out)
{
    gemm_product *g = new (std::nothrow) gemm_product();
    if (g == NULL) {
        *error_out = tt_cuda_failed_text("no memory");
        return NULL;
    }
    g->cuda = cuda;
    g->whole = desc;
    g->desc = cut(desc);
    bool has_way = false;
    *error_out = fill_in(g, &has_way);
    const int64_t tail_bytes = gemm_tail_scratch(g);
    if (tail_bytes > g->scratch_bytes)
        g->scratch_bytes = tail_bytes;
    if (*error_out == NULL && has_way)
        return g;
    gemm_product_destroy(g);
    return NULL;
}

// Converts the bias, before every product of 16 bits with an f32 bias.
template <typename T>
__global__ void round_bias(int64_t n, const float *bias, T *to)
{
    const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < n)
        to[i] = from_float<T>(bias[i]);
}

template <typename T>
static const char *round_to(tt_cuda *cuda, int64_t n, const void *bias,
                            void *to)
{
    enum { THREADS = 128 };
    round_bias<<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(
        n, (const float *)bias, (T *)to);
    return launched();
}

static const char *convert_bias(const gemm_product *g, const void *bias,
                                void *to)
{
    const tt_cuda_gemm_desc &d = g->desc;
    if (d.bias_type == TT_F32 && is_low(d.c.type))
        return BY_TYPE(d.c.type, round_to, g->cuda, d.n, bias, to);
    const tt_cuda_copy_args copy = {1,        {d.n},       {1}, {1},
                                    d.c.type, d.bias_type, to,  bias};
    return tt_cuda_copy(g->cuda, &copy);
}

static const char *run_one(gemm_product *gemm, const tt_cuda_gemm_args *args)
{
    const tt_cuda_gemm_desc &d = gemm->desc;
    const void *bias = args->bias;
    char *scratch = (char *)(((uintptr_t)args->scratch + GEMM_ALIGN - 1) &
                             ~(uintptr_t)(GEMM_ALIGN - 1));
    if (gemm->bias_bytes > 0) {
        TRY(convert_bias(gemm, bias, scratch));
        bias = scratch;
        scratch += gemm->bias_bytes;
    }
    tt_cuda_gemm_args x = *args;
    move_units(gemm, &x, scratch);
    scratch += gemm->units_bytes;
    TRY(gemm_product_bind(gemm, d.sums != TT_CUDA_NO_SUMS ? args->sums : bias,
                          d.has_gelu_grad ? args->z : args->aux));
    const bool is_loose = !is_aligned(args->a) || !is_aligned(args->b) ||
                          !is_aligned(args->c) || !is_aligned(args->aux) ||
                          !is_aligned(args->z) || !is_aligned(args->plus);
    if (is_loose && !gemm->chosen.has_loose)
        return tt_cuda_failed_text("cuBLASLt cannot multiply matrices at odd "
                                   "addresses");
    const cublasStatus_t status = gemm_multiply(
        gemm, &x, is_loose ? &gemm->chosen.loose : &gemm->chosen.algo, scratch,
        gemm->chosen.workspace_bytes);
    return status == CUBLAS_STATUS_SUCCESS ? NULL : failed("product", status);
}

const char *gemm_product_run(gemm_product *p, const tt_cuda_gemm_args *args)
{
    TRY(run_one(p, args));
    if (p->desc.n == p->whole.n && p->desc.k == p->whole.k &&
        p->desc.m == p->whole.m)
        return NULL;
    return gemm_tail_run(p, args);
}
