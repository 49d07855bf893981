// dropout - the mask is a function of seed, step and the element's place among all
// samples (Philox 4x32-10, random.cuh). So it is never stored: backward computes it
// again; and it is the same on every device and for every number of ranks. Bound by
// Philox's ten rounds: a thread makes one word.

#include "backend/cuda/dev/random.cuh"

enum { THREADS = 256 };

// The element's index among all samples, of which this rank may have a part.
__device__ static inline int64_t global_index(const tt_cuda_dropout_args &a,
                                              int64_t i)
{
    int64_t at = 0, unit = 1;
    for (int f = a.n_factors - 1; f >= 0; f--) {
        int64_t origin = a.origin[f], global = a.global[f];
        if (f == a.batch && *a.first + global <= *a.samples) {
            origin += *a.first;
            global = *a.samples;
        }
        at += (i % a.size[f] + origin) * unit;
        i /= a.size[f];
        unit *= global;
    }
    return at;
}

template <typename T> __global__ void dropout(tt_cuda_dropout_args a)
{
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= a.n)
        return;
    const uint64_t key =
        key_of(a.origin_hash, (uint64_t)*a.seed, (uint64_t)*a.step);
    const uint32_t word = random_word(key, (uint64_t)global_index(a, i));
    const bool is_kept = (double)word >= a.p * 4294967296.0;
    const float up = a.p < 1 ? (float)(1 / (1 - a.p)) : 0.f;
    ((T *)a.y)[i] =
        from_float<T>(is_kept ? to_float(((const T *)a.x)[i]) * up : 0.f);
}

template <typename T>
static const char *dropout_type(tt_cuda *cuda, const tt_cuda_dropout_args *a)
{
    dropout<T>
        <<<(unsigned)ceil_div(a->n, THREADS), THREADS, 0, cuda->stream>>>(*a);
    return launched();
}

extern "C" const char *tt_cuda_dropout(tt_cuda *cuda,
                                       const tt_cuda_dropout_args *args)
{
    return BY_TYPE(args->type, dropout_type, cuda, args);
}
