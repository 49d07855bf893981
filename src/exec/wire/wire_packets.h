// wire_packets - flights of packets: as they are (wire_packets.c), or as lists that are
// merged on the way (wire_merge.c).

#ifndef TT_EXEC_WIRE_WIRE_PACKETS_H
#define TT_EXEC_WIRE_WIRE_PACKETS_H

#include "exec/wire/wire_carrier.h"
#include "traffic/packets.h"

typedef struct tt__wire_job tt__wire_job;
typedef struct tt__wire_leg tt__wire_leg;

// Its calls, without data.
typedef struct tt__wire_packets {
    tt_traffic_packets what; // n = 0: it is none
    tt_coll_call lengths, bodies;
    tt_coll_call forms; // of lists that are merged
    const tt_coll_def *lengths_def, *bodies_def, *forms_def;
    int64_t *bound; // of the bodies, anew in each run
    int64_t scratch_bytes;
} tt__wire_packets;

// `bounds` is room for twice as many as a leg's. Operands lie where the legs say,
// or in `stage`, each with tt__wire_packets_room bytes.
void tt__wire_packets_bind(const tt__carrier *c, tt__wire_job *job,
                           int64_t *bounds);
int64_t tt__wire_packets_room(const tt_traffic_site *x);
tt_status tt__wire_packets_run(tt__carrier *c, const tt__wire_job *job,
                               char *stage);
// The packets of member m, where they are, or in the stage of a device.
typedef struct tt__wire_ends {
    const char *in;
    char *out;
} tt__wire_ends;
tt__wire_ends tt__wire_packets_ends(const tt__wire_job *job, int32_t m,
                                    char *stage);
// Bytes of a packet of member m at most.
int64_t tt__wire_packets_capacity(const tt__wire_packets *p,
                                  const tt__wire_leg *leg);
// The same for lists that are merged on the way.
void tt__wire_merge_bind(const tt__carrier *c, tt__wire_job *job,
                         int64_t *bounds);
tt_status tt__wire_merge_run(tt__carrier *c, const tt__wire_job *job,
                             char *stage);

#endif
