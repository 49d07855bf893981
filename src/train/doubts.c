#include "train/doubts.h"

#include "backend/machine.h"

#include <string.h>
#include <unistd.h>

typedef struct doubter {
    const tt_session *s;
    tt_str *out;
} doubter;

static const char *given(const doubter *d, const char *key)
{
    const tt_setting *s = tt_settings_find(&d->s->settings, key);
    return s != NULL ? s->value : NULL;
}

// ---- lengths -------------------------------------------------------------

static void check_length(const doubter *d, const char *key, int64_t value,
                         const char *what)
{
    if (given(d, key) != NULL && value > d->s->steps && d->s->steps > 0)
        tt_str_addf(d->out,
                    "%s=%lld is more than the %lld steps of the run: %s\n", key,
                    (long long)value, (long long)d->s->steps, what);
}

static void check_lengths(const doubter *d)
{
    const tt_train_options *o = &d->s->options;
    const tt_schedule *schedule = &d->s->job->optim_params.schedule;
    check_length(d, "optim.warmup", schedule->warmup,
                 "the learning rate never reaches optim.lr");
    if (given(d, "optim.warmup") != NULL && schedule->warmup > 0 &&
        schedule->warmup == d->s->steps)
        tt_str_addf(d->out,
                    "optim.warmup=%lld is all of the run: the learning rate "
                    "only grows\n",
                    (long long)schedule->warmup);
    check_length(d, "eval.every", o->eval_every,
                 "it is evaluated at the end only");
    check_length(d, "sample.every", o->sample_every, "no sample is written");
    check_length(d, "log.every", o->log_every, "only the end is logged");
    check_length(d, "checkpoint.every", o->save_every,
                 "a checkpoint is made at the end only");
    check_length(d, "train.stop", o->stop, "it ends before");
    if (schedule->kind == TT_SCHEDULE_STEP)
        check_length(d, "optim.step_every", schedule->step_every,
                     "the learning rate is never cut");
    if (schedule->kind == TT_SCHEDULE_WSD)
        check_length(d, "optim.decay_steps", schedule->decay_steps,
                     "the learning rate falls from the first step");
    if (o->patience > 0 && o->eval_every == 0)
        tt_str_add(d->out,
                   "train.patience counts evaluations, and eval.every=0 "
                   "makes none before the end\n");
}

// ---- the machine ---------------------------------------------------------

static void check_machine(const doubter *d)
{
    const tt_job *job = d->s->job;
    const int64_t ranks = job->peers.on_host > 1 ? job->peers.on_host : 1;
    // Each rank sees its own cores alone.
    const int cores =
        ranks > 1 ? (int)sysconf(_SC_NPROCESSORS_ONLN) : tt_machine_cores();
    const int64_t threads = job->options.threads * ranks;
    const int64_t workers = d->s->data->options.workers * ranks;
    if (threads > cores)
        tt_str_addf(d->out,
                    "threads=%lld%s: there are %d cores here, so threads wait "
                    "for each other\n",
                    (long long)job->options.threads,
                    ranks > 1 ? " on each rank" : "", cores);
    else if (ranks > cores && job->backend->def->memory == NULL)
        tt_str_addf(d->out,
                    "%lld ranks and %d cores here: ranks wait for each other\n",
                    (long long)ranks, cores);
    if (given(d, "data.workers") != NULL && workers > cores)
        tt_str_addf(d->out, "data.workers=%lld: there are %d cores here\n",
                    (long long)d->s->data->options.workers, cores);
}

// ---- what does nothing ---------------------------------------------------

// Each key does something only where another has a certain value.
static void check_idle(const doubter *d)
{
    const tt_job *job = d->s->job;
    const tt_train_options *o = &d->s->options;
    const int kind = job->optim_params.schedule.kind;
    const struct {
        const char *key;
        bool does;
        const char *without;
    } idle[] = {
        {"optim.final",
         kind == TT_SCHEDULE_LINEAR || kind == TT_SCHEDULE_COSINE ||
             kind == TT_SCHEDULE_WSD,
         "optim.schedule=cosine, linear or wsd"},
        {"optim.step_every", kind == TT_SCHEDULE_STEP, "optim.schedule=step"},
        {"optim.step_factor", kind == TT_SCHEDULE_STEP, "optim.schedule=step"},
        {"optim.decay_steps", kind == TT_SCHEDULE_WSD, "optim.schedule=wsd"},
        {"optim.lr_batch", job->optim_params.lr_scale != TT_LR_SCALE_NONE,
         "optim.lr_scale=linear or sqrt"},
        {"sample.prompt", o->sample_every > 0, "sample.every=N"},
        {"sample.tokens", o->sample_every > 0, "sample.every=N"},
        {"train.spike_sigma", o->spike != TT_SPIKE_NONE,
         "train.spike=skip or rollback"},
        {"exact.blocks", job->options.exact, "exact=true"},
        {"loss_scale.initial", job->options.precision == TT_PRECISION_FP16,
         "precision=fp16"},
        {"loss_scale.growth", job->options.precision == TT_PRECISION_FP16,
         "precision=fp16"},
    };
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++)
        if (given(d, idle[i].key) != NULL && !idle[i].does)
            tt_str_addf(d->out, "%s=%s does nothing without %s\n", idle[i].key,
                        given(d, idle[i].key), idle[i].without);
    if (job->where.zero > 0 && job->grid.size[TT_AXIS_DATA] == 1)
        tt_str_addf(d->out,
                    "zero=%lld does nothing: no ranks share the batch; -n 2 "
                    "would start some\n",
                    (long long)job->where.zero);
}

static void check_training(const doubter *d)
{
    const tt_job *job = d->s->job;
    const bool is_adaptive = strncmp(job->optim->name, "adam", 4) == 0;
    if (job->rate == 0)
        tt_str_add(d->out, "optim.lr=0: no weight changes\n");
    if (is_adaptive && job->rate > 0.1)
        tt_str_addf(d->out,
                    "optim.lr=%g is very large for %s, which moves every "
                    "weight by about so much in a step\n",
                    job->rate, job->optim->name);
    if (d->s->epoch > 0 && job->options.batch > d->s->epoch)
        tt_str_addf(d->out,
                    "batch=%lld is more than the %lld samples of the data: "
                    "each is seen several times in a step\n",
                    (long long)job->options.batch, (long long)d->s->epoch);
}

void tt_session_doubts(const tt_session *session, tt_str *out)
{
    const doubter d = {session, out};
    check_lengths(&d);
    check_machine(&d);
    check_idle(&d);
    check_training(&d);
}
