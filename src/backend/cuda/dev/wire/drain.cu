// drain - states leave for pinned memory of the host in a stream of their own, while
// the next step runs: what a checkpoint is written from. backend/drain.h has the
// picture.
//
// The danger is the optimiser: it must not overwrite a state that is still being
// copied. So hold() makes the steps wait for event `done` before the update, and
// forward and backward of that step hide the copies. begin() makes the drain wait for
// all steps queued so far (event `ready`).
//
// On an H200 copies run at 55 GB/s, and a step beside them takes as long as any other.
// A checkpoint of 18 GB (GPT-2 1558M) is hidden in a step of 1.1 s; the one slow step
// is that in which the host's memory is pinned, at the beginning.
//
// begin() and hold() fail while steps are recorded into a CUDA graph: a checkpoint is
// not a part of every step.

#include "backend/cuda/dev/common.cuh"

#include <new>

struct tt_cuda_drain {
    cudaStream_t stream;
    cudaEvent_t ready, done;
};

void tt_cuda_drain_close(tt_cuda *c)
{
    tt_cuda_drain *d = c->drain;
    if (d == NULL)
        return;
    if (d->stream != NULL)
        (void)cudaStreamDestroy(d->stream);
    if (d->ready != NULL)
        (void)cudaEventDestroy(d->ready);
    if (d->done != NULL)
        (void)cudaEventDestroy(d->done);
    delete d;
    c->drain = NULL;
}

static const char *fill_in(tt_cuda_drain *d)
{
    int least = 0, greatest = 0;
    TRY_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TRY_CUDA(cudaStreamCreateWithPriority(&d->stream, cudaStreamNonBlocking,
                                          greatest));
    TRY_CUDA(cudaEventCreateWithFlags(&d->ready, cudaEventDisableTiming));
    TRY_CUDA(cudaEventCreateWithFlags(&d->done, cudaEventDisableTiming));
    return NULL;
}

static const char *make(tt_cuda *c)
{
    if (c->drain != NULL)
        return NULL;
    c->drain = new (std::nothrow) tt_cuda_drain();
    if (c->drain == NULL)
        return tt_cuda_failed_text("no memory");
    const char *error = fill_in(c->drain);
    if (error != NULL)
        tt_cuda_drain_close(c);
    return error;
}

extern "C" const char *tt_cuda_drain_pin(tt_cuda *c, void *host, int64_t n)
{
    TRY_CUDA(cudaSetDevice(c->device));
    const cudaError_t status =
        cudaHostRegister(host, (size_t)n, cudaHostRegisterDefault);
    if (status == cudaSuccess)
        return NULL;
    (void)cudaGetLastError(); // copies do without
    return tt_cuda_failed(status);
}

extern "C" void tt_cuda_drain_unpin(tt_cuda *c, void *host)
{
    if (c->drain != NULL)
        (void)cudaStreamSynchronize(c->drain->stream);
    (void)cudaHostUnregister(host);
}

// The drain's next copies wait for all that is queued among the steps so far.
static const char *follow_steps(tt_cuda *c)
{
    TRY_CUDA(cudaEventRecord(c->drain->ready, c->stream));
    TRY_CUDA(cudaStreamWaitEvent(c->drain->stream, c->drain->ready, 0));
    return NULL;
}

extern "C" const char *tt_cuda_drain_begin(tt_cuda *c)
{
    TRY(make(c));
    TRY(tt_cuda_no_recording(c));
    TRY(tt_cuda_flush(c));
    return follow_steps(c);
}

extern "C" const char *tt_cuda_drain_copy(tt_cuda *c, void *host,
                                          const void *from, int64_t n,
                                          bool in_steps)
{
    TRY(tt_cuda_flush(c));
    if (!in_steps)
        TRY(follow_steps(c));
    TRY_CUDA(cudaMemcpyAsync(host, from, (size_t)n, cudaMemcpyDeviceToHost,
                             in_steps ? c->stream : c->drain->stream));
    return NULL;
}

extern "C" const char *tt_cuda_drain_end(tt_cuda *c)
{
    TRY(follow_steps(c));
    TRY_CUDA(cudaEventRecord(c->drain->done, c->drain->stream));
    return NULL;
}

extern "C" const char *tt_cuda_drain_hold(tt_cuda *c)
{
    TRY(tt_cuda_no_recording(c));
    TRY(tt_cuda_flush(c));
    TRY_CUDA(cudaStreamWaitEvent(c->stream, c->drain->done, 0));
    return NULL;
}

extern "C" const char *tt_cuda_drain_wait(tt_cuda *c)
{
    TRY_CUDA(cudaSetDevice(c->device));
    if (c->drain != NULL)
        TRY_CUDA(cudaEventSynchronize(c->drain->done));
    return NULL;
}
