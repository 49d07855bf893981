// gemm_hopper_tile - what our own products share. A block has tiles of 128 x 256; one
// thread has the copy engine fill four stages of shared memory, each with 64 of k; two
// groups of four warps multiply them, 64 rows each, with the sums in registers.

#ifndef TT_BACKEND_CUDA_DEV_GEMM_GEMM_HOPPER_TILE_CUH
#define TT_BACKEND_CUDA_DEV_GEMM_GEMM_HOPPER_TILE_CUH

#include "backend/cuda/dev/hopper_products.cuh"

enum { ROWS = 128, COLS = 256, DEPTH = 64, STAGES = 4 };
enum { THREADS = 384, BOX = 64, BOX_BYTES = BOX * BOX * 2 };
enum {
    A_BYTES = ROWS * DEPTH * 2,
    STAGE_BYTES = A_BYTES + COLS * DEPTH * 2,
};

struct stage {
    int i, phase;
};

__device__ static inline void go_on(stage *s)
{
    s->phase ^= s->i == STAGES - 1;
    s->i = s->i == STAGES - 1 ? 0 : s->i + 1;
}

#endif
