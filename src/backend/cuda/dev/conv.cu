// conv - convolutions: which library computes one, or a plain kernel where none can.
//
// A convolution with kernel 1 and stride 1 is a product of matrices, which cuBLASLt
// has kernels for too, and so is one whose windows lie side by side, once each window
// is a row; of it and of what cuDNN suggests, the fastest is taken, as
// measured once per shape and kept (memo.cuh). cuDNN has no kernel whose weight gradient is f32 when its
// operands are bf16, so that gradient is rounded to bf16 before it is added.

#include "backend/cuda/dev/conv.cuh"
#include "backend/cuda/dev/dnn_conv.cuh"
#include "backend/cuda/dev/memo.cuh"
#include "backend/cuda/dev/noise.cuh"

#include <map>
#include <mutex>
#include <new>
#include <vector>

enum { TRIALS = 3 };
static const double least_measured = 2e8; // multiplications of a shape

struct tt_cuda_conv {
    tt_cuda *cuda;
    tt_cuda_conv_desc d;
    tt_cuda_gemm *gemm; // at most one of these two
    tt_dnn_plan *plan;
    bool is_whole; // bias and activation are in it
    bool pads;     // the plan wants x with its padding
};

// ---- sizes -----------------------------------------------------------------

static double multiplications(const tt_cuda_conv_desc &d)
{
    return (double)count_y(d) * (double)d.c *
           (double)volume(d, &tt_cuda_slide::kernel);
}

static int64_t align(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static bool has_bias(const tt_cuda_conv_desc &d)
{
    return d.bias_type != TT_N_DTYPES;
}

// The weight's gradient as the library leaves it, in front of its workspace.
static int64_t low_bytes(const tt_cuda_conv_desc &d)
{
    return align(count_w(d) * (is_low(d.type) ? 2 : 4));
}

// The same with the padding in x.
static tt_cuda_conv_desc padded(const tt_cuda_conv_desc &d)
{
    tt_cuda_conv_desc p = d;
    for (tt_cuda_slide &s : p.slide) {
        const int64_t behind = pad_behind(s);
        s.in += s.pad + (behind > 0 ? behind : 0);
        s.pad = 0;
    }
    return p;
}

static int64_t padded_bytes(const tt_cuda_conv_desc &d)
{
    return align(count_x(padded(d)) * (is_low(d.type) ? 2 : 4));
}

// Whether cuDNN wants the padding of x to be there: it has made wrong gradients of
// weights where there is more of it behind than in front.
static bool is_lopsided(const tt_cuda_conv_desc &d)
{
    bool is_padded = false;
    for (const tt_cuda_slide &s : d.slide) {
        if (s.pad < 0)
            return false;
        is_padded = is_padded || !is_even(s);
    }
    return d.way == TT_CUDA_GRAD_W && is_padded;
}

// ---- products --------------------------------------------------------------

// Every input is in one window.
static bool is_product(const tt_cuda_conv_desc &d)
{
    for (const tt_cuda_slide &s : d.slide)
        if (s.stride != s.kernel || s.pad != 0 || s.in != s.kernel * s.out ||
            (s.kernel > 1 && s.dilation != 1))
            return false;
    return d.groups == 1;
}

// Whether windows have to be made rows first.
static bool has_patches(const tt_cuda_conv_desc &d)
{
    return volume(d, &tt_cuda_slide::kernel) > 1;
}

// Between x [n, out, kernel, ..., c] and rows [n, out..., kernel..., c].
static const char *move_patches(tt_cuda_conv *conv, bool is_back,
                                const void *from, void *to)
{
    const tt_cuda_conv_desc &d = conv->d;
    tt_cuda_copy_args a = {};
    int64_t x = d.c, inner = d.c, outer = d.c * volume(d, &tt_cuda_slide::kernel);
    int64_t *x_stride = is_back ? a.to_stride : a.from_stride;
    int64_t *row_stride = is_back ? a.from_stride : a.to_stride;
    a.ndim = 2 * TT_CUDA_SPACE + 2;
    a.dim[0] = d.n;
    a.dim[a.ndim - 1] = d.c;
    x_stride[a.ndim - 1] = row_stride[a.ndim - 1] = 1;
    for (int i = TT_CUDA_SPACE - 1; i >= 0; i--) {
        const tt_cuda_slide &s = d.slide[i];
        const int o = 1 + i, k = 1 + TT_CUDA_SPACE + i;
        a.dim[o] = s.out;
        a.dim[k] = s.kernel;
        x_stride[k] = x;
        x_stride[o] = x * s.kernel;
        row_stride[k] = inner;
        row_stride[o] = outer;
        x *= s.in;
        inner *= s.kernel;
        outer *= s.out;
    }
    x_stride[0] = x;
    row_stride[0] = outer;
    a.to_type = a.from_type = d.type;
    a.from = from;
    a.to = to;
    return tt_cuda_copy(conv->cuda, &a);
}

static const char *make_gemm(tt_cuda_conv *conv)
{
    const tt_cuda_conv_desc &d = conv->d;
    const int64_t pixels = pixels_of(d);
    const int64_t c = d.c * volume(d, &tt_cuda_slide::kernel);
    tt_cuda_gemm_desc g = {};
    g.batch = 1;
    g.bias_type = TT_N_DTYPES;
    const tt_cuda_matrix x = {d.type, c, 1, 0}, y = {d.type, d.o, 1, 0};
    const tt_cuda_matrix w = {d.type, c, 1, 0};
    g.m = pixels;
    if (d.way == TT_CUDA_FORWARD) {
        g.n = d.o;
        g.k = c;
        g.a = x;
        g.b = {d.type, 1, c, 0};
        g.c = y;
        g.bias_type = d.bias_type;
    } else if (d.way == TT_CUDA_GRAD_X) {
        g.n = c;
        g.k = d.o;
        g.a = y;
        g.b = w;
        g.c = x;
        g.adds = d.adds;
    } else {
        g.m = d.o;
        g.n = c;
        g.k = pixels;
        g.a = {d.type, 1, d.o, 0};
        g.b = x;
        g.c = {TT_F32, c, 1, 0};
        g.adds = true;
    }
    return tt_cuda_gemm_create(conv->cuda, &g, &conv->gemm);
}

static int64_t patch_bytes(const tt_cuda_conv_desc &d)
{
    return has_patches(d) ? align(count_x(d) * (is_low(d.type) ? 2 : 4)) : 0;
}

static const char *run_gemm(tt_cuda_conv *conv, const tt_cuda_conv_args *a)
{
    const tt_cuda_conv_desc &d = conv->d;
    char *scratch = (char *)align((int64_t)(uintptr_t)a->scratch);
    void *x = has_patches(d) ? scratch : a->x;
    tt_cuda_gemm_args g = {};
    g.scratch = has_patches(d) ? scratch + patch_bytes(d) : a->scratch;
    if (has_patches(d) && d.way != TT_CUDA_GRAD_X)
        TRY(move_patches(conv, false, a->x, x));
    if (d.way == TT_CUDA_FORWARD) {
        g.a = x;
        g.b = a->w;
        g.bias = a->bias;
        g.c = a->y;
    } else if (d.way == TT_CUDA_GRAD_X) {
        g.a = a->y;
        g.b = a->w;
        g.c = x;
        g.accumulate = d.adds;
    } else {
        g.a = a->y;
        g.b = x;
        g.c = a->w;
        g.accumulate = a->accumulate;
    }
    if (has_patches(d) && d.way == TT_CUDA_GRAD_X && d.adds)
        TRY(move_patches(conv, false, a->x, x));
    TRY(tt_cuda_gemm_run(conv->gemm, &g));
    return has_patches(d) && d.way == TT_CUDA_GRAD_X
               ? move_patches(conv, true, x, a->x)
               : NULL;
}

// ---- running ---------------------------------------------------------------

static const char *pad_x(tt_cuda_conv *conv, const void *x, void *to)
{
    const tt_cuda_conv_desc &d = conv->d, p = padded(d);
    const int64_t bytes = is_low(d.type) ? 2 : 4;
    tt_cuda_copy_args a = {};
    TRY_CUDA(cudaMemsetAsync(to, 0, (size_t)padded_bytes(d),
                             conv->cuda->stream));
    a.ndim = TT_CUDA_SPACE + 2;
    a.dim[0] = d.n;
    a.dim[a.ndim - 1] = d.groups * d.c;
    int64_t from = d.groups * d.c, step = from, first = 0;
    a.from_stride[a.ndim - 1] = a.to_stride[a.ndim - 1] = 1;
    for (int i = TT_CUDA_SPACE - 1; i >= 0; i--) {
        a.dim[i + 1] = d.slide[i].in;
        a.from_stride[i + 1] = from;
        a.to_stride[i + 1] = step;
        first += d.slide[i].pad * step;
        from *= d.slide[i].in;
        step *= p.slide[i].in;
    }
    a.from_stride[0] = from;
    a.to_stride[0] = step;
    a.to_type = a.from_type = d.type;
    a.from = x;
    a.to = (char *)to + first * bytes;
    return tt_cuda_copy(conv->cuda, &a);
}

// cuDNN wants the bias in the type of the rest.
static bool casts_bias(const tt_cuda_conv *conv)
{
    const tt_cuda_conv_desc &d = conv->d;
    return conv->plan != NULL && conv->is_whole && has_bias(d) &&
           d.bias_type != d.type;
}

static int64_t bias_bytes(const tt_cuda_conv *conv)
{
    return casts_bias(conv) ? align(4 * conv->d.groups * conv->d.o) : 0;
}

static const char *cast_bias(tt_cuda_conv *conv, const void *bias, void *to)
{
    const tt_cuda_conv_desc &d = conv->d;
    tt_cuda_copy_args a = {};
    a.ndim = 1;
    a.dim[0] = d.groups * d.o;
    a.to_stride[0] = a.from_stride[0] = 1;
    a.to_type = d.type;
    a.from_type = d.bias_type;
    a.to = to;
    a.from = bias;
    return tt_cuda_copy(conv->cuda, &a);
}

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
    if (casts_bias(conv)) {
        b.bias = b.scratch;
        b.scratch = scratch + bias_bytes(conv);
        TRY(cast_bias(conv, a->bias, (void *)b.bias));
    }
    if (conv->pads) {
        b.x = b.scratch;
        b.scratch = (char *)b.x + padded_bytes(d);
        TRY(pad_x(conv, a->x, b.x));
    }
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
    // cuDNN reads and writes 16 bytes at a time; parts of a block of weights may
    // begin anywhere.
    const bool is_plan = conv->plan != NULL && is_aligned(args->x) &&
                         is_aligned(args->w) && is_aligned(args->y) &&
                         is_aligned(args->bias);
    if (conv->gemm != NULL)
        TRY(run_gemm(conv, args));
    else if (is_plan)
        TRY(run_plan(conv, args));
    else
        TRY(tt_conv_plain(conv->cuda, &conv->d, args));
    const bool is_whole = conv->is_whole && (is_plan || conv->gemm != NULL);
    if (is_whole || (args->bias == NULL && !conv->d.has_relu))
        return NULL;
    const void *bias = conv->gemm != NULL ? NULL : args->bias; // it has it
    return tt_conv_finish(conv->cuda, &conv->d, bias, args->y);
}

extern "C" int64_t tt_cuda_conv_scratch(const tt_cuda_conv *conv)
{
    if (conv->gemm != NULL)
        return tt_cuda_gemm_scratch(conv->gemm) +
               (has_patches(conv->d) ? patch_bytes(conv->d) + 256 : 0);
    const bool is_w = conv->d.way == TT_CUDA_GRAD_W;
    const int64_t plain = tt_conv_plain_scratch(&conv->d);
    if (conv->plan == NULL)
        return plain;
    const int64_t low = (is_w ? low_bytes(conv->d) : 0) + bias_bytes(conv) +
                        (conv->pads ? padded_bytes(conv->d) : 0);
    const int64_t bytes = low + tt_dnn_bytes(conv->plan) + 512;
    return bytes > plain ? bytes : plain;
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
    if (cudaMalloc(&p, (size_t)n * (is_low(type) ? 2 : 4)) != cudaSuccess) {
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

static std::string key_of(const tt_cuda *cuda, const tt_cuda_conv_desc &d)
{
    std::vector<int64_t> k = {
        d.way, d.type,   d.bias_type, d.has_relu, d.adds,
        d.n,   d.groups, d.c,         d.o,        (int64_t)cublasLtGetVersion()};
    for (const tt_cuda_slide &s : d.slide) {
        const int64_t all[] = {s.in,     s.out,      s.kernel,
                               s.stride, s.dilation, s.pad};
        k.insert(k.end(), all, all + 6);
    }
    return memo_key(cuda, "convolution", tt_dnn_version(), k);
}

static std::mutex choices_lock;
static std::map<std::string, int> choices; // of the candidates below

// A convolution without a way of computing it yet.
static tt_cuda_conv *blank(tt_cuda *cuda, const tt_cuda_conv_desc &d)
{
    tt_cuda_conv *conv = new (std::nothrow) tt_cuda_conv();
    if (conv != NULL) {
        conv->cuda = cuda;
        conv->d = d;
        conv->pads = is_lopsided(d);
        conv->is_whole = !d.has_relu && !has_bias(d);
    }
    return conv;
}

// Ways of computing the convolution [first, first + n): number 0 is the product, where
// it is one, others are cuDNN's suggestions. NULL where there is none.
static void make(tt_cuda *cuda, const tt_cuda_conv_desc &d, int first, int n,
                 tt_cuda_conv **out)
{
    tt_dnn_plan *plan[1 + TT_DNN_PLANS] = {};
    const tt_cuda_conv_desc all = is_lopsided(d) ? padded(d) : d;
    const int skip = first == 0 ? 1 : 0;
    tt_dnn_create(cuda, &all, first + skip - 1, n - skip, plan + skip);
    for (int i = 0; i < n; i++) {
        const bool is_gemm = first + i == 0 && is_product(d);
        out[i] = is_gemm || plan[i] != NULL ? blank(cuda, d) : NULL;
        if (out[i] == NULL) {
            if (plan[i] != NULL)
                tt_dnn_destroy(plan[i]);
            continue;
        }
        out[i]->plan = plan[i];
        if (plan[i] != NULL)
            out[i]->is_whole = tt_dnn_is_whole(plan[i]);
        if (!is_gemm)
            continue;
        out[i]->is_whole = !d.has_relu;
        if (make_gemm(out[i]) != NULL || out[i]->gemm == NULL) {
            tt_cuda_conv_destroy(out[i]);
            out[i] = NULL;
        }
    }
}

// The fastest of those that work; -1: none does.
static int choose(tt_cuda *cuda, const tt_cuda_conv_desc &d)
{
    tt_cuda_conv *all[1 + TT_DNN_PLANS];
    const bool is_measured = multiplications(d) >= least_measured;
    int64_t scratch = 0;
    int best = -1, n_working = 0;
    float best_ms = -1;
    make(cuda, d, 0, 1 + TT_DNN_PLANS, all);
    for (int i = 0; i <= TT_DNN_PLANS; i++)
        if (all[i] != NULL) {
            const int64_t bytes = tt_cuda_conv_scratch(all[i]);
            scratch = bytes > scratch ? bytes : scratch;
            best = best < 0 ? i : best;
            n_working++;
        }
    trial t = {};
    if (is_measured && n_working > 1 && begin_trial(cuda, d, scratch, &t))
        for (int i = 0; i <= TT_DNN_PLANS; i++) {
            const float ms = all[i] != NULL ? time_one(all[i], &t) : -1;
            if (ms >= 0 && (best_ms < 0 || ms < best_ms)) {
                best = i;
                best_ms = ms;
            }
        }
    end_trial(&t);
    for (tt_cuda_conv *conv : all)
        if (conv != NULL)
            tt_cuda_conv_destroy(conv);
    return best;
}

// The choice of an earlier process, if it still works, or what is the best now.
static int recall(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                  const std::string &key)
{
    unsigned long long kept = 0;
    if (multiplications(d) < least_measured)
        return choose(cuda, d);
    if (memo_find(cuda, key, &kept) && kept <= TT_DNN_PLANS) {
        tt_cuda_conv *conv = NULL;
        make(cuda, d, (int)kept, 1, &conv);
        if (conv != NULL) {
            tt_cuda_conv_destroy(conv);
            return (int)kept;
        }
    }
    const int best = choose(cuda, d);
    if (best >= 0)
        memo_keep(cuda, key, (unsigned long long)best);
    return best;
}

extern "C" const char *tt_cuda_conv_create(tt_cuda *cuda,
                                           const tt_cuda_conv_desc *desc,
                                           tt_cuda_conv **conv_out)
{
    const std::lock_guard<std::mutex> guard(choices_lock);
    const std::string key = key_of(cuda, *desc);
    if (choices.find(key) == choices.end())
        choices[key] = recall(cuda, *desc, key);
    tt_cuda_conv *conv = NULL;
    if (choices[key] >= 0)
        make(cuda, *desc, choices[key], 1, &conv);
    if (conv == NULL)
        conv = blank(cuda, *desc);
    if (conv == NULL)
        return tt_cuda_failed_text("no memory");
    *conv_out = conv;
    return NULL;
}
