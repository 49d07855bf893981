// comm - bytes between ranks: messages, their waits and their counters.
//
// A tt_comm is one rank's end of a transport. Messages from one rank to another
// arrive in the order in which they were sent, each matched with the receive that
// was posted in the same place of the receiver's order; length and tag must be
// what the receiver expects. Nothing blocks but tt_comm_wait. One thread at a time.
//
// A wait goes on while any rank of the world works: a rank that writes a slow
// checkpoint ends nobody. It fails when a rank is known to be gone, or when all ranks
// wait and nothing has moved for the deadline.

#ifndef TT_COMM_COMM_H
#define TT_COMM_COMM_H

#include "base/status.h"
#include "comm/fold.h"
#include "comm/journal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tt_comm tt_comm;
typedef struct tt_comm_def tt_comm_def;
struct tt_coll_call; // comm/coll/coll.h

// One message, owned by the caller until it is done.
typedef struct tt_msg {
    int32_t peer, tag;
    void *data; // only read when it is sent
    int64_t bytes;
    // Of a receive: how what arrives is combined with what is there; the default
    // overwrites it. Bytes are a multiple of the element's size.
    tt_fold fold;
    bool is_done;
    // The transport's own.
    int64_t moved;
    uint64_t ticket;
    struct tt_msg *next;
} tt_msg;

// Counted when a message is posted, so that tests can compare them with the computed
// cost.
typedef struct tt_comm_stats {
    int64_t sent_messages, sent_bytes, received_messages, received_bytes;
    double wait_seconds;
} tt_comm_stats;

// Memory that algorithms of collectives use while they run: messages, and data that wait
// to be folded.
typedef enum tt_comm_use {
    TT_ROOM_MESSAGES,
    TT_ROOM_PAIRS,
    TT_COMM_ROOMS,
} tt_comm_use;
typedef struct tt_comm_space {
    void *data;
    int64_t bytes;
} tt_comm_space;

// First member of every transport's instance.
struct tt_comm {
    const tt_comm_def *def;
    int32_t rank, size;
    double deadline; // seconds that all ranks may wait without any progress
    tt_comm_stats stats;
    tt_journal *journal; // NULL: none is kept
    // Its thread shares cores with one that computes. sched_yield would give that one a
    // whole time slice, milliseconds, while a sleeper is woken at once. So its waits do
    // not yield.
    bool is_guest;
    // Threads that fold a large array in shared memory together: where a device computes,
    // cores of the host have nothing else to do. 0 counts as 1.
    int32_t fold_threads;
    // It is in a roll call (exec/wire): its messages do not make it a rank that works.
    bool is_asking;
    // tt_clock_seconds when a wait last had a reason to continue though nothing moved.
    double stirred;
    // Called in each turn of a wait in which nothing moved, by whichever wait: what was
    // posted meanwhile can be sent. Returns whether anything moved. NULL: not needed.
    bool (*meanwhile)(void *user);
    void *meanwhile_user;
    tt_comm_space room[TT_COMM_ROOMS]; // tt_comm_room
};

// Seconds of a message of so many bytes: latency + bytes * per_byte.
typedef struct tt_link {
    double latency, per_byte;
} tt_link;

struct tt_comm_def {
    const char *name, *doc;
    // Take over a message until it is done. Never block.
    tt_status (*send)(tt_comm *comm, tt_msg *msg);
    tt_status (*receive)(tt_comm *comm, tt_msg *msg);
    // Moves what can be moved; says whether anything was. Fails with TT_ERR_PEER
    // when a peer is known to be gone, and then names it.
    tt_status (*progress)(tt_comm *comm, bool *moved_out);
    // Sleeps until something may have changed, at most so long.
    void (*doze)(tt_comm *comm, double seconds);
    // Ends the doze that is going on, or the next one. Any thread may call it. NULL: no
    // doze of this transport is long.
    void (*wake)(tt_comm *comm);
    // Says that this rank has waited since then and nothing has moved; 0: it works.
    // Returns for how many seconds no rank of the world is known to have worked:
    // ranks that wait tell since when, those that work give signs of life. NULL:
    // nothing is known of others.
    double (*idle)(tt_comm *comm, double since);
    // Forgets messages that are not done, after an error. Messages may be freed
    // afterwards; the transport is only good for closing.
    void (*abandon)(tt_comm *comm);
    // Memory that peers can read in place: sending from it costs no second copy.
    // NULL: there is none left, or no such thing.
    void *(*alloc)(tt_comm *comm, int64_t bytes);
    // Whether peers may read such memory without a message: it has one address for all, and
    // no wrapper counts the time of what is sent.
    bool shows_memory;
    tt_link (*link)(const tt_comm *comm, int32_t peer);
    // The transport's own collectives; both NULL: it has none. The first answers
    // from the call's numbers alone, so that all members agree.
    bool (*has_native)(const tt_comm *comm, const struct tt_coll_call *call);
    tt_status (*native)(tt_comm *comm, const struct tt_coll_call *call);
    bool is_native_ordered; // it folds as tt_coll_def.is_ordered says
    bool scatters_in_place; // its reduce_scatter's result may lie in its input
    void (*close)(tt_comm *comm);
    // Around `below`, with options that change no result, for the law `transport`. NULL:
    // it wraps no other; then `tested_by` says how it is tried, if the law cannot.
    tt_status (*wrap)(tt_comm *below, tt_comm **comm_out);
    const char *tested_by;
};

tt_status tt_comm_send(tt_comm *comm, tt_msg *msg);
tt_status tt_comm_receive(tt_comm *comm, tt_msg *msg);

// Waits until all are done. On failure all messages of this rank are abandoned.
tt_status tt_comm_wait(tt_comm *comm, tt_msg *const *msgs, int n);

// Sends one and receives another at the same time; either may be NULL.
tt_status tt_comm_swap(tt_comm *comm, tt_msg *out, tt_msg *in);

// Ends a doze of the thread that uses it; from any thread.
void tt_comm_wake(tt_comm *comm);

// One turn of a wait in which nothing moved: spins a little, lets others run, then
// sleeps, for ranks may share cores. Begins with a zero `rest`; returns the seconds
// in which no rank has worked and nothing has stirred. For transports.
typedef struct tt_rest {
    int turns;
    double since, looked;
    double told; // when the other ranks learnt of it; 0: they have not
    double idle; // seconds; what is known since then
} tt_rest;
double tt_comm_rest(tt_comm *comm, tt_rest *rest);

// Something has moved, or the wait is over.
void tt_comm_rested(tt_comm *comm, tt_rest *rest);

// One turn of a wait for `open`: moves what can be moved, else rests. Fails when a peer
// is gone or time is up. Begins with a zero `rest` and ends with tt_comm_rested.
tt_status tt_comm_turn(tt_comm *comm, const tt_msg *open, tt_rest *rest);

// tt_comm_def.idle of a rank that waits for something else than messages; 0: it works.
double tt_comm_idle(tt_comm *comm, double since);

// NULL: there is none left, or the transport has no such memory.
void *tt_comm_alloc(tt_comm *comm, int64_t bytes);

// Counts what peers read of memory that they see, as if it had been sent; and what this rank
// reads of theirs.
void tt_comm_showed(tt_comm *comm, int64_t bytes);
void tt_comm_looked(tt_comm *comm, int64_t bytes);

// At least so many bytes, of any content, until the next call for the same use. They stay
// with the comm: a step that has run once allocates nothing. NULL: there is no memory.
void *tt_comm_room(tt_comm *comm, tt_comm_use use, int64_t bytes);

// For coll/native.c.
bool tt_comm_has_native(const tt_comm *comm, const struct tt_coll_call *call);
tt_status tt_comm_native(tt_comm *comm, const struct tt_coll_call *call);

void tt_comm_close(tt_comm *comm); // NULL is fine

#endif
