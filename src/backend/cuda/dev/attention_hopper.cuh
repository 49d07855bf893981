// attention_hopper - what the kernels of our own for attention on compute capability 9.0
// share: heads of 64 elements as the copy engine sees them, and products of them by four
// warps. They take whole sequences of 16 bits; every head has its own keys.

#ifndef TT_BACKEND_CUDA_DEV_ATTENTION_HOPPER_CUH
#define TT_BACKEND_CUDA_DEV_ATTENTION_HOPPER_CUH

#include "backend/cuda/dev/hopper.cuh"

enum { HEAD_SIZE = 64, HEAD_ROW_BYTES = 128 };

// Heads of `len` rows, in boxes of `rows`.
static inline bool show_heads(CUtensorMap *map,
                              const tt_cuda_attention_args &a,
                              const tt_cuda_heads &x, int64_t len, int64_t rows)
{
    return tensor_map(map, {a.type,
                            x.data,
                            4,
                            {HEAD_SIZE, len, a.q_heads, a.batch},
                            {1, x.seq, x.head, x.batch},
                            {HEAD_SIZE, rows, 1, 1}});
}

// Whether sites of this form are theirs.
static inline bool hopper_heads(const tt_cuda *cuda,
                                const tt_cuda_attention_args &a)
{
    const int64_t most = (int64_t)1 << 30;
    return is_hopper(cuda) && is_low(a.type) && a.head == HEAD_SIZE &&
           a.q_heads == a.kv_heads && a.q_len == a.k_len &&
           a.q_first == a.k_first && a.q_len < most && a.batch < most;
}

// ---- products ------------------------------------------------------------------

// Of four warps, thread t has of rows 16 (t / 32) + t % 32 / 4 (+ 8) the columns
// 8 j + 2 (t % 4) (+ 1), in d[4 j ...]. Words of two neighbours in 16 bits are then what
// a product takes from registers: those of d[8 i ... 8 i + 7] for part i of k.

// d[64, 128] (+)= a[64, 16] b[128, 16]^T, both with rows along k.
#define TT_ROWS_BY_ROWS(NAME, TYPE)                                            \
    __device__ static inline void NAME(float (&d)[64], uint64_t a, uint64_t b, \
                                       int adds)                               \
    {                                                                          \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"              \
                     "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE       \
                     "." TYPE " {"                                             \
                     "%0, %1, %2, %3, %4, %5, %6, %7, "                        \
                     "%8, %9, %10, %11, %12, %13, %14, %15, "                  \
                     "%16, %17, %18, %19, %20, %21, %22, %23, "                \
                     "%24, %25, %26, %27, %28, %29, %30, %31, "                \
                     "%32, %33, %34, %35, %36, %37, %38, %39, "                \
                     "%40, %41, %42, %43, %44, %45, %46, %47, "                \
                     "%48, %49, %50, %51, %52, %53, %54, %55, "                \
                     "%56, %57, %58, %59, %60, %61, %62, %63}, "               \
                     "%64, %65, p, 1, 1, 0, 0;\n}\n"                           \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),         \
                       "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),         \
                       "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),       \
                       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),     \
                       "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),     \
                       "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),     \
                       "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),     \
                       "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),     \
                       "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),     \
                       "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),     \
                       "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),     \
                       "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),     \
                       "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),     \
                       "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),     \
                       "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),     \
                       "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])      \
                     : "l"(a), "l"(b), "r"(adds));                             \
    }

TT_ROWS_BY_ROWS(rows_by_rows, "bf16")
TT_ROWS_BY_ROWS(rows_by_rows_f16, "f16")
#undef TT_ROWS_BY_ROWS

// d[64, 64] (+)= a[64, 16] b[16, 64], a in registers, b with rows across k.
#define TT_WORDS_BY_ROWS(NAME, TYPE)                                                       \
    __device__ static inline void NAME(float (&d)[32], const uint32_t (&a)[4], uint64_t b, \
                                       int adds)                                           \
    {                                                                                      \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"                          \
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE                    \
                     "." TYPE " {"                                                         \
                     "%0, %1, %2, %3, %4, %5, %6, %7, "                                    \
                     "%8, %9, %10, %11, %12, %13, %14, %15, "                              \
                     "%16, %17, %18, %19, %20, %21, %22, %23, "                            \
                     "%24, %25, %26, %27, %28, %29, %30, %31}, "                           \
                     "{%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}\n"                         \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),                     \
                       "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),                     \
                       "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),                   \
                       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),                 \
                       "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),                 \
                       "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),                 \
                       "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),                 \
                       "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds));     \
    }

TT_WORDS_BY_ROWS(words_by_rows, "bf16")
TT_WORDS_BY_ROWS(words_by_rows_f16, "f16")
#undef TT_WORDS_BY_ROWS

// d[64, 64] (+)= a[16, 64]^T b[16, 64], both with rows across k.
#define TT_TURNED_BY_ROWS(NAME, TYPE)                                          \
    __device__ static inline void NAME(float (&d)[32], uint64_t a, uint64_t b, \
                                       int adds)                               \
    {                                                                          \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"              \
                     "wgmma.mma_async.sync.aligned.m64n64k16.f32." TYPE        \
                     "." TYPE " {"                                             \
                     "%0, %1, %2, %3, %4, %5, %6, %7, "                        \
                     "%8, %9, %10, %11, %12, %13, %14, %15, "                  \
                     "%16, %17, %18, %19, %20, %21, %22, %23, "                \
                     "%24, %25, %26, %27, %28, %29, %30, %31}, "               \
                     "%32, %33, p, 1, 1, 1, 1;\n}\n"                           \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),         \
                       "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),         \
                       "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),       \
                       "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),     \
                       "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),     \
                       "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),     \
                       "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),     \
                       "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])      \
                     : "l"(a), "l"(b), "r"(adds));                             \
    }

TT_TURNED_BY_ROWS(turned_by_rows, "bf16")
TT_TURNED_BY_ROWS(turned_by_rows_f16, "f16")
#undef TT_TURNED_BY_ROWS

template <typename T> struct low; // elements of 16 bits

template <> struct low<bf16> {
    __device__ static inline uint32_t pack(float x, float y)
    {
        uint32_t w;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(y), "f"(x));
        return w;
    }
    __device__ static inline float2 both(uint32_t w)
    {
        return {__uint_as_float(w << 16), __uint_as_float(w & 0xFFFF0000u)};
    }
    __device__ static inline void rows(float (&d)[64], uint64_t a, uint64_t b,
                                       int adds)
    {
        rows_by_rows(d, a, b, adds);
    }
    __device__ static inline void words(float (&d)[32], const uint32_t (&a)[4],
                                        uint64_t b, int adds)
    {
        words_by_rows(d, a, b, adds);
    }
    __device__ static inline void turned(float (&d)[32], uint64_t a, uint64_t b,
                                         int adds)
    {
        turned_by_rows(d, a, b, adds);
    }
};

template <> struct low<f16> {
    __device__ static inline uint32_t pack(float x, float y)
    {
        uint32_t w;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(y), "f"(x));
        return w;
    }
    __device__ static inline float2 both(uint32_t w)
    {
        return __half22float2(*(const __half2 *)&w);
    }
    __device__ static inline void rows(float (&d)[64], uint64_t a, uint64_t b,
                                       int adds)
    {
        rows_by_rows_f16(d, a, b, adds);
    }
    __device__ static inline void words(float (&d)[32], const uint32_t (&a)[4],
                                        uint64_t b, int adds)
    {
        words_by_rows_f16(d, a, b, adds);
    }
    __device__ static inline void turned(float (&d)[32], uint64_t a, uint64_t b,
                                         int adds)
    {
        turned_by_rows_f16(d, a, b, adds);
    }
};

// Results of products are not touched above this: behind a wait for them.
template <int N> __device__ static inline void hold(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

__device__ static inline float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
