// team - the ranks that a launcher started together with this one.

#ifndef TT_CLI_LAUNCH_TEAM_H
#define TT_CLI_LAUNCH_TEAM_H

#include "base/str.h"
#include "comm/team.h"

// Who started this process, from the environment.
tt_status tt_cli_world(tt_world *world_out);

// Whether this is one of several ranks and not the first, which does and prints alone
// what several would only repeat.
bool tt_cli_is_spare(void);

const char *tt_cli_env(const char *name); // for what wants a tt_env_fn

// Where plug-ins are: the folders of TUTTI_PLUGINS, the program's own, the library's
// beside it; with ':' between.
void tt_cli_plugins(tt_str *folders);

// tt_team_join with both.
tt_status tt_cli_join(const tt_world *world, tt_team_options options,
                      tt_team **team_out);

// Where the plug-in for an MPI library ("openmpi", "mpich") is; false: nowhere.
bool tt_cli_find_plugin(const char *flavour, tt_str *path_out);

#endif
