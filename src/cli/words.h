// words - what main reads of the command line, for main alone.

#ifndef TT_CLI_WORDS_H
#define TT_CLI_WORDS_H

#include "cli/command.h"

// Fills `cli`, whose arena is set, from the words after the command's name.
tt_status tt__cli_read(const tt_command_def *command, tt_cli *cli,
                       const char *const *word, int n);

#endif
