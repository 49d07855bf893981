// systems - the surveyed systems, as a table and one by one.

#ifndef TT_CLI_SYSTEMS_SYSTEMS_H
#define TT_CLI_SYSTEMS_SYSTEMS_H

#include "cli/command.h"
#include "system/system.h"

// Prints those that the pattern (word 1) and every --where FIELD=WORD let through.
tt_status tt_cli_systems_list(tt_cli *cli);

// All systems that `word` names: a name, a pattern with * and ?, or a file. In the
// arena.
tt_status tt_cli_systems_find(tt_cli *cli, const char *word,
                              const tt_system **system_out, int *n_out);

// Whether a system has the word of every --where in that field. A field that does not
// exist is refused.
tt_status tt_cli_systems_wanted(const tt_cli *cli, const tt_system *system,
                                bool *is_wanted_out);

// Fails: none is as it was asked for.
tt_status tt_cli_systems_none(void);

#endif
