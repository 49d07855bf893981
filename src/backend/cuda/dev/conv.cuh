// conv - extents of convolutions, and the plain kernels.

#ifndef TT_BACKEND_CUDA_DEV_CONV_CUH
#define TT_BACKEND_CUDA_DEV_CONV_CUH

#include "backend/cuda/dev/common.cuh"

static inline int64_t volume(const tt_cuda_conv_desc &d, int64_t tt_cuda_slide::*of)
{
    return d.slide[0].*of * d.slide[1].*of * d.slide[2].*of;
}

static inline int64_t count_x(const tt_cuda_conv_desc &d)
{
    return d.n * d.groups * d.c * volume(d, &tt_cuda_slide::in);
}

static inline int64_t count_w(const tt_cuda_conv_desc &d)
{
    return d.groups * d.o * d.c * volume(d, &tt_cuda_slide::kernel);
}

static inline int64_t count_y(const tt_cuda_conv_desc &d)
{
    return d.n * d.groups * d.o * volume(d, &tt_cuda_slide::out);
}

static inline int64_t pixels_of(const tt_cuda_conv_desc &d)
{
    return d.n * volume(d, &tt_cuda_slide::out);
}

// Kernels for every convolution, without bias and activation.
const char *tt_conv_plain(tt_cuda *cuda, const tt_cuda_conv_desc *desc,
                          const tt_cuda_conv_args *args);
int64_t tt_conv_plain_scratch(const tt_cuda_conv_desc *desc);

// Bias (NULL: none) and activation, where the kernel in front of this has none.
const char *tt_conv_finish(tt_cuda *cuda, const tt_cuda_conv_desc *desc,
                           const void *bias, void *y);

#endif
