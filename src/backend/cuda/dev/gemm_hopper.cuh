// gemm_hopper - products of 16 bits by a kernel of our own: c of f32, a^T b with a long k,
// and sums of a or b. On devices of compute capability 9.0 and in builds for them.

#ifndef TT_BACKEND_CUDA_DEV_GEMM_HOPPER_CUH
#define TT_BACKEND_CUDA_DEV_GEMM_HOPPER_CUH

#include "backend/cuda/dev/gemm.cuh"

#ifdef TT_CUDA_HOPPER

bool gemm_hopper_can(const tt_cuda *cuda, const tt_cuda_gemm_desc &d);
int64_t gemm_hopper_scratch(const tt_cuda *cuda, const tt_cuda_gemm_desc &d);
const char *gemm_hopper_run(tt_cuda *cuda, const tt_cuda_gemm_desc &d,
                            const tt_cuda_gemm_args *x);

#else

static inline bool gemm_hopper_can(const tt_cuda *, const tt_cuda_gemm_desc &)
{
    return false;
}

static inline int64_t gemm_hopper_scratch(const tt_cuda *,
                                          const tt_cuda_gemm_desc &)
{
    return 0;
}

static inline const char *gemm_hopper_run(tt_cuda *, const tt_cuda_gemm_desc &,
                                          const tt_cuda_gemm_args *)
{
    return tt_cuda_failed_text("this build has no products of its own");
}

#endif

#endif
