// inspect - the parts of `tutti inspect`.

#ifndef TT_CLI_INSPECT_H
#define TT_CLI_INSPECT_H

#include "cli/command.h"

// A file of settings, which were read with the command line; checks them.
tt_status tt_inspect_yaml(tt_cli *cli);

#endif
