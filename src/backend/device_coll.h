// device_coll - one thing that a group of devices does together, without the host.

#ifndef TT_BACKEND_DEVICE_COLL_H
#define TT_BACKEND_DEVICE_COLL_H

#include "graph/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_link_kind {
    TT_LINK_ALL_REDUCE,
    TT_LINK_REDUCE,    // to `peer`
    TT_LINK_BROADCAST, // of `peer`
    TT_LINK_ALL_GATHER,
    TT_LINK_REDUCE_SCATTER,
    TT_LINK_SEND, // to `peer`
    TT_LINK_RECEIVE,
    TT_N_LINKS,
} tt_link_kind;

typedef struct tt_link_call {
    tt_link_kind kind;
    const void *in;
    void *out;
    int64_t count; // elements; of all_gather and reduce_scatter: of one's block
    tt_dtype dtype;
    bool is_max; // what is reduced; else it is added up
    int32_t peer;
} tt_link_call;

enum { TT_LINK_ID = 128 };

#endif
