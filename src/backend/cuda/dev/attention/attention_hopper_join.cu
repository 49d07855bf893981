// attention_hopper_join - d_q of heads whose keys several blocks shared: the blocks'
// sums are added up in the order of the blocks, so runs repeat bit by bit.
//
// Why heads are shared: a block takes about one head at a time, and the heads that do
// not fill a last round of blocks would leave most SMs idle (one sequence of 12 heads:
// half the time by sharing). Each block of such a head adds to f32 sums of its own,
// which lie in the order of WGMMA's registers, not in rows: this kernel's threads have
// the same places as the threads that wrote them. Bound by reading the sums, which are
// in the L2 cache.

#include "backend/cuda/dev/attention/attention_hopper_grad.cuh"

// A block has 128 queries; a thread has the elements of d that hopper_products.cuh
// says. Under a causal mask parts after tile q have no keys for it, and wrote nothing.
template <typename T, bool CAUSAL>
__global__ void __launch_bounds__(256)
    join_kernel(const __grid_constant__ grad_args x, tt_cuda_heads to)
{
    const int rest = blockIdx.x / x.n, q = blockIdx.x % x.n;
    const int head = x.whole + rest, group = threadIdx.x / 128;
    const int thread = threadIdx.x % 128;
    const int row =
        q * TILE + GROUP_ROWS * group + thread / 32 * 16 + thread % 32 / 4;
    T *at = (T *)to.data + head / x.heads * to.batch +
            head % x.heads * to.head + row * to.seq + 2 * (thread % 4);
    for (int i = 0; i < 8; i++) {
        float4 sum = {0, 0, 0, 0};
        for (int part = 0; part < x.parts && (!CAUSAL || part <= q); part++) {
            const int64_t block = rest + (int64_t)part * x.rest;
            const float4 v =
                *(const float4 *)(x.sums +
                                  ((block * x.n + q) * 2 + group) * SUM_FLOATS +
                                  512 * i + 4 * thread);
            sum = {sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w};
        }
        if (row < x.len)
            *(uint32_t *)(at + 8 * i) =
                low<T>::pack(sum.x * x.scale, sum.y * x.scale);
        if (row + 8 < x.len)
            *(uint32_t *)(at + 8 * to.seq + 8 * i) =
                low<T>::pack(sum.z * x.scale, sum.w * x.scale);
    }
}

template <typename T>
static const char *launch(tt_cuda *cuda, const tt_cuda_attention_args &a,
                          const grad_args &x)
{
    const auto kernel =
        a.is_causal ? join_kernel<T, true> : join_kernel<T, false>;
    kernel<<<(unsigned)(x.rest * x.n), 256, 0, cuda->stream>>>(x, a.d_q);
    return launched();
}

const char *attention_hopper_join(tt_cuda *cuda,
                                  const tt_cuda_attention_args &a,
                                  const grad_args &x)
{
    return a.type == TT_BF16 ? launch<bf16>(cuda, a, x)
                             : launch<f16>(cuda, a, x);
}
