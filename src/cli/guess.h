// guess - `tutti train my.txt`: settings for a file or folder of data.

#ifndef TT_CLI_GUESS_H
#define TT_CLI_GUESS_H

#include "cli/command.h"

// If the plain word names data, sets suitable settings, except those that were given,
// and says on stderr what was chosen, unless `is_silent`. Without a word nothing
// happens. A word that names no data is refused.
tt_status tt_cli_guess(tt_cli *cli, bool is_silent);

#endif
