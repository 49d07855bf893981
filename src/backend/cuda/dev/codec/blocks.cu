// blocks - codecs in blocks (ops/codec/codes.h): scales, digits, digits in bytes, and
// back. The codes have the bits that the CPU's have.
//
// Sixteen threads have a block of numbers, because sums have sixteen chains: a thread
// adds up one of them, and shuffles join them in the order that codes.h gives. A thread
// makes whole bytes: the digits of one lie in as many parts of the block, so neighbours
// read neighbours. Every operation is rounded by itself (no fused multiply-add).
//
// Blocks of the usual length are encoded from registers: the digits of a thread's bytes
// are of its own chain where a byte holds 4 or 8 of them (encode_whole), and a largest
// number has no order (encode_powers). So each number is read once and each residual
// written once. Other blocks are read twice, the second time from the cache where it is
// large enough (encode). Bound by memory.

#include "backend/cuda/dev/codec/packet.cuh"
#include "backend/cuda/dev/random.cuh"

enum { THREADS = 256, CHAINS = 16, EACH = THREADS / CHAINS };
enum { MANTISSA = 23, TOP = 254, SPAN = 127, MINUS = 128 };

__host__ __device__ static inline constexpr int per_byte(int c)
{
    return c == TT_CUDA_ONEBIT || c == TT_CUDA_SIGN ? 8
           : c == TT_CUDA_TWOBIT                    ? 4
           : c == TT_CUDA_TERNARY                   ? 5
                                                    : 1;
}

__device__ static inline constexpr int base_of(int c)
{
    return c == TT_CUDA_ONEBIT || c == TT_CUDA_SIGN ? 2
           : c == TT_CUDA_TWOBIT                    ? 4
           : c == TT_CUDA_TERNARY                   ? 3
                                                    : 256;
}

__device__ static inline uint32_t size_of(float x)
{
    return __float_as_uint(x) & 0x7fffffffu;
}

__device__ static inline float join_chains(float x)
{
    for (int k = CHAINS / 2; k > 0; k /= 2)
        x = __fadd_rn(x, __shfl_xor_sync(0xffffffffu, x, k));
    return x;
}

template <int N = CHAINS>
__device__ static inline uint32_t join_most(uint32_t x)
{
    for (int k = N / 2; k > 0; k /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, x, k);
        x = other > x ? other : x;
    }
    return x;
}

__device__ static inline int join_count(int x)
{
    for (int k = CHAINS / 2; k > 0; k /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, k);
    return x;
}

// The scales of a block as they are sent, and the one by which digits are chosen.
struct chosen {
    float sent[2], of_digits;
};

// What one pass over a block finds.
struct found {
    uint32_t most;
    float sizes, squares, above, below;
    int n_above;
};

// One more number of a thread's chain.
template <int C> __device__ static inline void see(found &f, float e)
{
    const uint32_t size = size_of(e);
    f.most = size > f.most ? size : f.most;
    if (C == TT_CUDA_SIGN || C == TT_CUDA_TWOBIT || C == TT_CUDA_TERNARY)
        f.sizes = __fadd_rn(f.sizes, __uint_as_float(size));
    if (C == TT_CUDA_TERNARY)
        f.squares = __fadd_rn(f.squares, __fmul_rn(e, e));
    if (C == TT_CUDA_ONEBIT) {
        f.above = __fadd_rn(f.above, e >= 0.f ? e : 0.f);
        f.below = __fadd_rn(f.below, e >= 0.f ? 0.f : e);
        f.n_above += e >= 0.f;
    }
}

template <int C> __device__ static inline void join(found &f)
{
    f.most = join_most(f.most);
    if (C == TT_CUDA_SIGN || C == TT_CUDA_TWOBIT || C == TT_CUDA_TERNARY)
        f.sizes = join_chains(f.sizes);
    if (C == TT_CUDA_TERNARY)
        f.squares = join_chains(f.squares);
    if (C == TT_CUDA_ONEBIT) {
        f.above = join_chains(f.above);
        f.below = join_chains(f.below);
        f.n_above = join_count(f.n_above);
    }
}

// e = x + residual goes to `left`, if there is one.
template <int C>
__device__ static inline found look(const tt_cuda_code_args &a, int64_t from,
                                    int n, int lane)
{
    found f = {0, 0.f, 0.f, 0.f, 0.f, 0};
#pragma unroll 4
    for (int i = lane; i < n; i += CHAINS) {
        float e = a.x[from + i];
        if (a.residual != NULL) {
            e = __fadd_rn(e, a.residual[from + i]);
            a.left[from + i] = e;
        }
        see<C>(f, e);
    }
    join<C>(f);
    return f;
}

template <int C>
__device__ static inline void scales_of(const tt_cuda_code_args &a,
                                        const found &f, int n, float *scale)
{
    scale[0] = __uint_as_float(f.most);
    scale[1] = 0.f;
    if (C == TT_CUDA_NATURAL) {
        const uint32_t up = (f.most >> MANTISSA) + 1;
        scale[0] =
            is_finite(scale[0])
                ? __uint_as_float((up < TOP ? up : (uint32_t)TOP) << MANTISSA)
                : __uint_as_float(0x7fc00000u);
    } else if (C == TT_CUDA_ONEBIT) {
        scale[0] =
            f.n_above == n ? 0.f : __fdiv_rn(f.below, (float)(n - f.n_above));
        scale[1] = f.n_above == 0 ? 0.f : __fdiv_rn(f.above, (float)f.n_above);
    } else if (C == TT_CUDA_SIGN || C == TT_CUDA_TWOBIT) {
        scale[0] = __fdiv_rn(f.sizes, (float)n);
        if (C == TT_CUDA_TWOBIT && a.threshold > 0.f && is_finite(scale[0]))
            scale[0] = a.threshold;
    }
}

template <int C>
__device__ static inline int digit_of(float scale, float by, float e,
                                      uint32_t random)
{
    if (C == TT_CUDA_INT8) {
        float v = __fadd_rn(__fmul_rn(e, by), 0.5f);
        v = v >= -127.f ? v : -127.f;
        v = v <= 127.f ? v : 127.f;
        return (int)floorf(v) + 128;
    }
    if (C == TT_CUDA_ONEBIT || C == TT_CUDA_SIGN)
        return e >= 0.f;
    if (C == TT_CUDA_TWOBIT)
        return !(scale > 0.f) ? 0 : e >= scale ? 1 : e <= -scale ? 2 : 0;
    if (C == TT_CUDA_TERNARY) {
        const float u = __fmul_rn((float)(random >> 8), 1.f / 16777216.f);
        if (!(u < __fmul_rn(__uint_as_float(size_of(e)), by)))
            return 1;
        return e < 0.f ? 0 : 2;
    }
    const int top = (int)(__float_as_uint(scale) >> MANTISSA);
    const int carried = (int)((size_of(e) + (random >> 9)) >> MANTISSA);
    const int power = carried < TOP ? carried : (int)TOP;
    int digit = power - top + SPAN;
    digit = digit < 0 || power == 0 ? 0 : digit < SPAN ? digit : (int)SPAN;
    return digit + (e < 0.f ? MINUS : 0);
}

template <int C>
__device__ static inline float value_of(const float *scale, float unit,
                                        int digit)
{
    if (C == TT_CUDA_INT8)
        return __fmul_rn((float)(digit - 128), unit);
    if (C == TT_CUDA_ONEBIT)
        return digit != 0 ? scale[1] : scale[0];
    if (C == TT_CUDA_SIGN)
        return digit != 0 ? unit : -unit;
    if (C == TT_CUDA_TWOBIT)
        return __fmul_rn((float)((digit == 1) - (digit == 2)), unit);
    if (C == TT_CUDA_TERNARY)
        return __fmul_rn((float)(digit - 1), unit);
    const int power =
        (int)(__float_as_uint(unit) >> MANTISSA) + (digit & SPAN) - SPAN;
    if (!(unit > 0.f) || !is_finite(unit))
        return __uint_as_float(0x7fc00000u);
    if ((digit & SPAN) == 0 || power < 1)
        return 0.f;
    return __uint_as_float((uint32_t)power << MANTISSA |
                           (uint32_t)(digit & MINUS) << 24);
}

template <int C> __device__ static inline float unit_of(const float *scale)
{
    return C == TT_CUDA_INT8 ? __fdiv_rn(scale[0], 127.f) : scale[0];
}

__device__ static inline constexpr bool is_random(int c)
{
    return c == TT_CUDA_TERNARY || c == TT_CUDA_NATURAL;
}

template <int C>
__device__ static inline uint64_t random_key(const tt_cuda_code_args &a)
{
    return is_random(C) && a.seed != NULL
               ? key_of(a.origin_hash, (uint64_t)*a.seed, (uint64_t)*a.step)
               : 0;
}

// What the code does not say of a number.
template <int C>
__device__ static inline float rest_of(const chosen &s, float unit, float e,
                                       int digit)
{
    const float rest = __fadd_rn(e, -value_of<C>(s.sent, unit, digit));
    return is_finite(rest) ? rest : 0.f;
}

template <int C>
__device__ static inline void write_digits(const tt_cuda_code_args &a,
                                           int64_t from, int n, int lane,
                                           const chosen &s, uint8_t *bytes)
{
    const int m = (n + per_byte(C) - 1) / per_byte(C);
    const uint64_t key = random_key<C>(a);
    const float by = inverse(C == TT_CUDA_INT8 ? 127.f : 1.f, s.of_digits);
    const float unit = unit_of<C>(s.sent);
    const float *e = a.residual != NULL ? a.left + from : a.x + from;
    for (int j = lane; j < m; j += CHAINS) {
        unsigned byte = 0, weight = 1;
#pragma unroll
        for (int k = 0; k < per_byte(C); k++, weight *= base_of(C)) {
            const int i = j + k * m;
            if (i >= n)
                break;
            const float x = e[i];
            const int digit = digit_of<C>(
                s.of_digits, by, x,
                is_random(C) ? packet_random(key, (uint32_t)(from + i)) : 0);
            byte += (unsigned)digit * weight;
            if (a.residual != NULL)
                a.left[from + i] = rest_of<C>(s, unit, x, digit);
        }
        bytes[j] = (uint8_t)byte;
    }
}

// The scales of a block, once its numbers were seen.
template <int C>
__device__ static inline chosen choose(const tt_cuda_code_args &a,
                                       const found &f, int n)
{
    chosen s;
    scales_of<C>(a, f, n, s.sent);
    s.of_digits = s.sent[0];
    if (C == TT_CUDA_TERNARY && a.residual != NULL) {
        const float shrink =
            __fdiv_rn(f.squares, __fmul_rn(s.sent[0], f.sizes));
        s.sent[0] = __fmul_rn(s.sent[0], shrink < 1.f ? shrink : 1.f);
    }
    return s;
}

// Where the digits of block b lie; its scales come before all digits.
template <int C>
__device__ static inline uint8_t *digits_at(const tt_cuda_code_args &a,
                                            int64_t b)
{
    const int scales = C == TT_CUDA_ONEBIT ? 2 : 1;
    const int64_t blocks = (a.packet.n + a.block - 1) / a.block;
    const int64_t each = (a.block + per_byte(C) - 1) / per_byte(C);
    return a.out + PACKET_HEADER + 4 * scales * blocks + b * each;
}

template <int C>
__device__ static inline void write_scales(const tt_cuda_code_args &a,
                                           int64_t b, int lane, const chosen &s)
{
    const int scales = C == TT_CUDA_ONEBIT ? 2 : 1;
    float *to = (float *)(a.out + PACKET_HEADER) + scales * b;
    if (lane < scales)
        to[lane] = lane == 0 ? s.sent[0] : s.sent[1];
}

// Blocks from `first` on.
template <int C> __global__ void encode(tt_cuda_code_args a, int64_t first)
{
    const int64_t b = first + blockIdx.x * (int64_t)EACH + threadIdx.x / CHAINS;
    const int64_t from = b * a.block, left = a.packet.n - from;
    // Threads without a block take part in the shuffles of their warp.
    const int n = (int)(left < 0 ? 0 : left < a.block ? left : a.block);
    const int lane = threadIdx.x % CHAINS;
    const found f = look<C>(a, from, n, lane);
    __syncwarp();
    if (n == 0)
        return;
    const chosen s = choose<C>(a, f, n);
    write_digits<C>(a, from, n, lane, s, digits_at<C>(a, b));
    write_scales<C>(a, b, lane, s);
}

// Numbers of a usual block; 0: encode() is as good.
__host__ __device__ static inline constexpr int whole_of(int c)
{
    return c == TT_CUDA_ONEBIT || c == TT_CUDA_SIGN || c == TT_CUDA_TWOBIT
               ? 1024
           : c == TT_CUDA_NATURAL ? 4096
                                  : 0;
}

// x + residual of N numbers that lie `stride` apart. AT_ONCE of both are asked for before
// the first is used: more would leave no registers for residuals while x is held.
enum { AT_ONCE = 8 };

template <int N>
__device__ static inline void load(const tt_cuda_code_args &a, int64_t from,
                                   int stride, float *e)
{
    const bool has_residual = a.residual != NULL;
#pragma unroll
    for (int first = 0; first < N; first += AT_ONCE) {
        float residual[AT_ONCE];
#pragma unroll
        for (int t = 0; t < AT_ONCE; t++) {
            const int64_t at = from + (first + t) * stride;
            e[first + t] = a.x[at];
            residual[t] = has_residual ? a.residual[at] : 0.f;
        }
#pragma unroll
        for (int t = 0; has_residual && t < AT_ONCE; t++)
            e[first + t] = __fadd_rn(e[first + t], residual[t]);
    }
}

// The first `blocks` blocks, of whole_of(C) numbers each.
template <int C>
__global__ void encode_whole(tt_cuda_code_args a, int64_t blocks)
{
    constexpr int own = whole_of(C) / CHAINS, bytes = own / per_byte(C);
    const int64_t b = blockIdx.x * (int64_t)EACH + threadIdx.x / CHAINS;
    const int lane = threadIdx.x % CHAINS;
    // Threads without a block take part in the shuffles of their warp.
    const int64_t from = (b < blocks ? b : 0) * whole_of(C) + lane;
    float e[own];
    found f = {0, 0.f, 0.f, 0.f, 0.f, 0};
    load<own>(a, from, CHAINS, e);
#pragma unroll
    for (int t = 0; t < own; t++)
        see<C>(f, e[t]);
    join<C>(f);
    if (b >= blocks)
        return;
    const chosen s = choose<C>(a, f, whole_of(C));
    const float unit = unit_of<C>(s.sent);
    uint8_t *to = digits_at<C>(a, b) + lane;
#pragma unroll
    for (int q = 0; q < bytes; q++) {
        unsigned byte = 0, weight = 1;
#pragma unroll
        for (int k = 0; k < per_byte(C); k++, weight *= base_of(C)) {
            const int t = q + k * bytes;
            const int digit = digit_of<C>(s.of_digits, 0.f, e[t], 0);
            byte += (unsigned)digit * weight;
            if (a.residual != NULL)
                a.left[from + t * CHAINS] = rest_of<C>(s, unit, e[t], digit);
        }
        to[q * CHAINS] = (uint8_t)byte;
    }
    write_scales<C>(a, b, lane, s);
}

// Powers of two, a digit a byte: all threads have one block.
template <int C> __global__ void encode_powers(tt_cuda_code_args a)
{
    constexpr int own = whole_of(C) / THREADS;
    __shared__ uint32_t most[THREADS / 32];
    const int64_t b = blockIdx.x;
    const int64_t from = b * whole_of(C) + threadIdx.x;
    float e[own];
    found f = {0, 0.f, 0.f, 0.f, 0.f, 0};
    load<own>(a, from, THREADS, e);
#pragma unroll
    for (int t = 0; t < own; t++)
        see<C>(f, e[t]);
    f.most = join_most<32>(f.most);
    if (threadIdx.x % 32 == 0)
        most[threadIdx.x / 32] = f.most;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < THREADS / 32; w++)
        f.most = most[w] > f.most ? most[w] : f.most;
    const chosen s = choose<C>(a, f, whole_of(C));
    const uint64_t key = random_key<C>(a);
    const float unit = unit_of<C>(s.sent);
    uint8_t *to = digits_at<C>(a, b) + threadIdx.x;
#pragma unroll
    for (int t = 0; t < own; t++) {
        const int64_t i = from + t * THREADS;
        const int digit = digit_of<C>(s.of_digits, 0.f, e[t],
                                      packet_random(key, (uint32_t)i));
        to[t * THREADS] = (uint8_t)digit;
        if (a.residual != NULL)
            a.left[i] = rest_of<C>(s, unit, e[t], digit);
    }
    write_scales<C>(a, b, threadIdx.x, s);
}

// The sum of what the packets stand for; of signs, what most of them say times the sum
// of the scales.
template <int C> __global__ void add(tt_cuda_code_sum_args a)
{
    const int scales = C == TT_CUDA_ONEBIT ? 2 : 1;
    const int64_t blocks = (a.packet.n + a.block - 1) / a.block;
    const int64_t b = blockIdx.x * (int64_t)EACH + threadIdx.x / CHAINS;
    const int64_t from = b * a.block, left = a.packet.n - from;
    const int n = (int)(left < a.block ? left : a.block);
    const int64_t each = (a.block + per_byte(C) - 1) / per_byte(C);
    if (left <= 0)
        return;
    const int m = (n + per_byte(C) - 1) / per_byte(C);
    for (int j = threadIdx.x % CHAINS; j < m; j += CHAINS) {
        float sum[per_byte(C)];
        int votes[per_byte(C)];
        for (int64_t r = 0; r < a.peers; r++) {
            const uint8_t *body =
                a.packets + r * a.packet.capacity + PACKET_HEADER;
            float scale[2];
            scale[0] = ((const float *)body)[scales * b];
            scale[1] =
                scales == 2 ? ((const float *)body)[scales * b + 1] : 0.f;
            if (C == TT_CUDA_SIGN)
                scale[0] = __uint_as_float(size_of(scale[0]));
            const float unit = unit_of<C>(scale);
            unsigned byte = body[4 * scales * blocks + b * each + j];
#pragma unroll
            for (int k = 0; k < per_byte(C); k++, byte /= base_of(C)) {
                const int digit = (int)(byte % base_of(C));
                const float v =
                    C == TT_CUDA_SIGN ? unit : value_of<C>(scale, unit, digit);
                sum[k] = r == 0 ? v : __fadd_rn(sum[k], v);
                votes[k] = (r == 0 ? 0 : votes[k]) + 2 * digit - 1;
            }
        }
#pragma unroll
        for (int k = 0; k < per_byte(C); k++) {
            const float sign = (float)((votes[k] > 0) - (votes[k] < 0));
            if (j + k * m < n)
                a.y[from + j + k * m] =
                    C == TT_CUDA_SIGN ? __fmul_rn(sum[k], sign) : sum[k];
        }
    }
}

// The same of codes with a byte for each number, four numbers a thread. Blocks are a
// multiple of four numbers, so only the last one can end within four.
template <int C> __global__ void add_four(tt_cuda_code_sum_args a)
{
    const int64_t blocks = (a.packet.n + a.block - 1) / a.block;
    const int64_t i = 4 * (blockIdx.x * (int64_t)THREADS + threadIdx.x);
    if (i >= a.packet.n)
        return;
    const int64_t b = i / a.block;
    float sum[4];
    for (int64_t r = 0; r < a.peers; r++) {
        const uint8_t *body = a.packets + r * a.packet.capacity + PACKET_HEADER;
        const float scale = ((const float *)body)[b];
        const float unit = unit_of<C>(&scale);
        // A code ends where its numbers do, but packets have room to the next 8 bytes.
        const uint32_t four = *(const uint32_t *)(body + 4 * blocks + i);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const float v =
                value_of<C>(&scale, unit, (int)(four >> 8 * k & 0xffu));
            sum[k] = r == 0 ? v : __fadd_rn(sum[k], v);
        }
    }
    if (i + 4 <= a.packet.n) {
        *(float4 *)(a.y + i) = {sum[0], sum[1], sum[2], sum[3]};
        return;
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (i + k < a.packet.n)
            a.y[i + k] = sum[k];
}

// ---- launchers -------------------------------------------------------------

static unsigned grid_of(int64_t blocks)
{
    return (unsigned)ceil_div(blocks, EACH);
}

// The blocks that are encoded from registers.
template <int C>
static int64_t launch_whole(tt_cuda *c, const tt_cuda_code_args *a)
{
    int64_t whole = 0;
    if constexpr (whole_of(C) > 0) {
        whole = a->block == whole_of(C) ? a->packet.n / whole_of(C) : 0;
        if constexpr (C == TT_CUDA_NATURAL) {
            if (whole > 0)
                encode_powers<C>
                    <<<(unsigned)whole, THREADS, 0, c->stream>>>(*a);
        } else if (whole > 0) {
            encode_whole<C>
                <<<grid_of(whole), THREADS, 0, c->stream>>>(*a, whole);
        }
    }
    return whole;
}

template <int C>
static const char *launch_encode(tt_cuda *c, const tt_cuda_code_args *a)
{
    const int64_t first = launch_whole<C>(c, a);
    const int64_t rest = ceil_div(a->packet.n, a->block) - first;
    if (rest > 0)
        encode<C><<<grid_of(rest), THREADS, 0, c->stream>>>(*a, first);
    TRY(launched());
    return tt_cuda_packet_close(c, &a->packet, NULL, a->out,
                                (uint32_t *)a->scratch);
}

template <int C>
static const char *launch_sum(tt_cuda *c, const tt_cuda_code_sum_args *a)
{
    TRY(tt_cuda_packet_open(c, &a->packet, a->peers, a->packets,
                            (uint32_t *)a->scratch));
    const bool is_aligned = a->block % 4 == 0 && (uintptr_t)a->y % 16 == 0 &&
                            (uintptr_t)a->packets % 4 == 0;
    if constexpr (per_byte(C) == 1)
        if (is_aligned) {
            add_four<C><<<(unsigned)ceil_div(ceil_div(a->packet.n, 4), THREADS),
                          THREADS, 0, c->stream>>>(*a);
            return launched();
        }
    const int64_t blocks = ceil_div(a->packet.n, a->block);
    add<C><<<grid_of(blocks), THREADS, 0, c->stream>>>(*a);
    return launched();
}

#define BY_CODE(code, f, ...)                                                  \
    ((code) == TT_CUDA_INT8      ? f<TT_CUDA_INT8>(__VA_ARGS__)                \
     : (code) == TT_CUDA_ONEBIT  ? f<TT_CUDA_ONEBIT>(__VA_ARGS__)              \
     : (code) == TT_CUDA_SIGN    ? f<TT_CUDA_SIGN>(__VA_ARGS__)                \
     : (code) == TT_CUDA_TWOBIT  ? f<TT_CUDA_TWOBIT>(__VA_ARGS__)              \
     : (code) == TT_CUDA_TERNARY ? f<TT_CUDA_TERNARY>(__VA_ARGS__)             \
                                 : f<TT_CUDA_NATURAL>(__VA_ARGS__))

extern "C" const char *tt_cuda_code_encode(tt_cuda *c,
                                           const tt_cuda_code_args *a)
{
    return BY_CODE(a->code, launch_encode, c, a);
}

extern "C" const char *tt_cuda_code_sum(tt_cuda *c,
                                        const tt_cuda_code_sum_args *a)
{
    return BY_CODE(a->code, launch_sum, c, a);
}
