// memory - what training needs besides the plan: the evaluation copy, batches that
// wait, and the snapshot that a checkpoint is written from.

#include "train/infer.h"
#include "train/loop.h"

static int64_t loader_bytes(const tt_session *s)
{
    const tt_loader_options *o = &s->loader;
    const tt_transform *t = &o->transform;
    const int64_t sample = s->job->model->task == TT_TASK_TOKENS
                               ? o->seq * 2 * 4
                               : (t->channels * t->image * t->image + 1) * 4;
    return sample * o->micro_samples * o->n_ahead;
}

tt_status tt_train_memory_of(tt_session *session, tt_train_memory *memory_out)
{
    tt_job *job = session->job;
    tt_infer *infer = NULL;
    tt_train_memory m = {
        .plan = job->plan->peak_bytes,
        .loader = loader_bytes(session),
        .snapshot = tt_tensors_bytes(&job->tensors),
    };
    if (session->data->val != NULL) {
        TT_TRY(tt_infer_open(
            job, &(tt_infer_options){.on_ranks = true, .plan_only = true},
            &infer));
        m.evaluation = infer->plan->peak_bytes;
        m.loader *= 2;
        tt_infer_close(infer);
    }
    if (job->backend->def->memory != NULL)
        m.stage = tt_wire_stage_bytes(job->plan);
    m.total = m.plan + m.evaluation + m.loader + m.snapshot + m.stage;
    *memory_out = m;
    return TT_OK;
}
