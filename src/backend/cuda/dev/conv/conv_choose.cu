// conv_choose - which way of computing a convolution is the fastest. It is measured
// once for each shape, on noise in memory of its own, and kept (memo.cuh).
//
// The candidates: the GEMM of cuBLASLt, where the convolution is one; the kernels for
// few channels; and all of cuDNN's usual suggestions, 20 to 40 for a shape. cuDNN's
// order of suggestions is not the order of their times, so trying pays.
//
// The costs: most plans take no time to make, but one engine is compiled at run time
// (0.06 to 1 s). So a process has 10 s for all shapes, and a shape a share of what is
// left. What cuDNN suggests to fall back on is tried only where nothing else works: one
// such weight gradient took 1.4 s to run.
//
// Keeping the choice is more than speed: two candidates round differently, so runs have
// equal bits only if they choose alike. Convolutions under 2e8 multiplications are not
// measured; they get the first way that works.

#include "backend/cuda/dev/conv/conv.cuh"
#include "backend/cuda/dev/conv/dnn_conv.cuh"
#include "backend/cuda/dev/memo.cuh"
#include "backend/cuda/dev/noise.cuh"

#include <chrono>
#include <map>
#include <mutex>
#include <vector>

enum { TRIALS = 3 };
// Multiplications of a shape: smaller ones are not measured.
#ifdef TT_CUDA_LEAST_TUNED
static const double least_measured = 1e4;
#else
static const double least_measured = 2e8;
#endif
static const double seconds_for_all = 10; // of choosing

static double multiplications(const tt_cuda_conv_desc &d)
{
    return (double)count_y(d) * (double)d.c *
           (double)volume(d, &tt_cuda_slide::kernel);
}

// ---- trials ----------------------------------------------------------------

// Operands to try convolutions on.
struct trial {
    tt_cuda *cuda;
    tt_cuda_conv_args args;
    int64_t scratch_bytes;
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

static bool begin_trial(tt_cuda *cuda, const tt_cuda_conv_desc &d, trial *t)
{
    const bool is_w = d.way == TT_CUDA_GRAD_W;
    t->cuda = cuda;
    t->args.x = noise(cuda, d.type, count_x(d));
    t->args.w = noise(cuda, is_w ? TT_F32 : d.type, count_w(d));
    t->args.y = noise(cuda, d.type, count_y(d));
    t->args.bias = noise(cuda, TT_F32, d.groups * d.o);
    return t->args.x != NULL && t->args.w != NULL && t->args.y != NULL &&
           t->args.bias != NULL && cudaEventCreate(&t->start) == cudaSuccess &&
           cudaEventCreate(&t->end) == cudaSuccess;
}

static bool grow_scratch(int64_t bytes, trial *t)
{
    if (bytes <= t->scratch_bytes && t->args.scratch != NULL)
        return true;
    if (t->args.scratch != NULL)
        cudaFree(t->args.scratch);
    t->args.scratch = NULL;
    t->scratch_bytes = bytes;
    if (cudaMalloc(&t->args.scratch, (size_t)bytes + 1) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    return false;
}

// Milliseconds, the best of a few; negative: it does not work. One that is clearly
// slower than `limit` (negative: none) is tried once.
static float time_one(tt_cuda_conv *conv, trial *t, float limit)
{
    float best = -1;
    if (!grow_scratch(tt_cuda_conv_scratch(conv), t))
        return -1;
    for (int i = 0; i <= TRIALS; i++) {
        float ms = 0;
        (void)cudaEventRecord(t->start, t->cuda->stream);
        if (tt_cuda_conv_run(conv, &t->args) != NULL)
            return -1;
        (void)cudaEventRecord(t->end, t->cuda->stream);
        if (cudaEventSynchronize(t->end) != cudaSuccess ||
            cudaEventElapsedTime(&ms, t->start, t->end) != cudaSuccess)
            return -1;
        if (i > 0 && (best < 0 || ms < best))
            best = ms;
        if (i > 0 && limit >= 0 && best > 1.2f * limit)
            break;
    }
    return best;
}

static std::string key_of(const tt_cuda *cuda, const tt_cuda_conv_desc &d)
{
    std::vector<int64_t> k = {d.way,       d.type,
                              d.bias_type, d.has_relu,
                              d.adds,      d.n,
                              d.groups,    d.c,
                              d.o,         (int64_t)cublasLtGetVersion()};
    for (const tt_cuda_slide &s : d.slide) {
        const int64_t all[] = {s.in,     s.out,      s.kernel,
                               s.stride, s.dilation, s.pad};
        k.insert(k.end(), all, all + 6);
    }
    return memo_key(cuda, "conv by number, 3", tt_dnn_version(), k);
}

static std::mutex choices_lock;
static std::map<std::string, int> choices; // of the candidates below

enum { FEW = TT_DNN_PLANS + 1 };

// A way of computing the convolution: number 0 is the product, FEW the kernels for few
// channels, others are cuDNN's suggestions. NULL where there is none.
static tt_cuda_conv *make(tt_cuda *cuda, const tt_cuda_conv_desc &d, int number)
{
    if (number <= 0)
        return number == 0 ? tt_cuda_conv_with_gemm(cuda, d) : NULL;
    if (number == FEW)
        return tt_cuda_conv_with_few(cuda, d);
    const tt_cuda_conv_desc inner = tt_cuda_conv_inner(d);
    tt_dnn_menu *menu = tt_dnn_look(cuda, &inner, number - 1);
    tt_cuda_conv *conv = NULL;
    int found = 0;
    if (menu != NULL && tt_dnn_size(menu) > 0)
        conv = tt_cuda_conv_with_plan(cuda, d, menu, 0, &found);
    tt_dnn_close(menu);
    return conv;
}

// ---- choosing --------------------------------------------------------------

// Seconds spent so far. A shape has a twentieth of what is left to the process.
static double spent;

static double now(void)
{
    return std::chrono::duration<double>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

static double seconds_for_shape(void)
{
    const double share = (seconds_for_all - spent) / 20;
    return share < 0.03 ? 0.03 : share > 0.5 ? 0.5 : share;
}

struct contest {
    trial t;
    int best;
    float best_ms;
};

static void enter(contest *c, tt_cuda_conv *conv, int number)
{
    if (conv == NULL)
        return;
    const float ms = time_one(conv, &c->t, c->best_ms);
    if (ms >= 0 && (c->best_ms < 0 || ms < c->best_ms)) {
        c->best = number;
        c->best_ms = ms;
    }
    tt_cuda_conv_destroy(conv);
}

// The first that works, for what is too small to be measured; -1: none does.
static int choose_first(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                        tt_dnn_menu *menu)
{
    int number = -1;
    tt_cuda_conv *conv = tt_cuda_conv_with_gemm(cuda, d);
    if (conv == NULL) {
        conv = tt_cuda_conv_with_few(cuda, d);
        number = conv != NULL ? FEW - 1 : -1;
    }
    for (int i = 0; menu != NULL && conv == NULL && i < tt_dnn_size(menu); i++)
        conv = tt_cuda_conv_with_plan(cuda, d, menu, i, &number);
    if (conv == NULL)
        return -1;
    tt_cuda_conv_destroy(conv);
    return number + 1;
}

// The fastest of those that work; -1: none does. Without a trial, the first.
static int choose(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                  bool *is_measured_out)
{
    const tt_cuda_conv_desc inner = tt_cuda_conv_inner(d);
    tt_dnn_menu *menu = tt_dnn_look(cuda, &inner, -1);
    contest c = {{}, -1, -1};
    const double start = now(); // cuDNN may just have been loaded
    if (multiplications(d) >= least_measured && begin_trial(cuda, d, &c.t)) {
        const double end = start + seconds_for_shape();
        enter(&c, tt_cuda_conv_with_gemm(cuda, d), 0);
        enter(&c, tt_cuda_conv_with_few(cuda, d), FEW);
        for (int i = 0; menu != NULL && i < tt_dnn_size(menu); i++) {
            int number = 0;
            if (c.best >= 0 && (now() > end || i >= tt_dnn_usual(menu)))
                break;
            tt_cuda_conv *conv =
                tt_cuda_conv_with_plan(cuda, d, menu, i, &number);
            enter(&c, conv, number + 1);
        }
    }
    end_trial(&c.t);
    *is_measured_out = c.best >= 0;
    if (c.best < 0)
        c.best = choose_first(cuda, d, menu);
    tt_dnn_close(menu);
    spent += now() - start;
    return c.best;
}

// The choice of an earlier process, if it still works, or what is the best now.
static int recall(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                  const std::string &key)
{
    unsigned long long kept = 0;
    bool is_measured = false;
    if (multiplications(d) < least_measured)
        return choose(cuda, d, &is_measured);
    if (memo_find(cuda, key, &kept) && kept <= FEW) {
        tt_cuda_conv *conv = make(cuda, d, (int)kept);
        if (conv != NULL) {
            tt_cuda_conv_destroy(conv);
            return (int)kept;
        }
    }
    const int best = choose(cuda, d, &is_measured);
    if (is_measured)
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
    tt_cuda_conv *conv = make(cuda, *desc, choices[key]);
    if (conv == NULL)
        conv = tt_cuda_conv_blank(cuda, *desc);
    if (conv == NULL)
        return tt_cuda_failed_text("no memory");
    *conv_out = conv;
    return NULL;
}
