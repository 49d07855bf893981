// hopper_products - WGMMA: d (+)= a b by a warpgroup (four warps), operands of 16 bits,
// sums in f32, 16 of k at a time. In d[4 j ...] thread t has columns 8 j + 2 (t % 4)
// and the next one, of row 16 (t / 32) + t % 32 / 4 and of the row 8 further.
//
// Two neighbours of d packed into one word are what WGMMA takes as its operand a from
// registers: d[8 i ... 8 i + 7] is part i of k. So attention can feed the weights it
// has computed into the next product without a trip through shared memory.

#ifndef TT_BACKEND_CUDA_DEV_HOPPER_PRODUCTS_CUH
#define TT_BACKEND_CUDA_DEV_HOPPER_PRODUCTS_CUH

#include "backend/cuda/dev/hopper.cuh"

#include <type_traits>

// ---- elements of 16 bits, two in a word --------------------------------------------

template <typename T> struct low;

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
};

// ---- products ------------------------------------------------------------------

// Matrix descriptor of an operand whose rows lie along k ("K-major"), 64 elements each.
// 8 rows are 1024 bytes. The next 16 of k are 32 bytes further: add 2 to the
// descriptor.
__device__ static inline uint64_t along_k(uint32_t at)
{
    return (uint64_t)((at & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 |
           1ull << 62;
}

// Matrix descriptor of an operand whose rows lie along m or n ("MN-major"), 64 elements
// each. 8 of k are 1024 bytes; the next 64 of m or n are `apart` bytes further.
__device__ static inline uint64_t across_k(uint32_t at, uint32_t apart)
{
    return (uint64_t)((at & 0x3FFFF) >> 4) | (uint64_t)(apart >> 4) << 16 |
           64ull << 32 | 1ull << 62;
}

__device__ static inline void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ static inline void products_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most the last N committed groups are still in flight.
template <int N> __device__ static inline void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// ---- operands of assembly ----------------------------------------------------------

#define TT_NAMES_32                                                            \
    "%0, %1, %2, %3, %4, %5, %6, %7, "                                         \
    "%8, %9, %10, %11, %12, %13, %14, %15, "                                   \
    "%16, %17, %18, %19, %20, %21, %22, %23, "                                 \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define TT_NAMES_64                                                            \
    TT_NAMES_32 ", "                                                           \
                "%32, %33, %34, %35, %36, %37, %38, %39, "                     \
                "%40, %41, %42, %43, %44, %45, %46, %47, "                     \
                "%48, %49, %50, %51, %52, %53, %54, %55, "                     \
                "%56, %57, %58, %59, %60, %61, %62, %63"
#define TT_NAMES_128                                                           \
    TT_NAMES_64 ", "                                                           \
                "%64, %65, %66, %67, %68, %69, %70, %71, "                     \
                "%72, %73, %74, %75, %76, %77, %78, %79, "                     \
                "%80, %81, %82, %83, %84, %85, %86, %87, "                     \
                "%88, %89, %90, %91, %92, %93, %94, %95, "                     \
                "%96, %97, %98, %99, %100, %101, %102, %103, "                 \
                "%104, %105, %106, %107, %108, %109, %110, %111, "             \
                "%112, %113, %114, %115, %116, %117, %118, %119, "             \
                "%120, %121, %122, %123, %124, %125, %126, %127"

#define TT_FLOATS_4(d, i)                                                      \
    "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define TT_FLOATS_16(d, i)                                                     \
    TT_FLOATS_4(d, i), TT_FLOATS_4(d, (i) + 4), TT_FLOATS_4(d, (i) + 8),       \
        TT_FLOATS_4(d, (i) + 12)
#define TT_FLOATS_32(d, i) TT_FLOATS_16(d, i), TT_FLOATS_16(d, (i) + 16)
#define TT_FLOATS_64(d, i) TT_FLOATS_32(d, i), TT_FLOATS_32(d, (i) + 32)
#define TT_FLOATS_128(d, i) TT_FLOATS_64(d, i), TT_FLOATS_64(d, (i) + 64)

// One WGMMA of N columns. A, B, ADDS: names of the asm operands that follow the sums.
#define TT_PRODUCT(N, TYPE, NAMES, A, B, ADDS, TURNS)                          \
    "{\n.reg .pred p;\nsetp.ne.b32 p, " ADDS ", 0;\n"                          \
    "wgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE " {" NAMES  \
    "}, " A ", " B ", p, 1, 1, " TURNS ";\n}\n"

template <typename T>
static constexpr bool is_bf16 = std::is_same<T, bf16>::value;

// TT_RUN of the name of T.
#define TT_RUN_TYPE(T)                                                         \
    do {                                                                       \
        if (is_bf16<T>)                                                        \
            TT_RUN("bf16");                                                    \
        else                                                                   \
            TT_RUN("f16");                                                     \
    } while (0)

// ---- products ----------------------------------------------------------------------

// a[64, 16] b[16, 256], with rows across k (1) or along k (0).
template <typename T, int ACROSS_A, int ACROSS_B>
__device__ static inline void wide_product(float (&d)[128], uint64_t a,
                                           uint64_t b, int adds)
{
#define TT_RUN(TYPE)                                                           \
    asm volatile(TT_PRODUCT("256", TYPE, TT_NAMES_128, "%128", "%129", "%130", \
                            "%131, %132")                                      \
                 : TT_FLOATS_128(d, 0)                                         \
                 : "l"(a), "l"(b), "r"(adds), "n"(ACROSS_A), "n"(ACROSS_B))
    TT_RUN_TYPE(T);
#undef TT_RUN
}

// a[64, 16] b[128, 16]^T, both with rows along k.
template <typename T>
__device__ static inline void rows_by_rows(float (&d)[64], uint64_t a,
                                           uint64_t b, int adds)
{
#define TT_RUN(TYPE)                                                           \
    asm volatile(                                                              \
        TT_PRODUCT("128", TYPE, TT_NAMES_64, "%64", "%65", "%66", "0, 0")      \
        : TT_FLOATS_64(d, 0)                                                   \
        : "l"(a), "l"(b), "r"(adds))
    TT_RUN_TYPE(T);
#undef TT_RUN
}

// a[64, 16] b[16, 64], a in registers, b with rows across k.
template <typename T>
__device__ static inline void
words_by_rows(float (&d)[32], const uint32_t (&a)[4], uint64_t b, int adds)
{
#define TT_RUN(TYPE)                                                           \
    asm volatile(TT_PRODUCT("64", TYPE, TT_NAMES_32, "{%32, %33, %34, %35}",   \
                            "%36", "%37", "1")                                 \
                 : TT_FLOATS_32(d, 0)                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),         \
                   "r"(adds))
    TT_RUN_TYPE(T);
#undef TT_RUN
}

// a[16, 64]^T b[16, 64], both with rows across k.
template <typename T>
__device__ static inline void turned_by_rows(float (&d)[32], uint64_t a,
                                             uint64_t b, int adds)
{
#define TT_RUN(TYPE)                                                           \
    asm volatile(                                                              \
        TT_PRODUCT("64", TYPE, TT_NAMES_32, "%32", "%33", "%34", "1, 1")       \
        : TT_FLOATS_32(d, 0)                                                   \
        : "l"(a), "l"(b), "r"(adds))
    TT_RUN_TYPE(T);
#undef TT_RUN
}

#endif
