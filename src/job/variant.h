// variant - the choices of a job that save memory and cost time. The job itself is
// one variant. Others are planned to be compared, and never run.

#ifndef TT_JOB_VARIANT_H
#define TT_JOB_VARIANT_H

#include "job/job.h"

typedef struct tt__variant {
    int64_t accumulate;
    int precision, recompute;
    int64_t zero, chunks;
    int offload;
} tt__variant;

enum { TT__USUAL_CHUNKS = 8 }; // of the loss, where memory is short

typedef struct tt__planned {
    tt_pipe *pipe;        // NULL: no stages
    tt_layers_chunk *cut; // of its chunks; NULL: no stages; in the job's arena
    tt_graph *graph;
    tt_plan *plan;
    tt_model_io io;
    int64_t accumulate, classes, chunks;
} tt__planned;

// The job as it is.
tt__variant tt__variant_of(const tt_job *job);

tt_status tt__variant_plan(tt_job *job, const tt__variant *v, tt__planned *out);
void tt__planned_free(tt__planned *p);

// The plan of another rank; the graph and the schedule are p's.
tt_status tt__planned_lower(const tt_job *job, const tt__planned *p,
                            int32_t rank, tt_plan **plan_out);

#endif
