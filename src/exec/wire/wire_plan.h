// wire_plan - a plan that is bound: its collectives as legs, and the table of ways to
// carry one out. Nobody but the files of the wire includes it.

#ifndef TT_EXEC_WIRE_WIRE_PLAN_H
#define TT_EXEC_WIRE_WIRE_PLAN_H

#include "exec/wire/wire_carrier.h"
#include "exec/wire/wire_packets.h"

typedef struct tt__wire_way tt__wire_way;

// What a move is: sent before it.
typedef struct tt__wire_envelope {
    int32_t tag, micro;
    int64_t bytes;      // -1: nothing comes after it
    int64_t turn, node; // of the links' calls, for a taking; of the graph
} tt__wire_envelope;

// How far a move of a device's operand is.
typedef enum tt__wire_phase {
    TT__MOVE_WAITS,        // for the steps of its device
    TT__MOVE_LEAVES,       // the device, for the host
    TT__MOVE_TRAVELS,      // to or from the peer
    TT__MOVE_IS_IN_LINE,   // for its turn with the links
    TT__MOVE_IS_ASKED_FOR, // of links, which are busy with it
    TT__MOVE_RUNS,         // by links
    TT__MOVE_IS_OVER,
} tt__wire_phase;

// One collective of a bound plan: all that can be known before it runs. What a leg
// refers to lies in the bound plan, except scratch memory, which may grow.
struct tt__wire_leg {
    tt_traffic_site x;
    const tt__wire_way *way;
    const char *in; // in the backend's memory
    char *out;
    const char *where; // for the journal
    tt_traffic_group group;
    tt_coll_call call;        // REDUCE and BLOCKS: without data
    const tt_coll_def *def;   // its algorithm
    tt_traffic_blocks blocks; // BLOCKS
    int64_t apart; // of its scratch: a result that may not overlap the input
    tt_traffic_boxes boxes; // BOXES and TAKE
    int64_t scratch_bytes;
    tt__device_group *links; // NULL: not by links
    // MOVE: what is under way (wire_inbox.c): the envelope that is sent, and the one
    // that is wanted.
    tt_msg head, msg;
    tt__wire_envelope sent, envelope;
    struct tt__wire_leg *next_wanted;
    // MOVE, on a device (wire_device_moves.c): how far it is, and its room in the host's
    // memory; NULL: by links.
    tt__wire_phase phase;
    char *room;
};

// The executor's side of a way (traffic/site.h). The table is in wire_ops.
struct tt__wire_way {
    // Describes the call, chooses the algorithm, says how much scratch it takes.
    tt_status (*bind)(const tt__carrier *c, tt__wire_leg *leg);
    // In the host's memory; c is NULL for what sends nothing.
    tt_status (*run)(tt__carrier *c, const tt__wire_leg *leg, const char *in,
                     char *out);
    // By links between devices, and how many bytes of a device that takes. Both NULL:
    // nothing is sent.
    tt_status (*link)(tt__carrier *c, const tt__wire_leg *leg);
    int64_t (*link_bytes)(const tt_traffic_site *x,
                          const tt_traffic_group *group);
    // By a device itself, without peers, after all earlier work of that queue; NULL:
    // something is sent.
    tt_status (*alone)(tt_backend *backend, tt_queue queue,
                       const tt__wire_leg *leg);
};
const tt__wire_way *tt__wire_way_of(const tt_traffic_site *x); // NULL: none

tt_status tt__link_reduce(tt__carrier *c, const tt__wire_leg *leg);
tt_status tt__link_blocks(tt__carrier *c, const tt__wire_leg *leg);
tt_status tt__link_boxes(tt__carrier *c, const tt__wire_leg *leg);
tt_status tt__link_move(tt__carrier *c, const tt__wire_leg *leg);
int64_t tt__link_blocks_bytes(const tt_traffic_site *x,
                              const tt_traffic_group *group);
int64_t tt__link_boxes_bytes(const tt_traffic_site *x,
                             const tt_traffic_group *group);
tt_status tt__alone_take(tt_backend *backend, tt_queue queue,
                         const tt__wire_leg *leg);
tt_status tt__alone_reduce(tt_backend *backend, tt_queue queue,
                           const tt__wire_leg *leg);
tt_status tt__alone_keep(tt_backend *backend, tt_queue queue,
                         const tt__wire_leg *leg);

// Of keep_first: whether this rank is the first that has it.
bool tt__keeps(const tt_traffic_site *x);

// A box as a strided copy, for a device.
tt_move tt__region_move(const tt_region *part, tt_region_end to,
                        tt_region_end from, tt_dtype dtype);

typedef struct tt__wire_plan tt__wire_plan;

// What is to be done: a flight, or a call of the host's own. A bound plan has one for
// each flight, so that posting one allocates nothing. The three times are for traces:
// when it was posted, when the thread took it, when it was over.
struct tt__wire_job {
    const tt__wire_plan *plan; // NULL: a call
    int32_t flight, micro;
    tt__wire_leg *leg;
    int32_t n_legs;
    tt__wire_packets packets;
    bool is_local; // sends nothing: done at once
    // Nothing but moves: it holds up no other (wire_moves.c). Until they are done it is
    // open.
    bool is_move, is_open;
    const tt_coll_call *call;
    const char *what;
    int64_t number; // of the flight
    bool is_done;
    double ready, begun, ended;
    double since;              // on a device: when it last went on
    struct tt__wire_job *next; // in the queue, or of those that are open
};

struct tt__wire_plan {
    const tt_plan *plan;
    tt_backend *device; // whose memory it is; NULL: the host's
    bool is_linked;     // devices do it by themselves
    int32_t n_legs;
    tt__wire_leg *leg; // slot after slot, flight after flight
    int32_t n_jobs;
    tt__wire_job *job; // of each flight of each slot
    int32_t *ranks;    // of all groups, and their bounds
    int64_t *bounds;
};

static inline tt__wire_job *tt__wire_plan_job(const tt__wire_plan *plan,
                                              int32_t flight, int32_t slot)
{
    return &plan->job[slot * plan->plan->n_flights + flight];
}

// Makes the legs; `args` has the addresses of every step of every slot.
tt_status tt__wire_plan_make(tt__carrier *c, const tt_plan *plan,
                             const tt_args *args, tt__wire_plan **out);
void tt__wire_plan_free(tt__wire_plan *plan); // NULL is fine

// ---- devices ---------------------------------------------------------------

// For operands in a device's memory: events, and room if there are no links.
tt_status tt__wire_stage_bind(tt__carrier *c, tt__wire_plan *plan);
void tt__wire_stage_fini(tt__carrier *c);
// Events of a device: when a flight's operands are there, and its results; when a move
// has left for the host, or is done by links.
int64_t tt__wire_stage_ready(const tt__wire_job *job);
int64_t tt__wire_stage_landed(const tt__wire_job *job);
int64_t tt__wire_stage_left(const tt__wire_job *job, const tt__wire_leg *leg);
// Waits until the device has come to an event.
tt_status tt__wire_stage_wait(const tt__carrier *c, tt_backend *backend,
                              int64_t event);
// What moves have brought into the host's memory has been copied to the device.
enum { TT__STAGE_BROUGHT = 3 };

// The same for links, if they are wanted and can be: all ranks together. A plan of
// another backend than the first is left to the stage. Sets the links of the legs.
tt_status tt__device_groups_bind(tt_comm_wire *w, tt__wire_plan *plan);
void tt__device_groups_unbind(tt_comm_wire *w, tt_backend *backend);
// Waits until a flight's results have landed.
tt_status tt__device_groups_wait(tt__carrier *c, const tt__wire_job *job);
// How the links of a leg are, of which a call was asked.
tt_status tt__device_groups_state(const tt__carrier *c, const tt__wire_leg *leg,
                                  bool *busy_out);

// Staged through the host's memory; results are copied back in the wire's queue.
tt_status tt__carry_staged(tt__carrier *c, tt_backend *backend,
                           const tt__wire_leg *leg);
tt_status tt__carry_staged_packets(tt__carrier *c, tt_backend *backend,
                                   const tt__wire_job *job);
// Calls of one operator, by the leg's links.
tt_status tt__device_groups_run(tt__carrier *c, const tt__wire_leg *leg,
                                const tt_device_coll *call, int n);
// The same, without waiting until they are queued.
tt_status tt__device_groups_ask(tt__carrier *c, const tt__wire_leg *leg,
                                const tt_device_coll *call, int n);

#endif
