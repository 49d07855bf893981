// attention_own - attention by kernels of our own which use what compute capability 9.0
// alone has; builds for other devices have none.

#ifndef TT_BACKEND_CUDA_DEV_ATTENTION_ATTENTION_OWN_CUH
#define TT_BACKEND_CUDA_DEV_ATTENTION_ATTENTION_OWN_CUH

#include "backend/cuda/dev/common.cuh"

#ifdef TT_CUDA_HOPPER

// Whether a site is theirs, and faster by them than by cuDNN.
bool attention_hopper_can(const tt_cuda *cuda, const tt_cuda_attention_args &a);
bool attention_hopper_grad_can(const tt_cuda *cuda,
                               const tt_cuda_attention_args &a);
// Bytes; 256 more where they begin anywhere.
int64_t attention_hopper_grad_scratch(const tt_cuda *cuda,
                                      const tt_cuda_attention_args &a);
const char *attention_hopper_run(tt_cuda *cuda,
                                 const tt_cuda_attention_args &a);
const char *attention_hopper_grad_run(tt_cuda *cuda,
                                      const tt_cuda_attention_args &a);

#else

static inline bool attention_hopper_can(const tt_cuda *,
                                        const tt_cuda_attention_args &)
{
    return false;
}

static inline bool attention_hopper_grad_can(const tt_cuda *,
                                             const tt_cuda_attention_args &)
{
    return false;
}

static inline int64_t
attention_hopper_grad_scratch(const tt_cuda *, const tt_cuda_attention_args &)
{
    return 0;
}

static inline const char *attention_hopper_run(tt_cuda *,
                                               const tt_cuda_attention_args &)
{
    return tt_cuda_failed_text("this build has no attention of its own");
}

static inline const char *
attention_hopper_grad_run(tt_cuda *, const tt_cuda_attention_args &)
{
    return tt_cuda_failed_text("this build has no attention of its own");
}

#endif

#endif
