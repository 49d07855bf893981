// clock - when gradients become an update, and who may go on: exchange.clock.
//
//   bsp        all have delivered; all go on
//   ssp        a worker may be `bound` gradients ahead of the slowest
//   async      each gradient is an update; its worker goes on
//   softsync   `bound` gradients are an update; theirs go on
//   backup     all but `bound` workers; what comes later is dropped
//   quorum     `bound` fresh ones; what comes later joins the next update
//   delay      no gradient is more than `bound` updates old when it is applied
//   value      no worker computes with weights that are further than `bound` away
//   essp       as ssp, but each gradient is an update at once, and weights come unasked
//   absp       as bsp, but when `bound` have delivered, the others give what they have
//
// With ssp what has arrived becomes an update when somebody is about to read. So ssp with
// bound 0 is bsp, and ssp without a bound is async, in every bit.
//
// essp is eager: a gradient whose worker is held is in the weights of those who go on, and a
// worker does not wait for weights that it asks for: they are there when it begins, so it
// waits for one message less. Without a bound it is async, which is sooner by that message.
//
// absp waits for nobody, yet all begin with the same weights: a straggler's micro-batches
// count that it has finished. With all workers it is bsp.

#ifndef TT_EXCHANGE_CLOCK_H
#define TT_EXCHANGE_CLOCK_H

#include "exchange/server.h"

struct tt_clock_def {
    const char *name, *doc;
    // What `bound` is; NULL: it has none.
    const char *bound;
    double usual;     // bound; below 0: half of the workers
    bool is_whole;    // the bound is a whole number
    double min;       // of the bound
    bool below_all;   // and at most the workers less this one; else any
    bool upto_all;    // at most the workers
    bool is_eager;    // the server sends weights unasked
    bool takes_parts; // of gradients: of those that have not delivered by then
    bool asks_change; // tt_server_applied needs to know how far weights moved
    bool (*is_late)(const tt_server *server, const tt_server_push *push);
    bool (*is_time)(const tt_server *server);
    bool (*goes_on)(const tt_server *server, int32_t worker);
};

const tt_clock_def *const *tt_clock_all(int *n);
const tt_clock_def *tt_clock_find(const char *name); // or NULL

// The number that a setting of 0 or more (below 0: not set) means with so many workers;
// fails in a sentence.
tt_status tt_clock_bound(const tt_clock_def *clock, int32_t workers,
                         double setting, double *bound_out);

// Whether those that still compute are to give what they have.
bool tt_clock_is_hurried(const tt_server *server);

#endif
