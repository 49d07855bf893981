// usage - what --help prints.

#ifndef TT_CLI_USAGE_H
#define TT_CLI_USAGE_H

#include "cli/command.h"

#include <stdio.h>

void tt_usage_print(FILE *to); // all commands
void tt_usage_print_command(const tt_command_def *command);

// Fails: there is no such command, but perhaps one that is spelled nearly so.
tt_status tt_usage_unknown(const char *name);

#endif
