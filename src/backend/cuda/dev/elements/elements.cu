// elements - elementwise functions, broadcasts, strided copies with conversion,
// constants, sums of vectors. All are bound by memory bandwidth, and take 16 bytes at a
// time where addresses allow it.
//
// Strided copies are first made simpler: dims are sorted by the result's strides,
// neighbours that are contiguous on both sides become one, extents of 1 go, and
// elements become larger words where the last dim is contiguous. Most copies then have
// two dims.

#include "backend/cuda/dev/common.cuh"

enum { THREADS = 256 };

// ---- functions ---------------------------------------------------------------

__device__ static inline float logistic(float x)
{
    return 1 / (1 + expf(-x));
}

template <int FN>
__device__ static inline float apply(float a, float b, float by)
{
    const float c = 0.79788456080286535588f; // sqrt(2 / pi)
    switch (FN) {
    case TT_CUDA_GELU_TANH:
        return 0.5f * a * (1 + tanhf(c * (a + 0.044715f * a * a * a)));
    case TT_CUDA_GELU_ERF:
        return 0.5f * a * (1 + erff(a * 0.70710678118654752440f));
    case TT_CUDA_RELU:
        return a <= 0 ? 0 : a;
    case TT_CUDA_SILU:
        return a * logistic(a);
    case TT_CUDA_TANH:
        return tanhf(a);
    case TT_CUDA_SIGMOID:
        return logistic(a);
    case TT_CUDA_SCALE:
        return a * by;
    case TT_CUDA_GELU_TANH_GRAD: {
        const float t = tanhf(c * (a + 0.044715f * a * a * a));
        const float dt = (1 - t * t) * c * (1 + 3 * 0.044715f * a * a);
        return b * (0.5f * (1 + t) + 0.5f * a * dt);
    }
    case TT_CUDA_GELU_ERF_GRAD: {
        const float cdf = 0.5f * (1 + erff(a * 0.70710678118654752440f));
        const float pdf = expf(-0.5f * a * a) * 0.39894228040143267794f;
        return b * (cdf + a * pdf);
    }
    case TT_CUDA_RELU_GRAD:
        return a <= 0 ? 0 : b;
    case TT_CUDA_SILU_GRAD: {
        const float s = logistic(a);
        return b * s * (1 + a * (1 - s));
    }
    case TT_CUDA_TANH_GRAD:
        return b * (1 - a * a);
    case TT_CUDA_SIGMOID_GRAD:
        return b * a * (1 - a);
    case TT_CUDA_ADD:
        return a + b;
    case TT_CUDA_MUL:
        return a * b;
    case TT_CUDA_SWIGLU:
        return a * logistic(a) * b;
    default:
        return a;
    }
}

template <typename T, int FN>
__global__ void map_packs(int64_t n, float by, const T *a, const T *b, T *y)
{
    typedef pack<T> P;
    const int64_t i = (blockIdx.x * (int64_t)THREADS + threadIdx.x) * P::N;
    if (i + P::N <= n) {
        const P pa = *(const P *)(a + i);
        P pb = pa;
        if (b != NULL)
            pb = *(const P *)(b + i);
        P py;
#pragma unroll
        for (int k = 0; k < P::N; k++)
            py.v[k] = from_float<T>(
                apply<FN>(to_float(pa.v[k]), to_float(pb.v[k]), by));
        *(P *)(y + i) = py;
        return;
    }
    for (int64_t k = i; k < n; k++)
        y[k] = from_float<T>(
            apply<FN>(to_float(a[k]), b == NULL ? 0.f : to_float(b[k]), by));
}

template <typename T, int FN>
__global__ void map_single(int64_t n, float by, const T *a, const T *b, T *y)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i < n)
        y[i] = from_float<T>(
            apply<FN>(to_float(a[i]), b == NULL ? 0.f : to_float(b[i]), by));
}

template <typename T>
__global__ void swiglu_grad(int64_t n, const T *a, const T *b, const T *dy,
                            T *da, T *db)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    const float x = to_float(a[i]), y = to_float(b[i]), d = to_float(dy[i]);
    const float s = logistic(x);
    da[i] = from_float<T>(d * y * s * (1 + x * (1 - s)));
    db[i] = from_float<T>(d * x * s);
}

template <typename T, int FN>
static const char *map_fn(tt_cuda *cuda, const tt_cuda_map_args *m)
{
    const T *a = (const T *)m->a, *b = (const T *)m->b;
    T *y = (T *)m->y;
    const bool is_wide = is_aligned(a) && is_aligned(y) && is_aligned(b);
    const int64_t per = THREADS * (is_wide ? (int64_t)pack<T>::N : 1);
    const unsigned blocks = (unsigned)ceil_div(m->n, per);
    if (is_wide)
        map_packs<T, FN>
            <<<blocks, THREADS, 0, cuda->stream>>>(m->n, m->by, a, b, y);
    else
        map_single<T, FN>
            <<<blocks, THREADS, 0, cuda->stream>>>(m->n, m->by, a, b, y);
    return launched();
}

template <typename T>
static const char *map_type(tt_cuda *cuda, const tt_cuda_map_args *m)
{
#define CASE(fn)                                                               \
    case fn:                                                                   \
        return map_fn<T, fn>(cuda, m);
    switch (m->fn) {
        CASE(TT_CUDA_GELU_TANH)
        CASE(TT_CUDA_GELU_ERF)
        CASE(TT_CUDA_RELU)
        CASE(TT_CUDA_SILU)
        CASE(TT_CUDA_TANH)
        CASE(TT_CUDA_SIGMOID)
        CASE(TT_CUDA_SCALE)
        CASE(TT_CUDA_GELU_TANH_GRAD)
        CASE(TT_CUDA_GELU_ERF_GRAD)
        CASE(TT_CUDA_RELU_GRAD)
        CASE(TT_CUDA_SILU_GRAD)
        CASE(TT_CUDA_TANH_GRAD)
        CASE(TT_CUDA_SIGMOID_GRAD)
        CASE(TT_CUDA_ADD)
        CASE(TT_CUDA_MUL)
        CASE(TT_CUDA_SWIGLU)
    default:
        break;
    }
#undef CASE
    swiglu_grad<T>
        <<<(unsigned)ceil_div(m->n, THREADS), THREADS, 0, cuda->stream>>>(
            m->n, (const T *)m->a, (const T *)m->b, (const T *)m->c, (T *)m->y,
            (T *)m->y2);
    return launched();
}

extern "C" const char *tt_cuda_map(tt_cuda *cuda, const tt_cuda_map_args *args)
{
    return BY_TYPE(args->type, map_type, cuda, args);
}

// ---- an operand that repeats -------------------------------------------------

struct index_space {
    int ndim;
    int64_t dim[TT_CUDA_DIMS], x[TT_CUDA_DIMS], y[TT_CUDA_DIMS];
};

template <typename I>
__device__ static inline void offsets_of(const index_space &s, I i, int64_t *x,
                                         int64_t *y)
{
    int64_t at_x = 0, at_y = 0;
#pragma unroll
    for (int d = TT_CUDA_DIMS - 1; d >= 0; d--) {
        if (d >= s.ndim)
            continue;
        const I next = d == 0 ? 0 : i / (I)s.dim[d];
        const int64_t k = i - next * (I)s.dim[d];
        at_x += k * s.x[d];
        at_y += k * s.y[d];
        i = next;
    }
    *x = at_x;
    *y = at_y;
}

// 32-bit numbers divide several times faster than 64-bit ones.
__device__ static inline void offsets(const index_space &s, int64_t i,
                                      int64_t *x, int64_t *y)
{
    if (i <= INT32_MAX)
        offsets_of<uint32_t>(s, (uint32_t)i, x, y);
    else
        offsets_of<int64_t>(s, i, x, y);
}

template <typename T>
__global__ void broadcast(index_space s, int64_t n, bool adds, const T *a,
                          const T *b, T *y)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    int64_t at, unused;
    offsets(s, i, &at, &unused);
    const float u = to_float(a[i]), v = to_float(b[at]);
    y[i] = from_float<T>(adds ? u + v : u * v);
}

// The last dim of b lies as that of a, so everything is counted in packs of 16 bytes.
template <typename T>
__global__ void broadcast_packs(index_space s, int64_t n, bool adds,
                                const pack<T> *a, const pack<T> *b, pack<T> *y)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    int64_t at, unused;
    offsets(s, i, &at, &unused);
    const pack<T> u = a[i], v = b[at];
    pack<T> z;
#pragma unroll
    for (int k = 0; k < pack<T>::N; k++) {
        const float p = to_float(u.v[k]), q = to_float(v.v[k]);
        z.v[k] = from_float<T>(adds ? p + q : p * q);
    }
    y[i] = z;
}

// Counts the index space in packs, if it can be; false: it cannot.
template <typename T>
static bool in_packs(const tt_cuda_broadcast_args *b, index_space *s)
{
    const int last = b->ndim - 1, by = pack<T>::N;
    bool fits = last >= 0 && b->b_stride[last] == 1 && b->dim[last] % by == 0 &&
                is_aligned(b->a) && is_aligned(b->b) && is_aligned(b->y);
    for (int d = 0; d < last && fits; d++)
        fits = b->b_stride[d] % by == 0;
    for (int d = 0; d < last && fits; d++)
        s->x[d] /= by;
    if (fits)
        s->dim[last] /= by;
    return fits;
}

template <typename T>
static const char *broadcast_type(tt_cuda *cuda,
                                  const tt_cuda_broadcast_args *b)
{
    index_space s = {b->ndim, {}, {}, {}};
    int64_t n = 1;
    for (int d = 0; d < b->ndim; d++) {
        s.dim[d] = b->dim[d];
        s.x[d] = b->b_stride[d];
        n *= b->dim[d];
    }
    if (in_packs<T>(b, &s)) {
        n /= pack<T>::N;
        broadcast_packs<T>
            <<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(
                s, n, b->fn == TT_CUDA_ADD, (const pack<T> *)b->a,
                (const pack<T> *)b->b, (pack<T> *)b->y);
        return launched();
    }
    broadcast<T><<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(
        s, n, b->fn == TT_CUDA_ADD, (const T *)b->a, (const T *)b->b,
        (T *)b->y);
    return launched();
}

extern "C" const char *tt_cuda_broadcast(tt_cuda *cuda,
                                         const tt_cuda_broadcast_args *args)
{
    return BY_TYPE(args->type, broadcast_type, cuda, args);
}

// ---- copies ------------------------------------------------------------------

template <typename T>
__global__ void copy_strided(index_space s, int64_t n, const T *from, T *to)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    int64_t at_from, at_to;
    offsets(s, i, &at_from, &at_to);
    to[at_to] = from[at_from];
}

__global__ void copy_any(index_space s, int64_t n, tt_dtype from_type,
                         const void *from, tt_dtype to_type, void *to)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    int64_t at_from, at_to;
    offsets(s, i, &at_from, &at_to);
    store_any(to_type, to, at_to, load_any(from_type, from, at_from));
}

// Sorts dims by how the result lies in memory, so that writes are coalesced.
static void sort_dims(const tt_cuda_copy_args *c, int *order)
{
    for (int d = 0; d < c->ndim; d++) {
        int k = d;
        for (; k > 0 && c->to_stride[order[k - 1]] < c->to_stride[d]; k--)
            order[k] = order[k - 1];
        order[k] = d;
    }
}

// Merges neighbouring dims that are contiguous on both sides; drops extents of 1.
static int64_t merge(const tt_cuda_copy_args *c, index_space *s)
{
    int64_t n = 1;
    int order[TT_CUDA_DIMS];
    sort_dims(c, order);
    *s = index_space();
    for (int i = 0; i < c->ndim; i++) {
        const int d = order[i];
        const int64_t dim = c->dim[d];
        n *= dim;
        if (dim == 1)
            continue;
        const int k = s->ndim - 1;
        const bool joins = k >= 0 && s->x[k] == dim * c->from_stride[d] &&
                           s->y[k] == dim * c->to_stride[d];
        const int at = joins ? k : s->ndim++;
        s->dim[at] = joins ? s->dim[at] * dim : dim;
        s->x[at] = c->from_stride[d];
        s->y[at] = c->to_stride[d];
    }
    return n;
}

// Treats elements as larger words where the last dim is contiguous on both sides.
static int widen(index_space *s, const tt_cuda_copy_args *c, int bytes)
{
    const int last = s->ndim - 1;
    if (s->ndim == 0 || s->x[last] != 1 || s->y[last] != 1)
        return bytes;
    int by = 16 / bytes;
    for (; by > 1; by /= 2) {
        bool fits = s->dim[last] % by == 0 &&
                    ((uintptr_t)c->from | (uintptr_t)c->to) % (by * bytes) == 0;
        for (int d = 0; d < last && fits; d++)
            fits = s->x[d] % by == 0 && s->y[d] % by == 0;
        if (fits)
            break;
    }
    s->dim[last] /= by;
    for (int d = 0; d < last; d++) {
        s->x[d] /= by;
        s->y[d] /= by;
    }
    return bytes * by;
}

template <typename T>
static void launch_copy(tt_cuda *cuda, const index_space &s, int64_t n,
                        const tt_cuda_copy_args *c)
{
    copy_strided<T>
        <<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(
            s, n, (const T *)c->from, (T *)c->to);
}

static int bytes_of(tt_dtype type)
{
    return type == TT_F64 || type == TT_I64    ? 8
           : type == TT_F32 || type == TT_I32  ? 4
           : type == TT_BF16 || type == TT_F16 ? 2
                                               : 1;
}

extern "C" const char *tt_cuda_copy(tt_cuda *cuda,
                                    const tt_cuda_copy_args *args)
{
    index_space s;
    int64_t n = merge(args, &s);
    if (args->to_type != args->from_type) {
        copy_any<<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(
            s, n, args->from_type, args->from, args->to_type, args->to);
        return launched();
    }
    const int small = bytes_of(args->to_type);
    const int bytes = widen(&s, args, small);
    n /= bytes / small;
    switch (bytes) {
    case 16:
        launch_copy<uint4>(cuda, s, n, args);
        break;
    case 8:
        launch_copy<uint2>(cuda, s, n, args);
        break;
    case 4:
        launch_copy<uint32_t>(cuda, s, n, args);
        break;
    case 2:
        launch_copy<uint16_t>(cuda, s, n, args);
        break;
    default:
        launch_copy<uint8_t>(cuda, s, n, args);
        break;
    }
    return launched();
}

// ---- constants and sums of vectors ---------------------------------------------

__global__ void fill_value(int64_t n, tt_dtype type, double value, void *y)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i < n)
        store_any(type, y, i, value);
}

extern "C" const char *tt_cuda_fill_value(tt_cuda *cuda,
                                          const tt_cuda_fill_args *args)
{
    fill_value<<<(unsigned)ceil_div(args->n, THREADS), THREADS, 0,
                 cuda->stream>>>(args->n, args->type, args->value, args->y);
    return launched();
}

struct sum_inputs {
    const void *in[TT_CUDA_SUM];
};

template <typename X, typename Y>
__global__ void sum_vectors(int64_t n, int n_in, sum_inputs from,
                            bool accumulate, Y *y)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    float s = accumulate ? to_float(y[i]) : 0.f;
    for (int k = 0; k < n_in; k++)
        s += to_float(((const X *)from.in[k])[i]);
    y[i] = from_float<Y>(s);
}

template <typename X>
static const char *sum_type(tt_cuda *cuda, const tt_cuda_sum_args *a)
{
    sum_inputs from;
    for (int k = 0; k < a->n_in; k++)
        from.in[k] = a->in[k];
    const unsigned blocks = (unsigned)ceil_div(a->n, THREADS);
    if (a->y_type == TT_F32)
        sum_vectors<X, float><<<blocks, THREADS, 0, cuda->stream>>>(
            a->n, a->n_in, from, a->accumulate, (float *)a->y);
    else
        sum_vectors<X, X><<<blocks, THREADS, 0, cuda->stream>>>(
            a->n, a->n_in, from, a->accumulate, (X *)a->y);
    return launched();
}

extern "C" const char *tt_cuda_sum(tt_cuda *cuda, const tt_cuda_sum_args *args)
{
    return BY_TYPE(args->in_type, sum_type, cuda, args);
}
