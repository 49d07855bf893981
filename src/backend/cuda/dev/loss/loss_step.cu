// loss_step - cross-entropy of a training step: loss, hits and the gradient in one pass
// over the logits.
//
// The problem: the gradient of an entry needs the sum of exponentials over its whole
// row. So a row is read twice, and GPT-2's rows (50,257 entries, 100 KB) leave the
// caches in between when all SMs work on rows.
//
// The idea: the row waits in shared memory. 100 KB leave room for two blocks on an SM.
// A block is persistent and goes from row to row:
//
//   sum of part 0 | sum of part 1 | gradient of part 0, part 1      of row r
//                                   copy of part 0, part 1          of row r + 1
//
// A thread reads only what it has copied itself (cp.async), so copies need no barrier.
// As soon as it has written the gradient of a pack it copies the next row's pack into
// its place, so something is always in flight. A row has two parts: the sum of the
// first begins while the second is still on its way.
//
// Costs: bound by reading and writing the logits once. 85% of a copy's rate for 65536
// rows of 50257 within a step on an H200; 3.59 ms where a kernel that only moves the
// rows takes 3.29, and one block for each row 4.26.
//
// Tried: 384, 640, 768 or 1024 threads, three or more parts (3.6 to 4.0 ms); a part of
// the exponentials by polynomials (4.2: it is short of instructions, not of the special
// function unit). What helped: no branches around a pack (3.78 to 3.62), maxima by
// pairs.

#include "backend/cuda/dev/loss/loss.cuh"

#include <cuda_pipeline.h>

// ---- rows of any length ------------------------------------------------------------

template <typename T>
__global__ void cross_entropy_step(tt_cuda_loss_args a, bool wide, int *fault)
{
    __shared__ exponentials room[32];
    __shared__ float sums[32];
    const int64_t r = blockIdx.x, label = a.labels[r];
    const T *row = (const T *)a.logits + r * a.row_stride;
    const exponentials e = join(sum_row(row, a.n, wide), room);
    const float lse = e.top + logf(e.sum);
    const float sum = a.smoothing == 0 ? 0.f : plain_sum(row, a.n, wide, sums);
    float *term = (float *)a.scratch;
    if (threadIdx.x == 0)
        term[r] = row_loss(a, row, label, lse, sum, fault);
    const bool is_hit = is_correct(a, row, label, e.top);
    if (threadIdx.x == 0)
        term[a.rows + r] = is_hit ? 1.f : 0.f;
    row_grad(a, row, {label, lse, a.dsum == NULL ? 1.f : *a.dsum}, wide,
             (T *)a.dlogits + r * a.row_stride);
}

// ---- rows that fit into shared memory ----------------------------------------------

// The largest row that lets two blocks fit on an SM, and the parts of a row.
enum { MOST_HELD = 111 << 10, PARTS = 2 };

template <typename T> static int64_t held_bytes(const tt_cuda_loss_args *a)
{
    return ceil_div(a->n, pack<T>::N) * 16;
}

// The thread's packs of a row: f(index) for those of a part.
template <typename F>
__device__ static inline void each_pack(int packs, int part, F f)
{
    const int threads = blockDim.x, full = packs / threads, per = full / PARTS;
    const bool is_last = part == PARTS - 1;
    const int first = part * per, end = is_last ? full : first + per;
#pragma unroll 2
    for (int j = first; j < end; j++)
        f(j * threads + (int)threadIdx.x);
    const int rest = full * threads + (int)threadIdx.x;
    if (is_last && rest < packs)
        f(rest);
}

template <typename T> struct held_row {
    typedef pack<T> P;
    uint4 *held;
    int n, packs;
    int odd; // the thread's element after the packs, if there is one

    __device__ held_row(uint4 *room, int64_t n_all)
        : held(room), n((int)n_all), packs((int)n_all / P::N),
          odd((int)n_all / P::N * P::N + (int)threadIdx.x)
    {
    }

    __device__ const T *data(void) const
    {
        return (const T *)held;
    }

    __device__ void copy(const T *row, int k) const
    {
        __pipeline_memcpy_async(held + k, row + k * P::N, sizeof(P));
    }

    __device__ void begin(const T *row) const
    {
        for (int part = 0; part < PARTS; part++) {
            each_pack(packs, part, [&](int k) { copy(row, k); });
            __pipeline_commit();
        }
    }

    __device__ exponentials sum(const T *row) const
    {
        exponentials e = {-INFINITY, 0};
        if (odd < n)
            ((T *)held)[odd] = row[odd];
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            __pipeline_wait_prior(PARTS - 1 - part);
            each_pack(packs, part,
                      [&](int k) { add_pack(&e, *(const P *)(held + k)); });
        }
        if (odd < n)
            add(&e, to_float(data()[odd]));
        return e;
    }

    // to[i] = f(row[i]); each pack's place then takes the copy of the next row's.
    template <typename F> __device__ void map(const T *next, T *to, F f) const
    {
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            each_pack(packs, part, [&](int k) {
                float x[P::N];
                unpack(*(const P *)(held + k), x);
#pragma unroll
                for (int i = 0; i < P::N; i++)
                    x[i] = f(x[i]);
                store_whole(to + k * P::N, packed<T>(x));
                if (next != NULL)
                    copy(next, k);
            });
            __pipeline_commit();
        }
        if (odd < n)
            to[odd] = from_float<T>(f(to_float(data()[odd])));
    }

    __device__ bool owns(int64_t column) const
    {
        const int64_t whole = packs * (int64_t)P::N;
        const int64_t turn = column < whole ? column / P::N : column - whole;
        return column >= 0 && column < n && turn % blockDim.x == threadIdx.x;
    }
};

template <typename T>
__global__ void __launch_bounds__(THREADS, 2)
    cross_entropy_step_held(tt_cuda_loss_args a, int *fault)
{
    extern __shared__ uint4 room_of_row[];
    __shared__ exponentials room[32];
    __shared__ float sums[32];
    const held_row<T> held(room_of_row, a.n);
    const T *logits = (const T *)a.logits, *row = held.data();
    float *term = (float *)a.scratch;
    const float by = a.dsum == NULL ? 1.f : *a.dsum;
    const float even = by * (float)(a.smoothing / (double)a.vocab);
    held.begin(logits + blockIdx.x * a.row_stride);
    for (int64_t r = blockIdx.x; r < a.rows; r += gridDim.x) {
        const int64_t label = a.labels[r], column = label - a.first;
        const exponentials e = join(held.sum(logits + r * a.row_stride), room);
        const float lse = e.top + logf(e.sum), base = lse * LOG2_E;
        const float sum =
            a.smoothing == 0 ? 0.f : plain_sum(row, a.n, true, sums);
        const float hit =
            to_float(row[column >= 0 && column < a.n ? column : 0]);
        if (threadIdx.x == 0)
            term[r] = row_loss(a, row, label, lse, sum, fault);
        const bool is_hit = is_correct(a, row, label, e.top); // all meet here
        if (threadIdx.x == 0)
            term[a.rows + r] = is_hit ? 1.f : 0.f;
        const auto grad = [&](float x) {
            return label == a.ignore
                       ? 0.f
                       : by * power_of_2(x * LOG2_E - base) - even;
        };
        const int64_t next = r + gridDim.x;
        T *to = (T *)a.dlogits + r * a.row_stride;
        held.map(next < a.rows ? logits + next * a.row_stride : NULL, to, grad);
        if (label != a.ignore && held.owns(column))
            to[column] =
                from_float<T>(grad(hit) - by * (float)(1 - a.smoothing));
    }
}

// Several packs for each thread, of a long row.
static int threads_held(int64_t n)
{
    int threads = 32;
    while (threads < THREADS && threads * 32 < n)
        threads *= 2;
    return threads;
}

// Where a block cannot have that much, on smaller devices, rows stay in memory.
template <typename T> static bool can_hold(const tt_cuda_loss_args *a)
{
    const int64_t bytes = held_bytes<T>(a);
    if (!is_wide<T>(a) || bytes > MOST_HELD)
        return false;
    if (cudaFuncSetAttribute(cross_entropy_step_held<T>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)bytes) == cudaSuccess)
        return true;
    (void)cudaGetLastError();
    return false;
}

template <typename T>
static const char *step_held(tt_cuda *cuda, const tt_cuda_loss_args *a)
{
    const int64_t bytes = held_bytes<T>(a), threads = threads_held(a->n);
    const int64_t by_threads = 2 * THREADS / threads;
    const int64_t by_bytes = 2 * (MOST_HELD + 1024) / (bytes + 1024);
    const int64_t most =
        cuda->info.cores * (by_bytes < by_threads ? by_bytes : by_threads);
    cross_entropy_step_held<T>
        <<<(unsigned)(a->rows < most ? a->rows : most), (unsigned)threads,
           (size_t)bytes, cuda->stream>>>(*a, cuda->fault_device);
    return launched();
}

template <typename T>
static const char *cross_entropy_step_type(tt_cuda *cuda,
                                           const tt_cuda_loss_args *a)
{
    const int threads = threads_for(a->n);
    if (can_hold<T>(a)) {
        TRY(step_held<T>(cuda, a));
    } else {
        cross_entropy_step<T>
            <<<(unsigned)a->rows, threads == THREADS ? 2 * THREADS : threads, 0,
               cuda->stream>>>(*a, is_wide<T>(a), cuda->fault_device);
        TRY(launched());
    }
    return loss_join_rows(cuda, a);
}

extern "C" const char *tt_cuda_cross_entropy_step(tt_cuda *cuda,
                                                  const tt_cuda_loss_args *args)
{
    return BY_TYPE(args->type, cross_entropy_step_type, cuda, args);
}
