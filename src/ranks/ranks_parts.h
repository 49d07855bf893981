// ranks_parts - what the files about ranks share. Internal.

#ifndef TT_RANKS_RANKS_PARTS_H
#define TT_RANKS_RANKS_PARTS_H

#include "config/distribution.h"
#include "ranks/ranks.h"

typedef struct tt__notice tt__notice;

typedef struct tt__starting {
    const tt_ranks_request *request;
    tt_ranks_fn *fn;
    void *user;
    const tt_where *where;
    tt__notice *notice; // of ranks that are started here
    int32_t n_cores;    // of the machine that this program may use
} tt__starting;

// What a rank does with a transport, which is taken over into peers->comm.
tt_status tt__ranks_work(const tt__starting *s, const int32_t *host,
                         tt_peers *peers, int *exit_out);

// " slowed down", " with faults", or nothing; "1 core each".
const char *tt__ranks_spoilt(const tt_where *where);
const char *tt__ranks_cores(tt_arena *arena, int32_t all, int32_t on_host,
                            int32_t each);

#endif
