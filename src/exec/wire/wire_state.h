// wire_state - the wire itself, its thread and its queue; nobody but the files of the wire
// includes it.
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

#include "exec/wire/wire_plan.h"

#include <pthread.h>
#include <stdatomic.h>

// ---- the thread ----------------------------------------------------------

// What arrives from one rank (wire_inbox.c).
typedef struct tt__wire_early tt__wire_early;
typedef struct tt__wire_inbox {
    tt__wire_leg *wanted;        // receives whose envelope has not come
    bool is_reading, is_filling; // an envelope, or a body, is under way
    tt_msg head;
    tt__wire_envelope envelope;
    const tt_msg *body;
    tt__wire_early *early; // whose body that is; NULL: a leg's
    tt__wire_early *kept;  // that came before they were wanted
} tt__wire_inbox;

typedef struct tt__wire_loan {
    bool is_lent;
    char *block; // that is lent, or may be lent again
    int64_t bytes;
} tt__wire_loan;

struct tt_comm_wire {
    tt_wire wire;
    tt__carrier carrier; // the thread's, while there are jobs
    bool is_tracing;

    // Protected by the lock.
    pthread_mutex_t lock;
    pthread_cond_t has_job, has_done;
    tt__wire_job *first, *last; // the queue; NULL: empty
    // The host's own; the second one is not waited for.
    tt__wire_job call, later;
    _Atomic int32_t n_moves;     // of the queue: read without the lock too
    const tt__wire_job *current; // NULL: none but open ones
    int32_t n_waiting;           // calls that wait for a job
    int32_t n_under_way;         // flights, open ones too
    int64_t n_over;              // flights, since the opening
    double busy_since;           // when the first of these began
    bool is_closing;
    tt_status status; // of the first job that failed, and its message
    char message[512];
    int64_t step;
    int64_t messages, bytes; // sent
    double busy;

    // The thread's.
    pthread_t thread;
    bool has_thread;
    int64_t n_of_kind[TT_TRAFFIC_OPS];
    tt__wire_job *open;    // moves that are under way
    tt__wire_inbox *inbox; // per rank
    tt_rest rest;          // of the wait for them

    // The host's.
    tt_coll_call
        posted; // by `later`; with is_posted: it is not known to be done
    bool is_posted;
    tt__wire_loan loan[TT_LEND_USES];
    int64_t packet_bytes; // that this rank has made
    tt_wire_stats before; // at the last reset
    double exposed;
    int64_t n_flights;
    tt_wire_event *event;
    int64_t n_events;
};

// Writes into the journal what is about to happen.
void tt__wire_tell(tt_comm_wire *w, const tt__wire_leg *leg, int64_t step);
// A flight begins, or is over; the first that fails ends the wire. With the lock.
void tt__wire_flight_begun(tt_comm_wire *w, tt__wire_job *job);
void tt__wire_flight_over(tt_comm_wire *w, tt__wire_job *job);
void tt__wire_failed(tt_comm_wire *w, tt_status status);
void tt__wire_queue_clear(tt_comm_wire *w);

// Posts the messages of a job that is_move. With the lock, which is free meanwhile.
void tt__moves_open(tt_comm_wire *w, tt__wire_job *job);
// Goes on with what has arrived, and ends those that are done; says whether anything had
// arrived. With the lock.
bool tt__moves_settle(tt_comm_wire *w);
// One turn of a wait for open moves. With the lock, which is free meanwhile.
void tt__moves_turn(tt_comm_wire *w);
// Whether a collective must wait, because something is wanted of its members.
bool tt__moves_keep_waiting(tt_comm_wire *w, const tt__wire_job *job);
// Posts what may overtake the job that runs. With the lock, which is free meanwhile.
bool tt__moves_overtake(tt_comm_wire *w);

// The rank that a leg's only message goes to or comes from; -1: none.
int32_t tt__move_peer(const tt__wire_leg *leg);

// Operands in a device's memory (wire_device_moves.c). By the thread, with or without
// the lock.
tt_status tt__device_move_open(tt_comm_wire *w, const tt__wire_job *job,
                               tt__wire_leg *leg);
tt_status tt__device_moves_go_on(tt_comm_wire *w, tt__wire_job *job,
                                 bool *moved_out);
bool tt__device_moves_are_over(const tt__wire_job *job);
// Whether the next thing is done by the device; something is still to be sent.
bool tt__device_moves_await(const tt__wire_job *job);
bool tt__device_moves_are_unsent(const tt__wire_job *job);

// An envelope and the leg's message leave; the message is wanted.
tt_status tt__inbox_send(tt_comm *comm, tt__wire_leg *leg);
tt_status tt__inbox_receive(tt_comm_wire *w, tt__wire_leg *leg);
// Goes on with what has arrived.
tt_status tt__inbox_sort(tt_comm_wire *w, bool *moved_out);
bool tt__inbox_is_idle(const tt_comm_wire *w, int32_t peer);
void tt__inbox_clear(tt_comm_wire *w);

// Gives open moves up, after a failure.
void tt__moves_drop(tt_comm_wire *w);
// tt_comm.meanwhile: takes up moves that were posted while a collective waits.
bool tt__wire_meanwhile(void *wire);

// Waits until the thread uses nothing of a plan any more. What of it is queued or open is
// given up, and that ends the wire.
void tt__wire_thread_release(tt_comm_wire *w, const tt__wire_plan *plan);

tt_status tt__wire_thread_start(tt_comm_wire *w);
void tt__wire_thread_stop(tt_comm_wire *w);

// Hands over a job whose description is complete; waits until it is done, and says how
// many seconds of that were spent in flights.
tt_status tt__wire_job_post(tt_comm_wire *w, tt__wire_job *job);
tt_status tt__wire_job_wait(tt_comm_wire *w, const tt__wire_job *job,
                            double *busy_out);
// Whether it is done; waits until more flights are over than so many.
bool tt__wire_job_is_done(tt_comm_wire *w, const tt__wire_job *job);
tt_status tt__wire_wait_any(tt_comm_wire *w, int64_t *n_over_io,
                            double *busy_out);

#endif
