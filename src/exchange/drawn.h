// drawn - the seeded clock: times of workers that are drawn, not measured.
//
// An asynchronous run is a list: who delivers next. By the wall clock that list is another
// one each time. Here each worker has a speed, each gradient takes its time by it with some
// jitter, now and then a worker pauses, and messages take time. All of that is a pure
// function of (seed, worker, number), so every rank works out the same list for itself, on
// any number of ranks, and a run can be repeated and resumed.
//
//   begin at t   |- delay -|---- 1 / speed * (1 + jitter) + pause ----|- delay -|  due
//
// The unit is the time of one gradient at speed 1. Where the time of each worker went is kept
// in a diary; by the wall clock too, which takes it along and says what it has measured.

#ifndef TT_EXCHANGE_DRAWN_H
#define TT_EXCHANGE_DRAWN_H

#include "base/arena.h"
#include "base/status.h"
#include "exchange/diary.h"

#include <stdint.h>

typedef struct tt_drawn_rules {
    int32_t workers;
    uint64_t seed;
    const double
        *speed; // of each worker; NULL: drawn from 1 - spread to 1 + spread
    double spread;
    double jitter; // a gradient takes up to so much of its time more or less
    double pause;  // how probable it is that a worker pauses before a gradient
    double length; // of a pause
    double delay;  // of a message
    bool is_eager; // weights come unasked: nobody waits for their message
    bool has_proxies; // of exchange/tree.h: weights make two hops to a worker
} tt_drawn_rules;

typedef struct tt_drawn_worker {
    double speed;
    double due;     // when what it computes arrives; infinity: it waits
    double since;   // when it was due the last time
    int64_t number; // of the gradient that it computes, from 0
    tt_turn turn;   // what it does, or did last; pauses count as computing
    double longest; // of its gradients
} tt_drawn_worker;

typedef struct tt_drawn {
    tt_drawn_rules rules;
    double now;
    tt_drawn_worker *worker; // in the arena
    tt_diary diary;          // of all that is over
} tt_drawn;

// All begin their first gradient at 0.
tt_status tt_drawn_init(tt_drawn *drawn, const tt_drawn_rules *rules,
                        tt_arena *arena);

// Who delivers next; it is then `now`, and the worker waits. -1: all wait.
int32_t tt_drawn_next(tt_drawn *drawn);

// When that will be; infinity: all wait.
double tt_drawn_due(const tt_drawn *drawn);

// It is `now`: what was held at a worker's proxy and left it at `sent` is at the server.
void tt_drawn_hop(tt_drawn *drawn, int32_t worker, double sent, double now);

// The worker gets its answer now and begins its next gradient.
void tt_drawn_begin(tt_drawn *drawn, int32_t worker);

// The worker delivers now what it has of its gradient; which part of it that is.
double tt_drawn_hurry(tt_drawn *drawn, int32_t worker);

// By the wall clock: at `now` a gradient has arrived whose worker says that it waited and
// computed so long; the rest was messages.
void tt_drawn_arrived(tt_drawn *drawn, int32_t worker, double now,
                      double waited, double computed);
// The diary, and what is not over yet, as far as it goes.
tt_status tt_drawn_diary(const tt_drawn *drawn, tt_arena *arena,
                         tt_diary *diary_out);

// As numbers, for checkpoints. Numbers that no worker has are refused.
int64_t tt_drawn_count(const tt_drawn_rules *rules);
void tt_drawn_save(const tt_drawn *drawn, double *numbers);
tt_status tt_drawn_load(tt_drawn *drawn, const double *numbers);

#endif
