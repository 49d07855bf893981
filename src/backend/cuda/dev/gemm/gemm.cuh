// gemm - what the files of matrix products share.
//
//   gemm              an operator's product, in the fastest of three ways: by a kernel
//                     of our own; by cuBLASLt with a fused epilogue; or by cuBLASLt
//                     without one, and a kernel after it
//   gemm_hopper       weight gradients with bias sums, by WGMMA and split-k
//   gemm_hopper_gelu  product, bias and GELU, by WGMMA with an overlapped epilogue
//   gemm_product      one product by cuBLASLt: descriptors, algorithm
//   gemm_suggest      cuBLASLt's algorithms that are worth a trial
//   gemm_choose       which of them is fastest, and whether an epilogue pays
//   gemm_tail         the last columns, rows or terms: cuBLASLt is slow where extents
//                     are no multiples of 8

#ifndef TT_BACKEND_CUDA_DEV_GEMM_GEMM_CUH
#define TT_BACKEND_CUDA_DEV_GEMM_GEMM_CUH

#include "backend/cuda/dev/common.cuh"

enum { GEMM_ALIGN = 256 };

struct gemm_choice {
    cublasLtMatmulAlgo_t algo;  // for addresses that are multiples of 16
    cublasLtMatmulAlgo_t loose; // for any, where there is a way at all
    bool has_way, has_loose;
    int64_t workspace_bytes; // of the two, the larger
};

// A product that cuBLASLt does, made once when a plan is lowered and run at every step.
struct gemm_product {
    tt_cuda *cuda;
    tt_cuda_gemm_desc whole; // what was asked for
    tt_cuda_gemm_desc desc;  // what the library does of it
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c; // of the library: b', a', c'
    gemm_choice chosen;
    int64_t bias_bytes;  // of its copy in the result's type; 0: used as it is
    int64_t units_bytes; // of theirs, at round addresses
    int64_t scratch_bytes;
};

static inline bool has_epilogue(const tt_cuda_gemm_desc &d)
{
    return d.has_gelu || d.has_gelu_grad || d.sums != TT_CUDA_NO_SUMS;
}

// NULL: the library has no way, or failed (*error_out).
gemm_product *gemm_product_create(tt_cuda *cuda, const tt_cuda_gemm_desc &desc,
                                  const char **error_out);
void gemm_product_destroy(gemm_product *p);
const char *gemm_product_run(gemm_product *p, const tt_cuda_gemm_args *args);
// The addresses that belong to the epilogue.
const char *gemm_product_bind(const gemm_product *p, const void *bias,
                              const void *aux);
// The same product with other extents: only to ask cuBLASLt for its suggestions.
const char *gemm_product_resize(const gemm_product *p, int64_t m, int64_t n,
                                int64_t k);
cublasStatus_t gemm_multiply(const gemm_product *p, const tt_cuda_gemm_args *x,
                             const cublasLtMatmulAlgo_t *algo, void *workspace,
                             int64_t bytes);

enum { GEMM_WAYS = 48 };                              // at most
static const int64_t gemm_workspace_bytes = 32 << 20; // at most

// Algorithms for addresses that are multiples of `alignment`; returns how many.
// gemm_suggest_more appends others, for multiples of 16, to the n in `found`.
int gemm_suggest(const gemm_product *p, uint32_t alignment,
                 cublasLtMatmulHeuristicResult_t *out);
int gemm_suggest_more(const gemm_product *p,
                      cublasLtMatmulHeuristicResult_t *found, int n);
bool gemm_choose(gemm_product *p); // false: the library has no way
// Whether `other` is faster than `plain` and gives the same result, measured once and
// kept. `what` names the question. Products too small to measure get `otherwise`.
bool gemm_pays(const char *what, tt_cuda_gemm *other, tt_cuda_gemm *plain,
               bool otherwise);

struct tt_cuda_gemm {
    tt_cuda *cuda;
    tt_cuda_gemm_desc desc;
    gemm_product *product;
    bool is_fused; // the epilogue is in it
    const struct gemm_own
        *own; // where addresses allow it; NULL: the library always
    int64_t scratch_bytes;
};

int64_t gemm_tail_scratch(const gemm_product *p);
const char *gemm_tail_run(gemm_product *p, const tt_cuda_gemm_args *args);

#endif
