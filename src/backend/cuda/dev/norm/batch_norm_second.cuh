// batch_norm_second - what the second pass of batch_norm does with a row, by the
// coefficients of each channel that the first pass led to.

#ifndef TT_BACKEND_CUDA_DEV_NORM_BATCH_NORM_SECOND_CUH
#define TT_BACKEND_CUDA_DEV_NORM_BATCH_NORM_SECOND_CUH

#include "backend/cuda/dev/norm/batch_norm_rows.cuh"

// y = activation((x - mean) by + beta + residual)
template <typename E, int N, bool HAS_RESIDUAL> struct normalise : unmarked {
    typedef E T;
    enum {
        V = N,
        AT_ONCE = 4,
        RESIDENT = HAS_RESIDUAL ? FEW : MORE,
        IS_UPWARDS = true
    };
    struct in {
        slice<T, V> x, more;
    };
    float mean[V], by[V], beta[V];

    __device__ void begin(const tt_cuda_bn_args &a, const float *coef,
                          int64_t col)
    {
        coefficients<V>(a, coef, 0, col, mean);
        coefficients<V>(a, coef, 1, col, by);
        coefficients<V>(a, coef, 2, col, beta);
    }
    __device__ in load_row(const tt_cuda_bn_args &a, int64_t at) const
    {
        in i;
        i.x = load<T, V>(a.x, at);
        if (HAS_RESIDUAL)
            i.more = load<T, V>(a.residual, at);
        return i;
    }
    __device__ void use(const tt_cuda_bn_args &a, int64_t at, const in &i, int)
    {
        float x[V], more[V];
        unpack(i.x, x);
        if (HAS_RESIDUAL)
            unpack(i.more, more);
#pragma unroll
        for (int k = 0; k < V; k++) {
            x[k] = (x[k] - mean[k]) * by[k] + beta[k];
            if (HAS_RESIDUAL)
                x[k] += more[k];
            if (a.has_relu && x[k] <= 0)
                x[k] = 0;
        }
        store(a.y, at, sliced<T, V>(x));
    }
};

// dx = gamma rstd (dz - (dbeta + xhat dgamma) / count) = u dz + v x + w; dz to
// d_residual where that is wanted.
template <typename E, int N, masking HOW, bool KEEPS> struct send_back {
    typedef E T;
    enum { V = N, AT_ONCE = MARKED, RESIDENT = FEW, IS_UPWARDS = true };
    typedef grad_in<T, V, HOW == BY_Y> in;
    float u[V], v[V], w[V];
    uint32_t marks;

    __device__ void begin(const tt_cuda_bn_args &a, const float *coef,
                          int64_t col)
    {
        coefficients<V>(a, coef, 0, col, u);
        coefficients<V>(a, coef, 1, col, v);
        coefficients<V>(a, coef, 2, col, w);
    }
    __device__ void begin_tile(const tt_cuda_bn_args &a, int64_t place)
    {
        if (HOW == BY_MARKS)
            marks = a.marks[place];
    }
    __device__ void end_tile(const tt_cuda_bn_args &, int64_t)
    {
    }
    __device__ in load_row(const tt_cuda_bn_args &a, int64_t at) const
    {
        return in::of(a, at);
    }
    __device__ slice<T, V> masked(const in &i, int row) const
    {
        slice<T, V> dz = i.dy;
        if constexpr (HOW == BY_Y)
            dz = where_above<false>(i.dy, i.y);
        if constexpr (HOW == BY_MARKS)
#pragma unroll
            for (int k = 0; k < V; k += 2)
                mask_two(&dz.v[k],
                         (marks >> mark_at(row, k) & 0x10001u) * 0xffffu);
        return dz;
    }
    __device__ void use(const tt_cuda_bn_args &a, int64_t at, const in &i,
                        int row)
    {
        const slice<T, V> dz = masked(i, row);
        float x[V], d[V];
        unpack(i.x, x);
        unpack(dz, d);
#pragma unroll
        for (int k = 0; k < V; k++)
            x[k] = u[k] * d[k] + v[k] * x[k] + w[k];
        if (KEEPS)
            store(a.d_residual, at, dz);
        store(a.y, at, sliced<T, V>(x));
    }
};

#endif
