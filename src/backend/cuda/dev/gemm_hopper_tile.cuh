// gemm_hopper_tile - what our own products share. A block has tiles of 128 x 256; one
// thread has the copy engine fill four stages of shared memory, each with 64 of k; two
// groups of four warps multiply them, 64 rows each, with the sums in registers.

#ifndef TT_BACKEND_CUDA_DEV_GEMM_HOPPER_TILE_CUH
#define TT_BACKEND_CUDA_DEV_GEMM_HOPPER_TILE_CUH

#include "backend/cuda/dev/hopper.cuh"

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

template <typename T> struct words; // two elements in a word

template <> struct words<bf16> {
    template <int ACROSS_A, int ACROSS_B>
    __device__ static inline void multiply(float (&d)[128], uint64_t a,
                                           uint64_t b, int adds)
    {
        multiply_bf16<ACROSS_A, ACROSS_B>(d, a, b, adds);
    }
    __device__ static inline uint32_t of(float x, float y)
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

template <> struct words<f16> {
    template <int ACROSS_A, int ACROSS_B>
    __device__ static inline void multiply(float (&d)[128], uint64_t a,
                                           uint64_t b, int adds)
    {
        multiply_f16<ACROSS_A, ACROSS_B>(d, a, b, adds);
    }
    __device__ static inline uint32_t of(float x, float y)
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

#endif
