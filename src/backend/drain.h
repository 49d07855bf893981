// drain - states of a device on their way to the host while its steps go on: what a
// checkpoint is written from.
//
//   steps   ... update N | forward, backward N+1 .......... hold | update N+1 ...
//   drain                | copy copy copy copy copy end ----^
//
// The copies begin after all work that was queued before begin(). Work that is queued
// after hold() begins when they have ended. So the steps wait only for copies that take
// longer than forward and backward, and the host waits for nothing.

#ifndef TT_BACKEND_DRAIN_H
#define TT_BACKEND_DRAIN_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_backend tt_backend;

typedef struct tt_drain_def {
    // Copies to this memory of the host run at the speed of its link, until unpin().
    // Where pin() fails they are slow. Any thread may call them.
    tt_status (*pin)(tt_backend *backend, void *host, int64_t bytes);
    void (*unpin)(tt_backend *backend, void *host);
    tt_status (*begin)(tt_backend *backend);
    // With `in_steps` the copy is queued among the steps: later steps come after it.
    tt_status (*copy)(tt_backend *backend, void *host, const void *from,
                      int64_t bytes, bool in_steps);
    tt_status (*end)(tt_backend *backend);
    tt_status (*hold)(tt_backend *backend);
    // Waits until all copies before the last end() have arrived. Any thread may.
    tt_status (*wait)(tt_backend *backend);
} tt_drain_def;

#endif
