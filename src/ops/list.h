// list - every operator, by family. Expanded by ops.h and registry.c.

// Structure.
TT_OP(cast)

// Matrix products, convolution, pooling, batch norm, recurrence.
TT_OP(matmul)
TT_OP(matmul_grad_w)
TT_OP(bias_grad)

// Normalisation, embedding, attention, losses.

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
