// queue - CUDA streams for the wire: copies between device and host, packing and
// unpacking of buckets, and NCCL's collectives (nccl.cu). They run beside the stream of
// the steps, so that communication overlaps with computation.
//
//   steps   | backward, layer 9 | note(e) | backward, layer 8 ... | follow(f) | update
//   wire                  follow(e) | pack | all-reduce | unpack | note(f)
//   out     what a stage sends, to the host        in      what it receives, back
//
// Streams know of each other only by events: note() records one, follow() makes
// a stream wait for one. Neither call makes the host wait. Events are numbered by
// whoever uses them, and made before they are used (queue_events), without timing.
//
// The streams have the highest priority: what peers wait for goes before what only this
// device waits for.
//
// Copies go over the host's link, moves through the device's memory. Host memory is
// pinned where that succeeds; copies work without it too.

#include "backend/cuda/dev/common.cuh"

#include <new>
#include <stdlib.h>

enum { THREADS = 256, BESIDE = TT_N_QUEUES - 1 }; // all but that of the steps

// A range of host memory that this queue has registered. The list lets equal requests
// be made again for nothing, and everything be unregistered when the device is closed.
struct pinned {
    void *host;
    int64_t bytes;
    pinned *next;
};

struct tt_cuda_queue {
    cudaStream_t stream[BESIDE];
    cudaEvent_t *event;
    int64_t n_events;
    pinned *first;
};

// The highest priority: see above.
cudaError_t tt_cuda_queue_stream_make(cudaStream_t *stream_out)
{
    int least = 0, greatest = 0;
    const cudaError_t status =
        cudaDeviceGetStreamPriorityRange(&least, &greatest);
    return status != cudaSuccess
               ? status
               : cudaStreamCreateWithPriority(stream_out, cudaStreamNonBlocking,
                                              greatest);
}

static void destroy_streams(tt_cuda_queue *q)
{
    for (int i = 0; i < BESIDE; i++)
        if (q->stream[i] != NULL)
            cudaStreamDestroy(q->stream[i]);
}

static const char *make(tt_cuda *c)
{
    if (c->queue != NULL)
        return NULL;
    tt_cuda_queue *q = new (std::nothrow) tt_cuda_queue();
    if (q == NULL)
        return tt_cuda_failed_text("no memory");
    cudaError_t status = cudaSuccess;
    for (int i = 0; i < BESIDE && status == cudaSuccess; i++)
        status = tt_cuda_queue_stream_make(&q->stream[i]);
    if (status != cudaSuccess) {
        destroy_streams(q);
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
    for (int i = 0; i < BESIDE; i++)
        (void)cudaStreamSynchronize(c->queue->stream[i]);
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
    destroy_streams(q);
    delete q;
}

static cudaStream_t stream_of(const tt_cuda *c, int queue)
{
    return queue == TT_QUEUE_STEPS ? c->stream : c->queue->stream[queue - 1];
}

extern "C" cudaStream_t tt_cuda_queue_stream(const tt_cuda *c)
{
    return stream_of(c, TT_QUEUE_WIRE);
}

extern "C" const char *tt_cuda_queue_note(tt_cuda *c, int queue, int64_t event)
{
    return tt_cuda_queue_note_in(c, stream_of(c, queue), event);
}

extern "C" const char *tt_cuda_queue_note_in(tt_cuda *c, cudaStream_t stream,
                                             int64_t event)
{
    TRY_CUDA(cudaSetDevice(c->device));
    TRY_CUDA(cudaEventRecord(c->queue->event[event], stream));
    return NULL;
}

extern "C" const char *tt_cuda_queue_follow(tt_cuda *c, int queue,
                                            int64_t event)
{
    TRY_CUDA(cudaSetDevice(c->device));
    TRY_CUDA(
        cudaStreamWaitEvent(stream_of(c, queue), c->queue->event[event], 0));
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

extern "C" const char *tt_cuda_queue_copy(tt_cuda *c, int queue, void *to,
                                          const void *from, int64_t n)
{
    TRY_CUDA(cudaSetDevice(c->device));
    TRY_CUDA(cudaMemcpyAsync(to, from, (size_t)n, cudaMemcpyDefault,
                             stream_of(c, queue)));
    return NULL;
}

extern "C" const char *tt_cuda_queue_fill(tt_cuda *c, int queue, void *to,
                                          int byte, int64_t n)
{
    TRY_CUDA(cudaSetDevice(c->device));
    TRY_CUDA(cudaMemsetAsync(to, byte, (size_t)n, stream_of(c, queue)));
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

extern "C" const char *tt_cuda_queue_move(tt_cuda *c, int queue,
                                          const tt_move *m)
{
    TRY_CUDA(cudaSetDevice(c->device));
    const cudaStream_t stream = stream_of(c, queue);
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
