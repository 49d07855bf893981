// conv - convolutions: which library computes one, and a plain kernel where none can.
//
// A convolution with kernel 1 and stride 1 is a product of matrices, which cuBLASLt
// has kernels for too; of it and of what cuDNN suggests, the fastest is taken, as
// measured once per shape. cuDNN has no kernel whose weight gradient is f32 when its
// operands are bf16, so that gradient is rounded to bf16 before it is added.

#include "backend/cuda/dev/common.cuh"
#include "backend/cuda/dev/dnn_conv.cuh"
#include "backend/cuda/dev/noise.cuh"

#include <map>
#include <mutex>
#include <new>
#include <vector>

enum { THREADS = 256, TRIALS = 3 };
static const double least_measured = 2e8; // multiplications of a shape

struct tt_cuda_conv {
    tt_cuda *cuda;
    tt_cuda_conv_desc d;
    tt_cuda_gemm *gemm; // at most one of these two
    tt_dnn_plan *plan;
    bool adds_bias; // behind the library's kernel
};

// ---- sizes -----------------------------------------------------------------

static int64_t volume(const tt_cuda_conv_desc &d, int64_t tt_cuda_slide::*of)
{
    return d.slide[0].*of * d.slide[1].*of * d.slide[2].*of;
}

static int64_t count_x(const tt_cuda_conv_desc &d)
{
    return d.n * d.groups * d.c * volume(d, &tt_cuda_slide::in);
}

static int64_t count_w(const tt_cuda_conv_desc &d)
{
    return d.groups * d.o * d.c * volume(d, &tt_cuda_slide::kernel);
}

static int64_t count_y(const tt_cuda_conv_desc &d)
{
    return d.n * d.groups * d.o * volume(d, &tt_cuda_slide::out);
}

static double multiplications(const tt_cuda_conv_desc &d)
{
    return (double)count_y(d) * (double)d.c *
           (double)volume(d, &tt_cuda_slide::kernel);
}

static int64_t align(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

// The weight's gradient as the library leaves it, in front of its workspace.
static int64_t low_bytes(const tt_cuda_conv_desc &d)
{
    return align(count_w(d) * (d.type == TT_BF16 ? 2 : 4));
}

// ---- the plain kernel ------------------------------------------------------

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
    dx[i] = from_float<T>(sum);
}

// partial[chunk, entry] of dw: a thread walks over the pixels of its chunk.
template <typename T>
__global__ void grad_w(tt_cuda_conv_desc d, int64_t n, int64_t pixels,
                       int64_t per_chunk, const T *x, const T *dy,
                       float *partial)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= n)
        return;
    const int64_t points = kernel_points(d), c = i % d.c;
    const int64_t filter = i / d.c / points, group = filter / d.o;
    const pixel k = pixel_at(d, &tt_cuda_slide::kernel, i / d.c % points);
    const int64_t first = blockIdx.y * per_chunk;
    float sum = 0;
    for (int64_t p = first; p < min(first + per_chunk, pixels); p++) {
        const int64_t at = input_of(d, pixel_at(d, &tt_cuda_slide::out, p), k);
        if (at >= 0)
            sum += to_float(x[(at * d.groups + group) * d.c + c]) *
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

static int64_t pixels_of(const tt_cuda_conv_desc &d)
{
    return d.n * volume(d, &tt_cuda_slide::out);
}

// Parts of the pixels that are summed apart, so that small weights fill the device.
static int64_t plain_chunks(const tt_cuda_conv_desc &d)
{
    enum { ENOUGH = 1 << 18, LEAST = 64, MOST = 256 };
    int64_t n = ceil_div(ENOUGH, count_w(d));
    const int64_t most = ceil_div(pixels_of(d), LEAST);
    n = n > most ? most : n;
    return n > MOST ? (int64_t)MOST : n;
}

template <typename T>
static const char *run_plain_w(tt_cuda_conv *conv, const tt_cuda_conv_args *a)
{
    const tt_cuda_conv_desc &d = conv->d;
    const int64_t n = count_w(d), chunks = plain_chunks(d);
    const dim3 grid((unsigned)ceil_div(n, THREADS), (unsigned)chunks);
    grad_w<T><<<grid, THREADS, 0, conv->cuda->stream>>>(
        d, n, pixels_of(d), ceil_div(pixels_of(d), chunks), (const T *)a->x,
        (const T *)a->y, (float *)a->scratch);
    TRY(launched());
    add_chunks<<<grid.x, THREADS, 0, conv->cuda->stream>>>(
        n, chunks, a->accumulate, (const float *)a->scratch, (float *)a->w);
    return launched();
}

template <typename T>
static const char *run_plain(tt_cuda_conv *conv, const tt_cuda_conv_args *a)
{
    const tt_cuda_conv_desc &d = conv->d;
    const cudaStream_t stream = conv->cuda->stream;
    if (d.way == TT_CUDA_FORWARD) {
        const int64_t n = count_y(d);
        forward<T><<<(unsigned)ceil_div(n, THREADS), THREADS, 0, stream>>>(
            d, n, (const T *)a->x, (const T *)a->w, (T *)a->y);
    } else if (d.way == TT_CUDA_GRAD_X) {
        const int64_t n = count_x(d);
        grad_x<T><<<(unsigned)ceil_div(n, THREADS), THREADS, 0, stream>>>(
            d, n, (const T *)a->y, (const T *)a->w, (T *)a->x);
    } else {
        return run_plain_w<T>(conv, a);
    }
    return launched();
}

template <typename T>
__global__ void add_bias(int64_t n, int64_t channels, tt_dtype bias_type,
                         const void *bias, T *y)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i < n)
        y[i] = from_float<T>(to_float(y[i]) +
                             (float)load_any(bias_type, bias, i % channels));
}

template <typename T>
static const char *run_bias(tt_cuda_conv *conv, const tt_cuda_conv_args *a)
{
    const int64_t n = count_y(conv->d);
    add_bias<T><<<(unsigned)ceil_div(n, THREADS), THREADS, 0,
                  conv->cuda->stream>>>(n, conv->d.groups * conv->d.o,
                                        conv->d.bias_type, a->bias, (T *)a->y);
    return launched();
}

// ---- products --------------------------------------------------------------

static bool is_product(const tt_cuda_conv_desc &d)
{
    for (const tt_cuda_slide &s : d.slide)
        if (s.kernel != 1 || s.stride != 1 || s.pad != 0 || s.in != s.out)
            return false;
    return d.groups == 1;
}

static const char *make_gemm(tt_cuda_conv *conv)
{
    const tt_cuda_conv_desc &d = conv->d;
    const int64_t pixels = pixels_of(d);
    tt_cuda_gemm_desc g = {};
    g.batch = 1;
    g.bias_type = TT_N_DTYPES;
    const tt_cuda_matrix x = {d.type, d.c, 1, 0}, y = {d.type, d.o, 1, 0};
    const tt_cuda_matrix w = {d.type, d.c, 1, 0};
    g.m = pixels;
    if (d.way == TT_CUDA_FORWARD) {
        g.n = d.o;
        g.k = d.c;
        g.a = x;
        g.b = {d.type, 1, d.c, 0};
        g.c = y;
        g.bias_type = d.bias_type;
    } else if (d.way == TT_CUDA_GRAD_X) {
        g.n = d.c;
        g.k = d.o;
        g.a = y;
        g.b = w;
        g.c = x;
    } else {
        g.m = d.o;
        g.n = d.c;
        g.k = pixels;
        g.a = {d.type, 1, d.o, 0};
        g.b = x;
        g.c = {TT_F32, d.c, 1, 0};
        g.adds = true;
    }
    return tt_cuda_gemm_create(conv->cuda, &g, &conv->gemm);
}

static const char *run_gemm(tt_cuda_conv *conv, const tt_cuda_conv_args *a)
{
    tt_cuda_gemm_args g = {};
    g.scratch = a->scratch;
    if (conv->d.way == TT_CUDA_FORWARD) {
        g.a = a->x;
        g.b = a->w;
        g.bias = a->bias;
        g.c = a->y;
    } else if (conv->d.way == TT_CUDA_GRAD_X) {
        g.a = a->y;
        g.b = a->w;
        g.c = a->x;
    } else {
        g.a = a->y;
        g.b = a->x;
        g.c = a->w;
        g.accumulate = a->accumulate;
    }
    return tt_cuda_gemm_run(conv->gemm, &g);
}

// ---- running ---------------------------------------------------------------

static const char *run_plan(tt_cuda_conv *conv, const tt_cuda_conv_args *a)
{
    const tt_cuda_conv_desc &d = conv->d;
    tt_cuda_conv_args b = *a;
    const bool is_w = d.way == TT_CUDA_GRAD_W;
    const bool is_direct = is_w && d.type == TT_F32 && !a->accumulate;
    char *scratch = (char *)align((int64_t)(uintptr_t)a->scratch);
    b.scratch = scratch + (is_w ? low_bytes(d) : 0);
    if (is_w && !is_direct)
        b.w = scratch;
    TRY(tt_dnn_run(conv->plan, &b));
    if (!is_w || is_direct)
        return NULL;
    tt_cuda_sum_args s = {};
    s.n_in = 1;
    s.n = count_w(d);
    s.in_type = d.type;
    s.y_type = TT_F32;
    s.accumulate = a->accumulate;
    s.in[0] = b.w;
    s.y = a->w;
    return tt_cuda_sum(conv->cuda, &s);
}

extern "C" const char *tt_cuda_conv_run(tt_cuda_conv *conv,
                                        const tt_cuda_conv_args *args)
{
    if (conv->gemm != NULL)
        return run_gemm(conv, args);
    if (conv->plan != NULL)
        TRY(run_plan(conv, args));
    else
        TRY(BY_TYPE(conv->d.type, run_plain, conv, args));
    return conv->adds_bias ? BY_TYPE(conv->d.type, run_bias, conv, args) : NULL;
}

extern "C" int64_t tt_cuda_conv_scratch(const tt_cuda_conv *conv)
{
    if (conv->gemm != NULL)
        return tt_cuda_gemm_scratch(conv->gemm);
    const bool is_w = conv->d.way == TT_CUDA_GRAD_W;
    if (conv->plan == NULL)
        return is_w ? 4 * count_w(conv->d) * plain_chunks(conv->d) : 0;
    const int64_t low = is_w ? low_bytes(conv->d) : 0;
    return low + tt_dnn_bytes(conv->plan) + 512;
}

extern "C" void tt_cuda_conv_destroy(tt_cuda_conv *conv)
{
    if (conv->gemm != NULL)
        tt_cuda_gemm_destroy(conv->gemm);
    if (conv->plan != NULL)
        tt_dnn_destroy(conv->plan);
    delete conv;
}

// ---- choosing --------------------------------------------------------------

// Memory to try convolutions on.
struct trial {
    tt_cuda_conv_args args;
    cudaEvent_t start, end;
};

static void end_trial(trial *t)
{
    void *blocks[] = {t->args.x, t->args.w, t->args.y, (void *)t->args.bias,
                      t->args.scratch};
    for (void *p : blocks)
        if (p != NULL)
            cudaFree(p);
    if (t->start != NULL)
        cudaEventDestroy(t->start);
    if (t->end != NULL)
        cudaEventDestroy(t->end);
    (void)cudaGetLastError();
}

static void *noise(tt_cuda *cuda, tt_dtype type, int64_t n)
{
    void *p = NULL;
    if (cudaMalloc(&p, (size_t)n * (type == TT_BF16 ? 2 : 4)) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    fill_noise(cuda, type, n, p);
    return p;
}

static bool begin_trial(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                        int64_t scratch, trial *t)
{
    const bool is_w = d.way == TT_CUDA_GRAD_W;
    t->args.x = noise(cuda, d.type, count_x(d));
    t->args.w = noise(cuda, is_w ? TT_F32 : d.type, count_w(d));
    t->args.y = noise(cuda, d.type, count_y(d));
    t->args.bias = noise(cuda, TT_F32, d.groups * d.o);
    return t->args.x != NULL && t->args.w != NULL && t->args.y != NULL &&
           t->args.bias != NULL &&
           cudaMalloc(&t->args.scratch, (size_t)scratch + 1) == cudaSuccess &&
           cudaEventCreate(&t->start) == cudaSuccess &&
           cudaEventCreate(&t->end) == cudaSuccess;
}

// Milliseconds, the best of a few; negative: it does not work.
static float time_one(tt_cuda_conv *conv, const trial *t)
{
    float best = -1;
    for (int i = 0; i <= TRIALS; i++) {
        float ms = 0;
        (void)cudaEventRecord(t->start, conv->cuda->stream);
        if (tt_cuda_conv_run(conv, &t->args) != NULL)
            return -1;
        (void)cudaEventRecord(t->end, conv->cuda->stream);
        if (cudaEventSynchronize(t->end) != cudaSuccess ||
            cudaEventElapsedTime(&ms, t->start, t->end) != cudaSuccess)
            return -1;
        if (i > 0 && (best < 0 || ms < best))
            best = ms;
    }
    return best;
}

typedef std::vector<int64_t> key;

static key key_of(const tt_cuda_conv_desc &d)
{
    key k = {d.way, d.type, d.bias_type, d.n, d.groups, d.c, d.o};
    for (const tt_cuda_slide &s : d.slide) {
        const int64_t all[] = {s.in,     s.out,      s.kernel,
                               s.stride, s.dilation, s.pad};
        k.insert(k.end(), all, all + 6);
    }
    return k;
}

static std::mutex choices_lock;
static std::map<key, int> choices; // of the candidates below

// A way of computing the convolution: number 0 is the product, where it is one,
// others are cuDNN's suggestions.
static const char *make(tt_cuda *cuda, const tt_cuda_conv_desc &d, int choice,
                        tt_cuda_conv **out)
{
    tt_cuda_conv *conv = new (std::nothrow) tt_cuda_conv();
    if (conv == NULL)
        return tt_cuda_failed_text("no memory");
    conv->cuda = cuda;
    conv->d = d;
    const char *error = NULL;
    if (choice == 0 && is_product(d))
        error = make_gemm(conv);
    if (choice > 0)
        conv->plan = tt_dnn_create(cuda, &d, choice - 1);
    conv->adds_bias = d.bias_type != TT_N_DTYPES && conv->gemm == NULL &&
                      (conv->plan == NULL || !tt_dnn_has_bias(conv->plan));
    *out = conv;
    return error;
}

static bool works(const tt_cuda_conv *conv)
{
    return conv->gemm != NULL || conv->plan != NULL;
}

// The fastest of those that work; -1: none does.
static int choose(tt_cuda *cuda, const tt_cuda_conv_desc &d)
{
    std::vector<tt_cuda_conv *> all;
    int64_t scratch = 0;
    int best = -1;
    float best_ms = -1;
    for (int i = 0; i <= TT_DNN_PLANS; i++) {
        tt_cuda_conv *conv = NULL;
        if (make(cuda, d, i, &conv) != NULL && conv == NULL)
            break;
        all.push_back(conv);
        const int64_t bytes = works(conv) ? tt_cuda_conv_scratch(conv) : 0;
        scratch = bytes > scratch ? bytes : scratch;
        best = best < 0 && works(conv) ? i : best;
        if (best >= 0 && multiplications(d) < least_measured)
            break;
    }
    trial t = {};
    if (best >= 0 && multiplications(d) >= least_measured &&
        begin_trial(cuda, d, scratch, &t))
        for (size_t i = 0; i < all.size(); i++) {
            const float ms = works(all[i]) ? time_one(all[i], &t) : -1;
            if (ms >= 0 && (best_ms < 0 || ms < best_ms)) {
                best = (int)i;
                best_ms = ms;
            }
        }
    end_trial(&t);
    for (tt_cuda_conv *conv : all)
        tt_cuda_conv_destroy(conv);
    return best;
}

extern "C" const char *tt_cuda_conv_create(tt_cuda *cuda,
                                           const tt_cuda_conv_desc *desc,
                                           tt_cuda_conv **conv_out)
{
    const std::lock_guard<std::mutex> guard(choices_lock);
    const key k = key_of(*desc);
    if (choices.find(k) == choices.end())
        choices[k] = choose(cuda, *desc);
    tt_cuda_conv *conv = NULL;
    const char *error = make(cuda, *desc, choices[k], &conv);
    if (error != NULL && conv != NULL)
        tt_cuda_conv_destroy(conv);
    else
        *conv_out = conv;
    return error;
}
