// batch_norm_rows - what the first pass of batch_norm does with a row. walk_rows
// (batch_norm.cu) is the loop; the structs here are its body: load_row() loads what is
// needed of a row, and use() is called with it by the thread that owns these channels.

#ifndef TT_BACKEND_CUDA_DEV_NORM_BATCH_NORM_ROWS_CUH
#define TT_BACKEND_CUDA_DEV_NORM_BATCH_NORM_ROWS_CUH

#include "backend/cuda/dev/norm/batch_norm.cuh"
#include "backend/cuda/dev/slice.cuh"

enum {
    FEW = 1,    // blocks of a multiprocessor that need many registers,
    MORE = 2,   // or not so many
    MARKED = 4, // rows of a mark: with 8 channels each they fill a word
};

// Coefficient i of the channels from `col` on, as the kernels between the passes have
// left it.
template <int V>
__device__ static inline void coefficients(const tt_cuda_bn_args &a,
                                           const float *coef, int i,
                                           int64_t col, float *out)
{
    const float *from = coef + ((int64_t)blockIdx.z * COEFS + i) * a.channels;
#pragma unroll
    for (int k = 0; k < V; k++)
        out[k] = from[col + k];
}

// ---- what is done to rows --------------------------------------------------

// What comes between tiles: nothing. `place` is of the thread in the tile.
struct unmarked {
    __device__ void begin_tile(const tt_cuda_bn_args &, int64_t)
    {
    }
    __device__ void end_tile(const tt_cuda_bn_args &, int64_t)
    {
    }
};

enum masking {
    ALL,
    BY_Y,
    BY_MARKS
}; // BY_MARKS: the first pass makes them, of y

// Sums of x - shift and of its square. The shift is the running mean. The closer it is
// to the mean of these rows, the less the variance, a difference of the two sums,
// cancels.
template <typename E, int N> struct moments : unmarked {
    typedef E T;
    enum { V = N, AT_ONCE = 4, RESIDENT = MORE, IS_UPWARDS = false };
    struct in {
        slice<T, V> x;
    };
    float sum[2][V], shift[V];

    __device__ void begin(const tt_cuda_bn_args &a, const float *, int64_t col)
    {
        for (int k = 0; k < V; k++)
            shift[k] = a.shift[col + k];
    }
    __device__ in load_row(const tt_cuda_bn_args &a, int64_t at) const
    {
        return {load<T, V>(a.x, at)};
    }
    __device__ void use(const tt_cuda_bn_args &, int64_t, const in &i, int)
    {
        float x[V];
        unpack(i.x, x);
#pragma unroll
        for (int k = 0; k < V; k++) {
            const float d = x[k] - shift[k];
            sum[0][k] += d;
            sum[1][k] += d * d;
        }
    }
};

// x and dy, and y where it is needed.
template <typename T, int V, bool HAS_Y> struct grad_in {
    slice<T, V> x, dy, y;

    __device__ static grad_in of(const tt_cuda_bn_args &a, int64_t at)
    {
        grad_in i;
        i.x = load<T, V>(a.x, at);
        i.dy = load<T, V>(a.dy, at);
        if (HAS_Y)
            i.y = load<T, V>(a.mask, at);
        return i;
    }
};

// A word of marks has two bits, 16 apart, for each pair of channels of each row.
__device__ static inline int mark_at(int row, int channel)
{
    return row * MARKED + channel / 2;
}

// Sums of dz * (x - mean) and of dz, which is dy where y > 0; dz to d_residual where
// that is wanted.
template <typename E, int N, masking HOW, bool KEEPS> struct grads {
    typedef E T;
    enum { V = N, AT_ONCE = MARKED, RESIDENT = FEW, IS_UPWARDS = false };
    typedef grad_in<T, V, HOW != ALL> in;
    float sum[2][V], mean[V];
    uint32_t marks;

    __device__ void begin(const tt_cuda_bn_args &a, const float *, int64_t col)
    {
        const int64_t row = a.is_frozen ? 0 : a.first_row + blockIdx.z;
        for (int k = 0; k < V; k++)
            mean[k] = a.mean_in[row * a.channels + col + k];
    }
    __device__ void begin_tile(const tt_cuda_bn_args &, int64_t)
    {
        marks = 0;
    }
    __device__ void end_tile(const tt_cuda_bn_args &a, int64_t place)
    {
        if (HOW == BY_MARKS)
            a.marks[place] = marks;
    }
    __device__ in load_row(const tt_cuda_bn_args &a, int64_t at) const
    {
        return in::of(a, at);
    }
    __device__ slice<T, V> masked(const in &i, int row)
    {
        slice<T, V> dz = i.dy;
        if constexpr (HOW == BY_Y)
            dz = where_above<false>(i.dy, i.y);
        if constexpr (HOW == BY_MARKS)
#pragma unroll
            for (int k = 0; k < V; k += 2) {
                const unsigned above = above_zero<false>(&i.y.v[k]);
                mask_two(&dz.v[k], above);
                marks |= above & 0x10001u << mark_at(row, k);
            }
        return dz;
    }
    __device__ void use(const tt_cuda_bn_args &a, int64_t at, const in &i,
                        int row)
    {
        const slice<T, V> dz = masked(i, row);
        float x[V], d[V];
        if (KEEPS)
            store(a.d_residual, at, dz);
        unpack(i.x, x);
        unpack(dz, d);
#pragma unroll
        for (int k = 0; k < V; k++) {
            sum[0][k] += d[k] * (x[k] - mean[k]);
            sum[1][k] += d[k];
        }
    }
};

// dz = dy where y > 0, and its sums, the second ones.
template <typename E, int N> struct masks : unmarked {
    typedef E T;
    enum { V = N, AT_ONCE = 4, RESIDENT = MORE, IS_UPWARDS = false };
    struct in {
        slice<T, V> dy, y;
    };
    float sum[2][V];

    __device__ void begin(const tt_cuda_bn_args &, const float *, int64_t)
    {
    }
    __device__ in load_row(const tt_cuda_bn_args &a, int64_t at) const
    {
        return {load<T, V>(a.dy, at), load<T, V>(a.mask, at)};
    }
    __device__ void use(const tt_cuda_bn_args &a, int64_t at, const in &i, int)
    {
        const slice<T, V> dz = where_above<true>(i.dy, i.y);
        float d[V];
        store(a.d_residual, at, dz);
        unpack(dz, d);
#pragma unroll
        for (int k = 0; k < V; k++)
            sum[1][k] += d[k];
    }
};

#endif
