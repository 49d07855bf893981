// report - writes a run's page again, from what lies in its folder.

#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "store/report/report.h"

#include <stdio.h>

static tt_status check_folder(const tt_cli *cli)
{
    TT_TRY(tt_cli_need_model(cli, "which run? usage: tutti report RUN"));
    TT_TRY(tt_settings_check_unused(&cli->settings, NULL, 0));
    const char *metrics =
        tt_arena_printf(cli->arena, "%s/metrics.jsonl", cli->word[0]);
    if (metrics == NULL)
        return TT_ERR_NOMEM;
    if (!tt_file_exists(metrics))
        return tt_fail(TT_ERR_ARG,
                       "%s is no folder of a run; `tutti runs` lists those "
                       "that there are",
                       cli->word[0]);
    return TT_OK;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    (void)exit_out;
    TT_TRY(check_folder(cli));
    TT_TRY(tt_report_write(cli->word[0]));
    char *path = tt_arena_printf(cli->arena, "%s/report.html", cli->word[0]);
    if (path == NULL)
        return TT_ERR_NOMEM;
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    tt_json_str(&json, "report", path);
    tt_json_close(&json, '}');
    puts(tt_cli_has(cli, "--json") ? tt_str_text(&text) : path);
    const tt_status status = tt_str_status(&text);
    tt_str_fini(&text);
    return status;
}

static const tt_flag flags[] = {
    {"--json", "the path as JSON"},
    {0},
};

const tt_command_def tt_command_report = {
    .name = "report",
    .doc = "Write the report of a run again: RUN/report.html.",
    .usage = "RUN [--json]",
    .detail =
        "The page holds everything it needs: facts, curves, settings and "
        "notes, made from\nwhat lies in the folder of the run, also while "
        "it still trains.",
    .flags = flags,
    .max_words = 1,
    .takes_paths = true,
    .run = run,
};
