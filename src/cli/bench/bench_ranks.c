// bench_ranks - training steps on several ranks, in turns with one rank that has one
// rank's share of the batch: how much of the machine many ranks make use of. Stages share
// the layers and not the batch, so with mesh.pipe=2 the one rank has the batch of both.
//
//   one rank steps, the others wait -> all ranks step -> one rank steps -> ...

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "cli/bench/bench.h"
#include "cli/launch/ranks.h"
#include "session/meet.h"

#include <stdio.h>

typedef struct options {
    int64_t steps, warmup;
} options;

static const tt_opt table[] = {
    {"steps", "5", "steps to measure", TT_OPT_I64, offsetof(options, steps),
     NULL, 1, 1000000},
    {"warmup", "2", "steps before them", TT_OPT_I64, offsetof(options, warmup),
     NULL, 0, 1000000},
    {0},
};

typedef struct bench {
    tt_cli *cli;
    const tt_peers *peers;
    options o;
    tt_job *all, *one; // one: on rank 0 only
    tt_job *loose;     // `all` without `exact`, where that is on
    double *all_seconds, *one_seconds, *loose_seconds;
    tt_wire_stats wire;
    tt_step_result last;
} bench;

// ---- the two jobs --------------------------------------------------------

// How many share the samples of a micro-batch: ranks, without the stages of each.
static int32_t sharers_of(const bench *b)
{
    return b->peers->size / (int32_t)b->all->grid.size[TT_AXIS_PIPE];
}

static tt_status set_number(bench *b, tt_settings *settings, const char *key,
                            int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return tt_settings_set(settings, key, text, "benchmark", b->cli->arena);
}

static tt_status open_one(bench *b)
{
    static const char *const given[] = {"batch", "micro", "accumulate"};
    const tt_settings *from = &b->cli->settings;
    const int32_t n = sharers_of(b);
    const tt_peers alone = {.size = 1, .on_host = 1, .cores = b->peers->cores};
    tt_settings own = {.cache = from->cache};
    for (int64_t i = 0; i < from->n; i++)
        if (!tt_distribution_needs(from, from->v[i].key)) // there is no mesh
            TT_TRY(tt_settings_set(&own, from->v[i].key, from->v[i].value,
                                   from->v[i].origin, b->cli->arena));
    const int64_t value[] = {b->all->options.batch / n,
                             b->all->options.micro / n,
                             b->all->options.accumulate};
    for (int i = 0; i < 3; i++)
        TT_TRY(set_number(b, &own, given[i], value[i]));
    TT_TRY(tt_job_configure_peers(&own, table, &alone, &b->one));
    return tt_job_start(b->one, &(tt_exec_options){0});
}

static tt_status open_jobs(bench *b)
{
    tt_cli *cli = b->cli;
    TT_TRY(tt_opt_defaults(table, &b->o, cli->arena));
    TT_TRY(tt_settings_apply(&cli->settings, "", table, &b->o, cli->arena));
    TT_TRY(tt_job_configure_peers(&cli->settings, table, b->peers, &b->all));
    const int32_t n = sharers_of(b);
    if (b->all->options.micro % n != 0)
        return tt_fail(TT_ERR_ARG,
                       "micro-batches of %lld are not the same on %d ranks, so "
                       "one rank's would not compare; batch=%lld would do",
                       (long long)b->all->options.micro, n,
                       (long long)((b->all->options.micro / n + 1) * n *
                                   b->all->options.accumulate));
    if (b->all->note != NULL && tt_peers_is_first(b->peers))
        fprintf(stderr, "note: %s\n", b->all->note);
    return tt_job_plan(b->all);
}

// ---- in turns ------------------------------------------------------------

static tt_status step(tt_job *job, double *seconds, tt_step_result *last)
{
    double spare = 0;
    return tt_bench_run(job, 1, seconds != NULL ? seconds : &spare, last);
}

// One rank while the others wait, then all of them. The wire's statistics begin after
// the warm-up.
static tt_status take_turns(bench *b)
{
    const bool is_first = tt_peers_is_first(b->peers);
    tt_step_result one;
    for (int64_t i = -b->o.warmup; i < b->o.steps; i++) {
        tt_status status = TT_OK;
        if (is_first)
            status = step(b->one, i < 0 ? NULL : &b->one_seconds[i], &one);
        TT_TRY(tt_peers_follow(b->peers, "benchmark", status));
        if (i == 0)
            tt_comm_wire_stats(b->peers->wire, true, &b->wire);
        TT_TRY(step(b->all, i < 0 ? NULL : &b->all_seconds[i], &b->last));
    }
    tt_comm_wire_stats(b->peers->wire, false, &b->wire);
    return TT_OK;
}

// The same without `exact`, in turns with it once more, but apart from what was
// counted above.
static tt_status measure_loose(bench *b)
{
    tt_step_result last;
    if (!b->all->options.exact)
        return TT_OK;
    TT_TRY(tt_settings_set(&b->cli->settings, "exact", "false", "benchmark",
                           b->cli->arena));
    TT_TRY(tt_peers_agree(
        b->peers, "opening",
        tt_job_configure_peers(&b->cli->settings, table, b->peers, &b->loose)));
    TT_TRY(tt_job_start(b->loose, &(tt_exec_options){0}));
    for (int64_t i = -b->o.warmup; i < b->o.steps; i++) {
        TT_TRY(step(b->all, i < 0 ? NULL : &b->all_seconds[i], &last));
        TT_TRY(step(b->loose, i < 0 ? NULL : &b->loose_seconds[i], &last));
    }
    return TT_OK;
}

// ---- what came of it -----------------------------------------------------

typedef struct result {
    const char *unit;
    double seconds, rate, one_rate; // median; units per second
    double exposed, hidden;         // seconds of communication in a step
    double exact_cost; // how much longer than without `exact`; 0 without it
} result;

static double rate_of(const tt_job *job, double seconds)
{
    const double samples = (double)job->options.batch / seconds;
    return job->model->task == TT_TASK_TOKENS ? samples * (double)job->io.seq
                                              : samples;
}

static result evaluate(const bench *b)
{
    const double n = (double)b->o.steps;
    const bool is_tokens = b->all->model->task == TT_TASK_TOKENS;
    const double all = tt_bench_median(b->all_seconds, b->o.steps);
    const double one = tt_bench_median(b->one_seconds, b->o.steps);
    return (result){
        .unit = is_tokens ? "tokens" : "images",
        .seconds = all,
        .rate = rate_of(b->all, all),
        .one_rate = rate_of(b->one, one),
        .exposed = b->wire.exposed_seconds / n,
        .hidden = (b->wire.busy_seconds - b->wire.exposed_seconds) / n,
    };
}

static void print_json(const bench *b, const result *r)
{
    tt_str text = {0};
    char key[64];
    tt_json j = {.out = &text};
    tt_json_open(&j, NULL, '{');
    tt_json_str(&j, "model", b->all->options.model);
    tt_json_i64(&j, "ranks", b->peers->size);
    tt_json_i64(&j, "cores_per_rank", b->peers->cores);
    tt_json_i64(&j, "zero", b->all->distribution.zero);
    tt_json_i64(&j, "batch", b->all->options.batch);
    tt_json_f64(&j, "ms_per_step", r->seconds * 1e3);
    snprintf(key, sizeof key, "%s_per_s", r->unit);
    tt_json_f64(&j, key, r->rate);
    snprintf(key, sizeof key, "one_rank_%s_per_s", r->unit);
    tt_json_f64(&j, key, r->one_rate);
    tt_json_i64(&j, "one_rank_batch", b->one->options.batch);
    tt_json_f64(&j, "speedup", r->rate / r->one_rate);
    tt_json_f64(&j, "exposed_ms", r->exposed * 1e3);
    tt_json_f64(&j, "hidden_ms", r->hidden * 1e3);
    tt_json_f64(&j, "bytes_per_step",
                (double)b->wire.bytes / (double)b->o.steps);
    tt_json_i64(&j, "peak_bytes_predicted", b->all->plan->peak_bytes);
    tt_json_i64(&j, "peak_bytes_used", tt_exec_peak_used(b->all->exec));
    if (b->loose != NULL)
        tt_json_f64(&j, "exact_cost", r->exact_cost);
    tt_json_f64(&j, "loss", b->last.loss);
    tt_json_f64(&j, "norm", b->last.norm);
    tt_json_close(&j, '}');
    puts(tt_str_text(&text));
    tt_str_fini(&text);
}

static void print_text(const bench *b, const result *r)
{
    printf("%s: %.1f ms a step, %.1f %s/s on %s\n", b->all->options.model,
           r->seconds * 1e3, r->rate, r->unit, b->peers->text);
    printf("  %.3f times one rank with a batch of %lld (%.1f %s/s)\n",
           r->rate / r->one_rate, (long long)b->one->options.batch, r->one_rate,
           r->unit);
    printf("  communication: %.2f ms a step exposed, %.2f ms hidden\n",
           r->exposed * 1e3, r->hidden * 1e3);
    if (b->loose != NULL)
        printf("  exact: %.1f%% longer than without\n", 100 * r->exact_cost);
    printf("  loss %.6f, gradient norm %.4f\n", b->last.loss, b->last.norm);
}

static tt_status measure(bench *b)
{
    TT_TRY(tt_peers_agree(b->peers, "opening", open_jobs(b)));
    TT_TRY(tt_meet_job(b->all, &b->cli->settings,
                       tt_ranks_build(b->peers, b->cli->arena)));
    TT_TRY(tt_job_start(b->all, &(tt_exec_options){.poison = true}));
    const tt_status status = tt_peers_is_first(b->peers) ? open_one(b) : TT_OK;
    TT_TRY(tt_peers_follow(b->peers, "benchmark", status));
    b->all_seconds = tt_alloc(8 * b->o.steps);
    b->one_seconds = tt_alloc(8 * b->o.steps);
    b->loose_seconds = tt_alloc(8 * b->o.steps);
    if (b->all_seconds == NULL || b->one_seconds == NULL ||
        b->loose_seconds == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld times",
                       (long long)b->o.steps);
    TT_TRY(take_turns(b));
    result r = {0};
    if (tt_peers_is_first(b->peers))
        r = evaluate(b);
    TT_TRY(measure_loose(b));
    if (!tt_peers_is_first(b->peers))
        return TT_OK;
    if (b->loose != NULL)
        r.exact_cost = tt_bench_median(b->all_seconds, b->o.steps) /
                           tt_bench_median(b->loose_seconds, b->o.steps) -
                       1;
    if (tt_cli_has(b->cli, "--json"))
        print_json(b, &r);
    else
        print_text(b, &r);
    return TT_OK;
}

tt_status tt_bench_ranks(tt_cli *cli, const tt_peers *peers)
{
    bench b = {.cli = cli, .peers = peers};
    const tt_status status = measure(&b);
    tt_job_close(b.all);
    tt_job_close(b.one);
    tt_job_close(b.loose);
    tt_free(b.all_seconds);
    tt_free(b.one_seconds);
    tt_free(b.loose_seconds);
    return status;
}
