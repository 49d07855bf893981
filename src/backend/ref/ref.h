// ref - declares the reference kernels of the files in list.h, so that a definition
// which drifts from its type is a compile error.

#ifndef TT_BACKEND_REF_REF_H
#define TT_BACKEND_REF_REF_H

#include "backend/kernel.h"

#define TT_KERNELS(file) extern const tt_kernel_def tt__ref_##file##_kernels[];
#include "backend/ref/list.h"
#undef TT_KERNELS

// What the fused kernels consist of.
tt_kernel_run_fn tt__ref_layer_norm_grad_w, tt__ref_layer_norm_grad_x,
    tt__ref_rms_norm_grad_w, tt__ref_rms_norm_grad_x, tt__ref_matmul,
    tt__ref_matmul_grad_w, tt__ref_bias_grad, tt__ref_cross_entropy,
    tt__ref_cross_entropy_grad, tt__ref_correct, tt__ref_conv,
    tt__ref_conv_grad_x, tt__ref_conv_grad_b, tt__ref_gelu_grad, tt__ref_relu,
    tt__ref_relu_grad;

#endif
