// mpi_state - what the parts of the MPI transport share. Internal to it.

#ifndef TT_COMM_TRANSPORT_MPI_STATE_H
#define TT_COMM_TRANSPORT_MPI_STATE_H

#include "comm/transport/mpi_api.h"

#include <pthread.h>

// How messages are cut. Sender and receiver cut alike.
typedef struct tt__mpi_cut {
    int piece, window; // bytes; pieces on their way at a time
} tt__mpi_cut;

enum { TT__MPI_WINDOW = 32 }; // the widest

// One piece on its way. A received piece that is to be added arrives in a bounce
// buffer, since MPI can only overwrite.
typedef struct tt__mpi_slot {
    tt_mpi_request request;
    tt_msg *msg;
    int bytes;
    bool is_last;
    char *bounce; // of a fold: where the bytes arrive
} tt__mpi_slot;

// One direction between this rank and another: messages in a list, and a window of
// pieces that were given to MPI, as a ring of slots.
typedef struct tt__mpi_lane {
    tt__mpi_cut cut;
    tt_msg *first, *last; // not wholly posted
    int64_t posted;       // bytes of the first one
    tt__mpi_slot slot[TT__MPI_WINDOW];
    unsigned head, tail; // of the slots, counted up
} tt__mpi_lane;

// Whether a peer still runs, and what it does.
typedef struct tt__mpi_pulse {
    double asked_at; // 0: there is an answer
    double heard_at;
    double
        told_at; // what it does: for how many seconds it had waited; 0: it works
    double waits;
} tt__mpi_pulse;

typedef struct tt__mpi {
    tt_comm base;
    const tt_mpi_api *api;
    tt__mpi_lane *out, *in; // per rank
    tt__mpi_pulse *pulse;   // per rank
    bool has_lost_first;    // rank 0 gave no sign of life
    int32_t lost, lost_by;  // who was given up, by whom; below 0: nobody
    double silence;         // seconds that a peer may be silent
    double idle_since;      // 0: something moved
    double waits_since;     // what the others are told; 0: this rank works
    double listened_at;     // signs were looked for
    bool is_collecting;     // in one of MPI's own collectives
    char *spare;            // bounce buffers that are not in use, linked
    char *stage;            // pieces of a collective, apart from its result
    int *counts;            // four per rank
    int32_t *host;          // of every rank
    int32_t n_hosts;
    char about[TT_MPI_TEXT];
    pthread_t thread;
    pthread_mutex_t lock; // around all of the above and every call of MPI
    pthread_cond_t wake;
    bool is_over; // no call of MPI any more: the thread ends
} tt__mpi;

static inline bool tt__mpi_is_busy(const tt__mpi_lane *lane)
{
    return lane->head != lane->tail || lane->first != NULL;
}

tt_status tt__mpi_open_api(const tt_mpi_api *api, double deadline,
                           tt_comm **comm_out);

// Which ranks share a host, and what follows for the lanes. All ranks together.
tt_status tt__mpi_find_hosts(tt__mpi *m);
void tt__mpi_cut_lanes(tt__mpi *m); // before that: all far

tt_status tt__mpi_fail(const tt__mpi *m, int code, const char *what);

// Signs of life: asks those that are waited for, answers those that ask.
tt_status tt__mpi_listen(tt__mpi *m); // with the lock held
tt_status tt__mpi_start_answering(tt__mpi *m);
void tt__mpi_stop_answering(tt__mpi *m);
double tt__mpi_idle(tt_comm *comm, double since); // tt_comm_def.idle

bool tt__mpi_has_native(const tt_comm *comm, const tt_coll_call *call);
tt_status tt__mpi_native(tt_comm *comm, const tt_coll_call *call);

#endif
