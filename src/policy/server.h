// server - the options of policies in which workers go at their own pace, as structs.

#ifndef TT_POLICY_SERVER_H
#define TT_POLICY_SERVER_H

#include "policy/stale.h"

// Of every dynamic policy, at the beginning of its options: the clock that runs.
typedef struct tt_pace_params {
    const char
        *schedule; // "seeded", "wall", or a file that a wall run has left
    double spread, jitter, pause, length, delay; // exchange/drawn.h
} tt_pace_params;

typedef enum tt_optimiser_place {
    TT_OPTIMISER_SERVER,
    TT_OPTIMISER_WORKER, // which pushes the change of its weights
} tt_optimiser_place;

typedef enum tt_server_place {
    TT_SERVER_SINGLE,
    TT_SERVER_SHARDED,
} tt_server_place;

// A server with workers; also of rounds, which have no clock to choose.
typedef struct tt_ps_params {
    tt_pace_params pace;
    int clock;           // index of tt_clock_all
    double bound;        // the clock's number; below 0: its usual one
    int staleness;       // tt_stale
    int64_t reject;      // TT_STALE_REJECT: above this
    double lambda;       // TT_STALE_COMPENSATE
    int gather;          // tt_gather
    int64_t bad;         // workers that may send anything
    double limit;        // a longer mean gradient is refused; 0: any length
    int server;          // tt_server_place
    int64_t servers;     // ranks, from the first on, that have no workers
    int64_t chain;       // ranks that hold each shard; 1: no copies
    int64_t proxies;     // between workers and the server; 0: none
    int optimiser;       // tt_optimiser_place
    int64_t local_steps; // of a worker between two pushes
    double local_lr;     // of these; 0: as the server's
    double proximal;     // pull of a worker's weights to those that it got
} tt_ps_params;

// exchange.* of all dynamic policies: rows of a table whose struct begins with
// tt_pace_params.
#define TT_PACE_OPTIONS                                                        \
    {"schedule", "seeded",                                                     \
     "who is next: seeded draws it, wall takes what comes and records it, a "  \
     "file repeats what was recorded",                                         \
     TT_OPT_STR, offsetof(tt_pace_params, schedule)},                          \
        {"spread",                                                             \
         "0.2",                                                                \
         "seeded: speeds of workers are drawn from 1 - spread to 1 + spread, " \
         "where trial.pace does not name them",                                \
         TT_OPT_F64,                                                           \
         offsetof(tt_pace_params, spread),                                     \
         NULL,                                                                 \
         0,                                                                    \
         0.99},                                                                \
        {"jitter",                                                             \
         "0.1",                                                                \
         "seeded: each gradient takes up to this part of its time more or "    \
         "less",                                                               \
         TT_OPT_F64,                                                           \
         offsetof(tt_pace_params, jitter),                                     \
         NULL,                                                                 \
         0,                                                                    \
         0.99},                                                                \
        {"pause",                                                              \
         "0",                                                                  \
         "seeded: how probable it is that a worker pauses before a gradient",  \
         TT_OPT_F64,                                                           \
         offsetof(tt_pace_params, pause),                                      \
         NULL,                                                                 \
         0,                                                                    \
         1},                                                                   \
        {"length",                                                             \
         "5",                                                                  \
         "seeded: of a pause, in gradients at speed 1",                        \
         TT_OPT_F64,                                                           \
         offsetof(tt_pace_params, length),                                     \
         NULL,                                                                 \
         0,                                                                    \
         1e6},                                                                 \
    {                                                                          \
        "delay", "0.05", "seeded: of a message, in gradients at speed 1",      \
            TT_OPT_F64, offsetof(tt_pace_params, delay), NULL, 0, 1e6          \
    }

#endif
