// timetable - the schedule of a job's stages in numbers: seconds of each row, bubble, slots
// and memory of each stage, before anything runs.

#ifndef TT_JOB_TIMETABLE_H
#define TT_JOB_TIMETABLE_H

#include "job/job.h"
#include "pipe/measure.h"

typedef struct tt_stage {
    int32_t n_slots; // micro-batches that its ranks hold at once
    int64_t slot_bytes, peak_bytes;
    int32_t n_versions; // of its weights
    int64_t old_bytes;  // of those that are not the newest
    int32_t staleness;  // tt_pipe_staleness
} tt_stage;

typedef struct tt_timetable {
    const tt_pipe *pipe;     // the job's
    tt_pipe_seconds seconds; // per phase and chunk; messages take none
    tt_pipe_times *times;
    double
        formula; // seconds of bubble, of the paper and for even chunks; -1: none
    tt_stage *stage;
} tt_timetable;

// Of a planned job with stages. Seconds are modelled (plan/seconds.h), and divided by
// the speeds of trial.pace. A plan is made for each stage. Arrays lie in the arena.
tt_status tt_timetable_make(const tt_job *job, tt_arena *arena,
                            tt_timetable *table_out);
void tt_timetable_fini(tt_timetable *table);

// The formula of the schedule for chunks as long as these are on average; -1: none.
tt_status tt_timetable_formula(const tt_pipe *pipe,
                               const tt_pipe_seconds *seconds,
                               double *bubble_out);

// Seconds of waiting in a hundred, of the time between a rank's first and last row.
double tt_timetable_percent(const tt_pipe_rank_times *rank);

#endif
