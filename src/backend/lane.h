// lane - one operand's way from the host to a device, beside its steps: memory of the
// host that the device reads by itself, and as much of its own, where data wait until
// the steps before have read what they replace.

#ifndef TT_BACKEND_LANE_H
#define TT_BACKEND_LANE_H

#include "base/status.h"

#include <stdint.h>

typedef struct tt_backend tt_backend;

typedef struct tt_lane_def {
    // *lane_out is NULL where there is no memory for it.
    tt_status (*open)(tt_backend *backend, int64_t bytes, void **lane_out);
    void (*close)(tt_backend *backend, void *lane); // NULL is fine
    // Memory to be filled in; waits until what was sent last has left it.
    tt_status (*room)(tt_backend *backend, void *lane, void **host_out);
    // Sets it on its way, behind the last take().
    tt_status (*send)(tt_backend *backend, void *lane, int64_t bytes);
    // Queued among the steps: what was sent, to where it is read.
    tt_status (*take)(tt_backend *backend, void *lane, void *to, int64_t bytes);
} tt_lane_def;

#endif
