// gemm_own - GEMMs of 16 bits by kernels of our own, on devices of compute capability
// 9.0 and in builds for them. They are only candidates: gemm.cu takes one where it was
// measured to be faster than cuBLASLt for the shape at hand and gives the same result.
//
// There are two, for what cuBLASLt leaves on the table at GPT-2's shapes: weight
// gradients with bias sums (its epilogue for the sums costs 25 to 40%), and GEMM + GELU
// (its epilogue stops the tensor cores). Plain GEMMs stay cuBLASLt's: ours were tried
// and are 0 to 5% slower.

#ifndef TT_BACKEND_CUDA_DEV_GEMM_GEMM_OWN_CUH
#define TT_BACKEND_CUDA_DEV_GEMM_GEMM_OWN_CUH

#include "backend/cuda/dev/gemm/gemm.cuh"

// run() needs addresses that are multiples of 16, as TMA does.
struct gemm_own {
    bool (*can)(const tt_cuda *cuda, const tt_cuda_gemm_desc &d);
    int64_t (*scratch)(const tt_cuda *cuda, const tt_cuda_gemm_desc &d);
    const char *(*run)(tt_cuda *cuda, const tt_cuda_gemm_desc &d,
                       const tt_cuda_gemm_args *x);
};

#ifdef TT_CUDA_HOPPER

// Weight gradients: c = a^T b in f32 with a long k, and the sums of a or b over k.
extern const gemm_own gemm_own_grads;
// y = a b + bias, and gelu(y).
extern const gemm_own gemm_own_gelu;

#endif

// NULL: none.
static inline const gemm_own *gemm_own_for(const tt_cuda *cuda,
                                           const tt_cuda_gemm_desc &d)
{
#ifdef TT_CUDA_HOPPER
    for (const gemm_own *own : {&gemm_own_grads, &gemm_own_gelu})
        if (own->can(cuda, d))
            return own;
#endif
    (void)cuda;
    (void)d;
    return NULL;
}

#endif
