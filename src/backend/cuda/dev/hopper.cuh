// hopper - what compute capability 9.0 alone has: barriers in shared memory that count
// bytes, copies of boxes of a tensor by the copy engine, operands of products
// (hopper_products.cuh) in shared memory. Everything in shared memory has rows of 128
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
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar),
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
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::"
        "complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
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
__device__ static inline void stores_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ static inline void stores_written()
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
    int64_t dim[4], stride[4],
        box[4]; // strides in elements, multiples of 8; [0] is 1
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

// A block's registers, which all threads have the same number of when it begins, given
// out anew: FEW to each of the first four warps, MANY to each of the others. More than
// there are would be waited for without end.
template <int THREADS, int FEW, int MANY> struct registers {
    static const int all = 65536 / THREADS / 8 * 8 * THREADS;
    static_assert(FEW * 128 + MANY * (THREADS - 128) <= all, "too many");

    __device__ static inline void give()
    {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(FEW));
    }
    __device__ static inline void take()
    {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(MANY));
    }
};

// Four matrices of 8 rows of 16 bytes: of lanes 8 i to 8 i + 7 the addresses of rows of
// matrix i; word i of each lane has two elements of row lane / 4.
__device__ static inline void store_words(uint32_t to, const uint32_t (&w)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], "
                 "{%1, %2, %3, %4};" ::"r"(to),
                 "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
}

#endif
