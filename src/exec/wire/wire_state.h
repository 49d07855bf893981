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

// ---- the thread ----------------------------------------------------------

struct tt_comm_wire {
    tt_wire wire;
    tt__carrier carrier; // the thread's, while there are jobs
    bool is_tracing;

    // Protected by the lock.
    pthread_mutex_t lock;
    pthread_cond_t has_job, has_done;
    tt__wire_job *first, *last; // the queue; NULL: empty
    tt__wire_job call,
        later; // the host's own; the second one is not waited for
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
    int64_t n_of_kind[TT_TRAFFIC_OPS];

    // The host's.
    tt_coll_call
        posted; // by `later`; with is_posted: it is not known to be done
    bool is_posted, is_lent;
    char *lent; // the block that is lent, or may be lent again
    int64_t lent_bytes;
    tt_wire_stats before; // at the last reset
    double exposed;
    int64_t n_flights;
    tt_wire_event *event;
    int64_t n_events;
};

tt_status tt__wire_thread_start(tt_comm_wire *w);
void tt__wire_thread_stop(tt_comm_wire *w);

// Hands over a job whose description is complete; waits until it is done, and says how
// many seconds of that were spent in flights.
tt_status tt__wire_job_post(tt_comm_wire *w, tt__wire_job *job);
tt_status tt__wire_job_wait(tt_comm_wire *w, const tt__wire_job *job,
                            double *busy_out);

#endif
