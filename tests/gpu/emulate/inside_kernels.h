// inside_kernels - what kernels of the emulated device call: indices, barriers, shuffles.

#ifndef EMULATED_INSIDE_KERNELS_H
#define EMULATED_INSIDE_KERNELS_H

#include "bits.h"
#include "rounding.h"

#include <cuda_runtime.h>

#include <functional>

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated
{
typedef void body_fn(void *body);
void run(body_fn *body, void *context, dim3 grid, dim3 block,
         size_t shared_bytes);
void *shared(void); // as much as the launch asked for

// Whether work in a stream is done later; then it is queued: asked until it is done.
bool is_late(cudaStream_t stream);
void catch_up(cudaStream_t stream); // does all that is queued there
void later(cudaStream_t stream, std::function<bool()> work);

// Whether the stream records; then it keeps the work, to be done whenever that is
// launched.
bool is_recorded(cudaStream_t stream, const std::function<void()> &work);

struct shape {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
    shape(dim3 grid_, dim3 block_, size_t shared_bytes_ = 0,
          cudaStream_t stream_ = nullptr)
        : grid(grid_), block(block_), shared_bytes(shared_bytes_),
          stream(stream_)
    {
    }
};

// Does it now, or as often as what the stream records is launched.
inline void queue(cudaStream_t stream, const std::function<void()> &work)
{
    if (is_recorded(stream, work))
        return;
    if (is_late(stream))
        later(stream, [=] {
            work();
            return true;
        });
    else
        work();
}

// Arguments are what they are at the launch, however often it is done.
template <typename F, typename... A>
void launch(const F &kernel, const shape &s, A... args)
{
    queue(s.stream, [=] {
        const auto body = [&] { kernel(args...); };
        typedef decltype(body) body_type;
        run([](void *b) { (*(body_type *)b)(); }, (void *)&body, s.grid,
            s.block, s.shared_bytes);
    });
}

void tick(void); // something was done that takes time

// Gives 8 bytes to the warp and takes those of another lane.
uint64_t exchange(uint64_t mine, int lane);
unsigned ballot(bool mine);
int lane(void);

template <typename T> T shuffle(T x, int from)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof x);
    bits = exchange(bits, from);
    memcpy(&x, &bits, sizeof x);
    return x;
}
} // namespace emulated

void __syncthreads(void);
void __barrier_sync_count(unsigned id, unsigned n); // n threads meet there
void __syncwarp(unsigned mask = 0xffffffffu);
int __syncthreads_or(int x);
int __syncthreads_and(int x);

template <typename T> T __shfl_sync(unsigned, T x, int from)
{
    return emulated::shuffle(x, from & 31);
}
template <typename T> T __shfl_xor_sync(unsigned, T x, int with)
{
    return emulated::shuffle(x, emulated::lane() ^ with);
}
template <typename T> T __shfl_down_sync(unsigned, T x, int by)
{
    const int from = emulated::lane() + by;
    return emulated::shuffle(x, from < 32 ? from : emulated::lane());
}
template <typename T> T __shfl_up_sync(unsigned, T x, int by)
{
    const int from = emulated::lane() - by;
    return emulated::shuffle(x, from >= 0 ? from : emulated::lane());
}

inline unsigned __ballot_sync(unsigned, int x)
{
    return emulated::ballot(x != 0);
}
inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
inline int __ffsll(long long x)
{
    return __builtin_ffsll(x);
}
inline int __clz(int x)
{
    return x == 0 ? 32 : __builtin_clz((unsigned)x);
}
inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}

// One block at a time, one thread at a time: nothing comes in between.
template <typename T> T atomicAdd(T *p, T x)
{
    const T old = *p;
    *p += x;
    return old;
}
template <typename T> T atomicOr(T *p, T x)
{
    const T old = *p;
    *p |= x;
    return old;
}
template <typename T> T atomicMax(T *p, T x)
{
    const T old = *p;
    *p = old < x ? x : old;
    return old;
}
template <typename T> T atomicExch(T *p, T x)
{
    const T old = *p;
    *p = x;
    return old;
}
inline void __threadfence(void)
{
}

template <typename T> T __ldg(const T *p)
{
    return *p;
}
template <typename T> T __ldcs(const T *p)
{
    return *p;
}
template <typename T> void __stcs(T *p, T x)
{
    *p = x;
}
inline float __expf(float x)
{
    return expf(x);
}
inline float __logf(float x)
{
    return logf(x);
}
inline float __fdividef(float x, float y)
{
    return x / y;
}
inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
using std::isfinite;
template <typename T> T min(T a, T b)
{
    return b < a ? b : a;
}
template <typename T> T max(T a, T b)
{
    return a < b ? b : a;
}

#endif
