// list - every reference kernel, by family.

// Structure.
TT_KERNEL(ref_cast)

// Matrix products, convolution, pooling, batch norm, recurrence.
TT_KERNEL(ref_matmul)
TT_KERNEL(ref_matmul_grad_w)
TT_KERNEL(ref_bias_grad)

// Normalisation, embedding, attention, losses.
TT_KERNEL(ref_layer_norm)
TT_KERNEL(ref_layer_norm_grad_w)
TT_KERNEL(ref_layer_norm_grad_x)
TT_KERNEL(ref_norm_apply)
TT_KERNEL(ref_norm_grad_apply)
TT_KERNEL(ref_norm_grad_moments)
TT_KERNEL(ref_rms_norm)
TT_KERNEL(ref_rms_norm_grad_w)
TT_KERNEL(ref_rms_norm_grad_x)
TT_KERNEL(ref_row_moment)
TT_KERNEL(ref_rsqrt)

// Communication.
