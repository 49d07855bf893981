// device_coll - one collective, or one message, between a group of devices that needs
// no help of the host: an entry of what device_comm.h runs.

#ifndef TT_BACKEND_DEVICE_COLL_H
#define TT_BACKEND_DEVICE_COLL_H

#include "graph/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_device_coll_kind {
    TT_DEVICE_COLL_ALL_REDUCE,
    TT_DEVICE_COLL_REDUCE,    // to `peer`
    TT_DEVICE_COLL_BROADCAST, // of `peer`
    TT_DEVICE_COLL_ALL_GATHER,
    TT_DEVICE_COLL_REDUCE_SCATTER,
    TT_DEVICE_COLL_SEND, // to `peer`
    TT_DEVICE_COLL_RECEIVE,
    TT_N_DEVICE_COLLS,
} tt_device_coll_kind;

typedef struct tt_device_coll {
    tt_device_coll_kind kind;
    const void *in;
    void *out;
    int64_t count; // elements; of all_gather and reduce_scatter: of one's block
    tt_dtype dtype;
    bool is_max; // what is reduced; else it is added up
    int32_t peer;
} tt_device_coll;

enum { TT_DEVICE_COMM_ID = 128 };

#endif
