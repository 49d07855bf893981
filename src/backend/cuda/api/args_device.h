// args_device - a device as a whole, and copies that go on beside its steps.

#ifndef TT_BACKEND_CUDA_API_ARGS_DEVICE_H
#define TT_BACKEND_CUDA_API_ARGS_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_cuda tt_cuda; // a device, its stream, its libraries' handles
typedef struct tt_cuda_beside tt_cuda_beside; // a copy beside the steps

// Measured choices (which algorithm is fastest for a shape), kept by whoever opens the
// device: see dev/memo.cuh. Functions may be NULL. The value of a key is valid until
// the next call; NULL: unknown.
typedef struct tt_cuda_memo {
    void *ctx;
    const char *(*find)(void *ctx, const char *key);
    void (*keep)(void *ctx, const char *key, const char *value);
} tt_cuda_memo;

typedef struct tt_cuda_info {
    char name[64];
    unsigned char id[16]; // like no other device's
    int64_t free_bytes, total_bytes;
    int major, minor, cores; // compute capability, multiprocessors
    double peak_flops;       // a second, of products of 16 bits; 0: unknown
} tt_cuda_info;

// Offload: pinned memory of the host, and copies that run beside the steps between
// begin and finish. An object has one copy at a time. See dev/wire/offload.cu.
typedef struct tt_cuda_beside_api {
    const char *(*host_alloc)(tt_cuda *cuda, int64_t bytes, void **out);
    void (*host_free)(tt_cuda *cuda, void *block);
    const char *(*create)(tt_cuda *cuda, bool is_in, tt_cuda_beside **out);
    void (*destroy)(tt_cuda_beside *beside);
    const char *(*begin)(tt_cuda *cuda, tt_cuda_beside *beside, void *to,
                         const void *from, int64_t n);
    const char *(*finish)(tt_cuda *cuda, tt_cuda_beside *beside);
} tt_cuda_beside_api;

// States on their way to the host; see backend/drain.h.
typedef struct tt_cuda_drain_api {
    const char *(*pin)(tt_cuda *cuda, void *host, int64_t n);
    void (*unpin)(tt_cuda *cuda, void *host);
    const char *(*begin)(tt_cuda *cuda);
    const char *(*copy)(tt_cuda *cuda, void *host, const void *from, int64_t n,
                        bool in_steps);
    const char *(*end)(tt_cuda *cuda);
    const char *(*hold)(tt_cuda *cuda);
    const char *(*wait)(tt_cuda *cuda);
} tt_cuda_drain_api;

#endif
