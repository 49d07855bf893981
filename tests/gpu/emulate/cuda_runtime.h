// cuda_runtime - as much of CUDA as the plug-in's files use, for a device that is
// emulated on the host: every kernel is run for real, thread by thread, so that the
// laws can look at it on machines without a GPU. It knows barriers and shuffles and
// ends the program when threads wait for each other in vain.

#ifndef EMULATED_CUDA_RUNTIME_H
#define EMULATED_CUDA_RUNTIME_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define __global__ static
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static // blocks run one after the other
#define __restrict__
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)
        : x(x_), y(y_), z(z_)
    {
    }
};
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };

typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;

typedef enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorMemoryAllocation = 2,
} cudaError_t;
enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
};
enum {
    cudaStreamNonBlocking = 1,
    cudaEventDisableTiming = 2,
    cudaHostAllocMapped = 2,
};

struct cudaDeviceProp {
    char name[256];
    int major, minor, multiProcessorCount;
};

cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t status);
const char *cudaGetErrorName(cudaError_t status);

cudaError_t cudaMalloc(void **out, size_t bytes);
template <typename T> cudaError_t cudaMalloc(T **out, size_t bytes)
{
    return cudaMalloc((void **)out, bytes);
}
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags);
template <typename T> cudaError_t cudaMallocHost(T **out, size_t bytes)
{
    return cudaHostAlloc((void **)out, bytes, 0);
}
cudaError_t cudaHostGetDevicePointer(void **out, void *host, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemsetAsync(void *p, int byte, size_t n, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n,
                            cudaMemcpyKind kind, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);

// ---- inside kernels ----------------------------------------------------------

extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated
{
typedef void body_fn(void *body);
void run(body_fn *body, void *context, dim3 grid, dim3 block);

template <typename F>
void launch(const F &f, dim3 grid, dim3 block, size_t shared_bytes = 0,
            cudaStream_t stream = nullptr)
{
    (void)shared_bytes;
    (void)stream;
    run([](void *body) { (*(const F *)body)(); }, (void *)&f, grid, block);
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

inline unsigned __ballot_sync(unsigned, int x)
{
    return emulated::ballot(x != 0);
}
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }

// One block at a time, one thread at a time: nothing comes in between.
template <typename T> T atomicAdd(T *p, T x)
{
    const T old = *p;
    *p += x;
    return old;
}
inline void __threadfence(void) {}

template <typename T> T __ldg(const T *p) { return *p; }
template <typename T> T __ldcs(const T *p) { return *p; }
template <typename T> void __stcs(T *p, T x) { *p = x; }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline int __float_as_int(float x)
{
    int y;
    memcpy(&y, &x, sizeof y);
    return y;
}
using std::isfinite;
template <typename T> T min(T a, T b) { return b < a ? b : a; }
template <typename T> T max(T a, T b) { return a < b ? b : a; }

#endif
