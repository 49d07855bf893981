// plan - what will run: memory, FLOPs, work, depth; the steps on request.
//
// Nothing is started, and a step's memory is not allocated. The machine that is planned
// for need not be this one: -n, --memory and device=cuda describe another.

#include "base/figures.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/guess.h"
#include "cli/launch/ranks.h"
#include "cli/planning/plan_show.h"
#include "job/cut.h"
#include "session/doubts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const use_key[TT_N_BUFFER_USES] = {
    [TT_USE_PARAM] = "parameter_bytes",
    [TT_USE_GRAD] = "gradient_bytes",
    [TT_USE_OPTIM] = "optimiser_bytes",
    [TT_USE_BUFFER] = "buffer_bytes",
    [TT_USE_ACTIVATION] = "activation_bytes",
    [TT_USE_SCRATCH] = "scratch_bytes",
};

static tt_status print_json(const tt_cli *cli, tt_job *job,
                            const tt_survey *survey, tt_str *out)
{
    tt_json json = {.out = out};
    const tt_plan *plan = job->plan;
    tt_json_open(&json, NULL, '{');
    tt_json_bool(&json, "ok", true);
    tt_json_str(&json, "model", job->options.model);
    tt_json_str(&json, "device", job->options.device);
    tt_json_bool(&json, "device_is_here", !job->backend->is_absent);
    if (tt_job_memory(job) > 0) {
        tt_json_bool(&json, "fits", survey->memory.most <= tt_job_memory(job));
        tt_json_i64(&json, "available_bytes", tt_job_memory(job));
    }
    tt_json_i64(&json, "ranks", job->peers.size);
    tt_json_i64(&json, "rank", job->peers.rank);
    tt_json_i64(&json, "zero", job->distribution.zero);
    tt_json_i64(&json, "parameters", tt_job_parameters(job));
    for (int u = 0; u < TT_N_BUFFER_USES; u++)
        if (use_key[u] != NULL)
            tt_json_i64(&json, use_key[u], plan->bytes_by_use[u]);
    tt_json_i64(&json, "peak_bytes", plan->peak_bytes);
    tt_json_i64(&json, "stage_bytes",
                job->backend->def->memory == NULL ? 0
                                                  : tt_wire_stage_bytes(plan));
    tt_json_f64(&json, "flops", plan->cost.flops);
    tt_json_f64(&json, "formula_flops", tt_job_flops(job));
    tt_json_f64(&json, "bytes_moved", plan->cost.bytes);
    tt_json_f64(&json, "work", plan->cost.work);
    tt_json_f64(&json, "depth", plan->cost.depth);
    tt_json_f64(&json, "parallelism", plan->cost.work / plan->cost.depth);
    tt_json_i64(&json, "steps", plan->n_steps);
    tt_json_str(&json, "mesh", job->grid.mesh);
    tt_json_bool(&json, "in_order", job->in_order);
    tt_json_i64(&json, "loss_chunks", job->chunks);
    tt_json_str(&json, "layout", job->grid.layout_text);
    TT_TRY(tt_show_plan_json(job, survey, &json));
    TT_TRY(tt_show_trades_json(job, &json));
    TT_TRY(tt_show_schedule_json(job, cli->arena, &json));
    tt_json_close(&json, '}');
    tt_str_add(out, "\n");
    return TT_OK;
}

// ---- text ----------------------------------------------------------------

// The answer first: whether it fits, and into what.
static void print_verdict(const tt_job *job, const tt_survey *survey,
                          tt_str *out)
{
    const int64_t most = survey->memory.most, memory = tt_job_memory(job);
    const bool is_many = job->peers.size > 1;
    const int32_t on_host = job->peers.on_host;
    const bool differ = survey->memory.least < most;
    if (memory > 0)
        tt_str_add(out, most <= memory ? "fits: " : "does not fit: ");
    if (differ)
        tt_str_addf(out, "rank %d needs ", survey->memory.most_rank);
    else
        tt_str_add(out, is_many ? "a rank needs " : "it needs ");
    tt_add_bytes(out, most);
    if (differ)
        tt_str_addf(out, ", the most of %d ranks", job->peers.size);
    if (memory > 0) {
        tt_str_add(out, ", and ");
        tt_add_bytes(out, memory);
        tt_str_add(out, " are there");
        if (on_host > 1 && job->backend->def->memory == NULL)
            tt_str_addf(out, " for each of %d", on_host);
    } else {
        tt_str_add(out, "; no GPU is here to say whether that fits: "
                        "--memory 80GB does");
    }
    tt_str_add(out, "\n");
    if (job->backend->is_absent)
        tt_str_add(out, "planned for a GPU that is not here: scratch memory "
                        "is estimated\n");
}

// Where the layers are cut; a note of it goes to stderr.
static tt_status print_cut(const tt_cli *cli, const tt_job *job, tt_str *out)
{
    tt_str line = {0}, note = {0};
    const tt_status status = tt_cut_text(job, cli->arena, &line, &note);
    if (status == TT_OK && job->pipe != NULL) {
        if (!tt_cli_has(cli, "--json"))
            tt_str_addf(out, "cut: %s\n\n", tt_str_text(&line));
        if (note.n > 0)
            fprintf(stderr, "note: %s\n", tt_str_text(&note));
    }
    tt_str_inherit(out, &line);
    tt_str_inherit(out, &note);
    tt_str_fini(&line);
    tt_str_fini(&note);
    return status;
}

static void print_head(const tt_job *job, const tt_survey *survey, tt_str *out)
{
    const tt_job_options *o = &job->options;
    tt_str_addf(out, "%s: ", o->model);
    tt_add_grouped(out, tt_job_parameters(job));
    tt_str_addf(out, " parameters, batch %lld", (long long)o->batch);
    if (o->accumulate > 1)
        tt_str_addf(out, " in %lld micro-batches", (long long)o->accumulate);
    if (job->model->task == TT_TASK_TOKENS)
        tt_str_addf(out, " of %lld tokens", (long long)job->io.seq);
    else
        tt_str_addf(out, " of %lldx%lld pixels", (long long)job->io.image,
                    (long long)job->io.image);
    tt_str_addf(out, ", %s, %s on %s\n", tt_precision_name[o->precision],
                o->optim, o->device);
    const tt_survey_range *m = &survey->memory;
    if (job->peers.size > 1)
        tt_str_addf(out, "rank %d of %d%s: mesh %s, zero=%lld\nlayout: %s\n",
                    job->peers.rank, job->peers.size,
                    m->least < m->most && job->peers.rank == m->most_rank
                        ? ", which needs the most memory"
                        : "",
                    job->grid.mesh, (long long)job->distribution.zero,
                    job->grid.layout_text);
    if (job->chunks > 1)
        tt_str_addf(out, "loss: in %lld chunks\n", (long long)job->chunks);
    if (job->peers.size > 1 && job->backend->def->memory != NULL) {
        tt_str_add(out, "host memory: ");
        tt_add_bytes(out, tt_wire_stage_bytes(job->plan));
        tt_str_add(out, " for collectives, where NCCL does not do them\n");
    }
    if (job->in_order)
        tt_str_add(out, "collectives: one after another, since the parts of "
                        "ranks differ and so do their kernels\n");
    tt_str_add(out, job->pipe == NULL ? "\n" : ""); // or the cut follows
}

static tt_status print_text(const tt_cli *cli, tt_job *job,
                            const tt_survey *survey, tt_str *out)
{
    const bool wants_all = tt_cli_has(cli, "--placements");
    print_verdict(job, survey, out);
    print_head(job, survey, out);
    TT_TRY(print_cut(cli, job, out));
    tt_plan_print(job->plan, tt_cli_has(cli, "--steps"), out);
    TT_TRY(tt_show_trades(job, out));
    if (job->peers.size == 1 && !wants_all)
        return TT_OK;
    return tt_show_plan(job, survey, wants_all ? TT_SHOW_ALL : TT_SHOW_WEIGHTS,
                        out);
}

static tt_status print(const tt_cli *cli, tt_job *job, tt_str *out)
{
    tt_survey survey;
    if (tt_cli_has(cli, "--graph")) {
        tt_graph_print(job->graph, out);
        return TT_OK;
    }
    if (tt_cli_has(cli, "--schedule") && !tt_cli_has(cli, "--json"))
        return tt_show_schedule(job, cli->arena, out);
    TT_TRY(tt_survey_make(job, cli->arena, &survey));
    if (!tt_cli_has(cli, "--json"))
        return print_text(cli, job, &survey, out);
    TT_TRY(print_cut(cli, job, out)); // the note alone
    return print_json(cli, job, &survey, out);
}

// ---- the command ---------------------------------------------------------

// The plan of the rank that --rank names; else of the rank that needs the most memory.
static tt_status choose_rank(const tt_cli *cli, tt_job *job)
{
    const char *text = tt_cli_value(cli, "--rank");
    char *end = NULL;
    const long long rank = text == NULL ? 0 : strtoll(text, &end, 10);
    tt_plan *plan = NULL;
    tt_survey_range memory;
    if (text == NULL)
        return job->peers.size > 1 ? tt_survey_take_largest(job, &memory)
                                   : TT_OK;
    if (end == text || *end != '\0' || rank < 0 || rank >= job->peers.size)
        return tt_fail(TT_ERR_ARG, "--rank %s: there are ranks 0 to %d", text,
                       job->peers.size - 1);
    TT_TRY(tt_job_plan_rank(job, (int32_t)rank, &plan));
    tt_plan_destroy(job->plan);
    job->plan = plan;
    job->peers.rank = (int32_t)rank;
    return TT_OK;
}

// Warns about settings that have no effect on so many ranks.
static void say_idle(const tt_job *job)
{
    tt_str text = {0};
    tt_doubts_idle(job, &text);
    for (const char *p = tt_str_text(&text); *p != '\0';) {
        const int n = (int)strcspn(p, "\n");
        fprintf(stderr, "warning: %.*s\n", n, p);
        p += n + 1;
    }
    tt_str_fini(&text);
}

static tt_status show(const tt_cli *cli, tt_job *job)
{
    tt_str text = {0};
    if (job->note != NULL)
        fprintf(stderr, "note: %s\n", job->note);
    say_idle(job);
    TT_TRY(tt_job_plan(job));
    TT_TRY(choose_rank(cli, job));
    TT_TRY(tt_job_check_fit(job));
    const char *svg = tt_cli_value(cli, "--svg");
    if (tt_cli_has(cli, "--schedule") || svg != NULL)
        TT_TRY(tt_show_schedule_check(job));
    if (svg != NULL)
        TT_TRY(tt_show_schedule_svg(job, cli->arena, svg));
    tt_status status = print(cli, job, &text);
    if (status == TT_OK)
        status = tt_str_status(&text);
    if (status == TT_OK)
        fputs(tt_str_text(&text), stdout);
    tt_str_fini(&text);
    return status;
}

// The data say how large the vocabulary is. A plan is possible without them.
static tt_status open_job(tt_cli *cli, tt_session **session_out,
                          tt_job **job_out)
{
    char why[1024] = "";
    if (tt_settings_find(&cli->settings, "data") != NULL) {
        if (tt_session_open(&cli->settings, NULL, true, session_out) == TT_OK)
            return TT_OK;
        snprintf(why, sizeof why, "%s", tt_error_message());
    }
    TT_TRY(tt_job_configure(&cli->settings, NULL, job_out));
    TT_TRY(tt_job_plan(*job_out));
    if (why[0] != '\0')
        fprintf(stderr, "note: planned without the data: %s\n", why);
    return TT_OK;
}

// --memory and -n: the machine that is planned for need not be here.
static tt_status read_flags(tt_cli *cli, int32_t *n_out)
{
    const char *memory = tt_cli_value(cli, "--memory");
    cli->settings.is_plan = true;
    if (memory != NULL)
        TT_TRY(tt_cli_bytes("--memory", memory, &cli->settings.memory));
    return tt_cli_ranks_plan(cli, n_out);
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    tt_job *job = NULL;
    tt_session *session = NULL;
    int32_t n = 0;
    (void)exit_out;
    TT_TRY(tt_cli_ranks_flag(cli, TT_CLI_MOST_PLANNED, &(int64_t){0}));
    TT_TRY(tt_cli_guess(cli, tt_cli_has(cli, "--json")));
    TT_TRY(read_flags(cli, &n));
    tt_status status = open_job(cli, &session, &job);
    tt_job *shown = session != NULL ? session->job : job;
    if (status == TT_OK && shown != NULL) {
        // Ranks that -n starts share this machine, unless --memory says what each has.
        shown->peers.on_host = cli->settings.memory > 0 ? 0 : n;
        status = show(cli, shown);
    }
    tt_job_close(job);
    tt_session_close(session);
    return status;
}

static const tt_flag flags[] = {
    {"-n", "the plan of one of so many ranks", "N"},
    {"--memory", "what a rank may use, as 80GB; else what is here", "SIZE"},
    {"--placements", "where every weight and activation is"},
    {"--rank", "the plan of this rank; else of the one with the most memory",
     "R"},
    {"--steps", "the list of steps too"},
    {"--schedule", "the schedule of mesh.pipe: picture, figures, table"},
    {"--svg", "writes the picture of the schedule to FILE too", "FILE"},
    {"--graph", "the graph before lowering, as text"},
    {"--json", "one JSON object"},
    {0},
};

const tt_command_def tt_command_plan = {
    .name = "plan",
    .doc = "What will run: memory, FLOPs, placements, collectives, steps.",
    .usage = "[FILE.yaml|DATA] [key=value ...] [-n N] [--memory SIZE] "
             "[--placements] [--rank R]\n                  [--steps] "
             "[--schedule] [--svg FILE] [--graph] [--json]",
    .detail =
        "`tutti list settings` names the keys; `tutti list models` the "
        "models and model.*.\n-n 4, or mesh.data=2 mesh.tensor=2, plans one "
        "rank "
        "of four, and shows what each of them\nholds of every weight and what "
        "it sends per layer, direction and axis; none is started.\nThe machine "
        "need not be this one: device=cuda plans for a GPU that is not here, "
        "--memory\n80GB says what each rank may use.\n--schedule draws how the "
        "stages of "
        "mesh.pipe=4 take turns; what it prints is a file for\npipe.schedule.",
    .flags = flags,
    .max_words = 1,
    .takes_paths = true,
    .has_system = true,
    .run = run,
};
