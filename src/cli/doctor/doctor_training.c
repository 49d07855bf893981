// doctor_training - whether a small network trains here: on the processor, and on a
// GPU if there is one. One real step tells more than any list of libraries.

#include "base/clock.h"
#include "cli/doctor/doctor.h"
#include "cli/table.h"
#include "cli/term.h"
#include "job/job.h"

#include <math.h>
#include <unistd.h>

static tt_status start(const char *device, tt_job **job_out)
{
    const char *const words[] = {"model=mlp", "batch=8", "image=8", device};
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_status status = arena == NULL ? TT_ERR_NOMEM : TT_OK;
    for (int i = 0; i < 4 && status == TT_OK; i++)
        status = tt_settings_assign(&settings, words[i], "doctor", arena);
    if (status == TT_OK)
        status = tt_job_configure(&settings, NULL, job_out);
    if (status == TT_OK)
        status = tt_job_plan(*job_out);
    if (status == TT_OK)
        status = tt_job_start(*job_out, &(tt_exec_options){0});
    tt_arena_destroy(arena);
    return status;
}

// One step with the kernels of this machine. The caller closes the job.
static tt_status train_a_step(const char *device, tt_job **job_out,
                              double *seconds_out)
{
    tt_step_result result = {0};
    const double began = tt_clock_seconds();
    TT_TRY(start(device, job_out));
    TT_TRY(tt_job_step(*job_out, tt_job_feed_random, NULL, &result));
    *seconds_out = tt_clock_seconds() - began;
    if (!isfinite(result.loss) || result.loss <= 0)
        return tt_fail(TT_ERR_STATE, "its loss is no number");
    return TT_OK;
}

static void add_step(tt_str *out, double seconds)
{
    tt_str_add(out, "a step of a small network in ");
    tt_add_seconds(out, seconds);
}

static void look_at_processor(tt_doctor *d)
{
    tt_job *job = NULL;
    double seconds = 0;
    tt_finding *f = tt__doctor_add(d, "training");
    if (train_a_step("device=cpu", &job, &seconds) == TT_OK) {
        add_step(&f->value, seconds);
    } else {
        f->level = TT_FINDING_MISSING;
        tt_str_addf(&f->value, "a step of a small network failed: %s",
                    tt_error_message());
        tt_str_add(&f->fix, "tutti check says which kernel is wrong");
    }
    tt_job_close(job);
}

static bool has_driver(void)
{
    static const char *const files[] = {"/dev/nvidia0", "/dev/nvidiactl",
                                        "/proc/driver/nvidia/version",
                                        "/dev/dxg"};
    for (int i = 0; i < 4; i++)
        if (access(files[i], F_OK) == 0)
            return true;
    return false;
}

static void look_at_gpu(tt_doctor *d)
{
    tt_job *job = NULL;
    double seconds = 0;
    tt_finding *f = tt__doctor_add(d, "GPU");
    if (train_a_step("device=cuda", &job, &seconds) == TT_OK) {
        tt_term_add_foreign(job->backend->name, false, &f->value);
        tt_str_add(&f->value, ", ");
        tt_add_bytes(&f->value, job->backend->target.memory_bytes);
        tt_str_add(&f->value, " free: ");
        add_step(&f->value, seconds);
    } else if (has_driver()) {
        f->level = TT_FINDING_NOTE;
        tt_term_add_foreign(tt_error_message(), false, &f->value);
        tt_str_add(&f->fix, "until then the CPU computes");
    } else {
        f->level = TT_FINDING_NOTE;
        tt_str_add(&f->value, "none: the CPU computes");
        tt_str_add(&f->fix, "where there is one: apt-get install -y "
                            "nvidia-driver nvidia-smi");
    }
    tt_job_close(job);
}

void tt__doctor_training(tt_doctor *d)
{
    look_at_processor(d);
    look_at_gpu(d);
}
