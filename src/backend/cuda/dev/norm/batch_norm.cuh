// batch_norm - what comes between the two passes (batch_norm_finish.cu): sums of chunks
// become statistics or gradients, and these become the coefficients that the second
// pass needs for each channel.

#ifndef TT_BACKEND_CUDA_DEV_NORM_BATCH_NORM_CUH
#define TT_BACKEND_CUDA_DEV_NORM_BATCH_NORM_CUH

#include "backend/cuda/dev/common.cuh"

enum { COEFS = 3 }; // [groups, COEFS, channels]

// Statistics of all groups, and the running ones, of sums of `chunks` chunks in the
// scratch, or with `pair_in` of those of all ranks.
const char *tt_cuda_bn_finish_statistics(tt_cuda *cuda,
                                         const tt_cuda_bn_args *a,
                                         int64_t chunks, float *coef);
const char *tt_cuda_bn_use_running(tt_cuda *cuda, const tt_cuda_bn_args *a,
                                   float *coef);
// The sums as `pair`; coefficients unless `coef` is NULL.
const char *tt_cuda_bn_finish_pair(tt_cuda *cuda, const tt_cuda_bn_args *a,
                                   int64_t chunks, float *coef);
const char *tt_cuda_bn_use_pair(tt_cuda *cuda, const tt_cuda_bn_args *a,
                                float *coef);

#endif
