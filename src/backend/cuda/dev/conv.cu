// conv - convolutions: which library computes one, or a plain kernel where none can.
//
// A convolution with kernel 1 and stride 1 is a product of matrices, which cuBLASLt
// has kernels for too; of it and of what cuDNN suggests, the fastest is taken, as
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
        g.adds = d.adds;
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
        g.accumulate = conv->d.adds;
    } else {
        g.a = a->y;
        g.b = a->x;
        g.c = a->w;
        g.accumulate = a->accumulate;
    }
    return tt_cuda_gemm_run(conv->gemm, &g);
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
        return tt_cuda_gemm_scratch(conv->gemm);
    const bool is_w = conv->d.way == TT_CUDA_GRAD_W;
    const int64_t plain = tt_conv_plain_scratch(&conv->d);
    if (conv->plan == NULL)
        return plain;
    const int64_t low = (is_w ? low_bytes(conv->d) : 0) +
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
    return memo_key(cuda, "conv", tt_dnn_version(), k);
}

static std::mutex choices_lock;
static std::map<std::string, int> choices; // of the candidates below

static bool has_bias(const tt_cuda_conv_desc &d)
{
    return d.bias_type != TT_N_DTYPES;
}

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
    conv->pads = is_lopsided(d);
    const tt_cuda_conv_desc all = conv->pads ? padded(d) : d;
    if (choice > 0)
        conv->plan = tt_dnn_create(cuda, &all, choice - 1);
    conv->is_whole = conv->gemm != NULL   ? !d.has_relu
                     : conv->plan != NULL ? tt_dnn_is_whole(conv->plan)
                                          : !d.has_relu && !has_bias(d);
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
    int best = -1, n_working = 0;
    float best_ms = -1;
    for (int i = 0; i <= TT_DNN_PLANS; i++) {
        tt_cuda_conv *conv = NULL;
        if (make(cuda, d, i, &conv) != NULL && conv == NULL)
            break;
        all.push_back(conv);
        const int64_t bytes = works(conv) ? tt_cuda_conv_scratch(conv) : 0;
        scratch = bytes > scratch ? bytes : scratch;
        best = best < 0 && works(conv) ? i : best;
        n_working += works(conv);
        if (best >= 0 && multiplications(d) < least_measured)
            break;
    }
    trial t = {};
    if (n_working > 1 && begin_trial(cuda, d, scratch, &t))
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

// The choice of an earlier process, if it still works, or what is the best now.
static int recall(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                  const std::string &key)
{
    unsigned long long kept = 0;
    if (multiplications(d) < least_measured)
        return choose(cuda, d);
    if (memo_find(cuda, key, &kept) && kept <= TT_DNN_PLANS) {
        tt_cuda_conv *conv = NULL;
        (void)make(cuda, d, (int)kept, &conv);
        const bool is_good = conv != NULL && works(conv);
        if (conv != NULL)
            tt_cuda_conv_destroy(conv);
        if (is_good)
            return (int)kept;
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
    const char *error = make(cuda, *desc, choices[key], &conv);
    if (error != NULL && conv != NULL)
        tt_cuda_conv_destroy(conv);
    else
        *conv_out = conv;
    return error;
}
