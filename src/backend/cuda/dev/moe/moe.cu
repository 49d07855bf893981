// moe - mixture of experts: tokens go to their experts (dispatch) and come back
// weighted by their gates (combine). route.cu says which token has which place.
//
// Every row of a result is gathered by one block or warp, in a fixed order: nothing is
// scattered with atomic additions, so runs repeat bit by bit. Bound by memory
// bandwidth, except dispatch: its blocks search their sample's places for the ones that
// name their row (4 bytes for each choice, from the caches).

#include "backend/cuda/dev/any.cuh"

enum { THREADS = 256 };

// The row of z that a place names, for a sample; -1: it has none here.
__device__ static inline int64_t
row_of(const tt_cuda_moe_args &a, int64_t place, int64_t sample, int *fault)
{
    if (place < 0)
        return -1;
    if (place >= a.whole * a.slots) {
        *fault = FAULT_ID;
        return -1;
    }
    const int64_t e = place / a.slots - a.first;
    return e < 0 || e >= a.experts
               ? -1
               : (e * a.batch + sample) * a.slots + place % a.slots;
}

// z[row] = the sum of the tokens whose place it is; a block per row, whose threads
// look at THREADS places at a time, and have up to COLUMNS sums each.
__global__ void dispatch(tt_cuda_moe_args a, int *fault)
{
    enum { COLUMNS = 8 };
    __shared__ unsigned hits[THREADS / 32];
    const int64_t row = blockIdx.x;
    const int64_t sample = row / a.slots % a.batch;
    const int64_t n = a.tokens * a.choices, base = sample * n;
    for (int64_t first = threadIdx.x; first - threadIdx.x < a.width;
         first += COLUMNS * THREADS) {
        double sum[COLUMNS] = {};
        for (int64_t from = 0; from < n; from += THREADS) {
            const int64_t i = from + threadIdx.x;
            const bool hit =
                i < n && row_of(a, a.place[base + i], sample, fault) == row;
            const unsigned word = __ballot_sync(~0u, hit);
            if (threadIdx.x % 32 == 0)
                hits[threadIdx.x / 32] = word;
            const bool is_any = __syncthreads_or(hit);
            for (int w = 0; is_any && w < THREADS / 32; w++)
                for (unsigned bits = hits[w]; bits != 0; bits &= bits - 1) {
                    const int64_t k =
                        base + from + 32 * w + __ffs((int)bits) - 1;
                    const int64_t token = k / a.choices;
                    const double gate = get(a.gate, k, 1);
#pragma unroll
                    for (int j = 0; j < COLUMNS; j++) {
                        const int64_t c = first + j * THREADS;
                        if (c < a.width)
                            sum[j] += gate * get(a.x, token * a.width + c, 0);
                    }
                }
            __syncthreads();
        }
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            if (first + j * THREADS < a.width)
                put(a.z, row * a.width + first + j * THREADS, sum[j]);
    }
}

// x[token] = the sum over its choices; a thread per element.
__global__ void combine(tt_cuda_moe_args a, int *fault)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    const int64_t token = i / a.width, c = i % a.width;
    if (token >= a.batch * a.tokens)
        return;
    double sum = 0;
    for (int64_t k = token * a.choices; k < (token + 1) * a.choices; k++) {
        const int64_t row = row_of(a, a.place[k], token / a.tokens, fault);
        if (row >= 0)
            sum += get(a.gate, k, 1) * get(a.z, row * a.width + c, 0);
    }
    put(a.x, i, sum);
}

// gate[choice] = the product of the token's row and its place's; a warp per choice.
__global__ void gate_grad(tt_cuda_moe_args a, int *fault)
{
    const int64_t k = blockIdx.x * (int64_t)(THREADS / 32) + threadIdx.x / 32;
    const int64_t token = k / a.choices;
    if (token >= a.batch * a.tokens)
        return;
    const int64_t row = row_of(a, a.place[k], token / a.tokens, fault);
    double sum = 0;
    for (int64_t c = threadIdx.x % 32; row >= 0 && c < a.width; c += 32)
        sum +=
            get(a.x, token * a.width + c, 0) * get(a.z, row * a.width + c, 0);
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        put(a.gate, k, sum);
}

extern "C" const char *tt_cuda_dispatch(tt_cuda *cuda,
                                        const tt_cuda_moe_args *args)
{
    const int64_t rows = args->experts * args->batch * args->slots;
    dispatch<<<(unsigned)rows, THREADS, 0, cuda->stream>>>(*args,
                                                           cuda->fault_device);
    return launched();
}

extern "C" const char *tt_cuda_combine(tt_cuda *cuda,
                                       const tt_cuda_moe_args *args)
{
    const int64_t n = args->batch * args->tokens * args->width;
    combine<<<(unsigned)ceil_div(n, THREADS), THREADS, 0, cuda->stream>>>(
        *args, cuda->fault_device);
    return launched();
}

extern "C" const char *tt_cuda_gate_grad(tt_cuda *cuda,
                                         const tt_cuda_moe_args *args)
{
    const int64_t n = args->batch * args->tokens * args->choices;
    gate_grad<<<(unsigned)ceil_div(n, THREADS / 32), THREADS, 0,
                cuda->stream>>>(*args, cuda->fault_device);
    return launched();
}
