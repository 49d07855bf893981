// attention_hopper_stats - the two numbers of each query that backward attention needs.
//
// The gradient of a softmax is d_s = w (g - sum(w g)), where g = d_o v^T are the
// gradients of the weights. Since o = w v, sum(w g) equals sum(o d_o), which needs no
// scores. So it is computed once for each query here, before the big kernel, beside lse
// to base 2, from which that kernel gets its weights w = 2^(s - lse) without another
// pass over the keys.
//
// Eight threads have a row, 16 bytes each. Bound by reading o and d_o: 45 us at 124M's
// shapes, which doing it within the first pass over the queries would save.

#include "backend/cuda/dev/attention/attention_hopper_grad.cuh"

enum {
    STATS_THREADS = 256,
    PER_ROW = 8,
    PASSES = TILE * PER_ROW / STATS_THREADS
};

template <typename T>
__device__ static inline uint4
load_part(const tt_cuda_heads &from, int64_t batch, int64_t head, int64_t row)
{
    return *(const uint4 *)((const T *)from.data + batch * from.batch +
                            head * from.head + row * from.seq +
                            threadIdx.x % PER_ROW * 8);
}

template <typename T>
__device__ static inline float dot(const uint4 &a, const uint4 &b)
{
    const uint32_t u[] = {a.x, a.y, a.z, a.w}, v[] = {b.x, b.y, b.z, b.w};
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 y = low<T>::both(u[i]), dy = low<T>::both(v[i]);
        sum += y.x * dy.x;
        sum += y.y * dy.y;
    }
    return sum;
}

// A block has a tile's queries. Beyond the sequence lse is infinite: the weights are 0.
template <typename T>
__global__ void __launch_bounds__(STATS_THREADS)
    stats_kernel(const __grid_constant__ tt_cuda_attention_args a, int n,
                 float *stats)
{
    const int64_t head_of_all = blockIdx.x / n, batch = head_of_all / a.q_heads;
    const int64_t head = head_of_all % a.q_heads;
    const int first = threadIdx.x / PER_ROW, step = STATS_THREADS / PER_ROW;
    const int64_t row = (int64_t)(blockIdx.x % n) * TILE + first;
    float *to = stats + (int64_t)blockIdx.x * 2 * TILE + first;
    uint4 o[PASSES] = {}, d_o[PASSES] = {};
#pragma unroll
    for (int i = 0; i < PASSES; i++)
        if (row + step * i < a.q_len) {
            o[i] = load_part<T>(a.o, batch, head, row + step * i);
            d_o[i] = load_part<T>(a.d_o, batch, head, row + step * i);
        }
#pragma unroll
    for (int i = 0; i < PASSES; i++) {
        float sum = dot<T>(o[i], d_o[i]);
        for (int k = 1; k < PER_ROW; k *= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, k);
        if (threadIdx.x % PER_ROW != 0)
            continue;
        const bool is_inside = row + step * i < a.q_len;
        to[step * i] =
            is_inside ? a.lse[head_of_all * a.q_len + row + step * i] * LOG2_E
                      : INFINITY;
        to[TILE + step * i] = sum;
    }
}

const char *attention_hopper_stats(tt_cuda *cuda,
                                   const tt_cuda_attention_args &a,
                                   float *stats)
{
    const int n = (int)ceil_div(a.q_len, TILE);
    const unsigned blocks = (unsigned)(a.batch * a.q_heads * n);
    if (a.type == TT_BF16)
        stats_kernel<bf16>
            <<<blocks, STATS_THREADS, 0, cuda->stream>>>(a, n, stats);
    else
        stats_kernel<f16>
            <<<blocks, STATS_THREADS, 0, cuda->stream>>>(a, n, stats);
    return launched();
}
