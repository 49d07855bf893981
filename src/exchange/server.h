// server - who waits for whom: the rules of a parameter server, without its numbers.
//
// Workers compute gradients at their own pace. Three questions have no one answer, and a
// clock (exchange/clock.h) answers them:
//
//   is it taken?    a gradient that arrives late may be dropped
//   is it time?     when the gradients that have arrived become an update
//   who goes on?    which of the workers that have delivered get new weights
//
//   worker 0  ---g0---|  wait  |---g3---        | push: tt_server_deliver
//   worker 1  -----g1-----|----g2----|          then tt_server_next until there is
//   server            a   a    a     a          nothing to do: APPLY or ANSWER
//
// This file sees events and counts, no time and no data. It is a pure function of the order
// of deliveries. So whoever knows that order (drawn from a seed, as it came by the wall
// clock, or read from a file) gets the same updates, and every rank can follow it without
// asking.
//
// Words. Version: the number of updates so far. Staleness of a gradient: updates between the
// weights that it was computed at and the update that it goes into.
//
// The folder exchange: policies in which nobody has to wait, as rules on events and
// arithmetic on vectors of numbers. Graphs, plans and ranks are not known here (job/).

#ifndef TT_EXCHANGE_SERVER_H
#define TT_EXCHANGE_SERVER_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_clock_def tt_clock_def; // exchange/clock.h

typedef struct tt_server_rules {
    int32_t workers;
    const tt_clock_def *clock;
    double bound; // the clock's number
    int64_t
        reject;    // gradients of a higher staleness are dropped; below 0: none
    bool is_noted; // what is pushed is noted alone, and need not have an age
} tt_server_rules;

typedef struct tt_server_worker {
    int64_t pushed;  // gradients that have arrived, dropped ones too
    int64_t version; // of the weights that it computes with
    bool is_waiting; // has delivered and has got no weights since
    int32_t n_pending;
    double unseen;   // how far weights have moved since it got its own, at most
    int64_t n_stale; // sum of the staleness of its gradients
    int64_t n_dropped;
} tt_server_worker;

typedef struct tt_server_push {
    int32_t worker;
    int32_t slot;    // in which its numbers lie; below 2 * workers
    int64_t number;  // of the worker's gradients, from 0
    int64_t version; // of the weights that it was computed at
} tt_server_push;

enum { TT_STALENESS_BINS = 64 }; // the last has all above

typedef struct tt_server {
    tt_server_rules rules;
    int64_t version; // updates
    int64_t n_pushed, n_dropped;
    int64_t histogram[TT_STALENESS_BINS]; // of gradients in updates
    tt_server_worker *worker;             // in the arena
    // In the order of workers, then of numbers, so that sums do not depend on who was
    // first.
    tt_server_push *pending;
    int32_t n_pending;
    bool *is_taken; // per slot
} tt_server;

tt_status tt_server_init(tt_server *server, const tt_server_rules *rules,
                         tt_arena *arena);

// A gradient arrives and its worker asks for weights. Says whether it is dropped; if not,
// it is among the pending ones, and *slot_out is where its numbers belong.
bool tt_server_deliver(tt_server *server, int32_t worker, int32_t *slot_out);

typedef enum tt_server_do {
    TT_SERVER_NOTHING, // until the next push
    TT_SERVER_APPLY, // all that is pending becomes one update; then tt_server_applied
    TT_SERVER_ANSWER, // worker *worker_out gets the weights and goes on
} tt_server_do;
tt_server_do tt_server_next(tt_server *server, int32_t *worker_out);

// The update is made; no weight has moved further than `change`. A clock that does not ask
// (tt_clock_def.asks_change) needs no number.
void tt_server_applied(tt_server *server, double change);

// Without a server: a worker has used a gradient so old (below 0: that changes nothing that
// others have) and goes on.
void tt_server_note(tt_server *server, int32_t worker, int64_t old);

int64_t tt_server_staleness(const tt_server *server,
                            const tt_server_push *push);
double tt_server_mean_staleness(const tt_server *server); // of all updates

// All that there is to know, as numbers, for checkpoints: so many, there and back. Numbers
// that no server has are refused.
int64_t tt_server_count(const tt_server_rules *rules);
void tt_server_save(const tt_server *server, double *numbers);
tt_status tt_server_load(tt_server *server, const double *numbers);

#endif
