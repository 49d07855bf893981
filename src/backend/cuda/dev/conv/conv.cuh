// conv - convolutions on images whose channels lie together (NHWC), forward and both
// gradients.
//
//   conv_choose   which way is the fastest for a shape: measured once and kept
//   conv          the ways themselves, and what has to be copied before and after
//   dnn_conv      by cuDNN: one plan for each of its suggestions
//   conv_few      by tensor cores, for images of few channels (the first layer)
//   conv_plain    a thread per element, for what nobody else can; bias and activation
//
// A 1 x 1 convolution, or one whose windows do not overlap, is a GEMM (dev/gemm).

#ifndef TT_BACKEND_CUDA_DEV_CONV_CONV_CUH
#define TT_BACKEND_CUDA_DEV_CONV_CONV_CUH

#include "backend/cuda/dev/common.cuh"

static inline int64_t volume(const tt_cuda_conv_desc &d,
                             int64_t tt_cuda_slide::*of)
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

// Padding after the last entry that makes the window fit `out` times.
static inline int64_t pad_after(const tt_cuda_slide &s)
{
    const int64_t reach = (s.kernel - 1) * s.dilation + 1;
    return (s.out - 1) * s.stride + reach - s.in - s.pad;
}

// Whether the same padding on both sides gives as many outputs.
static inline bool is_even(const tt_cuda_slide &s)
{
    const int64_t spare = s.pad - pad_after(s);
    return spare >= 0 && spare < s.stride;
}

struct tt_dnn_menu;

// Makes a convolution that is computed in one of the ways: none yet (blank: by plain
// kernels), as a GEMM, by the kernels for few channels, or by suggestion i of cuDNN's
// menu (its number to *number_out), which was asked for tt_cuda_conv_inner(d). NULL:
// that way does not work.
tt_cuda_conv *tt_cuda_conv_blank(tt_cuda *cuda, const tt_cuda_conv_desc &d);
tt_cuda_conv *tt_cuda_conv_with_gemm(tt_cuda *cuda, const tt_cuda_conv_desc &d);
tt_cuda_conv *tt_cuda_conv_with_few(tt_cuda *cuda, const tt_cuda_conv_desc &d);
tt_cuda_conv *tt_cuda_conv_with_plan(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                                     struct tt_dnn_menu *menu, int i,
                                     int *number_out);
tt_cuda_conv_desc tt_cuda_conv_inner(const tt_cuda_conv_desc &d);

// Kernels for every convolution, without bias and activation.
const char *tt_cuda_conv_plain(tt_cuda *cuda, const tt_cuda_conv_desc *desc,
                               const tt_cuda_conv_args *args);
int64_t tt_cuda_conv_plain_scratch(const tt_cuda_conv_desc *desc);

// Kernels for few channels, with bias and activation.
bool tt_cuda_conv_few_can(const tt_cuda_conv_desc &d);
const char *tt_cuda_conv_few(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                             const tt_cuda_conv_args *args);
int64_t tt_cuda_conv_few_scratch(const tt_cuda *cuda,
                                 const tt_cuda_conv_desc &d);

// Bias (NULL: none) and activation, where the kernel before this does not do them.
const char *tt_cuda_conv_finish(tt_cuda *cuda, const tt_cuda_conv_desc *desc,
                                const void *bias, void *y);

#endif
