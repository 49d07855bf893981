// trainer_log - what is written to the run folder and told to the watch (the
// terminal).
//
// A disk that is full is no reason to stop training. Lines that cannot be written
// are counted, and the user is warned at the first, second, fourth, ... failure and
// every ten minutes. The status line shows it all the time, so that nobody finds
// out after a week.

#include "base/clock.h"
#include "train/trainer.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

double tt__trainer_seconds(const tt_trainer *t)
{
    return t->seconds_before + tt_clock_seconds() - t->started;
}

void tt__trainer_tell(const tt_trainer *t, tt_run_text kind, const char *text)
{
    const tt_watch *w = t->request->watch;
    if (w != NULL && w->text != NULL)
        w->text(w->user, kind, t->state.step, text);
}

bool tt__trainer_is_worth_saying(tt_failures *failures)
{
    const double now = tt_clock_seconds();
    const int64_t n = ++failures->n;
    if ((n & (n - 1)) != 0 && now - failures->said < 600)
        return false;
    failures->said = now;
    return true;
}

// Warns about a failed write, now and then. For lines only the first failure is
// returned to the caller; later ones are found by check_lines.
void tt__trainer_check_log(tt_trainer *t, tt_status status)
{
    if (status != TT_OK && tt__trainer_is_worth_saying(&t->log_failures))
        tt__trainer_tell(t, TT_TEXT_WARNING, tt_error_message());
}

// Warns about lines that were lost since the last look.
static void check_lines(tt_trainer *t)
{
    char text[256];
    const int64_t n = t->run != NULL ? tt_run_failures(t->run) : 0;
    const bool is_new = n > t->n_lines_lost;
    t->n_lines_lost = n;
    if (!is_new || !tt__trainer_is_worth_saying(&t->log_failures))
        return;
    snprintf(
        text, sizeof text,
        "%lld lines of metrics and log could not be written so far: is the "
        "disk full?",
        (long long)n);
    tt__trainer_tell(t, TT_TEXT_WARNING, text);
}

// A few words for the status line.
static const char *trouble_of(const tt_trainer *t)
{
    if (t->save_failures.n > 0)
        return "NO CHECKPOINT SAVED";
    return t->is_losing_lines ? "METRICS NOT WRITTEN" : NULL;
}

void tt__trainer_say(tt_trainer *t, tt_run_text kind, const char *text)
{
    tt__trainer_tell(t, kind, text);
    if (t->run != NULL)
        tt__trainer_check_log(t, tt_run_note(t->run, t->state.step, text));
}

void tt__trainer_say_lines(tt_trainer *t, tt_run_text kind, const tt_str *text)
{
    char line[512];
    for (const char *p = tt_str_text(text); *p != '\0';) {
        const size_t n = strcspn(p, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(n < 500 ? n : 500), p);
        if (n > 0)
            tt__trainer_say(t, kind, line);
        p += n + (p[n] == '\n');
    }
}

// Resident memory. Read at most twice a second, since it is a system call.
static int64_t memory_now(tt_trainer *t, double now)
{
    char text[64] = "";
    if (t->memory_bytes > 0 && now - t->memory_clock < 0.5)
        return t->memory_bytes;
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0) {
        const char *second = strchr(text, ' ');
        const long long pages = second ? strtoll(second, NULL, 10) : 0;
        t->memory_bytes = pages * sysconf(_SC_PAGESIZE);
    }
    if (fd >= 0)
        (void)close(fd);
    t->memory_clock = now;
    return t->memory_bytes;
}

static bool is_tokens(const tt_trainer *t)
{
    return t->job->model->task == TT_TASK_TOKENS;
}

static double units_per_step(const tt_trainer *t)
{
    const double samples = (double)t->job->step_samples;
    return is_tokens(t) ? samples * (double)t->job->io.seq : samples;
}

// MFU: the model's FLOPs as a part of the peak of all devices. NaN where the
// backend does not know its peak, and for precisions whose peak is another.
static double utilisation(const tt_trainer *t, double seconds)
{
    const tt_job *job = t->job;
    const int precision = job->options.precision;
    const double devices = (double)job->peers.size / (double)job->on_device;
    const double times = precision == TT_PRECISION_FP8 ? 2 : 1;
    if (job->backend->target.peak_flops <= 0 || job->on_device < 1 ||
        precision == TT_PRECISION_FP32 || precision == TT_PRECISION_FP64)
        return (double)NAN;
    return tt_job_flops(job) / seconds /
           (times * devices * job->backend->target.peak_flops);
}

static tt_run_point make_point(tt_trainer *t, const tt_step_result *step)
{
    const tt_train_state *s = &t->state;
    const double now = tt_clock_seconds();
    const double n = (double)(s->step - t->point_step);
    const double seconds = (now - t->point_clock - t->point_aside) / n;
    const double done = (double)(s->step - t->first_step);
    const double left = (double)(t->session->steps - s->step);
    const double loss = s->count > 0 ? s->loss / s->count : (double)NAN;
    return (tt_run_point){
        .step = s->step,
        .steps = t->session->steps,
        .epoch = (double)s->position / (double)t->session->epoch,
        .loss = loss,
        .lr = t->job->lr,
        .norm = step->norm > 0 ? step->norm : (double)NAN,
        .loss_scale = step->loss_scale > 0 ? step->loss_scale : (double)NAN,
        .consensus =
            step->length > 0 ? step->distance / step->length : (double)NAN,
        .epsilon = tt_job_epsilon(t->job),
        .accuracy =
            is_tokens(t) || s->count <= 0 ? (double)NAN : s->correct / s->count,
        .perplexity = is_tokens(t) ? exp(loss) : (double)NAN,
        .step_seconds = seconds,
        .rate = units_per_step(t) / seconds,
        .is_paced = t->job->pace != NULL,
        .flops_per_second = tt_job_flops(t->job) / seconds,
        .mfu = utilisation(t, seconds),
        .elapsed = now - t->started,
        .eta = done > 0 ? (now - t->started) / done * left : (double)NAN,
        .memory_bytes = memory_now(t, now),
        .trouble = trouble_of(t),
    };
}

// Leaves the metrics that have a value, in their order; returns how many. Tables of
// metrics have a row for each, so that no array has to be counted by hand.
static int keep_known(tt_metric *m, size_t n)
{
    int kept = 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(m[i].value))
            m[kept++] = m[i];
    return kept;
}

static double value_if(bool is_wanted, double value)
{
    return is_wanted ? value : (double)NAN;
}

static void log_point(tt_trainer *t, const tt_run_point *p)
{
    if (t->run == NULL)
        return;
    const tt_train_options *o = &t->session->options;
    const tt_judge *judge = &t->state.judge;
    const bool skips = o->nan == TT_NAN_SKIP || o->spike == TT_SPIKE_SKIP ||
                       isfinite(p->loss_scale);
    const bool goes_back =
        o->nan == TT_NAN_ROLLBACK || o->spike == TT_SPIKE_ROLLBACK;
    const bool has_comm = t->has_point;
    const bool has_codec = has_comm && t->point.raw > 0;
    const bool has_rest = has_comm && t->point.residual > 0;
    const bool has_workers = t->job->workers > 0;
    tt_workers_sums sums;
    const double staleness = tt__trainer_workers_point(t, &sums);
    tt_metric m[] = {
        {"train/loss", p->loss},
        {"train/accuracy", p->accuracy},
        {"train/perplexity", p->perplexity},
        {"lr", p->lr},
        {"grad_norm", p->norm},
        {"loss_scale", p->loss_scale},
        {"consensus", p->consensus},
        {"epoch", p->epoch},
        {"skipped", value_if(skips, (double)judge->skips)},
        {"rollbacks", value_if(goes_back, (double)judge->rollbacks)},
        {"step_seconds", p->step_seconds},
        {"mfu", p->mfu},
        {is_tokens(t) ? "tokens_per_second" : "images_per_second", p->rate},
        {"comm/exposed_seconds", value_if(has_comm, t->point.exposed)},
        {"comm/hidden_seconds", value_if(has_comm, t->point.hidden)},
        {"comm/bytes", value_if(has_comm, t->point.bytes)},
        {"comm/spread_seconds", value_if(has_comm, t->point.spread)},
        {"codec/raw_bytes", value_if(has_codec, t->point.raw)},
        {"codec/bytes", value_if(has_codec, t->point.coded)},
        {"codec/seconds", value_if(has_codec, t->point.coding)},
        {"codec/residual", value_if(has_rest, t->point.residual)},
        {"workers/time", value_if(has_workers, sums.time)},
        {"privacy/epsilon", p->epsilon},
        {"workers/staleness", value_if(has_workers, staleness)},
        {"workers/updates", value_if(has_workers, (double)sums.updates)},
        {"workers/dropped", value_if(has_workers, (double)sums.dropped)},
        {"workers/refused", value_if(has_workers, (double)sums.refused)},
    };
    const int n = keep_known(m, sizeof m / sizeof *m);
    tt__trainer_check_log(
        t, tt_run_log(t->run, p->step, tt__trainer_seconds(t), m, n));
}

void tt__trainer_log_first(tt_trainer *t, const tt_step_result *step)
{
    const tt_watch *w = t->request->watch;
    const double correct = step->correct / step->count;
    if (!isfinite(step->loss) || step->count <= 0)
        return;
    if (t->run != NULL) {
        tt_metric m[] = {
            {"train/loss", step->loss},
            {"train/accuracy", value_if(!is_tokens(t), correct)},
            {"train/perplexity", value_if(is_tokens(t), exp(step->loss))},
        };
        const int n = keep_known(m, sizeof m / sizeof *m);
        tt__trainer_check_log(t, tt_run_log(t->run, 0, 0, m, n));
    }
    if (w != NULL && w->first != NULL)
        w->first(w->user, step->loss);
}

void tt__trainer_log(tt_trainer *t, const tt_step_result *step)
{
    const tt_watch *w = t->request->watch;
    tt__trainer_hear_save(t);
    tt_run_point point = make_point(t, step);
    t->state.train_loss = point.loss;
    t->state.loss = t->state.count = t->state.correct = 0;
    const int64_t n_lost = t->n_lines_lost;
    log_point(t, &point);
    check_lines(t);
    t->is_losing_lines = t->n_lines_lost > n_lost;
    point.trouble = trouble_of(t);
    if (w != NULL && w->point != NULL)
        w->point(w->user, &point);
    t->point_clock = tt_clock_seconds();
    t->point_aside = 0;
    t->point_step = t->state.step;
}

void tt__trainer_log_score(tt_trainer *t, const tt_score *score)
{
    if (t->run == NULL)
        return;
    tt_metric m[] = {
        {"val/loss", score->loss},
        {"val/perplexity", score->perplexity},
        {"val/accuracy", value_if(!is_tokens(t), score->accuracy)},
    };
    const int n = keep_known(m, sizeof m / sizeof *m);
    tt__trainer_check_log(
        t, tt_run_log(t->run, t->state.step, tt__trainer_seconds(t), m, n));
}
