// lane - input batches on their way to the device while steps run.
//
//   host     room() fills pinned memory      (waits until the last send has left it)
//   lane     send(): pinned memory -> staging memory on the device     link's rate
//   steps    take(): staging memory -> the operand                     memory's rate
//
// Why two copies: the operand itself is read by the step that runs now, so the next
// batch may not be written there yet. Staging memory makes the slow copy over the link
// independent of the steps, and only the quick one is queued among them. Event `sent`
// orders take() after send(); event `taken` orders the next send() after take().
//
// Its stream has the lowest priority: a batch has a whole step to arrive in. A lane is
// an optimisation: where there is no memory for one, open() gives NULL and no error.

#include "backend/cuda/dev/common.cuh"

#include <new>

struct tt_cuda_lane {
    tt_cuda *cuda;
    cudaStream_t stream;
    cudaEvent_t sent, taken;
    void *host, *device;
};

extern "C" void tt_cuda_lane_close(tt_cuda_lane *l)
{
    if (l == NULL)
        return;
    if (l->stream != NULL) {
        (void)cudaStreamSynchronize(l->cuda->stream);
        (void)cudaStreamSynchronize(l->stream);
        (void)cudaStreamDestroy(l->stream);
    }
    if (l->sent != NULL)
        (void)cudaEventDestroy(l->sent);
    if (l->taken != NULL)
        (void)cudaEventDestroy(l->taken);
    if (l->device != NULL)
        (void)cudaFree(l->device);
    if (l->host != NULL)
        (void)cudaFreeHost(l->host);
    delete l;
}

static bool fill_in(tt_cuda_lane *l, int64_t bytes)
{
    const size_t n = (size_t)(bytes > 0 ? bytes : 1);
    int least = 0, greatest = 0;
    return cudaMallocHost(&l->host, n) == cudaSuccess &&
           cudaMalloc(&l->device, n) == cudaSuccess &&
           cudaEventCreateWithFlags(&l->sent, cudaEventDisableTiming) ==
               cudaSuccess &&
           cudaEventCreateWithFlags(&l->taken, cudaEventDisableTiming) ==
               cudaSuccess &&
           cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess &&
           cudaStreamCreateWithPriority(&l->stream, cudaStreamNonBlocking,
                                        least) == cudaSuccess;
}

extern "C" const char *tt_cuda_lane_open(tt_cuda *c, int64_t bytes,
                                         tt_cuda_lane **out)
{
    tt_cuda_lane *l = new (std::nothrow) tt_cuda_lane();
    *out = NULL;
    if (l == NULL)
        return NULL;
    l->cuda = c;
    if (fill_in(l, bytes)) {
        *out = l;
        return NULL;
    }
    tt_cuda_lane_close(l);
    (void)cudaGetLastError();
    return NULL;
}

extern "C" const char *tt_cuda_lane_room(tt_cuda_lane *l, void **host_out)
{
    TRY_CUDA(cudaEventSynchronize(l->sent));
    *host_out = l->host;
    return NULL;
}

extern "C" const char *tt_cuda_lane_send(tt_cuda_lane *l, int64_t n)
{
    TRY_CUDA(cudaStreamWaitEvent(l->stream, l->taken, 0));
    TRY_CUDA(cudaMemcpyAsync(l->device, l->host, (size_t)n,
                             cudaMemcpyHostToDevice, l->stream));
    TRY_CUDA(cudaEventRecord(l->sent, l->stream));
    return NULL;
}

extern "C" const char *tt_cuda_lane_take(tt_cuda_lane *l, void *to, int64_t n)
{
    tt_cuda *c = l->cuda;
    TRY(tt_cuda_no_recording(c));
    TRY(tt_cuda_flush(c));
    TRY_CUDA(cudaStreamWaitEvent(c->stream, l->sent, 0));
    TRY_CUDA(cudaMemcpyAsync(to, l->device, (size_t)n, cudaMemcpyDeviceToDevice,
                             c->stream));
    TRY_CUDA(cudaEventRecord(l->taken, c->stream));
    return NULL;
}
