// check - runs the laws (check/law.h): is this installation right on this machine?

#include "backend/backend.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/settings/opt.h"
#include "check/law.h"
#include "cli/command.h"
#include "cli/launch/team.h"
#include "codec/codec.h"
#include "comm/coll/coll.h"
#include "comm/transport/transport.h"
#include "model/model.h"
#include "ops/ops.h"
#include "pass/pass.h"
#include "policy/policy.h"

#include <stdio.h>
#include <string.h>

static tt_status unknown_law(const char *name)
{
    int n = 0;
    tt_near near = {.word = name};
    const tt_law_def *const *laws = tt_law_all(&n);
    for (int i = 0; i < n; i++)
        tt_near_try(&near, laws[i]->name);
    return tt_near_unknown(&near, "law", "`tutti list laws` names them");
}

// `only` must match something that the laws look at. A typing error would otherwise
// look like a success with no checks.
static tt_status check_only(const char *only)
{
    int n = 0;
    const tt_op_def *const *ops = tt_op_all(&n);
    bool found = only == NULL;
    for (int i = 0; i < n && !found; i++)
        found = strstr(ops[i]->name, only) != NULL;
    const tt_model_def *const *models = tt_model_all(&n);
    for (int i = 0; i < n && !found; i++)
        found = strstr(models[i]->name, only) != NULL;
    const tt_coll_def *const *colls = tt_coll_all(&n);
    for (int i = 0; i < n && !found; i++)
        found = strstr(colls[i]->name, only) != NULL;
    const tt_pass_def *const *passes = tt_pass_all(&n);
    for (int i = 0; i < n && !found; i++)
        found = strstr(passes[i]->name, only) != NULL;
    const tt_codec_def *const *codecs = tt_codec_all(&n);
    for (int i = 0; i < n && !found; i++)
        found = strstr(codecs[i]->name, only) != NULL;
    const tt_policy_def *const *policies = tt_policy_all(&n);
    for (int i = 0; i < n && !found; i++)
        found = strstr(policies[i]->name, only) != NULL;
    const tt_comm_def *const *transports = tt_comm_all(&n);
    for (int i = 0; i < n && !found; i++)
        found = strstr(transports[i]->name, only) != NULL;
    return found
               ? TT_OK
               : tt_fail(
                     TT_ERR_ARG,
                     "only=%s matches no operator, model, pass, codec, policy, "
                     "transport or collective",
                     only);
}

// `device` must be a backend that works here.
static tt_status check_device(const char *device)
{
    const tt_backend_def *def = device == NULL ? NULL : tt_backend_find(device);
    if (device == NULL || (def != NULL && def->is_here == NULL))
        return TT_OK;
    if (def == NULL)
        return tt_fail(TT_ERR_ARG,
                       "unknown device \"%s\"; `tutti list backends` names "
                       "them",
                       device);
    tt_backend *backend = NULL;
    TT_TRY(tt_backend_open(def, NULL, &backend));
    tt_backend_close(backend);
    return TT_OK;
}

// What is asked, and who looks.
typedef struct asked {
    const tt_cli *cli;
    const tt_law_def *law; // NULL: all
    const char *only, *device;
    int32_t most_ranks;
    tt_comm *comm;  // of a launcher's ranks; NULL: there is one process
    bool is_silent; // another rank prints
    tt_json *json;
    int *exit_out;
} asked;

static void print_law(const asked *a, const tt_law_def *law,
                      const tt_law_report *report, double seconds)
{
    if (tt_cli_has(a->cli, "--json")) {
        tt_json_open(a->json, NULL, '{');
        tt_json_str(a->json, "law", law->name);
        tt_json_i64(a->json, "checks", report->n_checks);
        tt_json_i64(a->json, "failed", report->n_failed);
        tt_json_f64(a->json, "seconds", seconds);
        tt_json_close(a->json, '}');
        return;
    }
    // A law that looked at nothing has shown nothing.
    printf("%-11s %s  %lld checks, %lld failed, %.1f s", law->name,
           report->n_failed > 0   ? "BROKEN"
           : report->n_checks > 0 ? "holds "
                                  : "-     ",
           (long long)report->n_checks, (long long)report->n_failed, seconds);
    if (report->bits != 0)
        printf(", bits %016llx", (unsigned long long)report->bits);
    printf("\n");
    fflush(stdout);
}

static tt_status run_law(const asked *a, const tt_law_def *law)
{
    tt_law_report report = {.only = a->only,
                            .device = a->device,
                            .comm = a->comm,
                            .most_ranks = a->most_ranks};
    const double start = tt_clock_seconds();
    const tt_status status = law->run(&report);
    const double seconds = tt_clock_seconds() - start;
    if (status == TT_OK && report.n_failed > 0)
        *a->exit_out = TT_EXIT_NO;
    if (status == TT_OK && !a->is_silent)
        print_law(a, law, &report, seconds);
    if (report.n_failed > 0)
        fputs(tt_str_text(&report.failures), stderr);
    tt_law_report_fini(&report);
    return status;
}

static tt_status run_laws(const asked *a)
{
    int n = 0;
    const tt_law_def *const *laws = tt_law_all(&n);
    for (int i = 0; i < n; i++)
        if ((a->law == NULL || a->law == laws[i]) &&
            (a->comm == NULL || laws[i]->takes_ranks))
            TT_TRY(run_law(a, laws[i]));
    return TT_OK;
}

// The ranks of a launcher check together. Laws that do not concern ranks cannot be
// checked that way.
static tt_status run_with_ranks(asked *a)
{
    tt_world world;
    tt_team *team = NULL;
    TT_TRY(tt_cli_world(&world));
    if (world.size == 1)
        return run_laws(a);
    if (a->law != NULL && !a->law->takes_ranks)
        return tt_fail(TT_ERR_ARG,
                       "the law %s is no matter of ranks; check it without %s",
                       a->law->name, world.launcher);
    TT_TRY(tt_cli_join(&world, (tt_team_options){0}, &team));
    a->comm = team->comm;
    a->is_silent = world.rank != 0;
    const tt_status status = run_laws(a);
    tt_team_leave(team, status);
    return status;
}

typedef struct options {
    const char *only, *device;
    int64_t ranks;
} options;

static const tt_opt table[] = {
    {"only", "", "members whose name contains this", TT_OPT_STR,
     offsetof(options, only)},
    {"device", "", "kernels of this backend only", TT_OPT_STR,
     offsetof(options, device)},
    {"ranks", "0", "most that a law starts; 0: as many as it likes", TT_OPT_I64,
     offsetof(options, ranks), NULL, 0, 64},
    {0},
};

static tt_status run(tt_cli *cli, int *exit_out)
{
    options o;
    tt_str text = {0};
    tt_json json = {.out = &text};
    TT_TRY(tt_cli_options(cli, table, &o));
    asked a = {.cli = cli,
               .only = o.only[0] == '\0' ? NULL : o.only,
               .device = o.device[0] == '\0' ? NULL : o.device,
               .most_ranks = (int32_t)o.ranks,
               .json = &json,
               .exit_out = exit_out};
    if (cli->n_words == 1) {
        a.law = tt_law_find(cli->word[0]);
        if (a.law == NULL)
            return unknown_law(cli->word[0]);
    }
    TT_TRY(check_only(a.only));
    TT_TRY(check_device(a.device));
    tt_json_open(&json, NULL, '[');
    const tt_status status = run_with_ranks(&a);
    tt_json_close(&json, ']');
    if (status == TT_OK && tt_cli_has(cli, "--json") && !a.is_silent)
        puts(tt_str_text(&text));
    tt_str_fini(&text);
    return status;
}

static const tt_flag flags[] = {
    {"--json", "results as one JSON array"},
    {0},
};

const tt_command_def tt_command_check = {
    .name = "check",
    .doc = "Run the laws: is this installation right on this machine?",
    .usage = "[LAW] [only=NAME] [device=NAME] [ranks=N] [--json]",
    .detail = "Every operator, kernel and gradient is compared with the plain "
              "reference. `only`\nlooks at members whose name contains NAME, "
              "`device` at "
              "one backend's kernels; `ranks`\nlimits how many ranks a law "
              "starts.\nUnder mpirun the ranks "
              "look together, over MPI.",
    .flags = flags,
    .max_words = 1,
    .has_ranks = true,
    .run = run,
};
