// team - what joining the other ranks needs of the environment and the program.

#include "cli/launch/team.h"

#include "comm/transport/mpi.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *tt_cli_env(const char *name)
{
    return getenv(name);
}

tt_status tt_cli_world(tt_world *world_out)
{
    return tt_world_find(tt_cli_env, world_out);
}

bool tt_cli_is_spare(void)
{
    tt_world world;
    return tt_cli_world(&world) == TT_OK && world.size > 1 && world.rank > 0;
}

void tt_cli_plugins(tt_str *folders)
{
    char program[PATH_MAX] = "";
    const char *given = getenv("TUTTI_PLUGINS");
    const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    char *slash = n > 0 ? strrchr(program, '/') : NULL;
    if (given != NULL)
        tt_str_addf(folders, "%s:", given);
    if (slash == NULL)
        return;
    *slash = '\0';
    tt_str_addf(folders, "%s:%s/../lib", program, program);
}

tt_status tt_cli_join(const tt_world *world, tt_team_options options,
                      tt_team **team_out)
{
    tt_str folders = {0};
    tt_cli_plugins(&folders);
    options.get = tt_cli_env;
    options.plugins = tt_str_text(&folders);
    const tt_status status = tt_team_join(world, &options, team_out);
    tt_str_fini(&folders);
    return status;
}

bool tt_cli_find_plugin(const char *flavour, tt_str *path_out)
{
    tt_str folders = {0};
    tt_cli_plugins(&folders);
    const bool is_there =
        tt_mpi_find(tt_str_text(&folders), flavour, path_out) == TT_OK;
    tt_str_fini(&folders);
    return is_there;
}
