// rounds - who is asked in a round of a federation, who answers in time, and when.
//
//   asked     a part of the clients, drawn anew in each round
//   dropped   of these some go away before they have answered
//   late      the server wants so many answers, and waits so long: the rest is late
//
//   client 3   |- delay -|--- steps / speed * (1 + jitter) + pause ---|- delay -|
//   client 7   |- delay -|--- ... ---| gone
//   client 9   |- delay -|--------------- ... ----------------------------------- late
//   round      |                                                        | the last wanted
//
// All of it is a pure function of (seed, round, client), so every rank knows it without
// asking. Only clients that have data are asked. The unit of time is a local step at speed
// 1.
//
// With `is_poisson` each client is asked by itself with the probability `fraction`, so
// their number differs: what the arithmetic of privacy holds for (exchange/privacy.h).

#ifndef TT_EXCHANGE_ROUNDS_H
#define TT_EXCHANGE_ROUNDS_H

#include "exchange/drawn.h"

#include <stdbool.h>

typedef struct tt_round_rules {
    tt_drawn_rules pace;
    double fraction; // of the clients that have data
    bool is_poisson;
    double over;          // times as many are asked as are wanted
    double deadline;      // of an answer; 0: none
    double drop;          // how probable it is that a client goes away
    const int64_t *steps; // of each client's work; 0: it has no data
} tt_round_rules;

typedef enum tt_fate { TT_FATE_TAKEN, TT_FATE_DROPPED, TT_FATE_LATE } tt_fate;

typedef struct tt_round_client {
    int32_t client;
    tt_fate fate;
    double due; // its answer, from the beginning of the round
} tt_round_client;

typedef struct tt_round {
    int32_t n; // asked, in the order of clients
    int32_t wanted, taken;
    double seconds; // how long it takes
    tt_round_client *client;
    // Room: clients in the order of a draw, or of time.
    tt_round_client **order;
    double *draw;
} tt_round;

tt_status tt_round_init(tt_round *round, const tt_round_rules *rules,
                        tt_arena *arena);
// Round `number`, from 0.
void tt_round_draw(tt_round *round, const tt_round_rules *rules,
                   int64_t number);

// How many clients have data, and how many answers a round wants.
int32_t tt_round_eligible(const tt_round_rules *rules);
int32_t tt_round_wanted(const tt_round_rules *rules);

#endif
