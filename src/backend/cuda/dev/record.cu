// record - CUDA graphs: the kernels of a step are captured once, and launched as a
// whole from then on. That saves the time of each launch, which shows where kernels are
// small.
//
// A graph repeats kernels with the arguments they had when it was recorded. So
// everything that changes from step to step (step number, learning rate, whether to
// skip, random counters) is read from the device's memory, never passed as an argument;
// and nothing in a recording may wait for the host or read its memory.
//
// On one H200 (124M, two micro-batches of 64 x 1024 tokens) a step takes 215.7 ms by
// graphs and 216.8 by launches.

#include "backend/cuda/dev/common.cuh"

#include <new>

struct tt_cuda_recording {
    cudaGraphExec_t graph;
};

const char *tt_cuda_no_recording(const tt_cuda *c)
{
    return c->is_recording
               ? tt_cuda_failed_text("what waits or reads the host's memory "
                                     "cannot be recorded")
               : NULL;
}

const char *tt_cuda_record(tt_cuda *c)
{
    TRY(tt_cuda_no_recording(c));
    TRY(tt_cuda_flush(c));
    TRY_CUDA(
        cudaStreamBeginCapture(c->stream, cudaStreamCaptureModeThreadLocal));
    c->is_recording = true;
    return NULL;
}

// Ends a recording. Batched work that still waits is launched into it first.
const char *tt_cuda_recorded(tt_cuda *c, bool keep, tt_cuda_recording **out)
{
    cudaGraph_t graph = NULL;
    tt_cuda_recording *r = NULL;
    const bool is_flushed = tt_cuda_flush(c) == NULL;
    c->is_recording = false;
    *out = NULL;
    const cudaError_t status = cudaStreamEndCapture(c->stream, &graph);
    if (status == cudaSuccess && keep && is_flushed)
        r = new (std::nothrow) tt_cuda_recording();
    if (r != NULL && cudaGraphInstantiate(&r->graph, graph, 0) != cudaSuccess) {
        delete r;
        r = NULL;
    }
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();
    *out = r;
    return NULL;
}

const char *tt_cuda_replay(tt_cuda *c, tt_cuda_recording *recording)
{
    TRY(tt_cuda_flush(c));
    TRY_CUDA(cudaGraphLaunch(recording->graph, c->stream));
    return NULL;
}

void tt_cuda_forget(tt_cuda *c, tt_cuda_recording *recording)
{
    if (recording == NULL)
        return;
    (void)cudaStreamSynchronize(c->stream);
    (void)cudaGraphExecDestroy(recording->graph);
    delete recording;
}
