// bench_op - where a model's step spends its time, operator by operator.
//
// Each kernel is held against what bounds it: its FLOPs at the machine's product rate
// or its bytes at the machine's copy rate, whichever takes longer (a roofline). A
// kernel that is "faster than possible" read its operands from the cache.

#include "base/alloc.h"
#include "base/json.h"
#include "base/settings/opt.h"
#include "cli/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row {
    const char *kernel, *op, *name; // name: of the step, if it is only one
    int64_t steps;
    double seconds, flops, bytes;
} row;

typedef struct rows {
    row *list;
    int n;
} rows;

typedef struct options {
    int64_t steps;
    bool each;
} options;

static const tt_opt table[] = {
    {"steps", "3", "steps to measure", TT_OPT_I64, offsetof(options, steps),
     NULL, 1, 1000000},
    {"each", "false", "a line for every step, not for every kernel",
     TT_OPT_BOOL, offsetof(options, each)},
    {0},
};

static void add(rows *r, bool each, const tt_step *step, double seconds)
{
    int i = each ? r->n : 0;
    while (i < r->n && strcmp(r->list[i].kernel, step->choice.name) != 0)
        i++;
    if (i == r->n)
        r->list[r->n++] = (row){.kernel = step->choice.name,
                                .op = step->op->name,
                                .name = each ? step->name : ""};
    r->list[i].steps++;
    r->list[i].seconds += seconds;
    r->list[i].flops += step->cost.flops;
    r->list[i].bytes += step->cost.bytes;
}

static int slower(const void *a, const void *b)
{
    const double x = ((const row *)a)->seconds, y = ((const row *)b)->seconds;
    return (x < y) - (x > y);
}

// The least time that arithmetic or memory would take, over the time taken.
static double bound(const row *r, double flop_rate, double byte_rate)
{
    const double arithmetic = r->flops / flop_rate;
    const double memory = r->bytes / byte_rate;
    return (arithmetic > memory ? arithmetic : memory) / r->seconds;
}

static void print_row(const row *r, double total, double flop_rate,
                      double byte_rate, tt_json *json)
{
    const double of_bound = bound(r, flop_rate, byte_rate);
    const bool is_cached = of_bound > 1; // its operands were not in memory
    char part[16];
    snprintf(part, sizeof part, "%.0f%%", 100 * of_bound);
    if (json == NULL) {
        printf("%-26s %5lld %9.3f %6.1f%% %9.1f %8.1f %8s%s%s\n", r->kernel,
               (long long)r->steps, r->seconds * 1e3, 100 * r->seconds / total,
               r->flops / r->seconds / 1e9, r->bytes / r->seconds / 1e9,
               is_cached ? "cache" : part, *r->name != 0 ? "  " : "", r->name);
        return;
    }
    tt_json_open(json, NULL, '{');
    tt_json_str(json, "kernel", r->kernel);
    tt_json_str(json, "op", r->op);
    if (*r->name != 0)
        tt_json_str(json, "name", r->name);
    tt_json_i64(json, "steps", r->steps);
    tt_json_f64(json, "ms", r->seconds * 1e3);
    tt_json_f64(json, "share", r->seconds / total);
    tt_json_f64(json, "gflops", r->flops / r->seconds / 1e9);
    tt_json_f64(json, "gbytes_per_s", r->bytes / r->seconds / 1e9);
    tt_json_f64(json, "of_bound", is_cached ? 1 : of_bound);
    tt_json_bool(json, "in_cache", is_cached);
    tt_json_close(json, '}');
}

static tt_status print_rows(const tt_cli *cli, rows *r, double flop_rate,
                            double byte_rate)
{
    double total = 0;
    tt_str text = {0};
    tt_json json = {.out = &text};
    const bool is_json = tt_cli_has(cli, "--json");
    for (int i = 0; i < r->n; i++) {
        const double rate = r->list[i].flops / r->list[i].seconds;
        total += r->list[i].seconds;
        flop_rate =
            rate > flop_rate ? rate : flop_rate; // the best that was seen
    }
    qsort(r->list, (size_t)r->n, sizeof *r->list, slower);
    if (!is_json)
        printf("products %.1f GFLOP/s, copies %.1f GB/s\n\n%-26s %5s %9s %7s "
               "%9s %8s %8s\n",
               flop_rate / 1e9, byte_rate / 1e9, "kernel", "steps", "ms",
               "share", "GFLOP/s", "GB/s", "of bound");
    tt_json_open(&json, NULL, '[');
    for (int i = 0; i < r->n; i++)
        print_row(&r->list[i], total, flop_rate, byte_rate,
                  is_json ? &json : NULL);
    tt_json_close(&json, ']');
    if (is_json)
        puts(tt_str_text(&text));
    else
        printf("\nof bound: the time that these products or copies would take "
               "at least, of the time taken;\ncache: faster than copies, since "
               "what it reads lies in the processor's cache\n");
    const tt_status status = tt_str_status(&text);
    tt_str_fini(&text);
    return status;
}

static tt_status profile(tt_cli *cli, tt_job *job, const options *o)
{
    const tt_memory_def *memory = job->backend->def->memory;
    const bool can_mark = memory != NULL && memory->mark != NULL;
    const tt_exec_options exec = {.wait = !can_mark, .marks = can_mark};
    const int64_t n = memory == NULL ? 2048 : 8192;
    const int64_t mnk[3] = {n, n, n};
    const double flops = 2.0 * (double)n * (double)n * (double)n;
    double byte_rate = 1, product = 1;
    tt_step_result last;
    TT_TRY(tt_job_start(job, &exec));
    TT_TRY(tt_bench_run(job, 1, NULL, &last));
    tt_exec_stats_reset(job->exec);
    TT_TRY(tt_bench_run(job, o->steps, NULL, &last));
    const tt_plan *plan = job->plan;
    rows r = {.list = tt_alloc((int64_t)sizeof *r.list * (plan->n_steps + 1))};
    if (r.list == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a benchmark");
    const double *seconds = tt_exec_step_seconds(job->exec);
    for (int32_t s = 0; s < plan->n_steps; s++)
        if (plan->step[s].choice.name != NULL && (!o->each || seconds[s] > 0))
            add(&r, o->each, &plan->step[s], seconds[s] / (double)o->steps);
    tt_status status = tt_bench_copy_rate(job->backend, &byte_rate);
    if (status == TT_OK)
        status =
            tt_bench_product(job->backend,
                             job->options.precision == TT_PRECISION_BF16 ||
                                     job->options.precision == TT_PRECISION_FP8
                                 ? TT_BF16
                                 : TT_F32,
                             mnk, &product);
    if (status == TT_OK)
        status = print_rows(cli, &r, flops / product, byte_rate);
    tt_free(r.list);
    return status;
}

tt_status tt_bench_op(tt_cli *cli)
{
    options o;
    tt_job *job = NULL;
    TT_TRY(tt_opt_defaults(table, &o, cli->arena));
    TT_TRY(tt_settings_apply(&cli->settings, "", table, &o, cli->arena));
    TT_TRY(tt_job_configure(&cli->settings, table, &job));
    const tt_status status = profile(cli, job, &o);
    tt_job_close(job);
    return status;
}
