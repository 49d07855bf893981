// list - every reference kernel, by family.

// Structure.
TT_KERNEL(ref_fetch)
TT_KERNEL(ref_agree)
TT_KERNEL(ref_offer)
TT_KERNEL(ref_tally)
TT_KERNEL(ref_cast)
TT_KERNEL(ref_reorder)
TT_KERNEL(ref_fill)
TT_KERNEL(ref_reshape)
TT_KERNEL(ref_transpose)
TT_KERNEL(ref_split)
TT_KERNEL(ref_join)
TT_KERNEL(ref_slice)
TT_KERNEL(ref_slice_grad)
TT_KERNEL(ref_concat)
TT_KERNEL(ref_add)
TT_KERNEL(ref_mul)
TT_KERNEL(ref_scale)
TT_KERNEL(ref_broadcast)
TT_KERNEL(ref_sum_to)
TT_KERNEL(ref_reduce)
TT_KERNEL(ref_reduce_max_grad)

// Matrix products, convolution, pooling, batch norm, recurrence.
TT_KERNEL(ref_matmul)
TT_KERNEL(ref_matmul_grad_w)
TT_KERNEL(ref_bias_grad)
TT_KERNEL(ref_conv)
TT_KERNEL(ref_conv_grad_x)
TT_KERNEL(ref_conv_grad_w)
TT_KERNEL(ref_conv_grad_b)

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
