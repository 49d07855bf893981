// wire_carrier - what the wire's thread works with: transport, rules, memory, devices.
// Nobody but the files of the wire includes it.

#ifndef TT_EXEC_WIRE_WIRE_CARRIER_H
#define TT_EXEC_WIRE_WIRE_CARRIER_H

#include "exec/wire/wire.h"
#include "traffic/site.h"

// Memory of the host through which operands of a device go: in two halves, so that
// results leave while the next operands arrive.
typedef struct tt__wire_stage {
    char *memory;
    int64_t bytes; // of a half
    int turn;      // which half is next
    void *kept;    // earlier memory that a device may still know, linked
    char *moves;   // for moves: each has room of its own
    int64_t moves_bytes;
    const void *moved; // the bound plan whose moves lie there
} tt__wire_stage;

// A group of devices, one per rank, that do collectives by themselves (NCCL): those at
// some coordinates of an axis. Every rank knows of all of them, its own or not, so that
// ranks make them together. Two plans on the same mesh share them.
typedef struct tt__device_group {
    int32_t size[TT_MAX_AXES]; // of the mesh
    int32_t axis;
    uint64_t at;  // coordinates; 0: all of the axis
    int32_t from; // of moves: who sends; -1: collectives
    // Of this rank's:
    tt_device_comm *links; // NULL: this rank is in none
    int32_t n;
    int32_t *member; // ranks
    // Of moves. Links may be asked for one call at a time, and both ranks make the same
    // calls in the same order: the receiver gives turns out, and each is served in turn.
    int64_t n_turns, n_served;
} tt__device_group;

enum { TT__DEVICE_GROUPS = 256 };

// All groups of this rank. `n_bound` counts the plans that use them: the last plan to
// go closes them. `n_calls` counts calls of any group; ranks compare it to find the
// one that is late (roll_call).
typedef struct tt__device_groups {
    bool is_wanted;
    tt_backend *backend; // the devices' backend; NULL: there are no groups
    int32_t n_bound;     // plans
    int32_t n;
    tt__device_group link[TT__DEVICE_GROUPS];
    const tt__device_group *used; // last
    int64_t n_calls;
    char *room; // the device's: to pack and unpack
    int64_t room_bytes;
} tt__device_groups;

// Carries out one collective after another. Used by one thread at a time.
typedef struct tt__carrier {
    tt_comm *comm;
    tt_traffic_rules rules;
    char *scratch;
    int64_t scratch_bytes;
    bool is_scratch_shared;
    tt__wire_stage stage;
    tt__device_groups links;
    tt_device_coll *call; // of links: two per rank
    int64_t packet_bytes; // that this rank has sent to others
} tt__carrier;

tt_status tt__carrier_init(tt__carrier *c, tt_comm *comm,
                           const tt_wire_options *options);
void tt__carrier_fini(tt__carrier *c);
// At least so many bytes of scratch memory.
tt_status tt__carrier_room(tt__carrier *c, int64_t bytes);
// A call with the group of all ranks.
tt_status tt__carrier_call(tt__carrier *c, const tt_coll_call *call);

#endif
