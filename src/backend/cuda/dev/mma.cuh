// mma - products of small tiles by the tensor cores, a warp at a time (mma.sync
// m16n8k16), and the same in plain arithmetic where the device is emulated. WGMMA, for
// large tiles on compute capability 9.0, is in hopper_products.cuh.
//
// Fragments: what a lane holds, with g = lane / 4 and t = lane % 4. Each word has a
// pair of 16-bit numbers, columns 2t and 2t + 1 (of b: rows).
//
//   a [16, 16]   word 0: row g         word 1: row g + 8
//                word 2: row g, + 8 columns   word 3: row g + 8, + 8 columns
//   b [16, 8]    column g.   word 0: rows 2t, 2t + 1   word 1: rows 2t + 8, 2t + 9
//   d [16, 8]    floats: columns 2t, 2t + 1 of row g, then of row g + 8

#ifndef TT_BACKEND_CUDA_DEV_MMA_CUH
#define TT_BACKEND_CUDA_DEV_MMA_CUH

#include "backend/cuda/dev/common.cuh"

#include <type_traits>

#ifdef __CUDA_ARCH__

#    define MMA(type)                                                          \
        asm volatile(                                                          \
            "mma.sync.aligned.m16n8k16.row.col.f32." type "." type             \
            ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"       \
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])           \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]),           \
              "r"(b[1]))

template <typename T>
__device__ static inline void mma(const uint32_t *a, const uint32_t *b,
                                  float *sum)
{
    if constexpr (std::is_same<T, bf16>::value)
        MMA("bf16");
    else
        MMA("f16");
}

#    undef MMA

// Fragment a of a tile that lies in shared memory by columns, `stride` elements apart
// (ldmatrix.trans). Columns begin at multiples of 16 bytes.
template <typename T>
__device__ static inline void load_turned(const T *tile, int stride,
                                          uint32_t *a)
{
    const int lane = threadIdx.x % 32;
    const T *row =
        tile + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8;
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0,%1,%2,%3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(at));
}

#else

template <typename T>
__device__ static inline float half_of(uint32_t pair, int i)
{
    const uint16_t bits = (uint16_t)(pair >> 16 * i);
    T x;
    memcpy(&x, &bits, sizeof x);
    return to_float(x);
}

template <typename T>
__device__ static inline void mma(const uint32_t *a, const uint32_t *b,
                                  float *sum)
{
    struct held {
        float a[4][2], b[2][2];
    };
    __shared__ held all[32][32];
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    held *warp = all[threadIdx.x / 32];
    for (int i = 0; i < 8; i++)
        warp[lane].a[i / 2][i % 2] = half_of<T>(a[i / 2], i % 2);
    for (int i = 0; i < 4; i++)
        warp[lane].b[i / 2][i % 2] = half_of<T>(b[i / 2], i % 2);
    __syncwarp();
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 16; k++) {
            const held &u = warp[g * 4 + k % 8 / 2];
            const held &v = warp[(2 * t + i % 2) * 4 + k % 8 / 2];
            sum[i] += u.a[k / 8 * 2 + i / 2][k % 2] * v.b[k / 8][k % 2];
        }
    __syncwarp();
}

template <typename T>
__device__ static inline void load_turned(const T *tile, int stride,
                                          uint32_t *a)
{
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) {
        T pair[2];
        for (int e = 0; e < 2; e++)
            pair[e] = tile[(2 * t + e + i / 2 * 8) * stride + g + i % 2 * 8];
        memcpy(&a[i], pair, sizeof a[i]);
    }
}

#endif

#endif
