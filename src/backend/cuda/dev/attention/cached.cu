// cached - decoding with a key-value cache: new rows into the cache, attention of a few
// queries on it, and the merge of two attentions (ring attention adds up partial
// results by their lse).
//
// A block has one query and head. It goes over the keys in pieces, one key for each
// thread, and keeps a running softmax. In each piece a thread first computes the score
// of its key, then one column of the result over all keys of the piece. Bound by
// reading the cache.

#include "backend/cuda/dev/any.cuh"

enum { THREADS = 128, MOST_HEAD = 512 };

__device__ static inline bool is_inside(const tt_cuda_cached_args &a)
{
    const int64_t at = *a.position;
    return at >= 0 && at <= a.context - a.n;
}

template <typename T>
__global__ void write_rows(tt_cuda_cached_args a, int *fault)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    const int64_t row = a.heads * a.head;
    if (!is_inside(a)) {
        *fault = FAULT_POSITION;
        return;
    }
    if (i >= a.batch * a.n * row)
        return;
    const int64_t b = i / row / a.n, s = i / row % a.n;
    ((T *)a.o)[(b * a.context + *a.position + s) * row + i % row] =
        ((const T *)a.v)[i];
}

template <typename T> __global__ void attend(tt_cuda_cached_args a, int *fault)
{
    __shared__ float q[MOST_HEAD], o[MOST_HEAD], weight[THREADS];
    __shared__ float room[32];
    const int64_t r = blockIdx.x;
    const int64_t h = r % a.heads, s = r / a.heads % a.n;
    const int64_t b = r / a.heads / a.n, step = a.kv_heads * a.head;
    const int64_t kv =
        b * a.context * step + h / (a.heads / a.kv_heads) * a.head;
    const T *k = (const T *)a.k + kv, *v = (const T *)a.v + kv;
    if (!is_inside(a)) {
        *fault = FAULT_POSITION;
        return;
    }
    for (int64_t i = threadIdx.x; i < a.head; i += THREADS) {
        q[i] = to_float(((const T *)a.q)[r * a.head + i]) * (float)a.scale;
        o[i] = 0;
    }
    __syncthreads();
    float most = -INFINITY, sum = 0;
    const int64_t n = *a.position + s + 1;
    for (int64_t from = 0; from < n; from += THREADS) {
        const int64_t j = from + threadIdx.x;
        float score = -INFINITY;
        if (j < n) {
            score = 0;
            for (int64_t i = 0; i < a.head; i++)
                score += q[i] * to_float(k[j * step + i]);
        }
        const float now = fmaxf(most, block_max(score, room));
        const float before = __expf(most - now);
        const float w = j < n ? __expf(score - now) : 0.f;
        weight[threadIdx.x] = w;
        sum = sum * before + block_sum(w, room);
        most = now;
        const int m = (int)min((int64_t)THREADS, n - from);
        for (int64_t i = threadIdx.x; i < a.head; i += THREADS) {
            float all = o[i] * before;
            for (int l = 0; l < m; l++)
                all += weight[l] * to_float(v[(from + l) * step + i]);
            o[i] = all;
        }
        __syncthreads();
    }
    for (int64_t i = threadIdx.x; i < a.head; i += THREADS)
        ((T *)a.o)[r * a.head + i] = from_float<T>(o[i] / sum);
}

template <typename T>
static const char *write_type(tt_cuda *cuda, const tt_cuda_cached_args *a)
{
    const int64_t n = a->batch * a->n * a->heads * a->head;
    write_rows<T><<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(
        *a, cuda->fault_device);
    return launched();
}

template <typename T>
static const char *attend_type(tt_cuda *cuda, const tt_cuda_cached_args *a)
{
    attend<T>
        <<<(unsigned)(a->batch * a->n * a->heads), THREADS, 0, cuda->stream>>>(
            *a, cuda->fault_device);
    return launched();
}

extern "C" const char *tt_cuda_cache_write(tt_cuda *cuda,
                                           const tt_cuda_cached_args *args)
{
    return BY_TYPE(args->type, write_type, cuda, args);
}

extern "C" const char *tt_cuda_attention_cached(tt_cuda *cuda,
                                                const tt_cuda_cached_args *args)
{
    return BY_TYPE(args->type, attend_type, cuda, args);
}

// ---- joining ---------------------------------------------------------------

__global__ void merge(tt_cuda_merge_args a)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    const int64_t r = i / a.head;
    if (r >= a.batch * a.seq * a.heads)
        return;
    const int64_t h = r % a.heads, s = r / a.heads % a.seq;
    const int64_t at = (r / a.heads / a.seq * a.heads + h) * a.seq + s;
    const double lse1 = get(a.lse1, at, 0), lse2 = get(a.lse2, at, 0);
    const double most = fmax(lse1, lse2);
    const bool is_empty = most == -INFINITY;
    const double e1 = is_empty ? 0 : exp(lse1 - most);
    const double e2 = is_empty ? 0 : exp(lse2 - most);
    const double sum = is_empty ? 1 : e1 + e2;
    put(a.o, i, (get(a.o1, i, 0) * e1 + get(a.o2, i, 0) * e2) / sum);
    if (i % a.head == 0)
        put(a.lse, at, most + log(sum));
}

extern "C" const char *tt_cuda_attention_merge(tt_cuda *cuda,
                                               const tt_cuda_merge_args *args)
{
    const int64_t n = args->batch * args->seq * args->heads * args->head;
    merge<<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(*args);
    return launched();
}
