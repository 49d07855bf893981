// device - opening, memory, copies, and the table of everything the plug-in offers.

#include "backend/cuda/dev/common.cuh"

#include <atomic>
#include <new>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static thread_local char message[256];

const char *tt_cuda_failed_text(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return message;
}

const char *tt_cuda_failed(cudaError_t status)
{
    return tt_cuda_failed_text("%s (%s)", cudaGetErrorString(status),
                               cudaGetErrorName(status));
}

// ---- opening ---------------------------------------------------------------

// A device that was closed waits here for the next one who opens it: streams and
// handles of libraries take tenths of a second to make.
static std::atomic<tt_cuda *> spare;

static int devices(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

static void destroy(tt_cuda *c)
{
    for (int i = 0; i < RING_SLOTS; i++)
        if (c->ring_done[i] != NULL)
            cudaEventDestroy(c->ring_done[i]);
    if (c->ring != NULL)
        cudaFreeHost(c->ring);
    if (c->fault != NULL)
        cudaFreeHost((void *)c->fault);
    if (c->lt != NULL)
        cublasLtDestroy(c->lt);
    if (c->stream != NULL)
        cudaStreamDestroy(c->stream);
    delete c;
}

static const char *fill_in(tt_cuda *c, int device)
{
    cudaDeviceProp p;
    c->device = device;
    TRY_CUDA(cudaSetDevice(device));
    TRY_CUDA(cudaGetDeviceProperties(&p, device));
    snprintf(c->info.name, sizeof c->info.name, "%.63s", p.name);
    c->info.major = p.major;
    c->info.minor = p.minor;
    c->info.cores = p.multiProcessorCount;
    TRY_CUDA(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
    TRY_CUDA(cudaMallocHost(&c->ring, (size_t)RING_SLOTS * RING_BYTES));
    for (int i = 0; i < RING_SLOTS; i++)
        TRY_CUDA(cudaEventCreateWithFlags(&c->ring_done[i],
                                          cudaEventDisableTiming));
    void *fault = NULL, *fault_device = NULL;
    TRY_CUDA(cudaHostAlloc(&fault, sizeof(int), cudaHostAllocMapped));
    c->fault = (volatile int *)fault;
    *c->fault = FAULT_NONE;
    TRY_CUDA(cudaHostGetDevicePointer(&fault_device, fault, 0));
    c->fault_device = (int *)fault_device;
    if (cublasLtCreate(&c->lt) != CUBLAS_STATUS_SUCCESS)
        return tt_cuda_failed_text("cuBLASLt cannot be started");
    return NULL;
}

static const char *open(int device, tt_cuda **out)
{
    tt_cuda *c = spare.exchange(NULL);
    if (c != NULL && c->device == device) {
        TRY_CUDA(cudaSetDevice(device));
        *out = c;
        return NULL;
    }
    if (c != NULL)
        destroy(c);
    c = new (std::nothrow) tt_cuda();
    if (c == NULL)
        return tt_cuda_failed_text("no memory");
    const char *error = fill_in(c, device);
    if (error != NULL) {
        destroy(c);
        return error;
    }
    *out = c;
    return NULL;
}

static void close(tt_cuda *c)
{
    (void)cudaStreamSynchronize(c->stream);
    *c->fault = FAULT_NONE;
    tt_cuda *other = spare.exchange(c);
    if (other != NULL)
        destroy(other);
}

static const char *info(tt_cuda *c, tt_cuda_info *out)
{
    size_t free_bytes = 0, total_bytes = 0;
    TRY_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    *out = c->info;
    out->free_bytes = (int64_t)free_bytes;
    out->total_bytes = (int64_t)total_bytes;
    return NULL;
}

// ---- memory ----------------------------------------------------------------

static const char *alloc(tt_cuda *c, int64_t bytes, void **out)
{
    (void)c;
    TRY_CUDA(cudaMalloc(out, (size_t)(bytes > 0 ? bytes : 1)));
    return NULL;
}

static void free_block(tt_cuda *c, void *block)
{
    if (block == NULL)
        return;
    (void)cudaStreamSynchronize(c->stream);
    (void)cudaFree(block);
}

static const char *fill(tt_cuda *c, void *to, int byte, int64_t bytes)
{
    TRY_CUDA(cudaMemsetAsync(to, byte, (size_t)bytes, c->stream));
    return NULL;
}

// Through pinned memory, piece by piece, so that neither the caller's memory nor the
// stream has to wait for the other.
static const char *write(tt_cuda *c, void *to, const void *host, int64_t n)
{
    for (int64_t at = 0; at < n; at += RING_BYTES) {
        const int slot = c->ring_next;
        char *piece = c->ring + (int64_t)slot * RING_BYTES;
        const size_t left = (size_t)(n - at);
        const size_t bytes = left < RING_BYTES ? left : (size_t)RING_BYTES;
        c->ring_next = (slot + 1) % RING_SLOTS;
        TRY_CUDA(cudaEventSynchronize(c->ring_done[slot]));
        memcpy(piece, (const char *)host + at, bytes);
        TRY_CUDA(cudaMemcpyAsync((char *)to + at, piece, bytes,
                                 cudaMemcpyHostToDevice, c->stream));
        TRY_CUDA(cudaEventRecord(c->ring_done[slot], c->stream));
    }
    return NULL;
}

static const char *check_fault(tt_cuda *c)
{
    const int fault = *c->fault;
    *c->fault = FAULT_NONE;
    switch (fault) {
    case FAULT_NONE:
        return NULL;
    case FAULT_ID:
        return tt_cuda_failed_text("an id is outside of its table");
    case FAULT_POSITION:
        return tt_cuda_failed_text("a position is outside of its table");
    default:
        return tt_cuda_failed_text("a label is outside of the vocabulary");
    }
}

static const char *wait(tt_cuda *c)
{
    TRY_CUDA(cudaStreamSynchronize(c->stream));
    return check_fault(c);
}

static const char *read(tt_cuda *c, void *host, const void *from, int64_t n)
{
    TRY_CUDA(cudaMemcpyAsync(host, from, (size_t)n, cudaMemcpyDeviceToHost,
                             c->stream));
    return wait(c);
}

// ---- the table -------------------------------------------------------------

extern "C" __attribute__((visibility("default"))) const tt_cuda_api
    tutti_cuda_api;
const tt_cuda_api tutti_cuda_api = {
    TT_VERSION,
    (int64_t)sizeof(tt_cuda_api),
    devices,
    open,
    close,
    info,
    alloc,
    free_block,
    fill,
    write,
    read,
    wait,
    tt_cuda_reduce_scratch,
    tt_cuda_norm_scratch,
    tt_cuda_embed_scratch,
    tt_cuda_bn_scratch,
    tt_cuda_route_scratch,
    tt_cuda_gemm_create,
    tt_cuda_gemm_destroy,
    tt_cuda_gemm_scratch,
    tt_cuda_gemm_run,
    tt_cuda_sdpa_create,
    tt_cuda_sdpa_destroy,
    tt_cuda_sdpa_scratch,
    tt_cuda_sdpa_run,
    tt_cuda_conv_create,
    tt_cuda_conv_destroy,
    tt_cuda_conv_scratch,
    tt_cuda_conv_run,
#define TT_CUDA_CALL(name, type) tt_cuda_##name,
    TT_CUDA_LAUNCHERS(TT_CUDA_CALL)
#undef TT_CUDA_CALL
};
