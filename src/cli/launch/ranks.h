// ranks - a command's work in several processes: started here by -n, or by a
// launcher that left its mark in the environment.
//
// Only rank 0 prints. How it is done: ranks/ranks.h.

#ifndef TT_CLI_LAUNCH_RANKS_H
#define TT_CLI_LAUNCH_RANKS_H

#include "cli/command.h"
#include "ranks/ranks.h"

// What every rank does; `exit_out` counts on rank 0 and becomes that of all ranks.
typedef tt_status tt_cli_ranks_fn(tt_cli *cli, const tt_peers *peers,
                                  int *exit_out);

// Runs `fn` on as many ranks as -n or the launcher says.
tt_status tt_cli_ranks_run(tt_cli *cli, tt_cli_ranks_fn *fn, int *exit_out);

enum { TT_CLI_MOST_PLANNED = 65536 }; // ranks that are only planned

// What -n says, from 1 to `most`; 0: it was not given.
tt_status tt_cli_ranks_flag(const tt_cli *cli, int64_t most, int64_t *n_out);

// How many that will be; nothing is started.
tt_status tt_cli_ranks_count(tt_cli *cli, int32_t *n_out);

// The same, and whether they could be started: mesh, transport, faults. mesh.data
// becomes what follows.
tt_status tt_cli_ranks_check(tt_cli *cli, int32_t *n_out);

// How many -n or the launcher says, for a plan; 0: neither does. mesh.data becomes what follows
// from it and from the other axes.
tt_status tt_cli_ranks_plan(tt_cli *cli, int32_t *n_out);

// "80GB", "1.5 TiB", "4096"; fails in the name of the flag.
tt_status tt_cli_bytes(const char *flag, const char *text, int64_t *bytes_out);

#endif
