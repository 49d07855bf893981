// cublasLt - see the header. Matrices are stored by columns, as the library's.

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <vector>

struct emulated_handle {
    int unused;
};
struct emulated_wish {
    int unused;
};

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = new emulated_handle();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 1;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "not supported";
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out,
                                          cudaDataType_t type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    *out = new emulated_matrix{type, (int64_t)rows, (int64_t)cols, ld, 0, 1};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                 cublasLtMatrixLayoutAttribute_t name,
                                 const void *value, size_t bytes)
{
    void *const at[] = {&layout->rows, &layout->cols, &layout->ld,
                        &layout->batch, &layout->batch_stride};
    memcpy(at[name], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                        cublasComputeType_t, cudaDataType_t)
{
    *out = new emulated_product();
    (*out)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    (*out)->bias_type = -1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    delete desc;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                               cublasLtMatmulDescAttributes_t name,
                               const void *value, size_t bytes)
{
    void *const at[] = {&d->op_a,      &d->op_b, &d->epilogue,
                        &d->bias,      &d->bias_type, &d->aux,
                        &d->aux_ld,    &d->aux_stride,
                        &d->scale_a,   &d->scale_b, &d->is_fast};
    memcpy(at[name], value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = new emulated_wish();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish)
{
    delete wish;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t,
                                     cublasLtMatmulPreferenceAttributes_t,
                                     const void *, size_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

static bool is_tiny(const emulated_matrix *x)
{
    return x->type == CUDA_R_8F_E4M3 || x->type == CUDA_R_8F_E5M2;
}

// Both operands by k, in multiples of 16, and one of them e4m3.
static bool is_supported_tiny(const emulated_product *p,
                              const emulated_matrix *a,
                              const emulated_matrix *b,
                              const emulated_matrix *d)
{
    return is_tiny(b) && p->op_a == CUBLAS_OP_T && p->op_b == CUBLAS_OP_N &&
           (a->type == CUDA_R_8F_E4M3 || b->type == CUDA_R_8F_E4M3) &&
           a->rows % 16 == 0 && a->cols % 16 == 0 && b->cols % 16 == 0 &&
           d->batch == 1 && d->type != CUDA_R_16F;
}

static bool is_supported(const emulated_product *p, const emulated_matrix *d)
{
    if (p->epilogue < CUBLASLT_EPILOGUE_GELU_AUX)
        return true;
    return d->rows % 8 == 0 && d->cols % 8 == 0 && d->batch == 1;
}

// What is suggested for a product without scales does not work with them.
static bool has_scales(const emulated_product *p)
{
    return p->scale_a != NULL && p->scale_b != NULL;
}

// One more for round extents, which works for others too.
static int ways_for(const emulated_matrix *d)
{
    return d->rows % 64 == 0 || d->cols % 64 == 0 ? 3 : 2;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t, int wanted,
    cublasLtMatmulHeuristicResult_t *results, int *found)
{
    *found = 0;
    if (!is_supported(desc, d) ||
        (is_tiny(a) && !is_supported_tiny(desc, a, b, d)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (; *found < ways_for(d) && *found < wanted; ++*found) {
        results[*found] = cublasLtMatmulHeuristicResult_t();
        results[*found].algo.data[0] = (uint64_t)*found + 1;
        results[*found].algo.data[1] = has_scales(desc);
        results[*found].workspaceSize = (size_t)*found * 512;
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                        cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                        cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                        const cublasLtMatmulAlgo_t *algo,
                        cublasLtMatmulHeuristicResult_t *result)
{
    *result = cublasLtMatmulHeuristicResult_t();
    result->workspaceSize = ((size_t)algo->data[0] - 1) * 512;
    return CUBLAS_STATUS_SUCCESS;
}

// ---- the product ---------------------------------------------------------------

static float load(int type, const void *p, int64_t i)
{
    if (type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2)
        return emulated_fp8_value(((const uint8_t *)p)[i],
                                  type == CUDA_R_8F_E4M3 ? __NV_E4M3
                                                         : __NV_E5M2);
    return type == CUDA_R_16BF ? __bfloat162float(((const __nv_bfloat16 *)p)[i])
           : type == CUDA_R_16F ? __half2float(((const __half *)p)[i])
                                : ((const float *)p)[i];
}

static void store(int type, void *p, int64_t i, float x)
{
    if (type == CUDA_R_16BF)
        ((__nv_bfloat16 *)p)[i] = __float2bfloat16_rn(x);
    else if (type == CUDA_R_16F)
        ((__half *)p)[i] = __float2half_rn(x);
    else
        ((float *)p)[i] = x;
}

static float gelu(float x)
{
    return 0.5f * x *
           (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

static float gelu_slope(float x)
{
    const float t = tanhf(0.79788456f * (x + 0.044715f * x * x * x));
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.79788456f *
                                (1 + 3 * 0.044715f * x * x);
}

struct operands {
    const emulated_product *p;
    const void *a, *b, *c;
    void *d;
    const emulated_matrix *la, *lb, *lc, *ld;
    int64_t batch, k;
    float alpha, beta;

    float left(int64_t i, int64_t l) const // op(a)
    {
        const int64_t at = p->op_a == CUBLAS_OP_T ? l + i * la->ld
                                                  : i + l * la->ld;
        return load(la->type, a, at + batch * la->batch_stride);
    }
    float right(int64_t l, int64_t j) const // op(b)
    {
        const int64_t at = p->op_b == CUBLAS_OP_T ? j + l * lb->ld
                                                  : l + j * lb->ld;
        return load(lb->type, b, at + batch * lb->batch_stride);
    }
};

static float finish(const operands &o, int64_t i, int64_t j, float x)
{
    const emulated_product *p = o.p;
    const int64_t aux = i + j * p->aux_ld + o.batch * p->aux_stride;
    const int bias_type = p->bias_type < 0 ? (int)o.ld->type : p->bias_type;
    switch (p->epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
        return x + load(bias_type, p->bias, i);
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        x += load(bias_type, p->bias, i);
        store(o.ld->type, p->aux, aux, x);
        return gelu(x);
    case CUBLASLT_EPILOGUE_GELU_AUX:
        store(o.ld->type, p->aux, aux, x);
        return gelu(x);
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
        return x * gelu_slope(load(o.ld->type, p->aux, aux));
    default:
        return x;
    }
}

static void multiply(const operands &o, std::vector<float> &sums)
{
    for (int64_t j = 0; j < o.ld->cols; j++)
        for (int64_t i = 0; i < o.ld->rows; i++) {
            float s = 0;
            for (int64_t l = 0; l < o.k; l++)
                s += o.left(i, l) * o.right(l, j);
            s *= o.alpha;
            if (is_tiny(o.la))
                s *= *o.p->scale_a * *o.p->scale_b;
            if (o.beta != 0)
                s += o.beta * load(o.lc->type, o.c,
                                   i + j * o.lc->ld +
                                       o.batch * o.lc->batch_stride);
            s = finish(o, i, j, s);
            sums[(size_t)i] += s;
            store(o.ld->type, o.d,
                  i + j * o.ld->ld + o.batch * o.ld->batch_stride, s);
        }
}

// What the epilogue leaves in the bias: sums over the other dimension.
static void leave_bias(const operands &o, const std::vector<float> &sums)
{
    const int type = o.p->bias_type < 0 ? (int)o.ld->type : o.p->bias_type;
    const bool is_a = o.p->epilogue == CUBLASLT_EPILOGUE_BGRADA;
    const bool is_b = o.p->epilogue == CUBLASLT_EPILOGUE_BGRADB;
    if (o.p->epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD)
        for (int64_t i = 0; i < o.ld->rows; i++)
            store(type, o.p->bias, i, sums[(size_t)i]);
    for (int64_t i = 0; (is_a || is_b) && i < (is_a ? o.ld->rows : o.ld->cols);
         i++) {
        float s = 0;
        for (int64_t l = 0; l < o.k; l++)
            s += is_a ? o.left(i, l) : o.right(l, i);
        store(type, o.p->bias, i, s);
    }
}

// All of a product, for descriptors may change before it is done.
struct problem {
    emulated_product p;
    emulated_matrix la, lb, lc, ld;
    float alpha, beta;
    const void *a, *b, *c;
    void *d;
};

static void solve(const problem &x)
{
    emulated::tick();
    operands o = {&x.p,  x.a,    x.b,    x.c,    x.d,
                  &x.la, &x.lb,  &x.lc,  &x.ld,  0,
                  x.p.op_a == CUBLAS_OP_T ? x.la.rows : x.la.cols,
                  x.alpha, x.beta};
    for (o.batch = 0; o.batch < x.ld.batch; o.batch++) {
        std::vector<float> sums((size_t)x.ld.rows);
        multiply(o, sums);
        leave_bias(o, sums);
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                              const void *alpha, const void *a,
                              cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta,
                              const void *c, cublasLtMatrixLayout_t lc, void *d,
                              cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t bytes, cudaStream_t stream)
{
    if (!is_supported(desc, ld) || algo->data[0] == 0 ||
        bytes < (algo->data[0] - 1) * 512 ||
        (bytes > 0 && (uintptr_t)workspace % 256 != 0))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (is_tiny(la) &&
        (algo->data[1] != has_scales(desc) || (uintptr_t)desc->scale_a % 16 != 0 ||
         (uintptr_t)desc->scale_b % 16 != 0))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const problem all = {*desc, *la, *lb, *lc, *ld, *(const float *)alpha,
                         *(const float *)beta, a, b, c, d};
    emulated::queue(stream, [=] { solve(all); });
    return CUBLAS_STATUS_SUCCESS;
}
