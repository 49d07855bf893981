// seed - a seed for each replica, made of the run's (ops/comm/replicas.h). A few numbers:
// bound by the launch. On the host they would make the stream wait at each tensor.

#include "backend/cuda/dev/common.cuh"

enum { THREADS = 32 };

// As tt_replica_seed_of.
__global__ void make_seeds(tt_cuda_seed_args a)
{
    const int64_t k = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (k >= a.n)
        return;
    const uint64_t i = a.is_same ? 0 : (uint64_t)(a.first + k + 1);
    uint64_t h = (uint64_t)*a.seed + 0x9e3779b97f4a7c15ull * i;
    h ^= (uint64_t)a.salt * 0xbf58476d1ce4e5b9ull;
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ h >> 27) * 0x94d049bb133111ebull;
    a.out[k] = (int64_t)((h ^ h >> 31) >> 12);
}

extern "C" const char *tt_cuda_seeds(tt_cuda *c, const tt_cuda_seed_args *a)
{
    make_seeds<<<(unsigned)ceil_div(a->n, THREADS), THREADS, 0, c->stream>>>(
        *a);
    return launched();
}
