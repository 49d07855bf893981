// peers - the processes that train one job together, as a job sees them: which of
// them it is, and what they say to each other between steps.
//
// Every call here is made by all ranks, in the same order. Alone (size 1) they cost
// nothing. Rank 0 is the one that reads and writes files and is looked at.
//
// A rank that fails on its way to a call goes on to the next tt_peers_agree with its
// failure, wherever the others are then: all end with what it says.
//
// What does not belong to this folder: starting or joining ranks (ranks/), and what steps
// send each other, which is the plan's (exec/wire).

#ifndef TT_PEERS_PEERS_H
#define TT_PEERS_PEERS_H

#include "base/str.h"
#include "exec/wire/wire.h"

typedef struct tt_peers {
    int32_t rank, size;
    int32_t on_host;    // ranks on this host
    int32_t local;      // this one's number among them
    int32_t cores;      // for this rank alone; 0: all of the machine
    tt_comm *comm;      // NULL: nobody is there, so plans can be made, not run
    tt_comm_wire *wire; // over comm
    int64_t bucket;     // bytes of gradients worth a message; 0: not known
    const char *text;   // "4 ranks on 1 host (tutti -n 4), shared memory, ..."
} tt_peers;

static inline bool tt_peers_is_first(const tt_peers *peers)
{
    return peers->rank == 0;
}

// All ranks are about to do the same: before a collective of the wire's own that one of
// them might not come to.
tt_status tt_peers_meet(const tt_peers *peers, const char *what);

// Rank 0's bytes, then on all of them. `what` is named in errors.
tt_status tt_peers_broadcast(const tt_peers *peers, const char *what,
                             void *data, int64_t bytes);

// Rank 0's text replaces that of the others.
tt_status tt_peers_share_text(const tt_peers *peers, const char *what,
                              tt_str *text);

// What rank 0 did alone ended so: all others return TT_ERR_PEER when it failed.
// They wait for it as long as it lives.
tt_status tt_peers_follow(const tt_peers *peers, const char *what,
                          tt_status status);

// Every rank did something by itself: fails on all of them when it failed on one.
// The first that failed is named, unless that is rank 0. Waits like the above. The
// failure is rank 0's to tell: it is TT_ERR_PEER elsewhere.
tt_status tt_peers_agree(const tt_peers *peers, const char *what,
                         tt_status status);

// Every rank's `bytes` bytes, in the order of ranks: room for size * bytes.
tt_status tt_peers_collect(const tt_peers *peers, const char *what,
                           const void *mine, int64_t bytes, void *all_out);

// Says how two texts differ: ": optim.lr is 0.1 there and 0.01 here". `mine` is of the
// rank that differs ("there"), `first` is rank 0's ("here").
typedef void tt_peers_explain_fn(const char *mine, const char *first,
                                 tt_str *out);

// What must be the same on all ranks before the first step.
typedef struct tt_peers_fact {
    const char *name;             // "another graph"
    const char *text;             // all of it
    tt_peers_explain_fn *explain; // NULL: only that it differs is said
} tt_peers_fact;

// Of lines "key: value": names the first that differs.
void tt_peers_explain_lines(const char *mine, const char *first, tt_str *out);

// Fails on all ranks when a text is not the same on all: the message names the
// first rank and the first thing that differs, and is rank 0's to tell. The rank's
// host is named where there are several.
tt_status tt_peers_compare(const tt_peers *peers, const tt_peers_fact *fact,
                           int n);

#endif
