// ranks - what the command line says about ranks, and what this program does for them.

#include "cli/launch/ranks.h"

#include "cli/launch/team.h"
#include "cli/signals.h"
#include "config/distribution.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char asked_by[] = "tutti -n";

// ---- that are started or joined ------------------------------------------

tt_status tt_cli_ranks_flag(const tt_cli *cli, int64_t most, int64_t *n_out)
{
    const char *text = tt_cli_value(cli, "-n");
    char *end = NULL;
    *n_out = 0;
    if (text == NULL)
        return TT_OK;
    const long long n = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || n < 1 || n > most)
        return tt_fail(TT_ERR_ARG,
                       "-n %s: the number of ranks is a whole number from 1 to "
                       "%lld, as in -n 2",
                       text, (long long)most);
    *n_out = n;
    return TT_OK;
}

// One write call, so that the line stays whole between the lines of other ranks.
static void say(void *user, const char *text, bool is_lost)
{
    tt_cli *cli = user;
    tt_str safe = {0};
    char line[2048];
    if (is_lost && cli->add_safe != NULL)
        cli->add_safe(cli, &safe);
    const int n = snprintf(line, sizeof line, "tutti: %.1000s%.1000s\n", text,
                           tt_str_text(&safe));
    const ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written; // nobody reads it: fine
    tt_str_fini(&safe);
}

typedef struct command_work {
    tt_cli *cli;
    tt_cli_ranks_fn *fn;
} command_work;

static tt_status work(const tt_peers *peers, void *user, int *exit_out)
{
    const command_work *w = user;
    return w->fn(w->cli, peers, exit_out);
}

tt_status tt_cli_ranks_count(tt_cli *cli, int32_t *n_out)
{
    int64_t n = 0;
    TT_TRY(tt_cli_ranks_flag(cli, TT_RANKS_MOST, &n));
    const tt_ranks_program program = {.get = tt_cli_env, .name = asked_by};
    const tt_ranks_request request = {&program, &cli->settings, cli->arena,
                                      (int32_t)n};
    return tt_ranks_count(&request, n_out);
}

tt_status tt_cli_ranks_run(tt_cli *cli, tt_cli_ranks_fn *fn, int *exit_out)
{
    int64_t n = 0;
    tt_world world;
    tt_str plugins = {0};
    command_work w = {cli, fn};
    TT_TRY(tt_cli_ranks_flag(cli, TT_RANKS_MOST, &n));
    TT_TRY(tt_cli_world(&world));
    tt_cli_plugins(&plugins);
    const tt_ranks_program program = {.get = tt_cli_env,
                                      .plugins = tt_str_text(&plugins),
                                      .name = asked_by,
                                      .be_rank = tt_signals_be_rank,
                                      .be_silent = tt_signals_be_silent,
                                      .say = say,
                                      .user = cli};
    const tt_ranks_request request = {&program, &cli->settings, cli->arena,
                                      (int32_t)n};
    tt_status status = tt_ranks_run(&request, work, &w, exit_out);
    if (status == TT_OK && *exit_out == TT_RANKS_INTERRUPTED)
        fputs("\n", stderr);                 // after the terminal's ^C
    if (status != TT_OK && world.rank > 0) { // rank 0 reports it
        *exit_out = TT_EXIT_ERROR;
        status = TT_OK;
    }
    tt_str_fini(&plugins);
    return status;
}

// ---- that are planned and not started ------------------------------------

// Checks that n ranks fit the mesh. mesh.data becomes what the other axes leave: -n 8
// with mesh.tensor=2 means mesh.data=4.
static tt_status set_mesh(tt_cli *cli, int32_t n, bool is_one_said)
{
    tt_distribution distribution;
    tt_grid grid;
    char size[24];
    TT_TRY(tt_distribution_read(&cli->settings, cli->arena, &distribution));
    TT_TRY(tt_grid_make(&distribution, n, NULL, cli->arena, &grid));
    if (n == 1 && !is_one_said)
        return TT_OK;
    snprintf(size, sizeof size, "%lld", (long long)grid.size[TT_AXIS_DATA]);
    return tt_settings_set(
        &cli->settings, "mesh.data", size,
        distribution.axis[TT_AXIS_DATA] > 0 ? "-n and mesh.data" : "-n",
        cli->arena);
}

tt_status tt_cli_ranks_check(tt_cli *cli, int32_t *n_out)
{
    TT_TRY(tt_cli_ranks_count(cli, n_out));
    return set_mesh(cli, *n_out, false);
}

tt_status tt_cli_ranks_plan(tt_cli *cli, int32_t *n_out)
{
    int64_t n = 0;
    tt_world world;
    *n_out = 0;
    TT_TRY(tt_cli_ranks_flag(cli, TT_CLI_MOST_PLANNED, &n));
    TT_TRY(tt_cli_world(&world));
    if (n == 0 && world.size > 1)
        n = world.size; // those that a launcher has started
    if (n == 0)
        return TT_OK;
    *n_out = (int32_t)n;
    return set_mesh(cli, *n_out, true);
}

// Powers of 1000 with B (80GB), of 1024 with iB or with the letter alone (512MiB,
// 512M).
static bool scale_of(const char *unit, double *scale_out)
{
    static const char prefix[] = "kmgtp";
    for (int i = 0; i < 5; i++) {
        const char plain[] = {prefix[i], '\0'};
        const char decimal[] = {prefix[i], 'b', '\0'};
        const char binary[] = {prefix[i], 'i', 'b', '\0'};
        *scale_out = pow(1000, i + 1);
        if (strcasecmp(unit, decimal) == 0)
            return true;
        *scale_out = pow(1024, i + 1);
        if (strcasecmp(unit, plain) == 0 || strcasecmp(unit, binary) == 0)
            return true;
    }
    *scale_out = 1;
    return unit[0] == '\0' || strcasecmp(unit, "b") == 0;
}

tt_status tt_cli_bytes(const char *flag, const char *text, int64_t *bytes_out)
{
    char *unit = NULL;
    double scale = 1;
    const double number = strtod(text, &unit);
    while (*unit == ' ')
        unit++;
    if (unit == text || !scale_of(unit, &scale) || !(number > 0) ||
        !(number * scale < 9e18))
        return tt_fail(TT_ERR_ARG,
                       "%s %s: is no size; it is written as 80GB, 512MiB or a "
                       "number of bytes",
                       flag, text);
    *bytes_out = number * scale < 1 ? 1 : (int64_t)(number * scale);
    return TT_OK;
}
