// ranks - a command's work on several ranks: forked here by -n, or started by a
// launcher, which is recognised by its variables in the environment.
//
// Only rank 0 prints. How ranks are started and ended: ranks/ranks.h.

#ifndef TT_CLI_LAUNCH_RANKS_H
#define TT_CLI_LAUNCH_RANKS_H

#include "cli/command.h"
#include "ranks/ranks.h"

// What every rank does. Rank 0's `exit_out` becomes the exit status of all ranks.
typedef tt_status tt_cli_ranks_fn(tt_cli *cli, const tt_peers *peers,
                                  int *exit_out);

// Runs `fn` on as many ranks as -n or the launcher says.
tt_status tt_cli_ranks_run(tt_cli *cli, tt_cli_ranks_fn *fn, int *exit_out);

// A plan starts nothing, so more ranks can be planned.
enum { TT_CLI_MOST_PLANNED = 65536 };

// The number after -n, from 1 to `most`; 0: it was not given.
tt_status tt_cli_ranks_flag(const tt_cli *cli, int64_t most, int64_t *n_out);

// How many ranks tt_cli_ranks_run would use. Starts nothing.
tt_status tt_cli_ranks_count(tt_cli *cli, int32_t *n_out);

// The same, and whether they could be started: mesh, transport, faults. Sets mesh.data
// to what the other axes leave.
tt_status tt_cli_ranks_check(tt_cli *cli, int32_t *n_out);

// The number of ranks for a plan, from -n or from the launcher; 0: neither says. Sets
// mesh.data to what the other axes leave.
tt_status tt_cli_ranks_plan(tt_cli *cli, int32_t *n_out);

// Reads "80GB", "1.5 TiB" or "4096". The message of a failure names the flag.
tt_status tt_cli_bytes(const char *flag, const char *text, int64_t *bytes_out);

#endif
