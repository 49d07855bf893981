// pool - what kernels of pooling share: images whose channels lie together, a thread's
// place in them, and launches over parts of a batch. Places within an image are 32-bit
// numbers, which divide several times faster than those of 64 bits.

#ifndef TT_BACKEND_CUDA_DEV_CONV_POOL_CUH
#define TT_BACKEND_CUDA_DEV_CONV_POOL_CUH

#include "backend/cuda/dev/slice.cuh"

enum { THREADS = 256, MOST = 1 << 30 }; // threads of a launch

// As tt_cuda_slide.
struct dimension {
    int in, out, kernel, stride, dilation, pad, origin, whole_in;
    int twos; // pairs of inputs, counted from the padding on
};

struct pooling {
    dimension d[TT_CUDA_SPACE];
    int threads, packs;
    int64_t in, out; // elements of an image
    bool count_pad;
    const void *x; // or dy
    void *y;       // or dx
    void *where;
};

struct pixel {
    int n, at[TT_CUDA_SPACE], pack;
};

// Most that is divided by here is 1, which all threads see alike.
__device__ static inline int quotient(int a, int b)
{
    return b == 1 ? a : a / b;
}

// The work of a thread; false: none.
__device__ static inline bool place(const pooling &a, int dimension::*of,
                                    pixel *p)
{
    int i = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (i >= a.threads)
        return false;
    int next = i / a.packs;
    p->pack = i - next * a.packs;
    i = next;
#pragma unroll
    for (int k = TT_CUDA_SPACE - 1; k >= 0; k--) {
        const int extent = a.d[k].*of;
        next = quotient(i, extent);
        p->at[k] = i - next * extent;
        i = next;
    }
    p->n = i;
    return true;
}

// Where the result of the thread's pixel lies.
__device__ static inline int64_t own_place(int v)
{
    return (blockIdx.x * (int64_t)THREADS + threadIdx.x) * v;
}

// Where the pack of a pixel lies: of input or output.
__device__ static inline int64_t place_of(const pooling &a, int dimension::*of,
                                          const pixel &p, const int *at, int v)
{
    const int64_t image = of == &dimension::in ? a.in : a.out;
    const int pixels = (at[0] * (a.d[1].*of) + at[1]) * (a.d[2].*of) + at[2];
    return p.n * image + (int64_t)(pixels * a.packs + p.pack) * v;
}

// What a thread looks at: [lo, hi) per dimension.
struct box {
    int lo[TT_CUDA_SPACE], hi[TT_CUDA_SPACE];
};

// ---- launching -------------------------------------------------------------

static inline bool is_wide(const tt_cuda_pool_args *a, int v)
{
    return a->channels % v == 0 && is_aligned(a->x) && is_aligned(a->y) &&
           is_aligned(a->where);
}

// Everything but threads and addresses.
static inline pooling describe(const tt_cuda_pool_args *a, int v)
{
    pooling p = {};
    p.packs = (int)(a->channels / v);
    p.in = p.out = a->channels;
    p.count_pad = a->count_pad;
    for (int i = 0; i < TT_CUDA_SPACE; i++) {
        const tt_cuda_slide &s = a->slide[i];
        p.d[i] = {(int)s.in,     (int)s.out,      (int)s.kernel,
                  (int)s.stride, (int)s.dilation, (int)s.pad,
                  (int)s.origin, (int)s.whole_in, (int)(s.in + s.pad + 1) / 2};
        p.in *= s.in;
        p.out *= s.out;
    }
    return p;
}

// `each` threads per image, as many images at once as fit into a launch. W: of places.
template <typename T, typename W>
static const char *over_images(tt_cuda *cuda, const tt_cuda_pool_args *a,
                               bool is_back, int64_t each, pooling p,
                               void (*kernel)(pooling))
{
    const int64_t v = a->channels / p.packs;
    if (p.in / v > MOST || p.out / v > MOST || each > MOST)
        return tt_cuda_failed_text("an image is too large for pooling");
    const int64_t at_once = MOST / (each == 0 ? 1 : each);
    for (int64_t first = 0; each > 0 && first < a->n; first += at_once) {
        const int64_t n = a->n - first < at_once ? a->n - first : at_once;
        p.threads = (int)(n * each);
        p.x = (const T *)a->x + first * (is_back ? p.out : p.in);
        p.y = (T *)a->y + first * (is_back ? p.in : p.out);
        p.where = (W *)a->where + first * p.out;
        kernel<<<(unsigned)ceil_div(p.threads, THREADS), THREADS, 0,
                 cuda->stream>>>(p);
        TRY(launched());
    }
    return NULL;
}

#endif
