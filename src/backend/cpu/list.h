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

// Elements: own vectorised functions.
TT_KERNEL(cpu_gelu)
TT_KERNEL(cpu_gelu_grad)
TT_KERNEL(cpu_relu)
TT_KERNEL(cpu_relu_grad)
TT_KERNEL(cpu_silu)
TT_KERNEL(cpu_silu_grad)
TT_KERNEL(cpu_tanh)
TT_KERNEL(cpu_tanh_grad)
TT_KERNEL(cpu_sigmoid)
TT_KERNEL(cpu_sigmoid_grad)
TT_KERNEL(cpu_swiglu)
TT_KERNEL(cpu_swiglu_grad)
