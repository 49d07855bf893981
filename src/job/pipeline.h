// pipeline - the stages of a job: where its layers are cut, and in which order the ranks
// run their micro-batches. Internal to job/. Nothing is done where mesh.pipe is 1.

#ifndef TT_JOB_PIPELINE_H
#define TT_JOB_PIPELINE_H

#include "job/job.h"
#include "pass/layers.h"

// What pipe.cut says, for the graph.
tt_layers_cut tt__pipeline_cut(const tt_job *job);

// Whether the schedule holds the model twice. Then messages of two ranks cross, and none
// may wait until its peer has come to it: links between devices would.
bool tt__pipeline_crosses(const tt_job *job);

// The table that pipe.schedule names, for so many micro-batches; NULL: there are no
// stages. Fails in a sentence where the table does not exist, is wrong or cannot be run.
tt_status tt__pipeline_make(const tt_job *job, int64_t accumulate,
                            tt_pipe **pipe_out);

// Refuses what a schedule with two copies of the model cannot train, in a sentence.
tt_status tt__pipeline_check_graph(const tt_pipe *pipe, const tt_graph *graph);

// The rows of one rank, for lowering. The array is the caller's, who frees it.
tt_status tt__pipeline_rows(const tt_pipe *pipe, const tt_graph *graph,
                            int32_t rank, tt_lower_options *options,
                            tt_lower_row **row_out);

#endif
