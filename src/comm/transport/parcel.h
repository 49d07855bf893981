// parcel - what wrapping transports share: each message is sent over the transport
// below as a note and a body. Only they include it.

#ifndef TT_COMM_TRANSPORT_PARCEL_H
#define TT_COMM_TRANSPORT_PARCEL_H

#include "comm/transport/transport.h"

typedef struct tt__note {
    double due;   // tt_clock_seconds when the body arrives
    uint64_t sum; // of the body's bytes
} tt__note;

typedef struct tt__parcel {
    tt_msg *msg;       // the caller's
    tt_msg head, body; // over the transport below
    tt__note note;
    char *copy; // the body's bytes where they are not the caller's; or NULL
    bool is_out, is_known; // known: its arrival was looked at
    struct tt__parcel *next;
} tt__parcel;

typedef struct tt__wrap tt__wrap;
struct tt__wrap {
    tt_comm base;
    tt_comm *below;
    tt__parcel *first, *last; // on their way, in the order of posting
    tt__parcel *spare;
    // A parcel has come in, or is asked again: may fail, may say when it is due. NULL: it
    // is due when its note says.
    tt_status (*arrive)(tt__wrap *w, tt__parcel *p);
};

// Fills in `w`, which the wrapper has allocated.
void tt__wrap_init(tt__wrap *w, const tt_comm_def *def, tt_comm *below);

// A parcel for the message; with `copy` its body has memory of its own.
tt_status tt__parcel_new(tt__wrap *w, tt_msg *msg, bool is_out, bool copy,
                         tt__parcel **out);
tt_status tt__parcel_post(tt__wrap *w, tt__parcel *p);

// ---- slots of tt_comm_def that wrappers share ----------------------------

tt_status tt__wrap_progress(tt_comm *comm, bool *moved_out);
void tt__wrap_doze(tt_comm *comm, double seconds);
void tt__wrap_wake(tt_comm *comm);
double tt__wrap_idle(tt_comm *comm, double since);
void tt__wrap_abandon(tt_comm *comm);
void *tt__wrap_alloc(tt_comm *comm, int64_t bytes);
void tt__wrap_close(tt_comm *comm); // frees the wrapper too

#endif
