// gemm_choose - autotuning: which of cuBLASLt's algorithms is the fastest for a shape,
// and whether another way (a fused epilogue, a kernel of ours) pays. Each is tried on
// noise in memory of its own.
//
// Why not trust the heuristics: their first suggestion is often not the fastest, and
// sometimes the fastest is not among them (gemm_suggest.cu).
//
// Why measure in turns: a GPU that gets hot gets slow. Tried one after the other, the
// first has a cooler GPU and looks up to 10% faster than it is. So all are timed once,
// and then the best six again, in turns (decide).
//
// Why keep it: equal shapes share a choice, within a process and (memo.cuh) from
// process to process. Algorithms differ in the order of their sums, so runs have equal
// bits only if they choose alike. Where bits may depend on nothing measured (is_exact),
// and for products under 2 GFLOP, cuBLASLt's first one is taken.
//
// The cost: cuBLASLt loads a kernel when it is first run, which takes time. So a
// process has 8 s for all shapes, and a shape a share of what is left.

#include "backend/cuda/dev/gemm/gemm.cuh"
#include "backend/cuda/dev/memo.cuh"
#include "backend/cuda/dev/noise.cuh"

#include <chrono>
#include <map>
#include <mutex>

enum { FINAL = 6, TRIALS = 3 };
static const double seconds_for_all = 8; // of choosing algorithms

#ifndef TT_CUDA_LEAST_TUNED
#    define TT_CUDA_LEAST_TUNED 2e9
#endif
static const double least_tuned = TT_CUDA_LEAST_TUNED; // flops

static bool is_tuned(const tt_cuda_gemm_desc &d)
{
    return !d.is_exact && 2.0 * d.batch * d.m * d.n * d.k >= least_tuned;
}

// ---- trials --------------------------------------------------------------------

enum { BLOCKS = 512, THREADS = 256 };

static unsigned blocks_for(int64_t n)
{
    const int64_t blocks = ceil_div(n, THREADS);
    return (unsigned)(blocks < BLOCKS ? blocks : (int64_t)BLOCKS);
}

static int64_t elements(const tt_cuda_matrix &x, int64_t rows, int64_t cols,
                        int64_t batch)
{
    return (rows - 1) * x.row + (cols - 1) * x.col +
           (batch > 1 ? (batch - 1) * x.batch : 0) + 1;
}

static void *noise(tt_cuda *cuda, const tt_cuda_matrix &x, int64_t n)
{
    void *p = NULL;
    if (cudaMalloc(&p, (size_t)(n * 4)) != cudaSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    fill_noise(cuda, x.type, n, p);
    return p;
}

// Operands of a product to be tried. What it writes is there twice, to compare two
// ways.
struct trial {
    tt_cuda_gemm_args args[2];
    void *blocks[12];
    int n;
    cudaEvent_t start, end;
    bool is_good;
};

static void *keep(trial *t, void *block)
{
    t->is_good = t->is_good && block != NULL;
    t->blocks[t->n] = block;
    t->n += block != NULL;
    return block;
}

static void *room_for(trial *t, int64_t bytes)
{
    void *block = NULL;
    if (cudaMalloc(&block, (size_t)(bytes > 0 ? bytes : 1)) != cudaSuccess) {
        (void)cudaGetLastError();
        block = NULL;
    }
    return keep(t, block);
}

static void end_trial(trial *t)
{
    for (int i = 0; i < t->n; i++)
        cudaFree(t->blocks[i]);
    if (t->start != NULL)
        cudaEventDestroy(t->start);
    if (t->end != NULL)
        cudaEventDestroy(t->end);
    (void)cudaGetLastError();
}

static void begin_trial(tt_cuda *cuda, const tt_cuda_gemm_desc &d, int ways,
                        int64_t scratch_bytes, trial *t)
{
    const int64_t nc = elements(d.c, d.m, d.n, d.batch);
    *t = trial();
    t->is_good = cudaEventCreate(&t->start) == cudaSuccess &&
                 cudaEventCreate(&t->end) == cudaSuccess;
    tt_cuda_gemm_args x = {};
    x.a = keep(t, noise(cuda, d.a, elements(d.a, d.m, d.k, d.batch)));
    x.b = keep(t, noise(cuda, d.b, elements(d.b, d.k, d.n, d.batch)));
    if (d.bias_type != TT_N_DTYPES) // two of 16 bits are one of f32
        x.bias = keep(t, noise(cuda, d.c, 2 * d.n));
    if (d.has_plus)
        x.plus = keep(t, noise(cuda, d.c, nc));
    if (d.has_gelu_grad)
        x.z = keep(t, noise(cuda, d.c, nc));
    if (is_tiny(d.a.type)) {
        const tt_cuda_matrix number = {TT_F32, 1, 1, 0};
        const float *both = (const float *)keep(t, noise(cuda, number, 8));
        x.a_unit = both;
        x.b_unit = both == NULL ? NULL : both + 4;
    }
    x.scratch = room_for(t, scratch_bytes);
    for (int i = 0; i < ways; i++) {
        x.c = keep(t, noise(cuda, d.c, nc));
        if (d.has_gelu)
            x.aux = keep(t, noise(cuda, d.c, nc));
        if (d.sums != TT_CUDA_NO_SUMS)
            x.sums = keep(t, noise(cuda, d.c, d.m > d.n ? d.m : d.n));
        t->args[i] = x;
    }
}

// Milliseconds; negative: it does not work.
template <typename F>
static float time_once(const trial *t, cudaStream_t stream, F run)
{
    float ms = 0;
    (void)cudaEventRecord(t->start, stream);
    if (!run())
        return -1;
    (void)cudaEventRecord(t->end, stream);
    return cudaEventSynchronize(t->end) == cudaSuccess &&
                   cudaEventElapsedTime(&ms, t->start, t->end) == cudaSuccess
               ? ms
               : -1;
}

// The best of a few, after a first run that loads the kernel.
template <typename F>
static float time_of(const trial *t, cudaStream_t stream, int trials, F run)
{
    float best = time_once(t, stream, run);
    for (int i = 0; i < trials && best >= 0; i++) {
        const float ms = time_once(t, stream, run);
        if (i == 0 || ms < best)
            best = ms;
    }
    return best;
}

static double spent; // seconds

static double now(void)
{
    return std::chrono::duration<double>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// A shape has a sixteenth of what is left to the process.
static double seconds_for_shape(void)
{
    const double share = (seconds_for_all - spent) / 16;
    return share < 0.03 ? 0.03 : share;
}

static int least(const float *ms, int n)
{
    int best = -1;
    for (int i = 0; i < n; i++)
        if (ms[i] >= 0 && (best < 0 || ms[i] < ms[best]))
            best = i;
    return best;
}

// The final: the best few are timed again in turns, so that heat is fair to all.
template <typename F> static int decide(float *ms, int n, double end, F time)
{
    int final[FINAL], n_final = 0;
    float sum[FINAL] = {0};
    for (int i = least(ms, n); i >= 0 && n_final < FINAL; i = least(ms, n)) {
        final[n_final++] = i;
        ms[i] = -1;
    }
    for (int round = 0; round < TRIALS && (round == 0 || now() < end); round++)
        for (int i = 0; i < n_final; i++) {
            const float again = sum[i] < 0 ? -1 : time(final[i]);
            sum[i] = again < 0 ? -1 : sum[i] + again;
        }
    const int best = least(sum, n_final);
    return best < 0 ? best : final[best];
}

// The fastest of n ways; -1: none of them works. Without memory for a trial, the first.
static int measure(const gemm_product *g,
                   const cublasLtMatmulHeuristicResult_t *found, int n,
                   bool *is_measured_out)
{
    trial t;
    float ms[GEMM_WAYS];
    const double start = now(), end = start + seconds_for_shape();
    begin_trial(g->cuda, g->desc, 1, gemm_workspace_bytes, &t);
    tt_cuda_gemm_args &x = t.args[0];
    x.accumulate = g->desc.adds;
    const void *bias = g->desc.sums != TT_CUDA_NO_SUMS ? x.sums : x.bias;
    const void *aux = g->desc.has_gelu_grad ? x.z : x.aux;
    const bool is_good = t.is_good && gemm_product_bind(g, bias, aux) == NULL;
    const auto run = [&](int i) {
        return gemm_multiply(g, &x, &found[i].algo, x.scratch,
                             gemm_workspace_bytes) == CUBLAS_STATUS_SUCCESS;
    };
    bool has_one = false;
    for (int i = 0; i < n && is_good; i++) {
        ms[i] = has_one && now() >= end
                    ? -1
                    : time_of(&t, g->cuda->stream, 1, [&] { return run(i); });
        has_one = has_one || ms[i] >= 0;
    }
    const int best = !is_good ? 0 : decide(ms, n, end, [&](int i) {
        return time_once(&t, g->cuda->stream, [&] { return run(i); });
    });
    end_trial(&t);
    spent += now() - start;
    *is_measured_out = is_good;
    return best;
}

// ---- what is known ---------------------------------------------------------------

// A part of each key. It is raised when our own kernels or the candidates change, so
// that what was kept before is measured again.
static const int64_t generation = 2;

static std::string key_of(const gemm_product *g, const char *what,
                          const tt_cuda_gemm_desc &d)
{
    std::vector<int64_t> k = {generation, d.batch,         d.m,    d.n,
                              d.k,        d.bias_type,     d.adds, d.has_plus,
                              d.has_gelu, d.has_gelu_grad, d.sums, d.is_fast,
                              d.is_exact};
    for (const tt_cuda_matrix *x : {&d.a, &d.b, &d.c}) {
        const int64_t own[] = {x->type, x->row, x->col, x->batch};
        k.insert(k.end(), own, own + 4);
    }
    return memo_key(g->cuda, what, cublasLtGetVersion(), k);
}

// A hash (FNV-1a) that names an algorithm, in this process and in others.
static unsigned long long name_of(const cublasLtMatmulAlgo_t &algo)
{
    unsigned long long name = 14695981039346656037ULL;
    for (const uint64_t word : algo.data)
        name = (name ^ word) * 1099511628211ULL;
    return name;
}

static std::mutex lock;
static std::map<std::string, gemm_choice> choices;
static std::map<std::string, bool> pays;

// The one that was the fastest in an earlier process, or is now.
static int fastest(const gemm_product *g, const std::string &key,
                   const cublasLtMatmulHeuristicResult_t *found, int n)
{
    unsigned long long name = 0;
    if (memo_find(g->cuda, key, &name))
        for (int i = 0; i < n; i++)
            if (name_of(found[i].algo) == name)
                return i;
    bool is_measured = false;
    const int best = measure(g, found, n, &is_measured);
    if (best >= 0 && is_measured)
        memo_keep(g->cuda, key, name_of(found[best].algo));
    return best;
}

static gemm_choice look_for(gemm_product *g, const std::string &key)
{
    const tt_cuda_gemm_desc &d = g->desc;
    cublasLtMatmulHeuristicResult_t found[GEMM_WAYS];
    const uint32_t smallest = is_tiny(d.a.type) ? 16 : is_low(d.a.type) ? 2 : 4;
    gemm_choice c = {};
    c.has_loose = gemm_suggest(g, smallest, found) > 0;
    if (c.has_loose) {
        c.loose = found[0].algo;
        c.workspace_bytes = (int64_t)found[0].workspaceSize;
    }
    int n = gemm_suggest(g, 16, found);
    if (n > 0 && is_tuned(d))
        n = gemm_suggest_more(g, found, n);
    if (n == 0)
        return c;
    // cuBLASLt suggests algorithms for 8 bits that then refuse: always try those.
    const bool is_tried = is_tiny(d.a.type) || (is_tuned(d) && n > 1);
    const int best = is_tried ? fastest(g, key, found, n) : 0;
    if (best < 0)
        return c;
    const int64_t bytes = (int64_t)found[best].workspaceSize;
    c.has_way = true;
    c.algo = found[best].algo;
    c.workspace_bytes = bytes > c.workspace_bytes ? bytes : c.workspace_bytes;
    return c;
}

bool gemm_choose(gemm_product *g)
{
    const tt_cuda_gemm_desc &d = g->desc;
    const std::string key = key_of(g, "gemm", d);
    const std::lock_guard<std::mutex> guard(lock);
    if (choices.find(key) == choices.end())
        choices[key] = look_for(g, key);
    g->chosen = choices[key];
    return g->chosen.has_way;
}

// ---- other ways ------------------------------------------------------------------

// sums[0, block] of (x - y)^2, sums[1, block] of y^2.
template <typename T>
__global__ void compare(int64_t n, const T *x, const T *y, double *sums)
{
    __shared__ double room[32];
    double apart = 0, size = 0;
    for (int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * THREADS) {
        const double u = to_float(x[i]), v = to_float(y[i]);
        apart += (u - v) * (u - v);
        size += v * v;
    }
    apart = block_sum(apart, room);
    size = block_sum(size, room);
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = apart;
        sums[BLOCKS + blockIdx.x] = size;
    }
}

template <typename T>
static void launch_compare(tt_cuda *cuda, unsigned blocks, int64_t n,
                           const void *x, const void *y, double *sums)
{
    compare<T><<<blocks, THREADS, 0, cuda->stream>>>(n, (const T *)x,
                                                     (const T *)y, sums);
}

// Whether two results differ by no more than rounding.
static bool is_same(tt_cuda *cuda, tt_dtype type, int64_t n, const void *x,
                    const void *y, void *room)
{
    double sums[2 * BLOCKS], apart = 0, size = 0;
    const unsigned blocks = blocks_for(n);
    BY_TYPE(type, launch_compare, cuda, blocks, n, x, y, (double *)room);
    if (cudaMemcpyAsync(sums, room, sizeof sums, cudaMemcpyDeviceToHost,
                        cuda->stream) != cudaSuccess ||
        cudaStreamSynchronize(cuda->stream) != cudaSuccess)
        return false;
    for (unsigned i = 0; i < blocks; i++) {
        apart += sums[i];
        size += sums[BLOCKS + i];
    }
    return apart <= 1e-4 * size; // 1% of the norm; NaN is not the same
}

static bool gives_same(tt_cuda_gemm *with, tt_cuda_gemm *plain, trial *t)
{
    const tt_cuda_gemm_desc &d = with->desc;
    tt_cuda_gemm_args *x = t->args;
    x[0].accumulate = x[1].accumulate = false;
    if (tt_cuda_gemm_run(with, &x[0]) != NULL ||
        tt_cuda_gemm_run(plain, &x[1]) != NULL)
        return false;
    const int64_t n = elements(d.c, d.m, d.n, d.batch);
    const int64_t n_sums = d.sums == TT_CUDA_SUMS_OF_B ? d.n : d.m;
    tt_cuda *cuda = with->cuda;
    return is_same(cuda, d.c.type, n, x[0].c, x[1].c, x[0].scratch) &&
           (!d.has_gelu ||
            is_same(cuda, d.c.type, n, x[0].aux, x[1].aux, x[0].scratch)) &&
           (d.sums == TT_CUDA_NO_SUMS ||
            is_same(cuda, TT_F32, n_sums, x[0].sums, x[1].sums, x[0].scratch));
}

static bool try_both(tt_cuda_gemm *with, tt_cuda_gemm *plain,
                     bool *is_tried_out)
{
    int64_t bytes = 16 * BLOCKS;
    bytes = with->scratch_bytes > bytes ? with->scratch_bytes : bytes;
    bytes = plain->scratch_bytes > bytes ? plain->scratch_bytes : bytes;
    trial t;
    begin_trial(with->cuda, with->desc, 2, bytes, &t);
    bool is_faster = false;
    if (t.is_good && gives_same(with, plain, &t)) {
        t.args[0].accumulate = t.args[1].accumulate = with->desc.adds;
        const float ms = time_of(&t, with->cuda->stream, TRIALS, [&] {
            return tt_cuda_gemm_run(with, &t.args[0]) == NULL;
        });
        const float other = time_of(&t, with->cuda->stream, TRIALS, [&] {
            return tt_cuda_gemm_run(plain, &t.args[1]) == NULL;
        });
        is_faster = ms >= 0 && (other < 0 || ms <= other);
    }
    *is_tried_out = t.is_good;
    end_trial(&t);
    return is_faster;
}

bool gemm_pays(const char *what, tt_cuda_gemm *other, tt_cuda_gemm *plain,
               bool otherwise)
{
    const std::string key = key_of(other->product, what, other->desc);
    if (!is_tuned(other->desc))
        return otherwise;
    {
        const std::lock_guard<std::mutex> guard(lock);
        const auto known = pays.find(key);
        if (known != pays.end())
            return known->second;
    }
    unsigned long long kept = 0;
    bool result = false, is_tried = false;
    if (memo_find(other->cuda, key, &kept))
        result = kept != 0;
    else
        result = try_both(other, plain, &is_tried);
    if (is_tried)
        memo_keep(other->cuda, key, result);
    const std::lock_guard<std::mutex> guard(lock);
    return pays[key] = result;
}
