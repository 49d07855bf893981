// extra_memory - the host memory that training needs besides the plan: the plan for
// evaluation, batches that wait in the loader, and the snapshot that a checkpoint
// is written from.
//
// On Linux an allocation succeeds even if there is no memory for it; the process is
// killed later, when it writes to the pages, without any message. So the sum is
// checked before training begins.

#include "backend/machine.h"
#include "base/figures.h"
#include "job/infer.h"
#include "state/spread.h"
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

int64_t tt_train_save_most(const tt_session *session)
{
    enum { LEAST = 256 << 20 };
    const int64_t peak = session->job->plan->peak_bytes;
    if (session->options.save_memory > 0)
        return session->options.save_memory;
    return peak > LEAST ? peak : LEAST;
}

// Whether ranks see each other's memory. It is not known before they have met; then
// those of one host are taken for such ranks.
static bool is_shared(const tt_peers *peers)
{
    return peers->wire != NULL
               ? tt_comm_wire_can_lend(peers->wire)
               : peers->on_host <= 1 || peers->on_host == peers->size;
}

// States in parts: what this rank holds for a checkpoint, and the ranks of its host
// together. tt_spread_open decides by the same numbers.
static int64_t held_parts(const tt_session *s, int64_t *on_host_out)
{
    const tt_job *job = s->job;
    const tt_peers *peers = &job->peers;
    const tt_tensors *all = &job->tensors;
    const int64_t most = tt_train_save_most(s);
    const bool shared = is_shared(peers);
    int64_t sum = 0, largest = 0;
    for (int64_t i = 0; i < all->n; i++)
        largest = all->v[i].bytes > largest ? all->v[i].bytes : largest;
    for (int32_t r = 0; r < peers->size; r++) {
        const int64_t bytes = tt_spread_bytes(job->graph, all, r, shared);
        if (bytes > most) { // it is written tensor by tensor
            *on_host_out = largest;
            return tt_peers_is_first(peers) ? largest : 0;
        }
        sum += bytes;
    }
    const int64_t own = tt_spread_bytes(job->graph, all, peers->rank, shared);
    const int64_t others = peers->on_host > 1 ? peers->on_host - 1 : 0;
    *on_host_out =
        shared ? sum
               : own + others * tt_spread_bytes(job->graph, all,
                                                peers->size - 1, shared);
    return own;
}

// The bytes of a snapshot on this rank, and on its host.
static int64_t held_bytes(const tt_session *s, int64_t *on_host_out)
{
    const tt_job *job = s->job;
    int64_t on_host = 0, own = 0;
    if (tt_tensors_are_split(&job->tensors)) {
        own = held_parts(s, &on_host);
    } else {
        if (tt_peers_is_first(&job->peers))
            own = tt_tensors_bytes(&job->tensors);
        on_host = own;
    }
    if (on_host_out != NULL)
        *on_host_out = on_host;
    return own;
}

tt_status tt_train_memory_of(tt_session *session, tt_train_memory *memory_out)
{
    tt_job *job = session->job;
    tt_inference *infer = NULL;
    tt_train_memory m = {
        .plan = job->plan->peak_bytes,
        .loader = loader_bytes(session),
        .snapshot = held_bytes(session, NULL),
    };
    if (session->data->val != NULL) {
        TT_TRY(tt_inference_open(
            job, &(tt_inference_options){.on_ranks = true, .plan_only = true},
            &infer));
        m.evaluation = infer->plan->peak_bytes;
        m.loader *= 2;
        tt_inference_close(infer);
    }
    if (job->backend->def->memory != NULL)
        m.stage = tt_wire_stage_bytes(job->plan);
    m.total = m.plan + m.evaluation + m.loader + m.snapshot + m.stage;
    *memory_out = m;
    return TT_OK;
}

// What libraries and threads take while a rank trains.
enum { BESIDES = 24 << 20 };

static tt_status too_little(const tt_train_memory *m, int64_t needs,
                            int64_t there, int64_t on_host)
{
    tt_str s = {0};
    tt_str_add(&s, "training needs ");
    tt_add_bytes(&s, needs);
    tt_str_add(&s, " of memory, but ");
    tt_add_bytes(&s, there);
    tt_str_add(&s, " are available: ");
    if (on_host > 1)
        tt_str_addf(&s, "for each of %lld ranks ", (long long)on_host);
    tt_add_bytes(&s, m->plan);
    tt_str_add(&s, " for steps and ");
    tt_add_bytes(&s, m->evaluation);
    tt_str_add(&s, " for evaluation, and ");
    tt_add_bytes(&s, m->snapshot);
    tt_str_add(&s, " for a checkpoint while it is written; a smaller batch or "
                   "model needs less, and data.holdout=0 leaves evaluation "
                   "out");
    const tt_status status = tt_fail(TT_ERR_NOMEM, "%s", tt_str_text(&s));
    tt_str_fini(&s);
    return status;
}

// Physical memory is shared by the ranks of a host; address space (ulimit -v) is
// each rank's own.
tt_status tt_train_check_memory(tt_session *session)
{
    const tt_job *job = session->job;
    const int64_t on_host = job->peers.on_host > 1 ? job->peers.on_host : 1;
    const int64_t there = job->backend->target.memory_bytes;
    const int64_t space = tt_machine_space();
    const int64_t peak = job->plan->peak_bytes;
    int64_t held_here = 0;
    const int64_t held = held_bytes(session, &held_here);
    tt_train_memory m;
    // A plan for evaluation needs hardly more than the training plan, so three
    // times the peak is a safe bound. Only if that is too much, the evaluation is
    // planned to know exactly.
    if (job->backend->def->memory != NULL ||
        ((there <= 0 || 3 * on_host * peak + held_here <= there) &&
         3 * peak + held <= space))
        return TT_OK;
    TT_TRY(tt_train_memory_of(session, &m));
    m.snapshot = held_here;
    const int64_t each = m.plan + m.evaluation + m.loader + BESIDES;
    if (there > 0 && on_host * each + held_here > there)
        return too_little(&m, on_host * each + held_here, there, on_host);
    return each + held <= space ? TT_OK : too_little(&m, each + held, space, 1);
}
