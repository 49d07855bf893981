// queue - a second CUDA stream, for the wire: copies between device and host, packing
// and unpacking of buckets, and NCCL's collectives (nccl.cu). It runs beside the stream
// of the steps, so that communication overlaps with computation.
//
//   steps   | backward, layer 9 | note(e) | backward, layer 8 ... | follow(f) | update
//   wire                  follow(e) | pack | all-reduce | unpack | note(f)
//
// The two streams know of each other only by events: note() records one, follow() makes
// a stream wait for one. Neither call makes the host wait. Events are numbered by
// whoever uses them, and made before they are used (queue_events), without timing.
//
// The stream has the highest priority: what peers wait for goes before what only this
// device waits for.
//
// Copies go over the host's link, moves through the device's memory. Host memory is
// pinned where that succeeds; copies work without it too.

#include "backend/cuda/dev/common.cuh"

#include <new>
#include <stdlib.h>

enum { THREADS = 256 };

// A range of host memory that this queue has registered. The list lets equal requests
// be made again for nothing, and everything be unregistered when the device is closed.
struct pinned {
    void *host;
    int64_t bytes;
    pinned *next;
};

struct tt_cuda_queue {
    cudaStream_t stream;
    cudaEvent_t *event;
    int64_t n_events;
    pinned *first;
};

static const char *make(tt_cuda *c)
{
    int least = 0, greatest = 0;
    if (c->queue != NULL)
        return NULL;
    tt_cuda_queue *q = new (std::nothrow) tt_cuda_queue();
    if (q == NULL)
        return tt_cuda_failed_text("no memory");
    // The highest priority: see above.
    cudaError_t status = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (status == cudaSuccess)
        status = cudaStreamCreateWithPriority(&q->stream, cudaStreamNonBlocking,
                                              greatest);
    if (status != cudaSuccess) {
        delete q;
        return tt_cuda_failed(status);
    }
    c->queue = q;
    return NULL;
}

extern "C" const char *tt_cuda_queue_events(tt_cuda *c, int64_t n)
{
    TRY_CUDA(cudaSetDevice(c->device));
    TRY(make(c));
    tt_cuda_queue *q = c->queue;
    if (n <= q->n_events)
        return NULL;
    cudaEvent_t *grown =
        (cudaEvent_t *)realloc(q->event, (size_t)n * sizeof *grown);
    if (grown == NULL)
        return tt_cuda_failed_text("no memory");
    for (q->event = grown; q->n_events < n; q->n_events++)
        TRY_CUDA(cudaEventCreateWithFlags(&q->event[q->n_events],
                                          cudaEventDisableTiming));
    return NULL;
}

extern "C" const char *tt_cuda_queue_pin(tt_cuda *c, void *host, int64_t n)
{
    TRY_CUDA(cudaSetDevice(c->device));
    TRY(make(c));
    for (const pinned *p = c->queue->first; p != NULL; p = p->next)
        if (p->host == host && p->bytes == n)
            return NULL;
    pinned *p = new (std::nothrow) pinned();
    if (p == NULL)
        return tt_cuda_failed_text("no memory");
    const cudaError_t status =
        cudaHostRegister(host, (size_t)n, cudaHostRegisterDefault);
    if (status != cudaSuccess) {
        (void)cudaGetLastError(); // copies do without
        delete p;
        return tt_cuda_failed(status);
    }
    *p = {host, n, c->queue->first};
    c->queue->first = p;
    return NULL;
}

extern "C" void tt_cuda_queue_unpin(tt_cuda *c)
{
    if (c->queue == NULL)
        return;
    (void)cudaStreamSynchronize(c->queue->stream);
    while (c->queue->first != NULL) {
        pinned *p = c->queue->first;
        c->queue->first = p->next;
        (void)cudaHostUnregister(p->host);
        delete p;
    }
}

extern "C" void tt_cuda_queue_destroy(tt_cuda *c)
{
    tt_cuda_queue *q = c->queue;
    if (q == NULL)
        return;
    tt_cuda_queue_unpin(c);
    for (int64_t i = 0; i < q->n_events; i++)
        cudaEventDestroy(q->event[i]);
    free(q->event);
    cudaStreamDestroy(q->stream);
    delete q;
}

// is_wire: this queue; else the stream of the steps.
static cudaStream_t stream_of(const tt_cuda *c, bool is_wire)
{
    return is_wire ? c->queue->stream : c->stream;
}

extern "C" cudaStream_t tt_cuda_queue_stream(const tt_cuda *c)
{
    return c->queue->stream;
}

extern "C" const char *tt_cuda_queue_note(tt_cuda *c, bool is_wire,
                                          int64_t event)
{
    TRY_CUDA(cudaSetDevice(c->device));
    TRY_CUDA(cudaEventRecord(c->queue->event[event], stream_of(c, is_wire)));
    return NULL;
}

extern "C" const char *tt_cuda_queue_follow(tt_cuda *c, bool is_wire,
                                            int64_t event)
{
    TRY_CUDA(cudaSetDevice(c->device));
    TRY_CUDA(
        cudaStreamWaitEvent(stream_of(c, is_wire), c->queue->event[event], 0));
    return NULL;
}

extern "C" const char *tt_cuda_queue_is_over(tt_cuda *c, int64_t event,
                                             bool *over_out)
{
    TRY_CUDA(cudaSetDevice(c->device));
    const cudaError_t status = cudaEventQuery(c->queue->event[event]);
    *over_out = status == cudaSuccess;
    return status == cudaSuccess || status == cudaErrorNotReady
               ? NULL
               : tt_cuda_failed(status);
}

extern "C" const char *tt_cuda_queue_copy(tt_cuda *c, bool is_wire, void *to,
                                          const void *from, int64_t n)
{
    TRY_CUDA(cudaSetDevice(c->device));
    TRY_CUDA(cudaMemcpyAsync(to, from, (size_t)n, cudaMemcpyDefault,
                             stream_of(c, is_wire)));
    return NULL;
}

extern "C" const char *tt_cuda_queue_fill(tt_cuda *c, bool is_wire, void *to,
                                          int byte, int64_t n)
{
    TRY_CUDA(cudaSetDevice(c->device));
    TRY_CUDA(cudaMemsetAsync(to, byte, (size_t)n, stream_of(c, is_wire)));
    return NULL;
}

// ---- moves -----------------------------------------------------------------

// A move as a kernel takes it: extents, and both strides in elements.
struct index_space {
    int ndim;
    int64_t dim[TT_MOVE_DIMS], to[TT_MOVE_DIMS], from[TT_MOVE_DIMS];
};

// As the host adds two terms (comm/fold.h): 16 bits in f32, rounded once.
template <typename T> __device__ static inline T add(T a, T b)
{
    return a + b;
}
template <> __device__ inline bf16 add<bf16>(bf16 a, bf16 b)
{
    return __float2bfloat16_rn(__bfloat162float(a) + __bfloat162float(b));
}
template <> __device__ inline __half add<__half>(__half a, __half b)
{
    return __float2half_rn(__half2float(a) + __half2float(b));
}

template <typename T>
__global__ void add_strided(index_space s, int64_t n, const T *from, T *to)
{
    int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x, at_from = 0,
            at_to = 0;
    if (i >= n)
        return;
    for (int d = s.ndim - 1; d >= 0; d--) {
        const int64_t k = i % s.dim[d];
        i /= s.dim[d];
        at_from += k * s.from[d];
        at_to += k * s.to[d];
    }
    to[at_to] = add<T>(to[at_to], from[at_from]);
}

template <typename T>
static const char *add_move(cudaStream_t stream, const tt_move *m)
{
    index_space s = index_space();
    int64_t n = 1;
    for (int d = 0; d < m->ndim; d++) {
        s.dim[d] = m->dim[d];
        s.to[d] = m->to_stride[d];
        s.from[d] = m->from_stride[d];
        n *= m->dim[d];
    }
    s.ndim = m->ndim;
    add_strided<T><<<(unsigned)ceil_div(n, THREADS), THREADS, 0, stream>>>(
        s, n, (const T *)m->from, (T *)m->to);
    return launched();
}

// Reuses the strided copy of the steps, which takes its stream from a tt_cuda.
static const char *copy_move(tt_cuda *c, cudaStream_t stream, const tt_move *m)
{
    tt_cuda beside = *c; // the same device, another stream
    tt_cuda_copy_args args = tt_cuda_copy_args();
    beside.stream = stream;
    args.ndim = m->ndim;
    for (int d = 0; d < m->ndim; d++) {
        args.dim[d] = m->dim[d];
        args.to_stride[d] = m->to_stride[d];
        args.from_stride[d] = m->from_stride[d];
    }
    args.to_type = args.from_type = m->dtype;
    args.to = m->to;
    args.from = m->from;
    return tt_cuda_copy(&beside, &args);
}

extern "C" const char *tt_cuda_queue_move(tt_cuda *c, bool is_wire,
                                          const tt_move *m)
{
    TRY_CUDA(cudaSetDevice(c->device));
    const cudaStream_t stream = stream_of(c, is_wire);
    for (int d = 0; d < m->ndim; d++)
        if (m->dim[d] == 0)
            return NULL;
    if (!m->adds)
        return copy_move(c, stream, m);
    switch (m->dtype) {
    case TT_F64:
        return add_move<double>(stream, m);
    case TT_F32:
        return add_move<float>(stream, m);
    case TT_BF16:
        return add_move<bf16>(stream, m);
    case TT_F16:
        return add_move<__half>(stream, m);
    case TT_I64:
        return add_move<int64_t>(stream, m);
    case TT_I32:
        return add_move<int32_t>(stream, m);
    default:
        return add_move<uint8_t>(stream, m);
    }
}
