// queue - queues of work on a device, for the wire: what ranks exchange overlaps with the
// steps.
//
// Work in one queue is done in order. Queues know of each other only by events (CUDA's
// streams and events): one notes an event, the other follows it.
//
//   steps   grad A | note 0 | grad B ..................... | follow 1 | update A
//   wire    follow 0 | pack A | copy to host ... copy back | note 1
//
// Collectives go through the wire's queue, one after another. What a pipeline's stage
// sends and receives has a queue for each direction, so that it waits for neither.
//
// The executor's thread owns the steps' queue, and the wire's thread all others.
// Nothing here waits for the device.

#ifndef TT_BACKEND_QUEUE_H
#define TT_BACKEND_QUEUE_H

#include "backend/move.h"
#include "base/status.h"

typedef struct tt_backend tt_backend;

typedef enum tt_queue {
    TT_QUEUE_STEPS,
    TT_QUEUE_WIRE,
    TT_QUEUE_OUT,
    TT_QUEUE_IN,
    TT_N_QUEUES,
} tt_queue;

typedef struct tt_queue_def {
    // From now on there are events 0 .. n - 1. While no queue is in use.
    tt_status (*events)(tt_backend *backend, int64_t n);
    // Pins memory of the host until the device is closed, so that copies are fast.
    // Where this fails, copies work and are slow.
    tt_status (*pin)(tt_backend *backend, void *host, int64_t bytes);
    // The event is over when all that is queued so far is done.
    tt_status (*note)(tt_backend *backend, tt_queue queue, int64_t event);
    // What is queued from now on starts after the event.
    tt_status (*follow)(tt_backend *backend, tt_queue queue, int64_t event);
    // An event that was never noted counts as over.
    tt_status (*is_over)(tt_backend *backend, int64_t event, bool *over_out);
    // Either address may be the host's; the caller leaves that memory alone until the
    // copy is done.
    tt_status (*copy)(tt_backend *backend, tt_queue queue, void *to,
                      const void *from, int64_t bytes);
    tt_status (*fill)(tt_backend *backend, tt_queue queue, void *to, int byte,
                      int64_t bytes);
    tt_status (*move)(tt_backend *backend, tt_queue queue, const tt_move *move);
} tt_queue_def;

#endif
