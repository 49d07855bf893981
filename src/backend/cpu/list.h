// list - every kernel of the CPU backend, by family. The first that can do a site
// gets it.

// Matrix products, convolution, pooling, batch norm.
TT_KERNEL(cpu_matmul)
TT_KERNEL(cpu_matmul_grad_w)
