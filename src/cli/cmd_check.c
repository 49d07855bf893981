// check - runs the laws: is this installation right on this machine?

#include "base/clock.h"
#include "base/json.h"
#include "base/opt.h"
#include "check/law.h"
#include "cli/command.h"
#include "model/model.h"
#include "ops/ops.h"

#include <stdio.h>
#include <string.h>

static tt_status unknown_law(const char *name)
{
    const char *names[32];
    int n = 0;
    const tt_law_def *const *laws = tt_law_all(&n);
    for (int i = 0; i < n && i < 32; i++)
        names[i] = laws[i]->name;
    const char *near = tt_nearest(name, names, n);
    return tt_fail(TT_ERR_ARG, "unknown law \"%s\"; %s%s%s", name,
                   near ? "did you mean " : "`tutti list laws` names them",
                   near ? near : "", near ? "?" : "");
}

// `only` must match something that the laws look at.
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
    return found ? TT_OK
                 : tt_fail(TT_ERR_ARG,
                           "only=%s matches no operator and no model", only);
}

static tt_status run_law(const tt_law_def *law, const tt_cli *cli,
                         const char *only, tt_json *json, int *exit_out)
{
    tt_report report = {.only = only};
    const double start = tt_clock_seconds();
    const tt_status status = law->run(&report);
    const double seconds = tt_clock_seconds() - start;
    if (status == TT_OK && report.n_failed > 0)
        *exit_out = TT_EXIT_NO;
    if (tt_cli_has(cli, "--json")) {
        tt_json_open(json, NULL, '{');
        tt_json_str(json, "law", law->name);
        tt_json_i64(json, "checks", report.n_checks);
        tt_json_i64(json, "failed", report.n_failed);
        tt_json_f64(json, "seconds", seconds);
        tt_json_close(json, '}');
    } else if (status == TT_OK) {
        printf("%-8s %s  %lld checks, %lld failed, %.1f s\n", law->name,
               report.n_failed == 0 ? "holds " : "BROKEN",
               (long long)report.n_checks, (long long)report.n_failed, seconds);
        fflush(stdout);
    }
    if (report.n_failed > 0)
        fputs(tt_str_text(&report.failures), stderr);
    tt_report_fini(&report);
    return status;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    int n = 0;
    const tt_law_def *const *laws = tt_law_all(&n);
    const char *only = tt_settings_get(&cli->settings, "only");
    tt_str text = {0};
    tt_json json = {.out = &text};
    TT_TRY(
        tt_settings_check_unused(&cli->settings, (const char *[]){"only"}, 1));
    if (cli->n_words == 1 && tt_law_find(cli->word[0]) == NULL)
        return unknown_law(cli->word[0]);
    TT_TRY(check_only(only));
    tt_status status = TT_OK;
    tt_json_open(&json, NULL, '[');
    for (int i = 0; i < n && status == TT_OK; i++)
        if (cli->n_words == 0 || laws[i] == tt_law_find(cli->word[0]))
            status = run_law(laws[i], cli, only, &json, exit_out);
    tt_json_close(&json, ']');
    if (status == TT_OK && tt_cli_has(cli, "--json"))
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
    .usage = "[LAW] [only=NAME] [--json]",
    .detail = "Every operator, kernel and gradient is compared with the plain "
              "reference. `only`\nlooks at members whose name contains NAME.",
    .flags = flags,
    .max_words = 1,
    .run = run,
};
