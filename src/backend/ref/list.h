// list - every reference kernel, by family.

// Structure.
TT_KERNEL(ref_cast)

// Matrix products, convolution, pooling, batch norm, recurrence.
TT_KERNEL(ref_matmul)
TT_KERNEL(ref_matmul_grad_w)
TT_KERNEL(ref_bias_grad)

// Normalisation, embedding, attention, losses.

// Communication.
