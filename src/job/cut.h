// cut - where a job's layers were cut into chunks, and how even these are.

#ifndef TT_JOB_CUT_H
#define TT_JOB_CUT_H

#include "job/timetable.h"

typedef struct tt_cut_shares {
    int32_t n;
    const tt_layers_chunk *chunk; // the job's
    double *share;                // of the step's modelled seconds, 0 to 1
    int32_t slowest;
    double excess; // of the slowest chunk over the mean: 0.1 is 10 % more
    bool is_by_hand;
} tt_cut_shares;

// Modelled seconds of every chunk in a step: from a timetable of the job, or from the
// plan of one rank, which leaves 0 for the chunks of others. The update counts, once in a
// step; chunks of one stage have equal parts of theirs.
void tt_cut_seconds(const tt_timetable *table, double *seconds_out);
void tt_cut_rank_seconds(const tt_plan *plan, const tt_pipe *pipe,
                         double *seconds_out);

// The share of each chunk is written over its seconds, which must live on.
void tt_cut_make(const tt_job *job, double *seconds, tt_cut_shares *cut_out);

// "h.4": the setting that makes the same cut.
void tt_cut_names(const tt_cut_shares *cut, tt_str *out);

// A line: where chunks begin, how long each takes, and what crosses.
void tt_cut_line(const tt_cut_shares *cut, tt_str *out);

// What the user should know of a cut made by hand; nothing where it is even enough.
void tt_cut_note(const tt_cut_shares *cut, tt_str *out);

// Both of a planned job, without line ends; nothing where there are no stages. A plan is
// made for each stage.
tt_status tt_cut_text(const tt_job *job, tt_arena *arena, tt_str *line,
                      tt_str *note);

#endif
