// common - what the files of the plug-in share: the device, errors, launches. It
// includes what nearly all of them need.
//
// How kernels are written here. A launcher (tt_cuda_NAME) takes one struct of arguments
// (api/args_*.h), queues its kernels in cuda->stream and returns NULL or a message. It
// allocates nothing and waits for nothing, so that a step can be recorded into a CUDA
// graph. Sums have a fixed order: blocks write parts to scratch memory and a second
// kernel adds them up; there are no atomic additions of floats. So a run repeats bit by
// bit.

#ifndef TT_BACKEND_CUDA_DEV_COMMON_CUH
#define TT_BACKEND_CUDA_DEV_COMMON_CUH

#include "backend/cuda/dev/calls.cuh"
#include "backend/cuda/dev/element.cuh"
#include "backend/cuda/dev/load_any.cuh"
#include "backend/cuda/dev/sums.cuh"

#include <cublasLt.h>
#include <cuda_runtime.h>

enum { RING_SLOTS = 8, RING_BYTES = 1 << 20 };

// A kernel cannot return an error. Where an index is outside its table it writes one of
// these to host memory (tt_cuda.fault), and the next call that reads or waits reports
// it.
enum tt_fault {
    FAULT_NONE,
    FAULT_ID,
    FAULT_POSITION,
    FAULT_LABEL,
    FAULT_CODE,
};

// Where the blocks of one kernel meet, so that the last one to come can finish the
// work. Both are 0 between kernels: the last block sets them back.
struct tt_meeting {
    unsigned largest, arrived;
};

struct tt_cuda {
    int device;
    cudaStream_t stream;
    cublasLtHandle_t lt;
    void *cudnn; // made at first use; see sdpa.cu
    char *ring;  // pinned memory through which writes go
    cudaEvent_t ring_done[RING_SLOTS];
    int ring_next;
    cudaEvent_t *marks;
    int64_t n_marks;
    bool is_recording; // see record.cu
    struct optim_batch
        *optims; // updates and squares that wait for more of their
    struct squares_batch *squares; // kind, to be done in one launch
    volatile int *fault;           // in the host's memory, for kernels
    int *fault_device;
    tt_cuda_memo memo;   // of who opened it
    tt_meeting *meeting; // on the device; made at first use
    tt_cuda_info info;
    struct tt_cuda_queue *queue; // beside the stream; NULL: nobody needs it
    cudaStream_t
        beside[2]; // copies from and to the device; see wire/offload.cu
    struct tt_cuda_drain *drain; // NULL: nothing was drained yet
};

// Fails while work is recorded into a CUDA graph: what talks to the host would be done
// once, now, and not again when the graph is replayed.
const char *tt_cuda_no_recording(const tt_cuda *cuda);

const char *tt_cuda_record(tt_cuda *cuda);
const char *tt_cuda_recorded(tt_cuda *cuda, bool keep, tt_cuda_recording **out);
const char *tt_cuda_replay(tt_cuda *cuda, tt_cuda_recording *recording);
void tt_cuda_forget(tt_cuda *cuda, tt_cuda_recording *recording);

// Launches batched updates and sums that wait for more of their kind (optim.cu,
// reduce.cu). Whatever else is queued calls it first, so that the order is kept.
const char *tt_cuda_flush(tt_cuda *cuda);
const char *tt_cuda_flush_optims(tt_cuda *cuda);
const char *tt_cuda_flush_squares(tt_cuda *cuda);
void tt_cuda_forget_optims(tt_cuda *cuda);
void tt_cuda_forget_squares(tt_cuda *cuda);
void tt_cuda_beside_close(tt_cuda *cuda);
void tt_cuda_drain_close(tt_cuda *cuda);

// NULL, or what went wrong; the text lives until the thread's next failure.
const char *tt_cuda_failed(cudaError_t status);
const char *tt_cuda_failed_text(const char *format, ...);

#define TRY_CUDA(call)                                                         \
    do {                                                                       \
        const cudaError_t try_status = (call);                                 \
        if (try_status != cudaSuccess)                                         \
            return tt_cuda_failed(try_status);                                 \
    } while (0)

#define TRY(call)                                                              \
    do {                                                                       \
        const char *try_error = (call);                                        \
        if (try_error != NULL)                                                 \
            return try_error;                                                  \
    } while (0)

static inline const char *launched(void)
{
    const cudaError_t status = cudaGetLastError();
    return status == cudaSuccess ? NULL : tt_cuda_failed(status);
}

static inline int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

// ---- launching -------------------------------------------------------------

// Calls the instance of f for the element's type.
#define BY_TYPE(type, f, ...)                                                  \
    ((type) == TT_BF16  ? f<bf16>(__VA_ARGS__)                                 \
     : (type) == TT_F16 ? f<f16>(__VA_ARGS__)                                  \
                        : f<float>(__VA_ARGS__))

static inline bool is_aligned(const void *p)
{
    return ((uintptr_t)p & 15) == 0;
}

#endif
