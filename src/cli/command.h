// command - a sub-command of the program. Only cli/ prints, exits or reads the
// environment. Results go to stdout, everything else to stderr.
//
// Exit status: 0 done; 1 the answer is no (a law does not hold); 2 wrong use or
// input, or it could not be done: one sentence on stderr says why; 3 a signal ended
// training, which was saved and goes on when it is started again.

#ifndef TT_CLI_COMMAND_H
#define TT_CLI_COMMAND_H

#include "base/arena.h"
#include "base/settings.h"
#include "base/status.h"

#include <stdbool.h>

enum { TT_EXIT_OK = 0, TT_EXIT_NO = 1, TT_EXIT_ERROR = 2, TT_EXIT_STOPPED = 3 };

// What stood on the command line behind the command's name.
typedef struct tt_cli {
    tt_arena *arena;
    tt_settings settings; // FILE.yaml, then key=value
    const char *file;     // the first FILE.yaml; NULL: there was none
    const char *const *word;
    int n_words; // plain words that are neither
    const char **flag, **flag_value;
    int n_flags; // "--json", ...
    const char *const *given;
    int n_given; // all of it, as it was
} tt_cli;

bool tt_cli_has(const tt_cli *cli, const char *flag); // "--json"

// What stood behind a flag that takes a value, the last time; NULL: it was not
// given.
const char *tt_cli_value(const tt_cli *cli, const char *flag);

// The command's own settings: defaults, then what was given; anything that is not
// in the table is an error that suggests the nearest.
tt_status tt_cli_options(tt_cli *cli, const tt_opt *table, void *params);

// Fails where no word names a model or a run: with `question`, or with what a file of
// settings is good for where one was given.
tt_status tt_cli_need_model(const tt_cli *cli, const char *question);

typedef struct tt_flag {
    const char *name, *doc; // NULL name ends the table
    const char *value;      // what follows it: "N"; NULL: nothing does
} tt_flag;

typedef struct tt_command_def {
    const char *name, *doc;
    const char *usage;  // what follows the name: "[FILE.yaml] [key=value ...]"
    const char *detail; // a paragraph for --help
    const tt_flag *flags; // NULL: none
    int max_words;
    bool
        takes_paths; // words with a slash are words: only FILE.yaml is settings
    bool has_ranks;  // several do it together; else the first alone does
    // Returns an exit status, or fails: then main prints the message and exits 2.
    tt_status (*run)(tt_cli *cli, int *exit_out);
} tt_command_def;

const tt_command_def *const *tt_command_all(int *n);

#endif
