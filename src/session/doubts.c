#include "session/doubts.h"

#include "backend/machine.h"
#include "session/changed.h"
#include "weights/model_folder.h"

#include <float.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// A doubt is a warning, never an error: every combination here is legal, and
// someone may want it. But most are mistakes that waste a run, such as a warm-up
// that is longer than the run. Only settings that the user gave are doubted.
typedef struct doubter {
    const tt_session *s;
    const tt_report_row *changed; // what is not as it would be anyway
    tt_arena *arena;
    tt_str *out;
} doubter;

// "runs/a" of "runs/a/config.yaml:3:1"; NULL: the setting has no such origin.
static const char *folder_of(const doubter *d, const char *origin)
{
    static const char name[] = "config.yaml:";
    const char *at = strstr(origin, name);
    if (at == origin)
        return ".";
    return at != NULL && at[-1] == '/'
               ? tt_arena_printf(d->arena, "%.*s", (int)(at - origin), origin)
               : NULL;
}

// A run's own config.yaml has every setting, and what was chosen for the data nobody
// chose: both are no wishes of the user and need no warning. What the user of that run
// wished for was doubted when it began.
static bool is_wish(const doubter *d, const char *key)
{
    const tt_setting *s = tt_settings_find(&d->s->settings, key);
    if (s == NULL || strcmp(s->origin, tt_session_chosen) == 0)
        return false;
    const char *folder = folder_of(d, s->origin);
    return folder == NULL || !tt_model_folder_was_run(folder, d->arena);
}

static const char *given(const doubter *d, const char *key)
{
    for (const tt_report_row *r = d->changed; r != NULL && r->name != NULL; r++)
        if (strcmp(r->name, key) == 0)
            return is_wish(d, key) ? r->value : NULL;
    return NULL;
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
    // With several ranks, tt_machine_cores counts only those that this rank is
    // bound to; here all ranks of the host are counted together.
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

// Keys that have an effect only if another key has a certain value.
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
        {"exchange.replicas",
         tt_exchange_is_coded(&job->exchange) ||
             tt_exchange_differs(&job->exchange),
         "exchange.codec or another exchange.policy"},
        {"exchange.meet", tt_exchange_is_static(&job->exchange),
         "a policy whose replicas have weights of their own"},
        {"exchange.feedback", tt_exchange_is_coded(&job->exchange),
         "exchange.codec"},
        {"loss_scale.initial", job->options.precision == TT_PRECISION_FP16,
         "precision=fp16"},
        {"loss_scale.growth", job->options.precision == TT_PRECISION_FP16,
         "precision=fp16"},
    };
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++)
        if (given(d, idle[i].key) != NULL && !idle[i].does)
            tt_str_addf(d->out, "%s=%s does nothing without %s\n", idle[i].key,
                        given(d, idle[i].key), idle[i].without);
}

// ---- ranks that are not there --------------------------------------------

// The same for settings of distribution. A configuration for 8 ranks is often tried
// on one, so these are warnings too.
static void idle(tt_str *out, const char *key, const char *value,
                 const char *why)
{
    tt_str_addf(out, "%s=%s does nothing: %s\n", key, value, why);
}

// A dimension that the layout splits along data. The batch is split there anyway.
static void check_cuts(const tt_job *job, const char *why, tt_str *out)
{
    const tt_layout *written = &job->distribution.written;
    for (int d = 0; d < TT_N_DIMS; d++)
        if (d != TT_DIM_batch &&
            tt_distribution_axis(&job->distribution, d) == TT_AXIS_DATA)
            tt_str_addf(out, "layout.%s=data does nothing: %s\n",
                        tt_dim_name(d), why);
    for (int32_t i = 0; i < written->n; i++) {
        const tt_layout_rule *r = &written->rule[i];
        if (strcmp(r->axis, tt_axis_name[TT_AXIS_DATA]) == 0)
            tt_str_addf(out, "layout.%s%s%s=data does nothing: %s\n",
                        r->layers != NULL ? r->layers : "",
                        r->layers != NULL ? "." : "", r->dim, why);
    }
}

static void check_data(const tt_job *job, tt_str *out)
{
    static const char none[] =
        "no ranks share the batch; -n 2 would start some";
    const tt_distribution *w = &job->distribution;
    const tt_exchange *e = &job->exchange;
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)w->zero);
    if (w->zero > 0)
        idle(out, "zero", number, none);
    snprintf(number, sizeof number, "%lld", (long long)e->bucket);
    if (e->bucket > 0)
        idle(out, "exchange.bucket", number, none);
    if (e->order != 0)
        idle(out, "exchange.order", e->order == 1 ? "priority" : "magnitude",
             none);
    snprintf(number, sizeof number, "%lld", (long long)e->chunks);
    if (e->chunks > 1)
        idle(out, "exchange.chunks", number, none);
    if (tt_exchange_is_coded(e) && e->replicas <= 1)
        idle(out, "exchange.codec", tt_exchange_codec(e)->name,
             "there is one replica; -n 2 or exchange.replicas=2 would make "
             "two");
    check_cuts(job, none, out);
}

static void check_alone(const tt_job *job, tt_str *out)
{
    static const char one[] = "there is one rank; -n 2 would start two";
    const tt_distribution *w = &job->distribution;
    if (strcmp(w->collective, "auto") != 0)
        idle(out, "collective", w->collective, one);
    if (w->terms != 0)
        idle(out, "layout.terms", w->terms == 1 ? "narrow" : "wide", one);
    if (w->fault[0] != '\0')
        idle(out, "comm.fault", w->fault, one);
    if (w->slow_rate > 0)
        tt_str_addf(out, "comm.slow_rate=%g does nothing: %s\n", w->slow_rate,
                    one);
    if (w->slow_latency > 0)
        tt_str_addf(out, "comm.slow_latency=%g does nothing: %s\n",
                    w->slow_latency, one);
}

static void check_pipe(const tt_distribution *w, tt_str *out)
{
    static const char none[] =
        "no ranks share the layers; mesh.pipe=N has such";
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)w->pipe_chunks);
    if (w->pipe_chunks > 1)
        idle(out, "pipe.chunks", number, none);
    if (strcmp(w->pipe_cut, "auto") != 0)
        idle(out, "pipe.cut", w->pipe_cut, none);
    if (strcmp(w->pipe_schedule, "auto") != 0)
        idle(out, "pipe.schedule", w->pipe_schedule, none);
}

// Codes go along the axes that cut layers.
static void check_layer_codes(const tt_job *job, tt_str *out)
{
    const tt_codec_def *codec = tt_distribution_codec(&job->distribution);
    if (codec != NULL && !tt_grid_shares_layers(&job->grid))
        idle(out, "layout.codec", codec->name,
             "no ranks share layers; mesh.tensor=2 would make two that do");
}

void tt_doubts_idle(const tt_job *job, tt_str *out)
{
    static const char whole[] =
        "no ranks share a sequence; mesh.context=N has such";
    const tt_distribution *w = &job->distribution;
    int n_axes = 0;
    for (int a = 0; a < TT_N_AXES; a++)
        n_axes += job->grid.size[a] > 1;
    if (job->grid.size[TT_AXIS_DATA] == 1)
        check_data(job, out);
    if (job->grid.size[TT_AXIS_PIPE] == 1)
        check_pipe(w, out);
    if (job->grid.size[TT_AXIS_CONTEXT] == 1 && w->attention != 0)
        idle(out, "layout.attention", "all_to_all", whole);
    if (job->grid.size[TT_AXIS_CONTEXT] == 1 && !w->zigzag)
        idle(out, "layout.zigzag", "false", whole);
    if (n_axes < 2 && strcmp(w->axes, TT_USUAL_ORDER) != 0)
        idle(out, "mesh.order", w->axes,
             "the mesh has not two axes that could be in an order");
    if (job->grid.ranks == 1 && job->peers.size <= 1)
        check_alone(job, out);
    check_layer_codes(job, out);
}

static void check_training(const doubter *d)
{
    const tt_job *job = d->s->job;
    const bool is_adaptive = strncmp(job->optim->name, "adam", 4) == 0;
    if (job->rate == 0)
        tt_str_add(d->out, "optim.lr=0: no weight changes\n");
    if (job->rate > 0 && job->rate < (double)FLT_MIN)
        tt_str_addf(d->out,
                    "optim.lr=%g is less than a number of fp32 can be: no "
                    "weight changes\n",
                    job->rate);
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
    tt_arena *arena = tt_arena_create();
    const doubter d = {
        .s = session,
        .changed = arena != NULL ? tt_session_changed(session, arena) : NULL,
        .arena = arena,
        .out = out};
    check_lengths(&d);
    check_machine(&d);
    check_idle(&d);
    tt_doubts_idle(session->job, out);
    check_training(&d);
    tt_arena_destroy(arena);
}
