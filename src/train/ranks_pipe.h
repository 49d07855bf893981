// ranks_pipe - what the stages of a pipeline did: how long they waited for each other,
// and the rows of one step. Part of the report about ranks.
//
//   bubble     of the time from a rank's first row to its last gradient: waiting for
//              messages of other stages
//   expected   the same as the schedule's table says it, for rows that take the time
//              that was measured
//   formula    what the schedule's paper says for even chunks, of the worst rank

#ifndef TT_TRAIN_RANKS_PIPE_H
#define TT_TRAIN_RANKS_PIPE_H

#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

// One row of the newest step; where the pipe is not emptied before each update, of the first
// steps of the newest stretch.
typedef struct tt_stage_row {
    const char *phase; // "forward", "backward", "weight_grad", "update"
    int32_t chunk, micro;
    int32_t peer;              // that it waited for, mostly; -1: for none
    double start, end, waited; // seconds since the first row of all began
} tt_stage_row;

typedef struct tt_rank_stage {
    int32_t stage;
    double bubble, expected; // shares, 0 to 1
    double bubble_seconds;   // per step
    const double *waited;    // per rank: seconds per step for its messages
    int32_t n_slots;
    int64_t slot_bytes, peak_bytes;
    // Of weights: how many are kept, and the bytes of all but the newest. Updates between
    // the weights that a micro-batch read and the update that it went into, at most.
    int32_t n_versions, staleness;
    int64_t old_bytes;
    int32_t n_rows;
    const tt_stage_row *row;
} tt_rank_stage;

typedef struct tt_ranks_pipe {
    const char *schedule;
    int32_t n_ranks, n_stages, n_chunks, n_micro;
    int64_t n_steps;         // that were measured
    bool is_split;           // input and weight gradients are apart
    bool is_endless;         // the pipe is not emptied before each update
    double formula;          // a share; negative: there is none
    double bubble, expected; // shares of the rank that waits most
    bool is_paced;           // trial.pace
    int64_t n_paced, n_late; // rows; that computed longer than their pace
    const tt_rank_stage *rank;
} tt_ranks_pipe;

// Appends a member "pipe" of an object.
void tt_ranks_pipe_print_json(const tt_ranks_pipe *pipe, tt_json *json);

// "1f1b on 4 stages: bubble 27.1% on rank 0, by the schedule 27.3%, ..."
void tt_ranks_pipe_sentence(const tt_ranks_pipe *pipe, tt_str *out);

#endif
