// common - what the device's files share: the device itself, errors, elements of any
// type, sums over warps and blocks in a fixed order.

#ifndef TT_BACKEND_CUDA_DEV_COMMON_CUH
#define TT_BACKEND_CUDA_DEV_COMMON_CUH

extern "C" {
#include "backend/cuda/api/api.h"
}

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

typedef __nv_bfloat16 bf16;
typedef __half f16;

static inline bool is_low(tt_dtype type) // 16 bits
{
    return type == TT_BF16 || type == TT_F16;
}

static inline bool is_tiny(tt_dtype type) // 8 bits
{
    return type == TT_E4M3 || type == TT_E5M2;
}

enum { RING_SLOTS = 8, RING_BYTES = 1 << 20 };

// What kernels tell the host: not zero when an index was outside its table.
enum tt_fault { FAULT_NONE, FAULT_ID, FAULT_POSITION, FAULT_LABEL };

// Where blocks of one kernel meet; both are 0 between kernels.
struct tt_meeting {
    unsigned largest, arrived;
};

struct tt_cuda {
    int device;
    cudaStream_t stream;
    cublasLtHandle_t lt;
    void *cudnn; // made at first use; see sdpa.cu
    char *ring;  // pinned memory through which writes go
    cudaEvent_t ring_done[RING_SLOTS];
    int ring_next;
    cudaEvent_t *marks;
    int64_t n_marks;
    bool is_recording; // see record.cu
    struct optim_batch
        *optims; // updates and squares that wait for more of their
    struct squares_batch *squares; // kind, to be done in one launch
    volatile int *fault;           // in the host's memory, for kernels
    int *fault_device;
    tt_cuda_memo memo;   // of who opened it
    tt_meeting *meeting; // on the device; made at first use
    tt_cuda_info info;
    struct tt_cuda_queue *queue; // beside the stream; NULL: nobody needs it
    cudaStream_t beside[2];      // copies from and to the device; see beside.cu
    struct tt_cuda_drain *drain; // NULL: nothing was drained yet
};

// Fails while work is recorded: it would be done now, or never again.
const char *tt_cuda_no_recording(const tt_cuda *cuda);

const char *tt_cuda_record(tt_cuda *cuda);
const char *tt_cuda_recorded(tt_cuda *cuda, bool keep, tt_cuda_recording **out);
const char *tt_cuda_replay(tt_cuda *cuda, tt_cuda_recording *recording);
void tt_cuda_forget(tt_cuda *cuda, tt_cuda_recording *recording);

// Launches what waits. Whatever else is queued calls it first.
const char *tt_cuda_flush(tt_cuda *cuda);
const char *tt_cuda_flush_optims(tt_cuda *cuda);
const char *tt_cuda_flush_squares(tt_cuda *cuda);
void tt_cuda_forget_optims(tt_cuda *cuda);
void tt_cuda_forget_squares(tt_cuda *cuda);
void tt_cuda_beside_close(tt_cuda *cuda);
void tt_cuda_drain_close(tt_cuda *cuda);

// NULL, or what went wrong; the text lives until the thread's next failure.
const char *tt_cuda_failed(cudaError_t status);
const char *tt_cuda_failed_text(const char *format, ...);

#define TRY_CUDA(call)                                                         \
    do {                                                                       \
        const cudaError_t try_status = (call);                                 \
        if (try_status != cudaSuccess)                                         \
            return tt_cuda_failed(try_status);                                 \
    } while (0)

#define TRY(call)                                                              \
    do {                                                                       \
        const char *try_error = (call);                                        \
        if (try_error != NULL)                                                 \
            return try_error;                                                  \
    } while (0)

static inline const char *launched(void)
{
    const cudaError_t status = cudaGetLastError();
    return status == cudaSuccess ? NULL : tt_cuda_failed(status);
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

// ---- elements --------------------------------------------------------------

__device__ static inline float to_float(float x)
{
    return x;
}
__device__ static inline float to_float(bf16 x)
{
    return __bfloat162float(x);
}
__device__ static inline float to_float(f16 x)
{
    return __half2float(x);
}
template <typename T> __device__ static inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x)
{
    return x;
}
template <> __device__ inline bf16 from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ inline f16 from_float<f16>(float x)
{
    return __float2half_rn(x);
}

// 16 bytes of elements.
template <typename T> struct alignas(16) pack {
    enum { N = 16 / sizeof(T) };
    T v[N];
};

// Powers of 2 are what the device computes; with the factor in a product that is
// added to, an exponential takes two instructions.
static constexpr float LOG2_E = 1.44269504088896f;

__device__ static inline float power_of_2(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

// All of them at once, by fewer instructions than one after the other. The pack comes as
// a value: of a reference into memory the compiler would load byte after byte.
template <typename T>
__device__ static inline void unpack(pack<T> p, float *out)
{
#pragma unroll
    for (int k = 0; k < pack<T>::N; k++)
        out[k] = to_float(p.v[k]);
}

template <> __device__ inline void unpack<bf16>(pack<bf16> p, float *out)
{
    uint32_t pair[4];
    memcpy(pair, &p, sizeof pair);
#pragma unroll
    for (int k = 0; k < 4; k++) { // a bf16 is the upper half of a float
        const uint32_t low = pair[k] << 16, high = pair[k] & 0xffff0000u;
        memcpy(&out[2 * k], &low, 4);
        memcpy(&out[2 * k + 1], &high, 4);
    }
}

template <typename T> __device__ static inline pack<T> packed(const float *x)
{
    pack<T> p;
#pragma unroll
    for (int k = 0; k < pack<T>::N; k++)
        p.v[k] = from_float<T>(x[k]);
    return p;
}

#ifdef __CUDA_ARCH__
template <> __device__ inline pack<bf16> packed<bf16>(const float *x)
{
    pack<bf16> p;
#    pragma unroll
    for (int k = 0; k < 8; k += 2)
        *(__nv_bfloat162 *)&p.v[k] = __floats2bfloat162_rn(x[k], x[k + 1]);
    return p;
}
#endif

// Writes all of a value at once. What was put together from pieces the compiler would
// also store in pieces; a warp that stores every fourth word asks as much of the L2
// cache as one that stores all four.
template <typename S>
__device__ static inline void store_whole(void *to, const S &value)
{
#ifdef __CUDA_ARCH__
    if constexpr (sizeof value == 16) {
        uint4 w;
        memcpy(&w, &value, sizeof w);
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to),
                     "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w)
                     : "memory");
        return;
    } else if constexpr (sizeof value == 8) {
        uint2 w;
        memcpy(&w, &value, sizeof w);
        asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(w.x),
                     "r"(w.y)
                     : "memory");
        return;
    }
#endif
    *(S *)to = value;
}

// Any type, one element, as a double: for numbers and for rare conversions.
__device__ static inline double load_any(tt_dtype type, const void *p,
                                         int64_t i)
{
    switch (type) {
    case TT_F64:
        return ((const double *)p)[i];
    case TT_F32:
        return ((const float *)p)[i];
    case TT_BF16:
        return to_float(((const bf16 *)p)[i]);
    case TT_F16:
        return to_float(((const f16 *)p)[i]);
    case TT_I64:
        return (double)((const int64_t *)p)[i];
    case TT_I32:
        return ((const int32_t *)p)[i];
    default:
        return ((const uint8_t *)p)[i];
    }
}

// Integers saturate; NaN becomes 0 there, as on the host.
__device__ static inline double limit(double x, double lo, double hi)
{
    return x != x ? 0 : fmin(fmax(rint(x), lo), hi);
}

__device__ static inline void store_any(tt_dtype type, void *p, int64_t i,
                                        double x)
{
    switch (type) {
    case TT_F64:
        ((double *)p)[i] = x;
        break;
    case TT_F32:
        ((float *)p)[i] = (float)x;
        break;
    case TT_BF16:
        ((bf16 *)p)[i] = __double2bfloat16(x);
        break;
    case TT_F16:
        ((f16 *)p)[i] = __double2half(x);
        break;
    case TT_I64:
        ((int64_t *)p)[i] = x >= 9223372036854775807.0
                                ? INT64_MAX
                                : (int64_t)limit(x, -9.3e18, 9.3e18);
        break;
    case TT_I32:
        ((int32_t *)p)[i] = (int32_t)limit(x, -2147483648.0, 2147483647.0);
        break;
    default:
        ((uint8_t *)p)[i] = (uint8_t)limit(x, 0, 255);
        break;
    }
}

// ---- sums ------------------------------------------------------------------

template <typename A> __device__ static inline A warp_sum(A x)
{
    for (int k = 16; k > 0; k /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, k);
    return x;
}

__device__ static inline float warp_max(float x)
{
    for (int k = 16; k > 0; k /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, k));
    return x;
}

// The sum over a block of up to 1024 threads, in every thread; `room` has 32 entries.
template <typename A> __device__ static inline A block_sum(A x, A *room)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warps = (blockDim.x + 31) / 32;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? room[lane] : (A)0);
}

__device__ static inline float block_max(float x, float *room)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warps = (blockDim.x + 31) / 32;
    x = warp_max(x);
    __syncthreads();
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    return warp_max(lane < warps ? room[lane] : -INFINITY);
}

// ---- launching -------------------------------------------------------------

// Calls f with a pointer of the element's type.
#define BY_TYPE(type, f, ...)                                                  \
    ((type) == TT_BF16  ? f<bf16>(__VA_ARGS__)                                 \
     : (type) == TT_F16 ? f<f16>(__VA_ARGS__)                                  \
                        : f<float>(__VA_ARGS__))

static inline bool is_aligned(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

#define TT_CUDA_CALL(name, type)                                               \
    extern "C" const char *tt_cuda_##name(tt_cuda *cuda, const type *args);
TT_CUDA_LAUNCHERS(TT_CUDA_CALL)
#undef TT_CUDA_CALL

extern "C" {
const char *tt_cuda_host_alloc(tt_cuda *cuda, int64_t bytes, void **out);
void tt_cuda_host_free(tt_cuda *cuda, void *block);
const char *tt_cuda_beside_create(tt_cuda *cuda, bool is_in,
                                  tt_cuda_beside **out);
void tt_cuda_beside_destroy(tt_cuda_beside *beside);
const char *tt_cuda_beside_begin(tt_cuda *cuda, tt_cuda_beside *beside,
                                 void *to, const void *from, int64_t bytes);
const char *tt_cuda_beside_finish(tt_cuda *cuda, tt_cuda_beside *beside);
const char *tt_cuda_drain_pin(tt_cuda *cuda, void *host, int64_t n);
void tt_cuda_drain_unpin(tt_cuda *cuda, void *host);
const char *tt_cuda_drain_begin(tt_cuda *cuda);
const char *tt_cuda_drain_copy(tt_cuda *cuda, void *host, const void *from,
                               int64_t n, bool in_steps);
const char *tt_cuda_drain_end(tt_cuda *cuda);
const char *tt_cuda_drain_hold(tt_cuda *cuda);
const char *tt_cuda_drain_wait(tt_cuda *cuda);
const char *tt_cuda_lane_open(tt_cuda *cuda, int64_t bytes, tt_cuda_lane **out);
void tt_cuda_lane_close(tt_cuda_lane *lane);
const char *tt_cuda_lane_room(tt_cuda_lane *lane, void **host_out);
const char *tt_cuda_lane_send(tt_cuda_lane *lane, int64_t n);
const char *tt_cuda_lane_take(tt_cuda_lane *lane, void *to, int64_t n);
const char *tt_cuda_queue_events(tt_cuda *cuda, int64_t n);
const char *tt_cuda_queue_pin(tt_cuda *cuda, void *host, int64_t n);
void tt_cuda_queue_unpin(tt_cuda *cuda);
void tt_cuda_queue_destroy(tt_cuda *cuda);
const char *tt_cuda_queue_note(tt_cuda *cuda, bool is_wire, int64_t event);
const char *tt_cuda_queue_follow(tt_cuda *cuda, bool is_wire, int64_t event);
const char *tt_cuda_queue_is_over(tt_cuda *cuda, int64_t event, bool *over_out);
const char *tt_cuda_queue_copy(tt_cuda *cuda, bool is_wire, void *to,
                               const void *from, int64_t n);
const char *tt_cuda_queue_fill(tt_cuda *cuda, bool is_wire, void *to, int byte,
                               int64_t n);
const char *tt_cuda_queue_move(tt_cuda *cuda, bool is_wire,
                               const tt_move *move);
cudaStream_t tt_cuda_queue_stream(const tt_cuda *cuda);
const char *tt_cuda_nccl_version(int *version_out);
const char *tt_cuda_nccl_make_id(tt_cuda *cuda,
                                 unsigned char id[TT_DEVICE_COMM_ID]);
const char *tt_cuda_nccl_open(tt_cuda *cuda,
                              const unsigned char id[TT_DEVICE_COMM_ID], int n,
                              int me, tt_cuda_nccl **out);
const char *tt_cuda_nccl_is_busy(tt_cuda_nccl *nccl, bool *busy_out);
const char *tt_cuda_nccl_run(tt_cuda_nccl *nccl, const tt_device_coll *call,
                             int n);
void tt_cuda_nccl_close(tt_cuda_nccl *nccl, bool is_broken);
int64_t tt_cuda_reduce_scratch(const tt_cuda_reduce_args *args);
int64_t tt_cuda_norm_scratch(const tt_cuda_norm_args *args);
int64_t tt_cuda_embed_scratch(const tt_cuda_embed_args *args);
int64_t tt_cuda_bn_scratch(const tt_cuda_bn_args *args);
int64_t tt_cuda_route_scratch(const tt_cuda_route_args *args);
int64_t tt_cuda_topk_scratch(int64_t n);
const char *tt_cuda_fp8_pack_open(tt_cuda *cuda);
int64_t tt_cuda_fp8_pack_scratch(const tt_cuda_fp8_pack_args *args);
const char *tt_cuda_gemm_create(tt_cuda *cuda, const tt_cuda_gemm_desc *desc,
                                tt_cuda_gemm **gemm_out);
void tt_cuda_gemm_destroy(tt_cuda_gemm *gemm);
int64_t tt_cuda_gemm_scratch(const tt_cuda_gemm *gemm);
const char *tt_cuda_gemm_run(tt_cuda_gemm *gemm, const tt_cuda_gemm_args *args);
const char *tt_cuda_sdpa_create(tt_cuda *cuda,
                                const tt_cuda_attention_args *args,
                                bool is_grad, tt_cuda_sdpa **sdpa_out);
void tt_cuda_sdpa_destroy(tt_cuda_sdpa *sdpa);
int64_t tt_cuda_sdpa_scratch(const tt_cuda_sdpa *sdpa);
const char *tt_cuda_sdpa_run(tt_cuda_sdpa *sdpa,
                             const tt_cuda_attention_args *args);
const char *tt_cuda_conv_create(tt_cuda *cuda, const tt_cuda_conv_desc *desc,
                                tt_cuda_conv **conv_out);
void tt_cuda_conv_destroy(tt_cuda_conv *conv);
int64_t tt_cuda_conv_scratch(const tt_cuda_conv *conv);
const char *tt_cuda_conv_run(tt_cuda_conv *conv, const tt_cuda_conv_args *args);
}

#endif
