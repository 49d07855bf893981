// list - every kernel of the CPU backend, by family. The first that can do a site
// gets it.

// Matrix products, convolution, pooling, batch norm.
TT_KERNEL(cpu_matmul)
TT_KERNEL(cpu_matmul_grad_w)
TT_KERNEL(cpu_conv)
TT_KERNEL(cpu_conv_grad_x)
TT_KERNEL(cpu_conv_grad_w)
TT_KERNEL(cpu_max_pool)
TT_KERNEL(cpu_max_pool_grad)
TT_KERNEL(cpu_avg_pool)
TT_KERNEL(cpu_avg_pool_grad)
TT_KERNEL(cpu_adaptive_avg_pool)
TT_KERNEL(cpu_adaptive_avg_pool_grad)

// Conversions.
TT_KERNEL(cpu_reorder)
