// device - opening a device, its memory, copies, marks for timing, and the table of
// everything that the plug-in offers (tutti_cuda_api), which is its only symbol.
//
// The plug-in is a library of its own, so that the main library needs neither CUDA's
// headers nor its libraries: it opens the plug-in when a GPU is asked for.

#include "backend/cuda/dev/common.cuh"

#include <atomic>
#include <new>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

// One closed device is kept for the next open(), because streams and library handles
// take tenths of a second to make.
static std::atomic<tt_cuda *> spare;

static int devices(void)
{
    int n = 0;
    return cudaGetDeviceCount(&n) == cudaSuccess ? n : 0;
}

const char *tt_cuda_flush(tt_cuda *c)
{
    TRY(tt_cuda_flush_squares(c));
    return tt_cuda_flush_optims(c);
}

static void destroy(tt_cuda *c)
{
    tt_cuda_queue_destroy(c);
    tt_cuda_beside_close(c);
    tt_cuda_drain_close(c);
    tt_cuda_forget_optims(c);
    tt_cuda_forget_squares(c);
    if (c->meeting != NULL)
        cudaFree(c->meeting);
    for (int64_t i = 0; i < c->n_marks; i++)
        cudaEventDestroy(c->marks[i]);
    free(c->marks);
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
    memcpy(c->info.id, p.uuid.bytes, sizeof c->info.id);
    c->info.major = p.major;
    c->info.minor = p.minor;
    c->info.cores = p.multiProcessorCount;
    // Hopper: 4096 operations a cycle, at the clock of the data sheet.
    if (p.major == 9 && p.minor == 0)
        c->info.peak_flops = 4096 * 1.83e9 * p.multiProcessorCount;
    TRY_CUDA(cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking));
    TRY_CUDA(cudaMallocHost(&c->ring, (size_t)RING_SLOTS * RING_BYTES));
    for (int i = 0; i < RING_SLOTS; i++)
        TRY_CUDA(
            cudaEventCreateWithFlags(&c->ring_done[i], cudaEventDisableTiming));
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

static const char *open(int device, const tt_cuda_memo *memo, tt_cuda **out)
{
    tt_cuda *c = spare.exchange(NULL);
    if (c != NULL && c->device == device) {
        TRY_CUDA(cudaSetDevice(device));
        c->memo = *memo;
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
    c->memo = *memo;
    *out = c;
    return NULL;
}

static void close(tt_cuda *c)
{
    (void)tt_cuda_flush(c);
    c->memo = tt_cuda_memo();
    (void)cudaStreamSynchronize(c->stream);
    tt_cuda_queue_unpin(c);
    *c->fault = FAULT_NONE;
    tt_cuda *other = spare.exchange(c);
    if (other != NULL)
        destroy(other);
}

static const char *info(tt_cuda *c, tt_cuda_info *out)
{
    size_t free_bytes = 0, total_bytes = 0;
    TRY_CUDA(cudaSetDevice(c->device));
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
    (void)tt_cuda_flush(c);
    (void)cudaStreamSynchronize(c->stream);
    (void)cudaFree(block);
}

static const char *fill(tt_cuda *c, void *to, int byte, int64_t bytes)
{
    TRY(tt_cuda_flush(c));
    TRY_CUDA(cudaMemsetAsync(to, byte, (size_t)bytes, c->stream));
    return NULL;
}

// Host memory goes through a ring of pinned slots. The copy is asynchronous, and the
// caller may reuse its memory at once; it waits only when the ring is full.
static const char *write(tt_cuda *c, void *to, const void *host, int64_t n)
{
    TRY(tt_cuda_no_recording(c));
    TRY(tt_cuda_flush(c));
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
    case FAULT_CODE:
        return tt_cuda_failed_text(
            "the code of a replica is damaged, or of another tensor or codec");
    default:
        return tt_cuda_failed_text("a label is outside of the vocabulary");
    }
}

static const char *wait(tt_cuda *c)
{
    TRY(tt_cuda_no_recording(c));
    TRY(tt_cuda_flush(c));
    TRY_CUDA(cudaStreamSynchronize(c->stream));
    return check_fault(c);
}

static const char *read(tt_cuda *c, void *host, const void *from, int64_t n)
{
    TRY(tt_cuda_no_recording(c));
    TRY(tt_cuda_flush(c));
    TRY_CUDA(cudaMemcpyAsync(host, from, (size_t)n, cudaMemcpyDeviceToHost,
                             c->stream));
    return wait(c);
}

// ---- marks -----------------------------------------------------------------

static const char *mark(tt_cuda *c, int64_t number)
{
    TRY(tt_cuda_no_recording(c));
    TRY(tt_cuda_flush(c));
    if (number >= c->n_marks) {
        const int64_t n = 2 * number + 64;
        cudaEvent_t *grown =
            (cudaEvent_t *)realloc(c->marks, (size_t)n * sizeof *grown);
        if (grown == NULL)
            return tt_cuda_failed_text("no memory");
        for (c->marks = grown; c->n_marks < n; c->n_marks++)
            TRY_CUDA(cudaEventCreate(&c->marks[c->n_marks]));
    }
    TRY_CUDA(cudaEventRecord(c->marks[number], c->stream));
    return NULL;
}

static const char *between(tt_cuda *c, int64_t from, int64_t to,
                           double *seconds_out)
{
    float ms = 0;
    TRY_CUDA(cudaEventSynchronize(c->marks[to]));
    TRY_CUDA(cudaEventElapsedTime(&ms, c->marks[from], c->marks[to]));
    *seconds_out = (double)ms * 1e-3;
    return NULL;
}

// ---- the table -------------------------------------------------------------

// Called before each launcher: batched work that waits is launched first, to keep the
// order. The launchers of batched work have their own versions, which let it wait on.
template <typename A> static const char *before(tt_cuda *c, const A *)
{
    return tt_cuda_flush(c);
}
static const char *before(tt_cuda *c, const tt_cuda_optim_args *)
{
    return tt_cuda_flush_squares(c);
}
static const char *before(tt_cuda *c, const tt_cuda_squares_args *)
{
    return tt_cuda_flush_optims(c);
}

#define TT_CUDA_CALL(name, type)                                               \
    static const char *call_##name(tt_cuda *c, const type *args)               \
    {                                                                          \
        TRY(before(c, args));                                                  \
        return tt_cuda_##name(c, args);                                        \
    }
TT_CUDA_LAUNCHERS(TT_CUDA_CALL)
#undef TT_CUDA_CALL

static const char *gemm_run(tt_cuda *c, tt_cuda_gemm *gemm,
                            const tt_cuda_gemm_args *args)
{
    TRY(tt_cuda_flush(c));
    return tt_cuda_gemm_run(gemm, args);
}

static const char *sdpa_run(tt_cuda *c, tt_cuda_sdpa *sdpa,
                            const tt_cuda_attention_args *args)
{
    TRY(tt_cuda_flush(c));
    return tt_cuda_sdpa_run(sdpa, args);
}

static const char *conv_run(tt_cuda *c, tt_cuda_conv *conv,
                            const tt_cuda_conv_args *args)
{
    TRY(tt_cuda_flush(c));
    return tt_cuda_conv_run(conv, args);
}

// Batched work of the steps is launched before an event is noted: it belongs before it.
static const char *queue_note(tt_cuda *c, int queue, int64_t event)
{
    if (queue == TT_QUEUE_STEPS)
        TRY(tt_cuda_flush(c));
    return tt_cuda_queue_note(c, queue, event);
}

static const char *beside_begin(tt_cuda *c, tt_cuda_beside *b, void *to,
                                const void *from, int64_t n)
{
    TRY(tt_cuda_flush(c));
    return tt_cuda_beside_begin(c, b, to, from, n);
}

static const char *queue_copy(tt_cuda *c, int queue, void *to, const void *from,
                              int64_t n)
{
    if (queue == TT_QUEUE_STEPS)
        TRY(tt_cuda_flush(c));
    return tt_cuda_queue_copy(c, queue, to, from, n);
}

static const char *queue_fill(tt_cuda *c, int queue, void *to, int byte,
                              int64_t n)
{
    if (queue == TT_QUEUE_STEPS)
        TRY(tt_cuda_flush(c));
    return tt_cuda_queue_fill(c, queue, to, byte, n);
}

static const char *queue_move(tt_cuda *c, int queue, const tt_move *move)
{
    if (queue == TT_QUEUE_STEPS)
        TRY(tt_cuda_flush(c));
    return tt_cuda_queue_move(c, queue, move);
}

extern "C" __attribute__((visibility("default")))
const tt_cuda_api tutti_cuda_api;
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
    mark,
    between,
    tt_cuda_record,
    tt_cuda_recorded,
    tt_cuda_replay,
    tt_cuda_forget,
    {tt_cuda_host_alloc, tt_cuda_host_free, tt_cuda_beside_create,
     tt_cuda_beside_destroy, beside_begin, tt_cuda_beside_finish},
    {tt_cuda_drain_pin, tt_cuda_drain_unpin, tt_cuda_drain_begin,
     tt_cuda_drain_copy, tt_cuda_drain_end, tt_cuda_drain_hold,
     tt_cuda_drain_wait},
    {
        tt_cuda_queue_events,
        tt_cuda_queue_pin,
        queue_note,
        tt_cuda_queue_follow,
        tt_cuda_queue_is_over,
        queue_copy,
        queue_fill,
        queue_move,
        tt_cuda_nccl_version,
        tt_cuda_nccl_make_id,
        tt_cuda_nccl_open,
        tt_cuda_nccl_is_busy,
        tt_cuda_nccl_run,
        tt_cuda_nccl_note,
        tt_cuda_nccl_close,
    },
    tt_cuda_lane_open,
    tt_cuda_lane_close,
    tt_cuda_lane_room,
    tt_cuda_lane_send,
    tt_cuda_lane_take,
    tt_cuda_reduce_scratch,
    tt_cuda_norm_scratch,
    tt_cuda_embed_scratch,
    tt_cuda_bn_scratch,
    tt_cuda_route_scratch,
    tt_cuda_topk_scratch,
    tt_cuda_fp8_pack_open,
    tt_cuda_fp8_pack_scratch,
    tt_cuda_gemm_create,
    tt_cuda_gemm_destroy,
    tt_cuda_gemm_scratch,
    gemm_run,
    tt_cuda_sdpa_create,
    tt_cuda_sdpa_destroy,
    tt_cuda_sdpa_scratch,
    sdpa_run,
    tt_cuda_conv_create,
    tt_cuda_conv_destroy,
    tt_cuda_conv_scratch,
    conv_run,
#define TT_CUDA_CALL(name, type) call_##name,
    TT_CUDA_LAUNCHERS(TT_CUDA_CALL)
#undef TT_CUDA_CALL
};
