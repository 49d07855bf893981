// lane - the way of one input from the host to a device, beside the device's steps.
//
// Without a lane, a step's input is copied when the step before has ended, and the
// device waits for the copy. A lane has two buffers of the input's size: pinned memory
// of the host, and memory of the device in which the data wait until the earlier steps
// have read the input that they replace.
//
//   host     room: fill it     send
//   lane                         |-- copy to the device's buffer --|
//   steps    ... step N ........................................ | take | step N+1

#ifndef TT_BACKEND_LANE_H
#define TT_BACKEND_LANE_H

#include "base/status.h"

#include <stdint.h>

typedef struct tt_backend tt_backend;

typedef struct tt_lane_def {
    // *lane_out is NULL where there is no memory for it.
    tt_status (*open)(tt_backend *backend, int64_t bytes, void **lane_out);
    void (*close)(tt_backend *backend, void *lane); // NULL is fine
    // Pinned memory to fill in; waits until the last send() has read it.
    tt_status (*room)(tt_backend *backend, void *lane, void **host_out);
    // Starts the copy to the device; it begins after the last take(), which reads the
    // same buffer.
    tt_status (*send)(tt_backend *backend, void *lane, int64_t bytes);
    // Queued among the steps: copies what was sent to where the steps read it.
    tt_status (*take)(tt_backend *backend, void *lane, void *to, int64_t bytes);
} tt_lane_def;

#endif
