// configure - from settings to a configured job: model, optimiser, ranks, batch,
// device, precision. Nothing is built yet; the result can be planned.
//
// The order of the steps in `configure` matters, because later ones use earlier
// ones:
//
//   ranks           the mesh follows from mesh.*, the layout from the model
//   batch           is divided between the ranks along data
//   rate            is scaled by the batch
//   device          ranks open their devices together and agree on one instruction
//                   set; this is the first step that talks to other ranks
//   masters         depend on the precision that the device really has

#include "backend/cpu/isa.h"
#include "base/alloc.h"
#include "config/pace.h"
#include "job/device.h"
#include "job/dynamic/dynamic.h"
#include "job/exact.h"
#include "job/exchange.h"
#include "job/job.h"
#include "job/replicas/replicas.h"

#include <math.h>
#include <string.h>

// The narrowest type that a precision needs in hardware.
static tt_dtype compute_dtype(int precision)
{
    static const tt_dtype dtype[] = {TT_F32, TT_BF16, TT_F16, TT_F64, TT_E4M3};
    return dtype[precision];
}

// A precision gives the same numbers on every machine: where the processor lacks
// the instructions, they are emulated. Only the speed differs, so the user is told.
static void note_speed(tt_job *job)
{
    const tt_backend_def *def = job->backend->def;
    if (def->has_fast == NULL ||
        def->has_fast(compute_dtype(job->options.precision)))
        return;
    const char *name = tt_precision_name[job->options.precision];
    job->note =
        tt_arena_printf(job->arena,
                        "this processor has no instructions for %s (isa: %s): "
                        "the numbers are those of %s anywhere, but it is not "
                        "faster than fp32",
                        name, tt_isa_name[tt_isa_used()], name);
}

static tt_status set_device(tt_job *job, const tt_settings *settings)
{
    TT_TRY(tt__job_open_device(job, settings));
    tt_target *target = &job->backend->target;
    if (!target->has_dtype(target, compute_dtype(job->options.precision))) {
        job->note = tt_arena_printf(
            job->arena, "this %s has no fast %s arithmetic; computing in fp32",
            job->options.device, tt_precision_name[job->options.precision]);
        job->options.precision = TT_PRECISION_FP32;
        job->is_lowered = true;
    }
    note_speed(job);
    if (job->options.precision == TT_PRECISION_FP8 && job->options.exact)
        return tt_fail(
            TT_ERR_ARG,
            "precision=fp8 has units that depend on all ranks, which "
            "exact cannot have; precision=bf16 would do");
    return TT_OK;
}

// optim.master=false keeps weights in bf16 without a copy in 32 bits. Many updates
// are smaller than one bf16 step, and rounding to nearest would lose them, so the
// optimiser must round at random (is_random). Only Adam and AdamW can.
static tt_status set_masters(tt_job *job)
{
    tt_optim_params *p = &job->optim_params.params;
    const int precision = job->options.precision;
    const char *name = job->optim->name;
    if (job->optim_params.master)
        return TT_OK;
    if (strcmp(name, "adamw") != 0 && strcmp(name, "adam") != 0)
        return tt_fail(TT_ERR_ARG,
                       "optim.master=false is for adamw and adam, not %s",
                       name);
    if (job->is_lowered) { // bf16 was asked for, but the device has none
        job->optim_params.master = true;
        return TT_OK;
    }
    if (precision != TT_PRECISION_BF16 && precision != TT_PRECISION_FP8)
        return tt_fail(TT_ERR_ARG,
                       "optim.master=false keeps weights in bf16, which "
                       "precision=%s has not; precision=bf16 would do",
                       tt_precision_name[precision]);
    p->is_random = true;
    p->seed = job->options.seed;
    return TT_OK;
}

// batch = micro * accumulate: any two give the third.
static tt_status set_batch(tt_job *job, const tt_settings *settings)
{
    tt_job_options *o = &job->options;
    const bool has_batch = tt_settings_find(settings, "batch") != NULL;
    job->has_micro = o->micro > 0;
    job->has_accumulate = tt_settings_find(settings, "accumulate") != NULL;
    if (job->has_micro && !has_batch)
        o->batch = o->micro * o->accumulate;
    if (job->has_micro && !job->has_accumulate && o->batch % o->micro != 0)
        return tt_fail(TT_ERR_ARG, "batch=%lld is not a multiple of micro=%lld",
                       (long long)o->batch, (long long)o->micro);
    if (job->has_micro && !job->has_accumulate)
        o->accumulate = o->batch / o->micro;
    if (!job->has_micro && o->batch % o->accumulate != 0)
        return tt_fail(TT_ERR_ARG,
                       "batch=%lld is not a multiple of accumulate=%lld",
                       (long long)o->batch, (long long)o->accumulate);
    if (!job->has_micro)
        o->micro = o->batch / o->accumulate;
    if (o->batch != o->micro * o->accumulate)
        return tt_fail(TT_ERR_ARG,
                       "batch=%lld is not micro=%lld times accumulate=%lld: "
                       "leave one of them out",
                       (long long)o->batch, (long long)o->micro,
                       (long long)o->accumulate);
    if (o->batch > 1 << 24 || o->accumulate > 1 << 20)
        return tt_fail(TT_ERR_ARG,
                       "micro=%lld times accumulate=%lld is a batch of %lld: "
                       "too large",
                       (long long)o->micro, (long long)o->accumulate,
                       (long long)o->batch);
    return TT_OK;
}

// Without peers the job cannot run, but it can be planned for any number of ranks.
static tt_status set_ranks(tt_job *job, const tt_peers *peers)
{
    TT_TRY(tt_grid_make(&job->distribution, peers != NULL ? peers->size : 0,
                        job->model->layout, job->arena, &job->grid));
    job->peers = peers != NULL ? *peers : (tt_peers){.size = job->grid.ranks};
    TT_TRY(tt__dynamic_count(job));
    if (tt_pace_is_set(job->distribution.pace))
        return tt_pace_speed(job->distribution.pace,
                             job->workers > 0 ? job->workers : job->peers.size,
                             0, &(double){0});
    return TT_OK;
}

// The advice for a batch of `n` samples that is too small for the ranks: a mesh or
// a number of ranks that would work, in the words the user used for it. "": no
// number works.
static const char *fewer_ranks(const tt_job *job, int64_t n)
{
    const int64_t *size = job->grid.size;
    const int64_t data = n / size[TT_AXIS_EXPERT];
    const int64_t others = job->grid.ranks / size[TT_AXIS_DATA];
    const char *text = NULL;
    if (data >= 1 && job->grid.is_open)
        text =
            tt_arena_printf(job->arena, " or mesh.data=%lld", (long long)data);
    else if (data >= 1)
        text = tt_arena_printf(job->arena, " or -n %lld",
                               (long long)(data * others));
    return text != NULL ? text : "";
}

static tt_status check_micro(const tt_job *job)
{
    const tt_job_options *o = &job->options;
    const int32_t size = job->grid.data;
    if (o->micro >= size)
        return TT_OK;
    if (o->batch < size)
        return tt_fail(TT_ERR_ARG,
                       "a batch of %lld cannot be divided between %d ranks; "
                       "batch=%d%s would do",
                       (long long)o->batch, size, size,
                       fewer_ranks(job, o->batch));
    int64_t accumulate = o->batch / size;
    while (o->batch % accumulate != 0)
        accumulate--;
    return tt_fail(TT_ERR_ARG,
                   "a micro-batch of %lld cannot be divided between %d ranks; "
                   "accumulate=%lld%s would do",
                   (long long)o->micro, size, (long long)accumulate,
                   fewer_ranks(job, o->micro));
}

// Scales the learning rate by the batch, linearly or by the square root. An
// lr_batch of 0 means "the batch of one rank"; it is replaced by that number, so
// that a resumed run on other ranks is seen to have another setting.
static void set_rate(tt_job *job)
{
    tt_job_optim *o = &job->optim_params;
    const double batch = (double)job->options.batch;
    job->rate = o->lr;
    if (o->lr_scale != TT_LR_SCALE_NONE) {
        if (o->lr_batch == 0)
            o->lr_batch = batch / job->grid.data;
        const double factor = batch / o->lr_batch;
        job->rate *= o->lr_scale == TT_LR_SCALE_SQRT ? sqrt(factor) : factor;
    }
    job->lr = job->rate;
}

static tt_status set_extents(tt_job *job)
{
    const tt_job_options *o = &job->options;
    if (job->model->task == TT_TASK_IMAGES && o->seq != 0)
        return tt_fail(TT_ERR_ARG, "seq is for token models; %s takes image=N",
                       o->model);
    if (job->model->task == TT_TASK_TOKENS && o->image != 0)
        return tt_fail(TT_ERR_ARG, "image is for image models; %s takes seq=N",
                       o->model);
    job->io =
        (tt_model_io){.batch = o->micro, .seq = o->seq, .image = o->image};
    return TT_OK;
}

static tt_status set_globs(tt_job *job)
{
    TT_TRY(tt_globs_read("train.freeze", job->train.freeze, false, job->arena,
                         &job->freeze));
    TT_TRY(tt_globs_read("init.skip", job->train.skip, false, job->arena,
                         &job->skip));
    TT_TRY(tt_globs_read("optim.no_decay", job->optim_params.no_decay, false,
                         job->arena, &job->no_decay));
    return tt_globs_read("optim.lr_groups", job->optim_params.lr_groups, true,
                         job->arena, &job->lr_groups);
}

static void take_config(tt_job *job, const tt_config *config)
{
    job->options = config->top;
    job->model = config->model;
    job->model_params = config->model_params;
    job->optim = config->optim;
    job->optim_params = config->optim_params;
    job->train = config->train;
    job->distribution = config->distribution;
    job->exchange = config->exchange;
}

static tt_status configure(tt_job *job, const tt_settings *settings,
                           const tt_peers *peers)
{
    TT_TRY(set_ranks(job, peers));
    TT_TRY(set_batch(job, settings));
    TT_TRY(tt__dynamic_check(job));
    TT_TRY(check_micro(job));
    TT_TRY(tt__exact_check(job));
    TT_TRY(tt__job_codes_check(job));
    TT_TRY(tt__job_layer_codes_check(job));
    TT_TRY(tt__job_replicas_check(job));
    TT_TRY(set_extents(job));
    TT_TRY(set_globs(job));
    set_rate(job);
    job->step_samples = job->options.batch;
    job->limit = HUGE_VAL;
    job->wants_meeting = true;
    TT_TRY(set_device(job, settings));
    return set_masters(job);
}

static tt_status create(tt_job **job_out)
{
    tt_job *job = tt_alloc(sizeof *job);
    if (job == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a job");
    job->arena = tt_arena_create();
    *job_out = job;
    return job->arena != NULL ? TT_OK
                              : tt_fail(TT_ERR_NOMEM, "no memory for a job");
}

static tt_status hand_over(tt_job *job, tt_status status, tt_job **job_out)
{
    if (status == TT_OK)
        *job_out = job;
    else
        tt_job_close(job);
    return status;
}

tt_status tt_job_configure(tt_settings *settings, const tt_opt *extra,
                           tt_job **job_out)
{
    return tt_job_configure_peers(settings, extra, NULL, job_out);
}

tt_status tt_job_configure_peers(tt_settings *settings, const tt_opt *extra,
                                 const tt_peers *peers, tt_job **job_out)
{
    tt_job *job = NULL;
    tt_config config;
    tt_status status = create(&job);
    if (status == TT_OK)
        status = tt_config_read(settings, extra, job->arena, &config);
    if (status == TT_OK) {
        take_config(job, &config);
        status = configure(job, settings, peers);
    }
    return hand_over(job, status, job_out);
}

tt_status tt_job_create(const tt_config *config, const tt_settings *settings,
                        const tt_peers *peers, tt_job **job_out)
{
    tt_job *job = NULL;
    tt_status status = create(&job);
    if (status == TT_OK) {
        take_config(job, config);
        status = configure(job, settings, peers);
    }
    return hand_over(job, status, job_out);
}
