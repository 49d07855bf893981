// api_wire - the part of api.h for communication between ranks: streams beside that of the
// steps, and NCCL's collectives, which run in them.

#ifndef TT_BACKEND_CUDA_API_API_WIRE_H
#define TT_BACKEND_CUDA_API_API_WIRE_H

#include "backend/device_coll.h"
#include "backend/move.h"
#include "backend/queue.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_cuda tt_cuda;
typedef struct tt_cuda_nccl tt_cuda_nccl; // a communicator of NCCL's

typedef struct tt_cuda_wire_api {
    // The stream of the steps, or one beside it (tt_queue); see backend/queue.h.
    const char *(*queue_events)(tt_cuda *cuda, int64_t n);
    const char *(*queue_pin)(tt_cuda *cuda, void *host, int64_t n);
    const char *(*queue_note)(tt_cuda *cuda, int queue, int64_t event);
    const char *(*queue_follow)(tt_cuda *cuda, int queue, int64_t event);
    const char *(*queue_is_over)(tt_cuda *cuda, int64_t event, bool *over_out);
    const char *(*queue_copy)(tt_cuda *cuda, int queue, void *to,
                              const void *from, int64_t n);
    const char *(*queue_fill)(tt_cuda *cuda, int queue, void *to, int byte,
                              int64_t n);
    const char *(*queue_move)(tt_cuda *cuda, int queue, const tt_move *move);

    // See backend/device_comm.h.
    const char *(*nccl_version)(int *version_out);
    const char *(*nccl_make_id)(tt_cuda *cuda,
                                unsigned char id[TT_DEVICE_COMM_ID]);
    const char *(*nccl_open)(tt_cuda *cuda,
                             const unsigned char id[TT_DEVICE_COMM_ID], int n,
                             int me, bool is_apart, tt_cuda_nccl **out);
    const char *(*nccl_is_busy)(tt_cuda_nccl *nccl, bool *busy_out);
    const char *(*nccl_run)(tt_cuda_nccl *nccl, const tt_device_coll *call,
                            int n);
    const char *(*nccl_note)(tt_cuda_nccl *nccl, int64_t event);
    void (*nccl_close)(tt_cuda_nccl *nccl, bool is_broken);
} tt_cuda_wire_api;

#endif
