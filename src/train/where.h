// where - the settings that say on how many ranks a job runs and how they exchange
// what they must: mesh.* zero exchange.* collective transport comm.*
//
// None of them changes what is computed (but for the order of sums), so a run goes
// on under others.

#ifndef TT_TRAIN_WHERE_H
#define TT_TRAIN_WHERE_H

#include "train/options.h"

typedef enum tt_transport {
    TT_TRANSPORT_AUTO,
    TT_TRANSPORT_SELF,
    TT_TRANSPORT_SHM,
    TT_TRANSPORT_MPI,
} tt_transport;

typedef struct tt_where {
    int64_t data; // mesh.data; 0: all ranks
    int64_t zero;
    const char *collective;
    int transport; // tt_transport
    // exchange.*
    int policy, order; // order: tt_flight_order
    int64_t bucket;    // bytes; 0: as measured
    // comm.*
    double deadline;
    double slow_rate, slow_latency;
    const char *fault;
} tt_where;

// Offsets are into tt_where; ends with a NULL table.
extern const tt_section tt_where_sections[];

// Defaults, then what the settings say; each is marked as used. Refuses what no
// number of ranks makes right.
tt_status tt_where_read(tt_settings *settings, tt_arena *arena,
                        tt_where *where_out);

// Whether a setting is one of these.
bool tt_where_has(const char *key);

#endif
