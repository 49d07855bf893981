// list - every operator, by family. Expanded by ops.h and registry.c.

// Structure.
TT_OP(fetch)
TT_OP(agree)
TT_OP(offer)
TT_OP(tally)
TT_OP(cast)
TT_OP(reorder)
TT_OP(fill)
TT_OP(reshape)
TT_OP(transpose)
TT_OP(split)
TT_OP(join)
TT_OP(slice)
TT_OP(slice_grad)
TT_OP(concat)

// Matrix products, convolution, pooling, batch norm, recurrence.
TT_OP(matmul)
TT_OP(matmul_grad_w)
TT_OP(bias_grad)

// Normalisation, embedding, attention, losses.
TT_OP(layer_norm)
TT_OP(layer_norm_grad_w)
TT_OP(layer_norm_grad_x)
TT_OP(norm_apply)
TT_OP(norm_grad_apply)
TT_OP(norm_grad_moments)
TT_OP(rms_norm)
TT_OP(rms_norm_grad_w)
TT_OP(rms_norm_grad_x)
TT_OP(row_moment)
TT_OP(rsqrt)

// Communication.
TT_OP(all_gather)
TT_OP(all_reduce)
TT_OP(all_to_all)
TT_OP(halo)
TT_OP(halo_add)
TT_OP(keep_first)
TT_OP(recv)
TT_OP(reduce_scatter)
TT_OP(send)
TT_OP(shift)
TT_OP(take)
