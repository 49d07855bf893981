// wire_state - what the files of the wire share; nobody else includes it.
//
// Three owners share these structs, and each field has exactly one of them:
//
//   the wire's thread   the carrier: transport, scratch memory, stage, device groups.
//                       While jobs are queued nobody else may touch it
//   the host            statistics of waits, traced events
//   the lock            jobs, queue, status: everything that both sides read
//
// The one exception is binding a plan. The host then changes the carrier, which is
// safe because no plan runs and the queue is empty.

#ifndef TT_EXEC_WIRE_WIRE_STATE_H
#define TT_EXEC_WIRE_WIRE_STATE_H

#include "exec/wire/wire.h"

#include <pthread.h>

// Memory of the host through which operands of a device go: in two halves, so that
// results leave while the next operands arrive.
typedef struct tt__wire_stage {
    char *memory;
    int64_t bytes; // of a half
    int turn;      // which half is next
    void *kept;    // earlier memory that a device may still know, linked
} tt__wire_stage;

// A group of devices, one per rank, that do collectives by themselves (NCCL). Groups
// are found by their members, so two plans on the same mesh share them.
typedef struct tt__device_group {
    tt_device_comm *links;
    int32_t n;
    int32_t *member; // ranks
} tt__device_group;

enum { TT__DEVICE_GROUPS = 16 };

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

// Carries out one collective after another. Used by one thread at a time, so its arrays
// are shared by all calls: `member` and `bound` describe the call that runs now.
typedef struct tt__carrier {
    tt_comm *comm;
    const tt_coll_def *coll; // NULL: the cheapest
    const tt_calibration *calibration;
    const int32_t *host;
    int32_t *member, *member_host; // of a group: room for all ranks
    int64_t *bound;                // and one more
    char *scratch;
    int64_t scratch_bytes;
    bool is_scratch_shared;
    // Exact mode: only algorithms that sum in the order of comm/coll/pairs.h.
    bool is_exact;
    int32_t tag;
    tt__wire_stage stage;
    tt__device_groups links;
    tt_device_coll *call; // of links: two per rank
} tt__carrier;

enum {
    TT__TAGS = 32000, // tags that every transport has
    TT__KINDS = 16,   // of operators
};

tt_status tt__carrier_init(tt__carrier *c, tt_comm *comm,
                           const tt_wire_options *options);
void tt__carrier_fini(tt__carrier *c);

// Room for every collective of the plan, or for one call.
tt_status tt__carrier_bind(tt__carrier *c, const tt_plan *plan);
tt_status tt__carrier_room(tt__carrier *c, int64_t bytes);

// The same for operands in a device's memory: events and room.
tt_status tt__wire_stage_bind(tt__carrier *c, const tt_plan *plan,
                              tt_backend *backend);
void tt__wire_stage_fini(tt__carrier *c);
// Events of a device: when a flight's operands are there, and its results.
int64_t tt__wire_stage_ready(int32_t flight);
int64_t tt__wire_stage_landed(int32_t flight);

// The same for links, if they are wanted and can be: all ranks together. A plan of
// another backend than the first is left to the stage.
tt_status tt__device_groups_bind(tt_comm_wire *w, const tt_plan *plan,
                                 tt_backend *backend);
void tt__device_groups_unbind(tt_comm_wire *w, tt_backend *backend);
// Waits until a flight's results have landed.
tt_status tt__device_groups_wait(tt__carrier *c, int32_t flight);

// The algorithm for a call whose numbers are set.
const tt_coll_def *tt__carrier_choose(const tt__carrier *c,
                                      const tt_coll_call *call);

// A call with the group of all ranks.
tt_status tt__carry_call(tt__carrier *c, const tt_coll_call *call);

// ---- the thread ----------------------------------------------------------

// What is to be done: a flight, or a call of the host's own. Jobs lie in an array with
// one place per flight, so that posting one allocates nothing. The three times are for
// traces: when it was posted, when the thread took it, when it was over.
typedef struct tt__wire_job {
    const tt_plan *plan; // NULL: a call
    tt_backend *backend; // whose memory it is; NULL: the host's
    int32_t flight;
    const tt_args *args;
    const tt_coll_call *call;
    const char *what;
    int64_t number; // of the flight
    bool is_local;  // was done at once
    bool is_linked; // devices do it by themselves
    bool is_done;
    double ready, begun, ended;
} tt__wire_job;

struct tt_comm_wire {
    tt_wire wire;
    tt__carrier carrier; // the thread's, while there are jobs
    bool is_tracing;

    // Protected by the lock.
    pthread_mutex_t lock;
    pthread_cond_t has_job, has_done;
    tt__wire_job
        *job; // job[f]: flight f of the plan that runs; the last: calls
    int32_t n_jobs;
    int32_t *queue; // jobs in their order, a ring
    int32_t head, n_queued;
    const tt__wire_job *current; // NULL: the thread sleeps
    bool is_closing;
    tt_status status; // of the first job that failed, and its message
    char message[512];
    int64_t step;
    int64_t messages, bytes; // sent
    double busy;

    // The thread's.
    pthread_t thread;
    bool has_thread;
    int64_t n_of_kind[TT__KINDS];

    // The host's.
    tt_wire_stats before; // at the last reset
    double exposed;
    int64_t n_flights;
    tt_wire_event *event;
    int64_t n_events;
};

tt_status tt__wire_thread_start(tt_comm_wire *w);
void tt__wire_thread_stop(tt_comm_wire *w);

// Hands over job[j], whose description is complete; waits until it is done, and
// says how many seconds of that were spent in flights.
tt_status tt__wire_job_post(tt_comm_wire *w, int32_t j);
tt_status tt__wire_job_wait(tt_comm_wire *w, int32_t j, double *busy_out);

// The number of an operator, for counting each kind.
int tt__carry_kind(const tt_op_def *op);

#endif
