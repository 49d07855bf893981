// hopper - the instructions that only compute capability 9.0 has: mbarriers, the copy
// engine (TMA), setmaxnreg and stmatrix. WGMMA is in hopper_products.cuh.
//
// TMA writes tiles into shared memory with a swizzle, and WGMMA reads them with the
// same one. Rows have 128 bytes, and 16-byte part p of row r lies at p ^ r % 8. So
// eight rows of one column lie in eight different groups of banks. Rows of 64 bytes are
// swizzled with p ^ r / 2 % 4. Threads that write tiles themselves must swizzle in the
// same way.

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

// Fence after bar_init: without it TMA may not see the initialised barriers.
__device__ static inline void bars_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and makes this phase wait for that many bytes of TMA copies too.
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

// ---- the copy engine (TMA) -----------------------------------------------------

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

// A flat copy. Addresses and the number of bytes are multiples of 16.
__device__ static inline void load_bytes(uint32_t to, const void *from,
                                         int bytes, uint32_t bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::"
                 "complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}

// Rows of a head from shared to global memory. TMA drops rows beyond the tensor.
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

// Waits until this thread's stores have read their shared memory, which may then be
// written again. The results need not be in global memory yet: see stores_written.
__device__ static inline void stores_read()
{
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

__device__ static inline void stores_written()
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Proxy fence: WGMMA and TMA read shared memory by another path (the async proxy) than
// plain stores write it. Needed before the barrier that tells others to read.
__device__ static inline void shared_written()
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// How a tensor of 16 bits lies in memory; dim[0] is contiguous. TMA reads 0 where a box
// reaches beyond the tensor, so kernels need no code for ragged edges.
struct tensor_view {
    tt_dtype type;
    const void *data; // at a multiple of 16
    int rank;
    int64_t dim[4], stride[4],
        box[4]; // strides in elements, multiples of 8; [0] is 1
};

// Encodes a TMA descriptor. False: the driver refuses.
bool tensor_map(CUtensorMap *map, const tensor_view &view);

// Whether the device and its driver have all this.
bool is_hopper(const tt_cuda *cuda);

// ---- warps ---------------------------------------------------------------------

// Tells the compiler that all threads of a warp have the same x (it is warp-uniform),
// and keeps it from computing x again later.
__device__ static inline uint32_t same_in_warp(uint32_t x)
{
    asm volatile("" : "+r"(x));
    return __shfl_sync(0xffffffffu, x, 0);
}

// Warp specialisation: a block starts with the same number of registers for each
// thread. The first four warps need only FEW each and give the rest back; the warps
// that multiply take MANY. Asking for more than there are would hang: hence the assert.
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

// stmatrix: four matrices of 8 rows of 16 bytes. Lanes 8 i to 8 i + 7 give the
// addresses of the rows of matrix i. Word i of a lane has two elements of row lane / 4
// of matrix i, which is how WGMMA leaves its sums, so tiles leave registers without
// bank conflicts.
__device__ static inline void store_words(uint32_t to, const uint32_t (&w)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], "
                 "{%1, %2, %3, %4};" ::"r"(to),
                 "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
}

#endif
