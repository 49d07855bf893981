// ranks - what the ranks of a run did, as rank 0 knows it: plain data.
//
//   sent        messages and bytes that the rank sent
//   busy        seconds in which the rank did collectives of steps
//   exposed     of these, while it had nothing else to do; the rest was hidden
//   raw, coded  bytes of gradients and activations before and after coding; coding: seconds of it
//   arrival     when a rank is ready for a collective, by rank 0's clock
//   spread      from the first arrival to the last one, whose rank is the straggler
//   waited      of the busy time: until the last rank had arrived

#ifndef TT_TRAIN_RANKS_H
#define TT_TRAIN_RANKS_H

#include "base/json.h"
#include "store/report/report.h"
#include "train/ranks_pipe.h"

#include <stdint.h>

typedef struct tt_rank_row {
    const char *host;
    int64_t messages, bytes;
    double busy, exposed, waited; // seconds
    double kernels, feed;         // seconds in kernels; getting batches
    double coding;                // of those in kernels
    int64_t raw, coded;           // bytes; 0: no codec
    tt_report_time time;          // all of it; total 0: not known
    int64_t n_last;               // collectives to which it came last
    double late;                  // seconds after the first, mean over these
} tt_rank_row;

typedef struct tt_collective_row { // all collectives of one name
    const char *name;
    int64_t n;
    double spread, spread_max; // seconds: mean and largest
    int32_t straggler;         // who came last most often
    int64_t n_last;            // how often
} tt_collective_row;

typedef struct tt_ranks {
    int32_t n;
    const tt_rank_row *rank;
    int64_t n_collectives;     // of which all arrivals are known
    double spread, spread_max; // seconds
    int32_t straggler;         // who came last most often; -1: no collective
    int32_t n_names;           // those that cost most, the costliest first
    const tt_collective_row *name;
    double clock_error;        // seconds by which arrivals may be wrong
    const tt_ranks_pipe *pipe; // NULL: there are no stages
    bool is_paced;             // times are those of trial.pace
} tt_ranks;

// Since the last point, per step and rank, without evaluations and checkpoints.
typedef struct tt_ranks_point {
    double exposed, hidden; // seconds
    double bytes;
    double spread;     // seconds, mean over collectives; NaN: there were none
    double coding;     // seconds
    double raw, coded; // bytes before and after coding; 0: no codec
    double residual;   // the norm of all residuals; 0: there are none
} tt_ranks_point;

// "rank 2 (host) came last in 61% of 1,840 collectives, ...", for people; nothing
// where there was no collective.
void tt_ranks_report_sentence(const tt_ranks *ranks, tt_str *out);

double tt_rank_hidden(const tt_rank_row *row); // seconds

// Appends members of an object: "ranks", "collectives" and, of stages, "pipe".
void tt_ranks_report_print_json(const tt_ranks *ranks, tt_json *json);

#endif
