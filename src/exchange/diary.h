// diary - where the time of each worker went, in a bounded number of bars.
//
// A run is as long as it likes, a picture of it is not. Each worker has a row of bars, each
// of the same stretch of time, and in each bar the time of every cause. When the last bar is
// full, neighbours are joined and bars become twice as long:
//
//   worker 0   |ccmhccmh|ccmhhhhh|        |        |     c computing, m messages,
//   worker 1   |cccccccm|ccccccmh|        |        |     h held by the clock
//
// At least half of the bars are used, whatever happens. Sums are kept besides, since only
// the first workers have bars. Times are drawn or measured; the diary does not know.

#ifndef TT_EXCHANGE_DIARY_H
#define TT_EXCHANGE_DIARY_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_cause {
    TT_CAUSE_COMPUTING, // gradients that were taken; pauses too
    TT_CAUSE_WASTED,    // gradients that were dropped or refused
    TT_CAUSE_MESSAGES,
    TT_CAUSE_HELD, // has delivered, and the clock lets it wait
    TT_CAUSE_TURN, // has weights, and its rank computes for another worker
    TT_N_CAUSES,
} tt_cause;
extern const char *const tt_cause_name[TT_N_CAUSES]; // one word each

enum { TT_DIARY_BARS = 96, TT_DIARY_LANES = 64 };

typedef struct tt_diary {
    int32_t workers, lanes; // of these, those that have bars
    double width;           // of a bar
    double *bar;            // [lane][bar][cause]
    double *sum;            // [worker][cause]
} tt_diary;

// What a worker did from the weights that it was sent to the arrival of its gradient.
typedef struct tt_turn {
    int32_t worker;
    double began;
    double moved;  // by messages: half of it before, half of it after
    double waited; // for its turn
    double computed;
    bool is_wasted;
} tt_turn;

tt_status tt_diary_init(tt_diary *diary, int32_t workers, tt_arena *arena);

void tt_diary_add(tt_diary *diary, int32_t worker, tt_cause cause, double from,
                  double to);
void tt_diary_turn(tt_diary *diary, const tt_turn *turn);
// A turn that was added turns out to be wasted; nothing if that was known.
void tt_diary_waste(tt_diary *diary, tt_turn *turn);

static inline double tt_diary_sum(const tt_diary *d, int32_t worker,
                                  tt_cause cause)
{
    return d->sum[(int64_t)worker * TT_N_CAUSES + cause];
}
// The causes of a bar.
static inline const double *tt_diary_bar(const tt_diary *d, int32_t lane,
                                         int bar)
{
    return &d->bar[((int64_t)lane * TT_DIARY_BARS + bar) * TT_N_CAUSES];
}
// Without empty ones at the end of all lanes.
int tt_diary_used(const tt_diary *diary);

// As numbers, for checkpoints.
int64_t tt_diary_count(int32_t workers);
void tt_diary_save(const tt_diary *diary, double *numbers);
void tt_diary_load(tt_diary *diary, const double *numbers);

#endif
