// narrow - numbers in 16 bits that replicas add as they are, and random entries
// (ops/codec/narrow.h, sparse.h). Bound by memory. The bits are the CPU's: conversions are
// its integer arithmetic, and every operation is rounded by itself.

#include "backend/cuda/dev/codec/packet.cuh"
#include "backend/cuda/dev/random.cuh"

enum { THREADS = 256, MOST_BLOCKS = 4096 };

__device__ static inline uint32_t to_half(float x)
{
    const uint32_t bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u;
    const uint32_t size = bits & 0x7fffffffu;
    if (size > 0x7f800000u)
        return sign | 0x7e00u;
    if (size >= 0x477ff000u) // 65520 and more
        return sign | 0x7c00u;
    if (size >= 113u << 23)
        return sign | (size + 0xfffu + (size >> 13 & 1u) - (112u << 23)) >> 13;
    // Adding 1/2 leaves units of 2^-24 at the end of the sum, rounded to even.
    const float moved = __fadd_rn(__uint_as_float(size), 0.5f);
    return sign | (__float_as_uint(moved) - 0x3f000000u);
}

// A NaN keeps its upper bits.
__device__ static inline uint32_t to_bf16(float x)
{
    const uint32_t bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

__device__ static inline float from_half(uint32_t h)
{
    const uint32_t sign = (h & 0x8000u) << 16, size = (h & 0x7fffu) << 13;
    if ((h & 0x7c00u) == 0x7c00u)
        return __uint_as_float(sign | size | 0x7f800000u);
    const float moved =
        __fmul_rn(__uint_as_float(size), __uint_as_float(239u << 23)); // 2^112
    return __uint_as_float(sign | __float_as_uint(moved));
}

__device__ static inline float from_code(bool is_half, uint32_t code)
{
    return is_half ? from_half(code) : __uint_as_float(code << 16);
}

__device__ static inline int64_t first_of_thread(void)
{
    return blockIdx.x * (int64_t)THREADS + threadIdx.x;
}

__device__ static inline int64_t all_threads(void)
{
    return gridDim.x * (int64_t)THREADS;
}

__global__ void narrow(tt_cuda_narrow_args a)
{
    const float back = __fdiv_rn(1.f, a.scale);
    for (int64_t i = first_of_thread(); i < a.n; i += all_threads()) {
        float e = a.x[i];
        if (a.residual != NULL)
            e = __fadd_rn(e, a.residual[i]);
        float v = __fmul_rn(e, a.scale);
        v = v > a.limit ? a.limit : v;
        v = v < -a.limit ? -a.limit : v;
        v = (__float_as_uint(e) & 0x7fffffffu) == 0x7f800000u ? e : v;
        const uint32_t code = a.is_half ? to_half(v) : to_bf16(v);
        a.code_out[i] = (uint16_t)code;
        if (a.residual != NULL) {
            const float sent = __fmul_rn(from_code(a.is_half, code), back);
            const float rest = __fadd_rn(e, -sent);
            a.left[i] = is_finite(rest) ? rest : 0.f;
        }
    }
}

__global__ void widen(tt_cuda_narrow_args a)
{
    const float back = __fdiv_rn(1.f, a.scale);
    for (int64_t i = first_of_thread(); i < a.n; i += all_threads())
        a.y[i] = __fmul_rn(from_code(a.is_half, a.code[i]), back);
}

static unsigned grid_of(int64_t n)
{
    const int64_t wanted = ceil_div(n, THREADS), most = MOST_BLOCKS;
    return (unsigned)(wanted < most ? wanted : most);
}

extern "C" const char *tt_cuda_narrow(tt_cuda *c, const tt_cuda_narrow_args *a)
{
    narrow<<<grid_of(a->n), THREADS, 0, c->stream>>>(*a);
    return launched();
}

extern "C" const char *tt_cuda_widen(tt_cuda *c, const tt_cuda_narrow_args *a)
{
    widen<<<grid_of(a->n), THREADS, 0, c->stream>>>(*a);
    return launched();
}

// ---- randomk ---------------------------------------------------------------

// Where part j of k begins; parts are as equal as can be.
__device__ static inline int64_t part(const tt_cuda_randomk_args &a, int64_t j)
{
    const int64_t more = a.n % a.k;
    return j * (a.n / a.k) + (j < more ? j : more);
}

__device__ static inline int64_t place_of(const tt_cuda_randomk_args &a,
                                          int64_t j, float *length_out)
{
    const uint64_t key =
        key_of(a.origin_hash, (uint64_t)*a.seed, (uint64_t)*a.step);
    const int64_t first = part(a, j), length = part(a, j + 1) - first;
    const uint64_t bits = packet_random(key, (uint32_t)j);
    *length_out = (float)length;
    return first + (int64_t)(bits * (uint64_t)length >> 32);
}

// Before anything is written: `left` may be `residual`.
__global__ void take(tt_cuda_randomk_args a)
{
    for (int64_t j = first_of_thread(); j < a.k; j += all_threads()) {
        float length;
        const int64_t at = place_of(a, j, &length);
        a.value_out[j] = a.residual != NULL ? __fadd_rn(a.x[at], a.residual[at])
                                            : __fmul_rn(a.x[at], length);
    }
}

__global__ void keep(tt_cuda_randomk_args a)
{
    for (int64_t i = first_of_thread(); i < a.n; i += all_threads()) {
        const float e = __fadd_rn(a.x[i], a.residual[i]);
        a.left[i] = is_finite(e) ? e : 0.f;
    }
}

// Writes values, or zeros where there are none, to their places.
__global__ void put(tt_cuda_randomk_args a, float *to)
{
    for (int64_t j = first_of_thread(); j < a.k; j += all_threads()) {
        float length;
        const int64_t at = place_of(a, j, &length);
        to[at] = a.value != NULL ? a.value[j] : 0.f;
    }
}

extern "C" const char *tt_cuda_randomk_take(tt_cuda *c,
                                            const tt_cuda_randomk_args *a)
{
    take<<<grid_of(a->k), THREADS, 0, c->stream>>>(*a);
    if (a->residual != NULL) {
        keep<<<grid_of(a->n), THREADS, 0, c->stream>>>(*a);
        put<<<grid_of(a->k), THREADS, 0, c->stream>>>(*a, a->left);
    }
    return launched();
}

extern "C" const char *tt_cuda_randomk_put(tt_cuda *c,
                                           const tt_cuda_randomk_args *a)
{
    TRY_CUDA(cudaMemsetAsync(a->y, 0, (size_t)a->n * sizeof *a->y, c->stream));
    put<<<grid_of(a->k), THREADS, 0, c->stream>>>(*a, a->y);
    return launched();
}
