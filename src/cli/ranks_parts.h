// ranks_parts - what the files about ranks share. Internal.

#ifndef TT_CLI_RANKS_PARTS_H
#define TT_CLI_RANKS_PARTS_H

#include "cli/ranks.h"
#include "train/where.h"

typedef struct tt_notice tt_notice;

typedef struct tt_starting {
    tt_cli *cli;
    tt_cli_ranks_fn *fn;
    const tt_where *where;
    tt_notice *notice; // of ranks that are started here
    int32_t n_cores;   // of the machine that this program may use
} tt_starting;

// What a rank does with a transport, which is taken over into peers->comm.
tt_status tt__ranks_work(const tt_starting *s, const int32_t *host,
                         tt_peers *peers, int *exit_out);

// " slowed down", " with faults", or nothing; "1 core each".
const char *tt__ranks_spoilt(const tt_where *where);
const char *tt__ranks_cores(tt_arena *arena, int32_t all, int32_t on_host,
                            int32_t each);

#endif
