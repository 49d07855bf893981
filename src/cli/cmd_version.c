// version - which Tutti this is.

#include "base/json.h"
#include "cli/command.h"
#include "tutti/tutti.h"

#include <stdio.h>

static tt_status run(tt_cli *cli, int *exit_out)
{
    (void)exit_out;
    TT_TRY(tt_settings_check_unused(&cli->settings, NULL, 0));
    if (tt_cli_has(cli, "--json"))
        printf("{\"version\": \"%s\"}\n", TUTTI_VERSION);
    else
        printf("tutti %s\n", TUTTI_VERSION);
    return TT_OK;
}

static const tt_flag flags[] = {
    {"--json", "one JSON object"},
    {0},
};

const tt_command_def tt_command_version = {
    .name = "version",
    .doc = "The version; also -V and --version.",
    .usage = "[--json]",
    .flags = flags,
    .run = run,
};
