// survey - what a planned job puts where, what its ranks send each other, and how
// much memory each of them needs: the rows of `tutti plan`.

#ifndef TT_JOB_SURVEY_H
#define TT_JOB_SURVEY_H

#include "job/job.h"

typedef struct tt_survey_value {
    const char *name;  // of weights, state and inputs; of others the operator's
    const char *layer; // that the value belongs to; "": none
    const char *kind;  // weight, state, input, activation, gradient
    const tt_type *type;
    tt_local local;       // this rank's part
    int64_t bytes;        // of it
    tt_shape least, most; // of all ranks' parts, each extent
    bool is_view;         // it may share the memory of another value
} tt_survey_value;

// Collectives of one layer, direction, kind and axis, over a whole step, or over `steps`.
typedef struct tt_survey_sent {
    const char *layer, *direction, *kind;
    int32_t axis;
    int64_t count;           // how many
    int64_t messages, bytes; // sent by this rank, exactly
    double formula; // bytes by the formula: 2 (p-1)/p n of an all-reduce
} tt_survey_sent;

// The rank with the least and the one with the most, the first where several are.
typedef struct tt_survey_range {
    int64_t least, most;
    int32_t least_rank, most_rank;
} tt_survey_range;

typedef struct tt_survey {
    tt_arena *arena; // borrowed, as the graph
    const tt_graph *graph;
    int64_t n_values, n_sent;
    int64_t
        steps; // that what is sent is counted over: until agreements begin anew
    tt_survey_value *value;
    tt_survey_sent *sent;
    tt_survey_sent axis[TT_MAX_AXES]; // sums; count 0: nothing is sent there
    tt_survey_sent host; // of all ranks, outside of the graph: the wish to stop
    tt_survey_sent total;
    tt_survey_range memory; // peak_bytes of every rank's plan
    tt_survey_range sends;  // bytes of every rank's plan
} tt_survey;

// Of a planned job. `collective` as in settings; everything lies in the arena or in
// the job. Of more than a thousand ranks only corners and middles are looked at.
tt_status tt_survey_make(const tt_job *job, tt_arena *arena,
                         tt_survey *survey_out);

// Gives the job the plan of its rank with the most memory, in place of its own.
// Only for a job that has no peers and is never run.
tt_status tt_survey_take_largest(tt_job *job, tt_survey_range *memory_out);

// What one rank sends in a step of a plan of the job, exactly; of agreements on average.
tt_status tt_survey_sent_bytes(const tt_job *job, const tt_plan *like,
                               int32_t rank, int64_t *bytes_out);

// "heads:tensor batch:data", "sum:tensor" for terms of a sum, "whole".
void tt_survey_split(const tt_type *type, const tt_mesh *mesh, tt_str *out);

#endif
