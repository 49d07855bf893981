// team - the ranks that a launcher has started together with this one.

#ifndef TT_CLI_LAUNCH_TEAM_H
#define TT_CLI_LAUNCH_TEAM_H

#include "base/str.h"
#include "comm/team.h"

// Who started this process: rank, number of ranks and launcher, from the environment.
tt_status tt_cli_world(tt_world *world_out);

// Whether this is one of several ranks but not the first. Such a rank does nothing in
// a command that all ranks would only repeat.
bool tt_cli_is_spare(void);

const char *tt_cli_env(const char *name); // getenv as a tt_env_fn

// Folders that may hold plug-ins, separated by ':': those of TUTTI_PLUGINS, the
// program's own, and lib/ beside it.
void tt_cli_plugins(tt_str *folders);

// tt_team_join with this environment and these folders.
tt_status tt_cli_join(const tt_world *world, tt_team_options options,
                      tt_team **team_out);

// The path of the plug-in for an MPI library ("openmpi", "mpich"); false: there is
// none.
bool tt_cli_find_plugin(const char *flavour, tt_str *path_out);

#endif
