// codec - compression of what travels between ranks: quantize (a few bits and a scale
// for each block of numbers) and onebit (signs and two means), and back.
//
// A warp has a block of numbers. quantize reads it twice: for the scale, then for the
// codes. onebit reads it once. quantize computes codes as the host does, with rounding
// after every operation, so that ranks on CPU and GPU make the same codes. The means of
// onebit are sums in another order than the host's. In memory a number is 4 or 2 bytes,
// and its code 1/8 to 1.

#include "backend/cuda/dev/random.cuh"

enum { THREADS = 256, WARPS = THREADS / 32 };

// |x| as an integer with the same order (a float's bits without the sign); NaN is
// largest.
__device__ static inline uint32_t size_of(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

__device__ static inline uint32_t warp_most(uint32_t x)
{
    for (int k = 16; k > 0; k /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, x, k);
        x = other > x ? other : x;
    }
    return x;
}

__device__ static inline int64_t whole_index(const tt_cuda_codec_args &a,
                                             int64_t i)
{
    int64_t at = 0, unit = 1;
    for (int f = a.n_factors - 1; f >= 0; f--) {
        at += (i % a.size[f] + a.origin[f]) * unit;
        i /= a.size[f];
        unit *= a.global[f];
    }
    return at;
}

// The code of element i, as the host computes it: rounded after every operation.
template <typename T>
__device__ static inline unsigned code_of(const tt_cuda_codec_args &a,
                                          uint64_t key, float scale, int64_t i)
{
    const float levels = (float)((1 << (a.bits - 1)) - 1);
    float level = 0.f;
    if (scale > 0.f && scale < INFINITY) {
        float up = 0.5f;
        if (a.seed != NULL)
            up = (float)(random_word(key, (uint64_t)whole_index(a, i)) >> 8) *
                 (1.f / 16777216.f);
        const float x = to_float(((const T *)a.x)[i]);
        const float scaled = __fmul_rn(x, __fdiv_rn(levels, scale));
        level = floorf(__fadd_rn(scaled, up));
        level = fminf(fmaxf(level, -levels), levels);
    }
    return (unsigned)(int)(level + levels + 1.f);
}

template <typename T> __global__ void quantize(tt_cuda_codec_args a)
{
    const int64_t block = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    const int64_t first = block * a.block;
    const int lane = threadIdx.x % 32;
    if (first >= a.n)
        return;
    const int64_t end = first + a.block < a.n ? first + a.block : a.n;
    uint32_t most = 0;
    for (int64_t i = first + lane; i < end; i += 32) {
        const uint32_t size = size_of(to_float(((const T *)a.x)[i]));
        most = size > most ? size : most;
    }
    const float scale = __uint_as_float(warp_most(most));
    if (lane == 0)
        a.scale_out[block] = scale;
    const uint64_t key =
        a.seed == NULL
            ? 0
            : key_of(a.origin_hash, (uint64_t)*a.seed, (uint64_t)*a.step);
    const int each = 8 / a.bits; // codes of a byte
    for (int64_t i = first + lane * each; i < end; i += 32 * each) {
        unsigned byte = code_of<T>(a, key, scale, i);
        if (each == 2 && i + 1 < end)
            byte |= code_of<T>(a, key, scale, i + 1) << 4;
        a.code_out[i / each] = (uint8_t)byte;
    }
}

template <typename T> __global__ void dequantize(tt_cuda_codec_args a)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= a.n)
        return;
    const int levels = (1 << (a.bits - 1)) - 1;
    const int code =
        a.bits == 8 ? a.code[i] : a.code[i / 2] >> (int)(i % 2 * 4) & 15;
    const float y = (float)(code - levels - 1) * a.scale[i / a.block];
    ((T *)a.y)[i] = from_float<T>(y / (float)levels);
}

template <typename T> __global__ void onebit(tt_cuda_codec_args a)
{
    const int64_t block = blockIdx.x * (int64_t)WARPS + threadIdx.x / 32;
    const int64_t first = block * a.block;
    const int lane = threadIdx.x % 32;
    if (first >= a.n)
        return;
    const int64_t end = first + a.block < a.n ? first + a.block : a.n;
    float below = 0.f, above = 0.f, n_below = 0.f;
    for (int64_t i = first + lane * 8; i < end; i += 32 * 8) {
        unsigned byte = 0;
        for (int k = 0; k < 8 && i + k < end; k++) {
            const float x = to_float(((const T *)a.x)[i + k]);
            const bool is_above = x >= 0.f;
            byte |= (unsigned)is_above << k;
            above += is_above ? x : 0.f;
            below += is_above ? 0.f : x;
            n_below += is_above ? 0.f : 1.f;
        }
        a.code_out[i / 8] = (uint8_t)byte;
    }
    below = warp_sum(below);
    above = warp_sum(above);
    n_below = warp_sum(n_below);
    const float n_above = (float)(end - first) - n_below;
    if (lane == 0) {
        a.scale_out[2 * block] = n_below > 0.f ? below / n_below : 0.f;
        a.scale_out[2 * block + 1] = n_above > 0.f ? above / n_above : 0.f;
    }
}

template <typename T> __global__ void onebit_decode(tt_cuda_codec_args a)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= a.n)
        return;
    const int side = a.code[i / 8] >> (int)(i % 8) & 1;
    ((T *)a.y)[i] = from_float<T>(a.scale[2 * (i / a.block) + side]);
}

// ---- launchers -------------------------------------------------------------

static unsigned by_block(const tt_cuda_codec_args *a)
{
    return (unsigned)ceil_div(ceil_div(a->n, a->block), WARPS);
}

static unsigned by_element(const tt_cuda_codec_args *a)
{
    return (unsigned)ceil_div(a->n, THREADS);
}

template <typename T>
static const char *launch_quantize(tt_cuda *c, const tt_cuda_codec_args *a)
{
    quantize<T><<<by_block(a), THREADS, 0, c->stream>>>(*a);
    return launched();
}

template <typename T>
static const char *launch_dequantize(tt_cuda *c, const tt_cuda_codec_args *a)
{
    dequantize<T><<<by_element(a), THREADS, 0, c->stream>>>(*a);
    return launched();
}

template <typename T>
static const char *launch_onebit(tt_cuda *c, const tt_cuda_codec_args *a)
{
    onebit<T><<<by_block(a), THREADS, 0, c->stream>>>(*a);
    return launched();
}

template <typename T>
static const char *launch_onebit_decode(tt_cuda *c, const tt_cuda_codec_args *a)
{
    onebit_decode<T><<<by_element(a), THREADS, 0, c->stream>>>(*a);
    return launched();
}

extern "C" const char *tt_cuda_quantize(tt_cuda *c, const tt_cuda_codec_args *a)
{
    return BY_TYPE(a->type, launch_quantize, c, a);
}

extern "C" const char *tt_cuda_dequantize(tt_cuda *c,
                                          const tt_cuda_codec_args *a)
{
    return BY_TYPE(a->type, launch_dequantize, c, a);
}

extern "C" const char *tt_cuda_onebit(tt_cuda *c, const tt_cuda_codec_args *a)
{
    return BY_TYPE(a->type, launch_onebit, c, a);
}

extern "C" const char *tt_cuda_onebit_decode(tt_cuda *c,
                                             const tt_cuda_codec_args *a)
{
    return BY_TYPE(a->type, launch_onebit_decode, c, a);
}
