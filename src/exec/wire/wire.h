// wire - a plan's collectives over a transport, done by a thread of its own while
// the steps between run.
//
// One per rank, shared by all executors of the process; calls come from one thread.
// Collectives are carried out one after another in the order in which they begin, which
// the plan fixes, so it is the same on every rank. Moves hold up nothing (wire_moves.c).

#ifndef TT_EXEC_WIRE_WIRE_H
#define TT_EXEC_WIRE_WIRE_H

#include "comm/calibrate.h"
#include "exec/exec.h"

typedef struct tt_comm_wire tt_comm_wire;

typedef struct tt_wire_options {
    const char *collective; // an algorithm's name; NULL or "auto": as measured
    // For "auto", borrowed; NULL: usual links are assumed.
    const tt_calibration *calibration;
    const int32_t *host; // of every rank; NULL: all on one. Borrowed
    bool trace;          // keep the times of flights
} tt_wire_options;

// The transport is borrowed, and used by nobody else from here to the close.
tt_status tt_comm_wire_open(tt_comm *comm, const tt_wire_options *options,
                            tt_comm_wire **wire_out);
void tt_comm_wire_close(tt_comm_wire *wire); // NULL is fine

const tt_wire *tt_comm_wire_of(tt_comm_wire *wire); // for tt_exec_options
int32_t tt_comm_wire_rank(const tt_comm_wire *wire);
int32_t tt_comm_wire_size(const tt_comm_wire *wire);

// A collective of the host's own over all ranks (hashes, checkpoints, stopping),
// finished on return. Group, tag and scratch are filled in; `what` is its name in
// the journal and in errors.
tt_status tt_comm_wire_call(tt_comm_wire *wire, const char *what,
                            const tt_coll_call *call);

// The same, but it returns at once: the call is carried out before the flights that
// begin later, while the host goes on. All ranks post at the same place of their order,
// one at a time. The call's memory must stay until tt_comm_wire_settle, which waits for
// it and says how long it took (NULL: who cares); with nothing posted that does nothing.
tt_status tt_comm_wire_post(tt_comm_wire *wire, const char *what,
                            const tt_coll_call *call);
tt_status tt_comm_wire_settle(tt_comm_wire *wire, double *seconds_out);

// The transport itself, for messages of the caller's own; the wire is idle until it is
// given back, before which all of them must be done.
tt_comm *tt_comm_wire_borrow(tt_comm_wire *wire);
void tt_comm_wire_give_back(tt_comm_wire *wire);

// Memory of this rank that all others see at the same address: one block for each use,
// until it is taken back. It stays readable for them after this rank has ended. NULL: the
// transport has none, it is not enough, or it is lent already.
typedef enum tt_wire_use {
    TT_LEND_SNAPSHOT, // states on their way to a checkpoint
    TT_LEND_WEIGHTS,  // that several ranks change
    TT_LEND_LETTERS,  // what workers and servers send each other
    TT_LEND_WORKER,   // what a worker's executor keeps
    TT_LEND_JOB, // what the job's executor keeps, if it is the worker's too
    TT_LEND_USES,
} tt_wire_use;
void *tt_comm_wire_lend(tt_comm_wire *wire, tt_wire_use use, int64_t bytes);
void tt_comm_wire_take_back(tt_comm_wire *wire, tt_wire_use use);
bool tt_comm_wire_can_lend(const tt_comm_wire *wire); // if there is enough
// Whether peers may read it without a message (tt_comm_def).
bool tt_comm_wire_shows_memory(const tt_comm_wire *wire);

// Ends the wire: what comes later fails so, on this rank.
void tt_comm_wire_fail(tt_comm_wire *wire, tt_status status,
                       const char *message);

// Bytes of host memory that staging needs for a plan whose operands lie in a device's.
int64_t tt_wire_stage_bytes(const tt_plan *plan);

// Bytes of a device's memory that its links need for a plan's collectives.
tt_status tt_wire_device_bytes(const tt_plan *plan, int64_t *bytes_out);

// From now on plans whose devices are linked let them do collectives by themselves,
// unless sums must have an order: on all ranks.
void tt_comm_wire_by_devices(tt_comm_wire *wire, bool wanted);

// From now on every sum has the order of comm/coll/pairs.h, on several hosts too.
void tt_comm_wire_exact(tt_comm_wire *wire);

// The number of the training step that runs: for the journal.
void tt_comm_wire_step(tt_comm_wire *wire, int64_t step);

typedef struct tt_wire_stats { // since the opening or the last reset
    int64_t messages, bytes;   // sent
    double busy_seconds;       // in flights
    double exposed_seconds;    // of these: while the executor waited
    int64_t flights;
    int64_t packet_bytes; // of this rank's packets, used
} tt_wire_stats;
void tt_comm_wire_stats(tt_comm_wire *wire, bool reset,
                        tt_wire_stats *stats_out);

// One flight as it was, with `trace`; the newest few thousand are kept.
typedef struct tt_wire_event {
    int64_t number;             // of the flight, counted alike on every rank
    const char *name;           // the plan's
    double ready, begun, ended; // tt_clock_seconds: handed over, carried out
    double asked, waited; // from when and how long the executor stood still
    int64_t bytes;
} tt_wire_event;
int64_t tt_comm_wire_events(const tt_comm_wire *wire,
                            const tt_wire_event **out);

#endif
