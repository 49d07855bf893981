// hopper - what compute capability 9.0 alone has: barriers in shared memory that count
// bytes, copies of boxes of a tensor by the copy engine, products by groups of four
// warps with operands in shared memory. Everything in shared memory has rows of 128
// bytes whose 16-byte parts are permuted (part ^ row % 8), as the copy engine writes
// them and the products read them; rows of 64 bytes are copied too (part ^ row / 2 % 4).

#ifndef TT_BACKEND_CUDA_DEV_HOPPER_CUH
#define TT_BACKEND_CUDA_DEV_HOPPER_CUH

#include "backend/cuda/dev/common.cuh"

#include <cuda.h>

// ---- barriers ------------------------------------------------------------------

__device__ static inline void bar_init(uint32_t bar, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar),
                 "r"(arrivals)
                 : "memory");
}

// So that the copy engine sees them.
__device__ static inline void bars_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and wants that many bytes more.
__device__ static inline void bar_expect(uint32_t bar, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(
                     bar),
                 "r"(bytes)
                 : "memory");
}

__device__ static inline void bar_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar)
                 : "memory");
}

__device__ static inline void bar_wait(uint32_t bar, int parity)
{
    int is_done = 0;
    while (!is_done)
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                     "selp.b32 %0, 1, 0, p;\n}"
                     : "=r"(is_done)
                     : "r"(bar), "r"(parity)
                     : "memory");
}

// ---- the copy engine -----------------------------------------------------------

__device__ static inline void load_box(uint32_t to, const CUtensorMap *map,
                                       int x, int y, uint32_t bar)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
                 "complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
                 "l"(map), "r"(x), "r"(y), "r"(bar)
                 : "memory");
}

// Four dimensions: an element of a row, a row, a head, a sequence of the batch.
__device__ static inline void load_head(uint32_t to, const CUtensorMap *map,
                                        int row, int head, int batch,
                                        uint32_t bar)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::"
                 "complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
                     to),
                 "l"(map), "r"(0), "r"(row), "r"(head), "r"(batch), "r"(bar)
                 : "memory");
}

// Bytes that lie side by side; addresses and their number are multiples of 16.
__device__ static inline void load_bytes(uint32_t to, const void *from,
                                         int bytes, uint32_t bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::"
                 "complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}

// Rows of a head in shared memory back into it; what lies beyond it is left out.
__device__ static inline void store_head(const CUtensorMap *map, int row,
                                         int head, int batch, uint32_t from)
{
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group "
                 "[%0, {%1, %2, %3, %4}], [%5];\n"
                 "cp.async.bulk.commit_group;" ::"l"(map),
                 "r"(0), "r"(row), "r"(head), "r"(batch), "r"(from)
                 : "memory");
}

__device__ static inline void store_box(const CUtensorMap *map, int x, int y,
                                        uint32_t from)
{
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
                 "[%0, {%1, %2}], [%3];\n"
                 "cp.async.bulk.commit_group;" ::"l"(map),
                 "r"(x), "r"(y), "r"(from)
                 : "memory");
}

// Shared memory of all that this thread had stored may be written again.
__device__ static inline void heads_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ static inline void heads_written()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// What this thread wrote into shared memory is there for products and copies, once
// those who wait for it have met this thread at a barrier.
__device__ static inline void shared_written()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// How a tensor of 16 bits lies in memory; dim[0] is contiguous. What a box has beyond
// the tensor reads as 0.
struct tensor_view {
    tt_dtype type;
    const void *data; // at a multiple of 16
    int rank;
    int64_t dim[4], stride[4], box[4]; // strides in elements, multiples of 8; [0] is 1
};

// false: the driver refuses.
bool tensor_map(CUtensorMap *map, const tensor_view &view);

// Whether the device and its driver have all this.
bool is_hopper(const tt_cuda *cuda);

// ---- warps ---------------------------------------------------------------------

// A number all threads of a warp have, so that the compiler knows; it is not computed
// again later.
__device__ static inline uint32_t same_in_warp(uint32_t x)
{
    asm volatile("" : "+r"(x));
    return __shfl_sync(0xffffffffu, x, 0);
}

// Four matrices of 8 rows of 16 bytes: of lanes 8 i to 8 i + 7 the addresses of rows of
// matrix i; word i of each lane has two elements of row lane / 4.
__device__ static inline void store_words(uint32_t to, const uint32_t (&w)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], "
                 "{%1, %2, %3, %4};" ::"r"(to),
                 "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
}

// ---- products ------------------------------------------------------------------

// An operand with rows along k, 64 each: 8 of m or n are 1024 bytes. 16 of k further is
// 32 bytes, 2 more in the result.
__device__ static inline uint64_t along_k(uint32_t at)
{
    return (uint64_t)((at & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 |
           1ull << 62;
}

// An operand with rows along m or n, 64 each: 8 of k are 1024 bytes, the next 64 of m or
// n are `apart` bytes further.
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

// All but the last N groups are done.
template <int N> __device__ static inline void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// d[64, 256] (+)= a[64, 16] b[16, 256], with rows across k (1) or along k (0). Thread t of the four warps has of
// rows 16 (t / 32) + t % 32 / 4 (+ 8) the columns 8 j + 2 (t % 4) (+ 1), in d[4 j ...].
#define TT_MULTIPLY(NAME, TYPE)                                                \
    template <int ACROSS_A, int ACROSS_B>                                      \
    __device__ static inline void NAME(float (&d)[128], uint64_t a,            \
                                       uint64_t b, int adds)                   \
    {                                                                          \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"             \
                     "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE       \
                     "." TYPE " {"                                             \
                     "%0, %1, %2, %3, %4, %5, %6, %7, "                        \
                     "%8, %9, %10, %11, %12, %13, %14, %15, "                  \
                     "%16, %17, %18, %19, %20, %21, %22, %23, "                \
                     "%24, %25, %26, %27, %28, %29, %30, %31, "                \
                     "%32, %33, %34, %35, %36, %37, %38, %39, "                \
                     "%40, %41, %42, %43, %44, %45, %46, %47, "                \
                     "%48, %49, %50, %51, %52, %53, %54, %55, "                \
                     "%56, %57, %58, %59, %60, %61, %62, %63, "                \
                     "%64, %65, %66, %67, %68, %69, %70, %71, "                \
                     "%72, %73, %74, %75, %76, %77, %78, %79, "                \
                     "%80, %81, %82, %83, %84, %85, %86, %87, "                \
                     "%88, %89, %90, %91, %92, %93, %94, %95, "                \
                     "%96, %97, %98, %99, %100, %101, %102, %103, "            \
                     "%104, %105, %106, %107, %108, %109, %110, %111, "        \
                     "%112, %113, %114, %115, %116, %117, %118, %119, "        \
                     "%120, %121, %122, %123, %124, %125, %126, %127}, "       \
                     "%128, %129, p, 1, 1, %131, %132;\n}\n"                   \
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
                       "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),     \
                       "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]),     \
                       "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),     \
                       "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]),     \
                       "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),     \
                       "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),     \
                       "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),     \
                       "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),     \
                       "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),     \
                       "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),     \
                       "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]), \
                       "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), \
                       "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]), \
                       "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), \
                       "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]), \
                       "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), \
                       "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])  \
                     : "l"(a), "l"(b), "r"(adds), "n"(ACROSS_A),         \
                       "n"(ACROSS_B));                                   \
    }

TT_MULTIPLY(multiply_bf16, "bf16")
TT_MULTIPLY(multiply_f16, "f16")
#undef TT_MULTIPLY

#endif
