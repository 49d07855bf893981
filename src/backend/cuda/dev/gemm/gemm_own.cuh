// gemm_own - products of 16 bits by kernels of our own, on devices of compute
// capability 9.0 and in builds for them.

#ifndef TT_BACKEND_CUDA_DEV_GEMM_GEMM_OWN_CUH
#define TT_BACKEND_CUDA_DEV_GEMM_GEMM_OWN_CUH

#include "backend/cuda/dev/gemm/gemm.cuh"

// Addresses are multiples of 16.
struct gemm_own {
    bool (*can)(const tt_cuda *cuda, const tt_cuda_gemm_desc &d);
    int64_t (*scratch)(const tt_cuda *cuda, const tt_cuda_gemm_desc &d);
    const char *(*run)(tt_cuda *cuda, const tt_cuda_gemm_desc &d,
                       const tt_cuda_gemm_args *x);
};

#ifdef TT_CUDA_HOPPER

// c of f32, a^T b with a long k, and sums of a or b.
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
