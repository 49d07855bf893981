// attention - plain kernels for sites that neither our fused kernels nor cuDNN take:
// f32, odd sizes of heads, parts of a sequence (context parallelism), where queries and
// keys are at other positions.
//
// A warp owns a query (or, for the gradients of k and v, a key) and takes the other
// side 32 at a time, with a running softmax. Each result has one owner, so nothing is
// added by two threads and the order of sums is fixed. Bound by the plain cores: it is
// there to be right.

#include "backend/cuda/dev/common.cuh"

enum { WARPS = 4, MAX_HEAD = 256, PER_LANE = MAX_HEAD / 32 };

struct place {
    int64_t batch, head, row;
};

// A row of [batch, heads, len], by its number.
__device__ static inline place place_of(int64_t i, int64_t heads, int64_t len)
{
    return {i / len / heads, i / len % heads, i % len};
}

template <typename T>
__device__ static inline T *row_of(const tt_cuda_heads &x, int64_t batch,
                                   int64_t head, int64_t row)
{
    return (T *)x.data + batch * x.batch + head * x.head + row * x.seq;
}

template <typename T>
__device__ static inline float dot(const T *a, const T *b, int n)
{
    float s = 0;
    for (int i = 0; i < n; i++)
        s += to_float(a[i]) * to_float(b[i]);
    return s;
}

__device__ static inline bool sees(const tt_cuda_attention_args &a, int64_t q,
                                   int64_t k)
{
    const int64_t k_at = a.k_first + k + (k < a.k_turn ? 0 : a.k_gap);
    const int64_t q_at = a.q_first + q + (q < a.q_turn ? 0 : a.q_gap);
    return !a.is_causal || k_at <= q_at;
}

template <typename T> __global__ void forward(tt_cuda_attention_args a)
{
    const int lane = threadIdx.x % 32, head = (int)a.head;
    const int64_t i = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    if (i >= a.batch * a.q_heads * a.q_len)
        return;
    const place p = place_of(i, a.q_heads, a.q_len);
    const int64_t kv = p.head / (a.q_heads / a.kv_heads);
    const T *q = row_of<T>(a.q, p.batch, p.head, p.row);
    float top = -INFINITY, sum = 0, o[PER_LANE] = {0};
    for (int64_t first = 0; first < a.k_len; first += 32) {
        const int64_t j = first + lane;
        const bool is_seen = j < a.k_len && sees(a, p.row, j);
        const float score =
            is_seen
                ? a.scale *
                      dot(q, (const T *)row_of<T>(a.k, p.batch, kv, j), head)
                : -INFINITY;
        const float new_top = fmaxf(top, warp_max(score));
        if (new_top == -INFINITY)
            continue;
        const float keep = top == -INFINITY ? 0 : expf(top - new_top);
        const float weight = is_seen ? expf(score - new_top) : 0;
        sum = sum * keep + warp_sum(weight);
        top = new_top;
#pragma unroll
        for (int k = 0; k < PER_LANE; k++)
            o[k] *= keep;
        const int n = (int)min((int64_t)32, a.k_len - first);
        for (int t = 0; t < n; t++) {
            const float w = __shfl_sync(0xffffffffu, weight, t);
            const T *v = row_of<T>(a.v, p.batch, kv, first + t);
#pragma unroll
            for (int k = 0; k < PER_LANE; k++)
                if (k * 32 + lane < head)
                    o[k] += w * to_float(v[k * 32 + lane]);
        }
    }
    T *to = row_of<T>(a.o, p.batch, p.head, p.row);
#pragma unroll
    for (int k = 0; k < PER_LANE; k++)
        if (k * 32 + lane < head)
            to[k * 32 + lane] = from_float<T>(sum > 0 ? o[k] / sum : 0);
    if (lane == 0)
        a.lse[i] = sum > 0 ? top + logf(sum) : -INFINITY;
}

template <typename T>
static const char *forward_type(tt_cuda *cuda, const tt_cuda_attention_args *a)
{
    const int64_t n = a->batch * a->q_heads * a->q_len;
    forward<T>
        <<<(unsigned)ceil_div(n, WARPS), WARPS * 32, 0, cuda->stream>>>(*a);
    return launched();
}

extern "C" const char *tt_cuda_attention(tt_cuda *cuda,
                                         const tt_cuda_attention_args *args)
{
    return BY_TYPE(args->type, forward_type, cuda, args);
}

// ---- gradients -------------------------------------------------------------------

// dq, and sum(o do) of each query for the kernel of k and v, which needs it too.
template <typename T> __global__ void grad_q(tt_cuda_attention_args a)
{
    const int lane = threadIdx.x % 32, head = (int)a.head;
    const int64_t i = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    if (i >= a.batch * a.q_heads * a.q_len)
        return;
    const place p = place_of(i, a.q_heads, a.q_len);
    const int64_t kv = p.head / (a.q_heads / a.kv_heads);
    const T *q = row_of<T>(a.q, p.batch, p.head, p.row);
    const T *o = row_of<T>(a.o, p.batch, p.head, p.row);
    const T *d_o = row_of<T>(a.d_o, p.batch, p.head, p.row);
    const float lse = a.lse[i];
    float mean = 0, dq[PER_LANE] = {0};
    for (int k = lane; k < head; k += 32)
        mean += to_float(o[k]) * to_float(d_o[k]);
    mean = warp_sum(mean);
    for (int64_t first = 0; first < a.k_len; first += 32) {
        const int64_t j = first + lane;
        float ds = 0;
        if (j < a.k_len && sees(a, p.row, j) && lse > -INFINITY) {
            const T *kj = row_of<T>(a.k, p.batch, kv, j);
            const T *vj = row_of<T>(a.v, p.batch, kv, j);
            const float w = expf(a.scale * dot(q, kj, head) - lse);
            ds = w * (dot(d_o, vj, head) - mean) * a.scale;
        }
        const int n = (int)min((int64_t)32, a.k_len - first);
        for (int t = 0; t < n; t++) {
            const float d = __shfl_sync(0xffffffffu, ds, t);
            const T *kj = row_of<T>(a.k, p.batch, kv, first + t);
#pragma unroll
            for (int k = 0; k < PER_LANE; k++)
                if (k * 32 + lane < head)
                    dq[k] += d * to_float(kj[k * 32 + lane]);
        }
    }
    T *to = row_of<T>(a.d_q, p.batch, p.head, p.row);
#pragma unroll
    for (int k = 0; k < PER_LANE; k++)
        if (k * 32 + lane < head)
            to[k * 32 + lane] = from_float<T>(dq[k]);
    if (lane == 0)
        ((float *)a.scratch)[i] = mean;
}

template <typename T> __global__ void grad_kv(tt_cuda_attention_args a)
{
    const int lane = threadIdx.x % 32, head = (int)a.head;
    const int64_t i = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    if (i >= a.batch * a.kv_heads * a.k_len)
        return;
    const place p = place_of(i, a.kv_heads, a.k_len);
    const int64_t group = a.q_heads / a.kv_heads;
    const T *kj = row_of<T>(a.k, p.batch, p.head, p.row);
    const T *vj = row_of<T>(a.v, p.batch, p.head, p.row);
    float dk[PER_LANE] = {0}, dv[PER_LANE] = {0};
    for (int64_t h = p.head * group; h < (p.head + 1) * group; h++)
        for (int64_t first = 0; first < a.q_len; first += 32) {
            const int64_t r = first + lane;
            const int64_t at = (p.batch * a.q_heads + h) * a.q_len + r;
            float w = 0, ds = 0;
            if (r < a.q_len && sees(a, r, p.row) && a.lse[at] > -INFINITY) {
                const T *q = row_of<T>(a.q, p.batch, h, r);
                const T *d_o = row_of<T>(a.d_o, p.batch, h, r);
                w = expf(a.scale * dot(q, kj, head) - a.lse[at]);
                ds = w * (dot(d_o, vj, head) - ((float *)a.scratch)[at]) *
                     a.scale;
            }
            const int n = (int)min((int64_t)32, a.q_len - first);
            for (int t = 0; t < n; t++) {
                const float wt = __shfl_sync(0xffffffffu, w, t);
                const float dt = __shfl_sync(0xffffffffu, ds, t);
                const T *q = row_of<T>(a.q, p.batch, h, first + t);
                const T *d_o = row_of<T>(a.d_o, p.batch, h, first + t);
#pragma unroll
                for (int k = 0; k < PER_LANE; k++)
                    if (k * 32 + lane < head) {
                        dk[k] += dt * to_float(q[k * 32 + lane]);
                        dv[k] += wt * to_float(d_o[k * 32 + lane]);
                    }
            }
        }
    T *to_k = row_of<T>(a.d_k, p.batch, p.head, p.row);
    T *to_v = row_of<T>(a.d_v, p.batch, p.head, p.row);
#pragma unroll
    for (int k = 0; k < PER_LANE; k++)
        if (k * 32 + lane < head) {
            to_k[k * 32 + lane] = from_float<T>(dk[k]);
            to_v[k * 32 + lane] = from_float<T>(dv[k]);
        }
}

template <typename T>
static const char *grad_type(tt_cuda *cuda, const tt_cuda_attention_args *a)
{
    const int64_t n = a->batch * a->q_heads * a->q_len;
    const int64_t m = a->batch * a->kv_heads * a->k_len;
    grad_q<T>
        <<<(unsigned)ceil_div(n, WARPS), WARPS * 32, 0, cuda->stream>>>(*a);
    TRY(launched());
    grad_kv<T>
        <<<(unsigned)ceil_div(m, WARPS), WARPS * 32, 0, cuda->stream>>>(*a);
    return launched();
}

extern "C" const char *
tt_cuda_attention_grad(tt_cuda *cuda, const tt_cuda_attention_args *args)
{
    return BY_TYPE(args->type, grad_type, cuda, args);
}
