// gemm_hopper_tile - what our own GEMMs share: the tile and the ring of stages.
//
//                k ->
//        +----+----+----+----+          A block has one tile of 128 x 256 at a time.
//   b    | s0 | s1 | s2 | s3 | 256      One thread fills four stages by TMA, each
//        +----+----+----+----+          with 64 of k: 16 KB of a, 32 KB of b.
//   a    | s0 | s1 | s2 | s3 | 128      Two warpgroups multiply, 64 rows of a by 256
//        +----+----+----+----+          columns of b each (WGMMA m64n256k16).
//
// Each stage has two mbarriers. "Full" is completed by TMA when all bytes have arrived.
// "Empty" counts the warps whose WGMMAs have read the stage. The sums are 128 f32
// registers of a thread, which is why there are two warpgroups and no more, and why the
// loading warps give their registers away (setmaxnreg).

#ifndef TT_BACKEND_CUDA_DEV_GEMM_GEMM_HOPPER_TILE_CUH
#define TT_BACKEND_CUDA_DEV_GEMM_GEMM_HOPPER_TILE_CUH

#include "backend/cuda/dev/hopper_products.cuh"

enum { ROWS = 128, COLS = 256, DEPTH = 64, STAGES = 4 };
enum { THREADS = 384, BOX = 64, BOX_BYTES = BOX * BOX * 2 };
enum {
    A_BYTES = ROWS * DEPTH * 2,
    STAGE_BYTES = A_BYTES + COLS * DEPTH * 2,
};

// A place in the ring, and the parity that its mbarriers are waited for with.
struct stage {
    int i, phase;
};

__device__ static inline void go_on(stage *s)
{
    s->phase ^= s->i == STAGES - 1;
    s->i = s->i == STAGES - 1 ? 0 : s->i + 1;
}

#endif
