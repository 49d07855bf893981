// bench_step - whole training steps of a model on random data.
//
// Reported are the median step, the share of what the model's own products reach
// alone, the time outside kernels, and memory against the prediction. On a device also
// where its time goes, by class of kernel. With exact=true, the same job without it is
// measured in turns, step by step, so that a slow minute of the machine hits both.

#include "base/alloc.h"
#include "base/clock.h"
#include "base/figures.h"
#include "base/json.h"
#include "cli/bench/bench.h"
#include "cli/launch/ranks.h"

#include <stdio.h>
#include <string.h>

typedef struct options {
    int64_t steps, warmup;
    const char *trace;
    bool finite;
} options;

static const tt_opt table[] = {
    {"steps", "5", "steps to measure", TT_OPT_I64, offsetof(options, steps),
     NULL, 1, 1000000},
    {"warmup", "2", "steps before them", TT_OPT_I64, offsetof(options, warmup),
     NULL, 0, 1000000},
    {"trace", "", "write a Chrome trace of the last steps to this file",
     TT_OPT_STR, offsetof(options, trace)},
    {"finite", "false", "look for NaN and infinity after every operator",
     TT_OPT_BOOL, offsetof(options, finite)},
    {0},
};

// What the time of a device is spent on.
enum { GEMM, ATTENTION, NORM, LOSS, OPTIMISER, OTHER, IDLE, N_CLASSES };
static const char *const class_name[] = {
    "gemm", "attention", "norm", "loss", "optimiser", "other", "idle"};

typedef struct result {
    double seconds;                  // median
    double device_seconds;           // of that on the device; 0: unknown
    double class_seconds[N_CLASSES]; // per step; all 0: unknown
    double gemm_rate;
    double exact_cost; // how much longer than without `exact`; 0 without it
    int64_t rss_growth, peak_used;
    tt_exec_stats stats;
    tt_step_result last;
} result;

static tt_status write_trace(tt_exec *exec, const char *path)
{
    tt_str text = {0};
    tt_status status = tt_exec_trace_print(exec, &text);
    FILE *file = status == TT_OK ? fopen(path, "w") : NULL;
    if (status == TT_OK && file == NULL)
        status = tt_fail(TT_ERR_IO, "cannot write %s", path);
    if (file != NULL) {
        const bool whole = fwrite(tt_str_text(&text), 1, (size_t)text.n,
                                  file) == (size_t)text.n;
        if ((fclose(file) != 0) | !whole)
            status =
                tt_fail(TT_ERR_IO, "cannot write %s: is the disk full?", path);
    }
    tt_str_fini(&text);
    return status;
}

// The median of the steps of a job that has not been started.
static tt_status measure(tt_job *job, const options *o, result *r)
{
    double *seconds = tt_alloc(16 * o->steps);
    if (seconds == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld times",
                       (long long)o->steps);
    double *on_device = seconds + o->steps;
    const tt_exec_options exec = {.poison = true,
                                  .trace = o->trace[0] != '\0',
                                  .check_finite = o->finite,
                                  .span = true};
    tt_status status = tt_job_start(job, &exec);
    if (status == TT_OK)
        status = tt_bench_run(job, o->warmup, NULL, &r->last);
    if (status == TT_OK)
        tt_exec_stats_reset(job->exec);
    for (int64_t i = 0; i < o->steps && status == TT_OK; i++) {
        const double before = r->stats.device_seconds;
        status = tt_bench_run(job, 1, &seconds[i], &r->last);
        tt_exec_stats_get(job->exec, &r->stats);
        on_device[i] = r->stats.device_seconds - before;
    }
    if (status == TT_OK) {
        r->seconds = tt_bench_median(seconds, o->steps);
        r->device_seconds = tt_bench_median(on_device, o->steps);
        r->peak_used = tt_exec_peak_used(job->exec);
    }
    tt_free(seconds);
    return status;
}

static int class_of(const tt_step *step)
{
    static const struct {
        const char *word;
        int class;
    } known[] = {{"matmul", GEMM},    {"conv", GEMM},
                 {"bias_grad", GEMM}, {"attention", ATTENTION},
                 {"norm", NORM},      {"cross_entropy", LOSS},
                 {"correct", LOSS},   {"mse", LOSS}};
    if (step->phase == TT_UPDATE)
        return OPTIMISER;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(step->op->name, known[i].word) != NULL)
            return known[i].class;
    return OTHER;
}

// Seconds of the kernels of one step, by class.
static tt_status run_marked(tt_job *job, double by_class[N_CLASSES],
                            double *busy_out)
{
    tt_exec_stats stats;
    tt_step_result last;
    tt_exec_stats_reset(job->exec);
    TT_TRY(tt_bench_run(job, 1, NULL, &last));
    tt_exec_stats_get(job->exec, &stats);
    const double *seconds = tt_exec_step_seconds(job->exec);
    for (int32_t s = 0; s < job->plan->n_steps; s++)
        by_class[class_of(&job->plan->step[s])] += seconds[s];
    *busy_out = stats.busy_seconds;
    return TT_OK;
}

// Steps in which the device marks the beginning and end of each kernel. Of three, the
// one with the median is taken. Marks cost time, so idle time is what is left of a
// step that was measured without them.
static tt_status measure_classes(tt_job *job, result *r)
{
    enum { RUNS = 3 };
    const tt_memory_def *memory = job->backend->def->memory;
    double by_class[1 + RUNS][N_CLASSES] = {0}, busy[1 + RUNS], sorted[RUNS];
    if (memory == NULL || memory->mark == NULL)
        return TT_OK;
    TT_TRY(tt_exec_mark(job->exec));
    for (int i = 0; i <= RUNS; i++) // the first does not count
        TT_TRY(run_marked(job, by_class[i], &busy[i]));
    memcpy(sorted, busy + 1, sizeof sorted);
    const double median = tt_bench_median(sorted, RUNS);
    for (int i = 1; i <= RUNS; i++)
        if (busy[i] == median)
            memcpy(r->class_seconds, by_class[i], sizeof by_class[i]);
    const double idle = r->device_seconds - median;
    r->class_seconds[IDLE] = idle > 0 ? idle : 0;
    // The host only launches; what counts is when no kernel runs.
    r->stats.overhead_fraction =
        r->seconds > median ? 1 - median / r->seconds : 0;
    return TT_OK;
}

static tt_status take_turns(tt_job *exact, tt_job *loose, const options *o,
                            double *seconds)
{
    tt_step_result last;
    TT_TRY(tt_job_start(loose, &(tt_exec_options){0}));
    TT_TRY(tt_bench_run(loose, o->warmup, NULL, &last));
    for (int64_t i = 0; i < o->steps; i++) {
        TT_TRY(tt_bench_run(exact, 1, &seconds[i], &last));
        TT_TRY(tt_bench_run(loose, 1, &seconds[o->steps + i], &last));
    }
    return TT_OK;
}

// The same without `exact`, in a job of its own, in turns with the exact one.
static tt_status measure_loose(tt_cli *cli, tt_job *exact, const options *o,
                               result *r)
{
    tt_job *job = NULL;
    double *seconds = tt_alloc(16 * o->steps);
    if (seconds == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld times",
                       (long long)o->steps);
    tt_status status = tt_settings_set(&cli->settings, "exact", "false",
                                       "benchmark", cli->arena);
    if (status == TT_OK)
        status = tt_job_configure(&cli->settings, table, &job);
    if (status == TT_OK)
        status = take_turns(exact, job, o, seconds);
    if (status == TT_OK)
        r->exact_cost = tt_bench_median(seconds, o->steps) /
                            tt_bench_median(seconds + o->steps, o->steps) -
                        1;
    tt_job_close(job);
    tt_free(seconds);
    return status;
}

static const char *rate_name(const tt_job *job)
{
    return job->model->task == TT_TASK_TOKENS ? "tokens_per_s" : "images_per_s";
}

static double rate(const tt_job *job, const result *r)
{
    const double samples = (double)job->options.batch / r->seconds;
    return job->model->task == TT_TASK_TOKENS ? samples * (double)job->io.seq
                                              : samples;
}

static void print_json(const tt_job *job, const options *o, const result *r,
                       tt_str *out)
{
    const double flops = tt_job_flops(job);
    tt_json j = {.out = out};
    tt_json_open(&j, NULL, '{');
    tt_json_str(&j, "model", job->options.model);
    tt_json_i64(&j, "parameters", tt_job_parameters(job));
    tt_json_i64(&j, "batch", job->options.batch);
    tt_json_str(&j, "precision", tt_precision_name[job->options.precision]);
    tt_json_i64(&j, "threads", job->backend->options.n_threads);
    tt_json_i64(&j, "steps", o->steps);
    tt_json_f64(&j, "ms_per_step", r->seconds * 1e3);
    tt_json_f64(&j, rate_name(job), rate(job, r));
    tt_json_f64(&j, "gflops", flops / r->seconds / 1e9);
    tt_json_f64(&j, "gemm_gflops", r->gemm_rate / 1e9);
    tt_json_f64(&j, "gemm_fraction", flops / r->seconds / r->gemm_rate);
    tt_json_f64(&j, "overhead_fraction", r->stats.overhead_fraction);
    tt_json_f64(&j, "replayed_fraction",
                (double)r->stats.n_replayed / (double)r->stats.n_steps);
    if (job->backend->target.peak_flops > 0)
        tt_json_f64(&j, "mfu",
                    flops / r->seconds / job->backend->target.peak_flops);
    if (r->class_seconds[GEMM] > 0) {
        tt_json_f64(&j, "device_ms_per_step", r->device_seconds * 1e3);
        tt_json_open(&j, "ms_by_class", '{');
        for (int i = 0; i < N_CLASSES; i++)
            tt_json_f64(&j, class_name[i], r->class_seconds[i] * 1e3);
        tt_json_close(&j, '}');
    }
    tt_json_i64(&j, "peak_bytes_predicted", job->plan->peak_bytes);
    tt_json_i64(&j, "peak_bytes_used", r->peak_used);
    tt_json_i64(&j, "rss_growth_bytes", r->rss_growth);
    tt_json_f64(&j, "loss", r->last.loss);
    tt_json_f64(&j, "norm", r->last.norm);
    if (job->options.exact)
        tt_json_f64(&j, "exact_cost", r->exact_cost);
    tt_json_close(&j, '}');
    tt_str_add(out, "\n");
}

static void print_text(const tt_job *job, const result *r)
{
    const double flops = tt_job_flops(job);
    tt_str used = {0};
    tt_add_bytes(&used, r->peak_used);
    printf("%s: %.1f ms a step, %.1f %s, %.1f GFLOP/s\n", job->options.model,
           r->seconds * 1e3, rate(job, r),
           job->model->task == TT_TASK_TOKENS ? "tokens/s" : "images/s",
           flops / r->seconds / 1e9);
    printf("  %.1f%% of what the model's own products reach alone "
           "(%.1f GFLOP/s)\n",
           100 * flops / r->seconds / r->gemm_rate, r->gemm_rate / 1e9);
    printf("  %.2f%% of the time outside kernels; memory %s, %s predicted\n",
           100 * r->stats.overhead_fraction, tt_str_text(&used),
           r->peak_used == job->plan->peak_bytes ? "as" : "not as");
    printf("  loss %.6f, gradient norm %.4f\n", r->last.loss, r->last.norm);
    if (job->options.exact)
        printf("  exact: %.1f%% longer than without\n", 100 * r->exact_cost);
    tt_str_fini(&used);
}

// Where a device's time goes.
static void print_classes(const tt_job *job, const result *r)
{
    const double peak = job->backend->target.peak_flops;
    double total = 0;
    if (peak > 0)
        printf("  %.1f%% of the device's %.1f TFLOP/s\n",
               100 * tt_job_flops(job) / r->seconds / peak, peak / 1e12);
    for (int i = 0; i < N_CLASSES; i++)
        total += r->class_seconds[i];
    for (int i = 0; i < N_CLASSES && total > 0; i++)
        printf("  %-10s %9.3f ms a step, %5.1f%%\n", class_name[i],
               r->class_seconds[i] * 1e3, 100 * r->class_seconds[i] / total);
}

static tt_status show(const tt_cli *cli, const tt_job *job, const options *o,
                      const result *r)
{
    if (!tt_cli_has(cli, "--json")) {
        print_text(job, r);
        print_classes(job, r);
        return TT_OK;
    }
    tt_str text = {0};
    print_json(job, o, r, &text);
    return tt_cli_print(&text);
}

static tt_status bench(tt_cli *cli, tt_job *job, const options *o)
{
    result r = {0};
    if (job->note != NULL)
        fprintf(stderr, "note: %s\n", job->note);
    TT_TRY(tt_job_plan(job));
    TT_TRY(tt_job_check_fit(job));
    const int64_t before = tt_bench_resident_bytes();
    TT_TRY(measure(job, o, &r));
    r.rss_growth = tt_bench_resident_bytes() - before;
    if (o->trace[0] != '\0')
        TT_TRY(write_trace(job->exec, o->trace));
    TT_TRY(measure_classes(job, &r));
    TT_TRY(tt_bench_model_products(job, &r.gemm_rate));
    if (job->options.exact)
        TT_TRY(measure_loose(cli, job, o, &r));
    return show(cli, job, o, &r);
}

static tt_status bench_one(tt_cli *cli)
{
    options o;
    tt_job *job = NULL;
    TT_TRY(tt_opt_defaults(table, &o, cli->arena));
    TT_TRY(tt_settings_apply(&cli->settings, "", table, &o, cli->arena));
    TT_TRY(tt_job_configure(&cli->settings, table, &job));
    const tt_status status = bench(cli, job, &o);
    tt_job_close(job);
    return status;
}

static tt_status be_rank(tt_cli *cli, const tt_peers *peers, int *exit_out)
{
    (void)exit_out;
    return peers->size > 1 ? tt_bench_ranks(cli, peers) : bench_one(cli);
}

tt_status tt_bench_step(tt_cli *cli)
{
    int exit_status = TT_EXIT_OK;
    return tt_cli_ranks_run(cli, be_rank, &exit_status);
}
