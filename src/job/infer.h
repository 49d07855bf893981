// infer - a model that is not trained: forward, loss, logits; running
// statistics instead of the batch's, no dropout, no gradient, no optimiser state.
//
//   tt_inference_open(job, ..) -> tt_inference_sync or tt_inference_load
//                              -> tt_inference_batch ...
//
// Made from a job that is configured (it need not be planned or started), on its
// backend, which must outlive it. One thread at a time, and not during a step.

#ifndef TT_JOB_INFER_H
#define TT_JOB_INFER_H

#include "job/job.h"
#include "state/tensors.h"
#include "weights/weights.h"

typedef struct tt_inference_options {
    int64_t batch;     // samples at once; 0: the job's micro-batch
    int64_t seq;       // tokens; 0: the job's
    bool wants_logits; // keep them for tt_inference_logits
    bool on_ranks;     // all ranks of the job share every batch; else this
                       // process does it alone
    bool plan_only;    // only the plan is wanted, for its size
} tt_inference_options;

typedef struct tt_inference {
    tt_job *job; // borrowed
    tt_arena *arena;
    tt_model_io io; // extents of a batch
    tt_graph *graph;
    tt_plan *plan;
    tt_exec *exec;
    tt_tensors tensors; // weights in the precision that kernels read, buffers
    int64_t classes;    // or vocabulary: the last extent of the logits
    void *x, *y;        // this rank's part of a batch, in the graph's types
    void *stop;         // as in tt_job; NULL: alone
    bool wants_stop;
} tt_inference;

tt_status tt_inference_open(tt_job *job, const tt_inference_options *options,
                            tt_inference **infer_out);
void tt_inference_close(tt_inference *infer); // NULL is fine

// Weights and buffers of the job as they are now; with use_ema the averages where
// there are some.
tt_status tt_inference_sync(tt_inference *infer, const tt_job *job,
                            bool use_ema);

// From files: see weights/weights.h. Everything must be there; what the model has no
// place for is named in `notes` (may be NULL).
tt_status tt_inference_load(tt_inference *infer, const char *path,
                            const tt_weights_options *options, tt_str *notes);

typedef struct tt_inference_result {
    double loss;           // a sum over the targets, in the batch
    double count, correct; // targets; those whose best guess was right
    bool stop;             // a rank wants to stop
} tt_inference_result;

// x and y dense in the graph's types: infer->x and infer->y, filled by
// tt_feed_batch (job/feed.h), or others. Labels below 0 are left out; y NULL: no
// targets, logits only.
tt_status tt_inference_batch(tt_inference *infer, const void *x, const void *y,
                             tt_inference_result *result_out);

// Logits of the last batch as floats: [batch, seq, classes] or [batch, classes].
tt_status tt_inference_logits(tt_inference *infer, float *out);

#endif
