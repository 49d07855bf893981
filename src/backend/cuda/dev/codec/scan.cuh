// scan - what lies before each: exclusive sums or maxima of whole numbers, in scan.cu.
//
// Kernels that write a list of unknown length work in tiles: each counts what it will
// write, a scan over the counts says where each begins, and each writes its own. These
// are launches of their own; no block waits for another.

#ifndef TT_BACKEND_CUDA_DEV_CODEC_SCAN_CUH
#define TT_BACKEND_CUDA_DEV_CODEC_SCAN_CUH

#include "backend/cuda/dev/common.cuh"

enum { SCAN_THREADS = 256 };

template <bool IS_MAX>
__device__ static inline uint64_t scan_join(uint64_t a, uint64_t b)
{
    return IS_MAX ? (a > b ? a : b) : a + b;
}

// Over the threads of a block of SCAN_THREADS: what all before this one have together;
// what all have, in *all. `room` has an entry for each warp.
template <bool IS_MAX>
__device__ static inline uint64_t scan_block(uint64_t x, uint64_t *room,
                                             uint64_t *all)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint64_t up_to = x, before = 0;
    for (int k = 1; k < 32; k *= 2) {
        const uint64_t other = __shfl_up_sync(0xffffffffu, up_to, k);
        up_to = lane >= k ? scan_join<IS_MAX>(up_to, other) : up_to;
    }
    const uint64_t left = __shfl_up_sync(0xffffffffu, up_to, 1);
    __syncthreads();
    if (lane == 31)
        room[warp] = up_to;
    __syncthreads();
    *all = 0;
    for (int w = 0; w < SCAN_THREADS / 32; w++) {
        before = w < warp ? scan_join<IS_MAX>(before, room[w]) : before;
        *all = scan_join<IS_MAX>(*all, room[w]);
    }
    return lane == 0 ? before : scan_join<IS_MAX>(before, left);
}

// Replaces each of n numbers by the sum, or the largest, of those before it; 0 for the
// first. That of all goes to *total, if it is not NULL. `room` has scan_room(n) entries.
static inline int64_t scan_room(int64_t n)
{
    return n / SCAN_THREADS + 1;
}
const char *tt_cuda_scan_sums(tt_cuda *c, uint64_t *x, int64_t n,
                              uint64_t *room, uint64_t *total);
const char *tt_cuda_scan_most(tt_cuda *c, uint64_t *x, int64_t n,
                              uint64_t *room, uint64_t *total);

#endif
