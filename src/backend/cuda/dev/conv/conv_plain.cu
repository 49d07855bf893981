// conv_plain - convolutions by plain kernels, a thread per element of the result. They
// take every shape and type, so there is always a way; libraries do the rest. Bound by
// the plain cores, of which they reach a few per cent.

#include "backend/cuda/dev/conv/conv.cuh"

enum { THREADS = 256 };

// Indices of a pixel of an image of these extents.
struct pixel {
    int64_t n, at[TT_CUDA_SPACE];
};

__device__ static inline pixel pixel_at(const tt_cuda_conv_desc &d,
                                        int64_t tt_cuda_slide::*of, int64_t i)
{
    pixel p;
    for (int k = TT_CUDA_SPACE - 1; k >= 0; k--) {
        const int64_t extent = d.slide[k].*of;
        p.at[k] = i % extent;
        i /= extent;
    }
    p.n = i;
    return p;
}

// The input pixel that output o reads at entry k of the kernel; -1: padding.
__device__ static inline int64_t input_of(const tt_cuda_conv_desc &d,
                                          const pixel &o, const pixel &k)
{
    int64_t at = o.n;
    for (int i = 0; i < TT_CUDA_SPACE; i++) {
        const tt_cuda_slide &s = d.slide[i];
        const int64_t x = o.at[i] * s.stride - s.pad + k.at[i] * s.dilation;
        if (x < 0 || x >= s.in)
            return -1;
        at = at * s.in + x;
    }
    return at;
}

// The output pixel that reads input x at entry k; -1: none.
__device__ static inline int64_t output_of(const tt_cuda_conv_desc &d,
                                           const pixel &x, const pixel &k)
{
    int64_t at = x.n;
    for (int i = 0; i < TT_CUDA_SPACE; i++) {
        const tt_cuda_slide &s = d.slide[i];
        const int64_t from = x.at[i] + s.pad - k.at[i] * s.dilation;
        if (from < 0 || from % s.stride != 0 || from / s.stride >= s.out)
            return -1;
        at = at * s.out + from / s.stride;
    }
    return at;
}

__device__ static inline int64_t kernel_points(const tt_cuda_conv_desc &d)
{
    return d.slide[0].kernel * d.slide[1].kernel * d.slide[2].kernel;
}

template <typename T>
__global__ void forward(tt_cuda_conv_desc d, int64_t n, const T *x, const T *w,
                        T *y)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    const int64_t filters = d.groups * d.o, filter = i % filters;
    const int64_t group = filter / d.o, points = kernel_points(d);
    const pixel o = pixel_at(d, &tt_cuda_slide::out, i / filters);
    float sum = 0;
    for (int64_t k = 0; k < points; k++) {
        const int64_t at =
            input_of(d, o, pixel_at(d, &tt_cuda_slide::kernel, k));
        if (at < 0)
            continue;
        const T *u = x + (at * d.groups + group) * d.c;
        const T *v = w + (filter * points + k) * d.c;
        for (int64_t c = 0; c < d.c; c++)
            sum += to_float(u[c]) * to_float(v[c]);
    }
    y[i] = from_float<T>(sum);
}

template <typename T>
__global__ void grad_x(tt_cuda_conv_desc d, int64_t n, const T *dy, const T *w,
                       T *dx)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    const int64_t channels = d.groups * d.c, channel = i % channels;
    const int64_t group = channel / d.c, points = kernel_points(d);
    const pixel x = pixel_at(d, &tt_cuda_slide::in, i / channels);
    float sum = 0;
    for (int64_t k = 0; k < points; k++) {
        const int64_t at =
            output_of(d, x, pixel_at(d, &tt_cuda_slide::kernel, k));
        if (at < 0)
            continue;
        const T *u = dy + (at * d.groups + group) * d.o;
        const T *v = w + (group * d.o * points + k) * d.c + channel % d.c;
        for (int64_t o = 0; o < d.o; o++)
            sum += to_float(u[o]) * to_float(v[o * points * d.c]);
    }
    dx[i] = from_float<T>((d.adds ? to_float(dx[i]) : 0.f) + sum);
}

struct pixel_chunks {
    int64_t n; // entries of dw
    int64_t pixels, per_chunk;
};

// partial[chunk, entry] of dw: a thread walks over the pixels of its chunk.
template <typename T>
__global__ void grad_w(tt_cuda_conv_desc d, pixel_chunks c, const T *x,
                       const T *dy, float *partial)
{
    const int64_t n = c.n, pixels = c.pixels, per_chunk = c.per_chunk;
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    const int64_t points = kernel_points(d), channel = i % d.c;
    const int64_t filter = i / d.c / points, group = filter / d.o;
    const pixel k = pixel_at(d, &tt_cuda_slide::kernel, i / d.c % points);
    const int64_t first = blockIdx.y * per_chunk;
    float sum = 0;
    for (int64_t p = first; p < min(first + per_chunk, pixels); p++) {
        const int64_t at = input_of(d, pixel_at(d, &tt_cuda_slide::out, p), k);
        if (at >= 0)
            sum += to_float(x[(at * d.groups + group) * d.c + channel]) *
                   to_float(dy[p * d.groups * d.o + filter]);
    }
    partial[blockIdx.y * n + i] = sum;
}

__global__ void add_chunks(int64_t n, int64_t chunks, bool accumulate,
                           const float *partial, float *dw)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    float sum = accumulate ? dw[i] : 0.f;
    for (int64_t k = 0; k < chunks; k++)
        sum += partial[k * n + i];
    dw[i] = sum;
}

// Small weights have too few elements to fill the device, so pixels are cut into chunks
// whose sums are added afterwards.
static int64_t chunks_of(const tt_cuda_conv_desc &d)
{
    enum { ENOUGH = 1 << 18, LEAST = 64, MOST = 256 };
    int64_t n = ceil_div(ENOUGH, count_w(d));
    const int64_t most = ceil_div(pixels_of(d), LEAST);
    n = n > most ? most : n;
    return n > MOST ? (int64_t)MOST : n;
}

template <typename T>
static const char *run_w(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                         const tt_cuda_conv_args *a)
{
    const int64_t n = count_w(d), chunks = chunks_of(d);
    const dim3 grid((unsigned)ceil_div(n, THREADS), (unsigned)chunks);
    grad_w<T><<<grid, THREADS, 0, cuda->stream>>>(
        d, pixel_chunks{n, pixels_of(d), ceil_div(pixels_of(d), chunks)},
        (const T *)a->x, (const T *)a->y, (float *)a->scratch);
    TRY(launched());
    add_chunks<<<grid.x, THREADS, 0, cuda->stream>>>(
        n, chunks, a->accumulate, (const float *)a->scratch, (float *)a->w);
    return launched();
}

template <typename T>
static const char *run(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                       const tt_cuda_conv_args *a)
{
    if (d.way == TT_CUDA_GRAD_W)
        return run_w<T>(cuda, d, a);
    const bool is_x = d.way == TT_CUDA_GRAD_X;
    const int64_t n = is_x ? count_x(d) : count_y(d);
    const unsigned blocks = (unsigned)ceil_div(n, THREADS);
    if (is_x)
        grad_x<T><<<blocks, THREADS, 0, cuda->stream>>>(
            d, n, (const T *)a->y, (const T *)a->w, (T *)a->x);
    else
        forward<T><<<blocks, THREADS, 0, cuda->stream>>>(
            d, n, (const T *)a->x, (const T *)a->w, (T *)a->y);
    return launched();
}

const char *tt_cuda_conv_plain(tt_cuda *cuda, const tt_cuda_conv_desc *desc,
                               const tt_cuda_conv_args *args)
{
    return BY_TYPE(desc->type, run, cuda, *desc, args);
}

int64_t tt_cuda_conv_plain_scratch(const tt_cuda_conv_desc *desc)
{
    return desc->way == TT_CUDA_GRAD_W ? 4 * count_w(*desc) * chunks_of(*desc)
                                       : 0;
}

// Rows of `channels` packs of V channels.
template <typename T, int V>
__global__ void finish(int64_t n, int channels, tt_dtype bias_type,
                       const void *bias, bool has_relu, T *y)
{
    struct alignas(sizeof(T) * V) part {
        T v[V];
    };
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    const int c = i <= INT32_MAX ? (int)((uint32_t)i % (uint32_t)channels)
                                 : (int)(i % channels);
    part p = ((const part *)y)[i];
#pragma unroll
    for (int k = 0; k < V; k++) {
        float z = to_float(p.v[k]);
        if (bias != NULL)
            z += bias_type == TT_F32
                     ? ((const float *)bias)[c * V + k]
                     : (float)load_any(bias_type, bias, c * V + k);
        p.v[k] = from_float<T>(has_relu && z <= 0 ? 0.f : z);
    }
    store_whole(&((part *)y)[i], p);
}

template <typename T>
static const char *run_finish(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                              const void *bias, void *y)
{
    enum { V = pack<T>::N };
    const int64_t channels = d.groups * d.o;
    const bool is_wide = channels % V == 0 && is_aligned(y);
    const int v = is_wide ? (int)V : 1;
    const int64_t n = count_y(d) / v;
    const auto kernel = is_wide ? finish<T, V> : finish<T, 1>;
    kernel<<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(
        n, (int)(channels / v), d.bias_type, bias, d.has_relu, (T *)y);
    return launched();
}

const char *tt_cuda_conv_finish(tt_cuda *cuda, const tt_cuda_conv_desc *desc,
                                const void *bias, void *y)
{
    return BY_TYPE(desc->type, run_finish, cuda, *desc, bias, y);
}
