// queue - what a device does beside its steps: a second queue of work, for the wire.
//
// Work in one queue is done in its order; queues know of each other only by events.
// The steps' queue belongs to the executor's thread and the wire's to the wire's.
// Nothing here waits for the device.

#ifndef TT_BACKEND_QUEUE_H
#define TT_BACKEND_QUEUE_H

#include "backend/move.h"
#include "base/status.h"

typedef struct tt_backend tt_backend;

typedef enum tt_queue { TT_QUEUE_STEPS, TT_QUEUE_WIRE } tt_queue;

typedef struct tt_queue_def {
    // From now on there are events 0 .. n - 1. While neither queue is in use.
    tt_status (*events)(tt_backend *backend, int64_t n);
    // Copies from and to this memory of the host shall be quick, until the device is
    // closed. Fails where they cannot be, and then they are slow.
    tt_status (*pin)(tt_backend *backend, void *host, int64_t bytes);
    // The event is over when all that is queued so far is done.
    tt_status (*note)(tt_backend *backend, tt_queue queue, int64_t event);
    // What is queued from now on comes behind the event.
    tt_status (*follow)(tt_backend *backend, tt_queue queue, int64_t event);
    // Of an event that was never noted: it is over.
    tt_status (*is_over)(tt_backend *backend, int64_t event, bool *over_out);
    // Either address may be the host's, which stays as it is until that is done.
    tt_status (*copy)(tt_backend *backend, tt_queue queue, void *to,
                      const void *from, int64_t bytes);
    tt_status (*fill)(tt_backend *backend, tt_queue queue, void *to, int byte,
                      int64_t bytes);
    tt_status (*move)(tt_backend *backend, tt_queue queue, const tt_move *move);
} tt_queue_def;

#endif
