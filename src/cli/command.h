// command - a sub-command of the program.
//
// Only cli/ prints, exits or reads the environment. The library below returns statuses
// and fills structs, so the same code serves programs that link it. A command is a
// constant struct (tt_command_def) in a file of its own and a line in list.h; help,
// completion and "did you mean" come from that struct.
//
// Results go to stdout, everything else to stderr, so that `tutti ... --json | jq`
// works.
//
// Exit status: 0 done; 1 the answer is no (a law does not hold); 2 wrong use or input,
// or it could not be done: one sentence on stderr says why; 3 a signal ended training,
// which was saved and goes on when it is started again.

#ifndef TT_CLI_COMMAND_H
#define TT_CLI_COMMAND_H

#include "base/arena.h"
#include "base/settings/settings.h"
#include "base/status.h"

#include <stdbool.h>

enum { TT_EXIT_OK = 0, TT_EXIT_NO = 1, TT_EXIT_ERROR = 2, TT_EXIT_STOPPED = 3 };

// What followed the command's name on the command line, sorted into kinds.
typedef struct tt_cli {
    tt_arena *arena;
    tt_settings settings; // FILE.yaml first, then key=value
    const char *file;     // the first FILE.yaml; NULL: there was none
    const char *const *word;
    int n_words; // words that are none of the other kinds
    const char **flag, **flag_value;
    int n_flags; // "--json", ...
    const char *const *given;
    int n_given; // all words, as they were typed
    // When a rank is lost: appends to the message what is safe and how to go on. NULL:
    // there is nothing to say.
    void (*add_safe)(struct tt_cli *cli, tt_str *out);
} tt_cli;

bool tt_cli_has(const tt_cli *cli, const char *flag); // "--json"

// The value of a flag that takes one, the last if it was repeated; NULL: it was not
// given.
const char *tt_cli_value(const tt_cli *cli, const char *flag);

// The command's own settings: defaults, then what was given. A key that is not in the
// table is an error that suggests the nearest one.
tt_status tt_cli_options(tt_cli *cli, const tt_opt *table, void *params);

// Fails when no word names a model or a run. The message is `question`; if a file of
// settings was given instead, it says what that file is good for.
tt_status tt_cli_need_model(const tt_cli *cli, const char *question);

typedef struct tt_flag {
    const char *name, *doc; // NULL name ends the table
    const char *value;      // what follows it: "N"; NULL: it takes no value
} tt_flag;

// Prints a text to stdout, and ends it. Fails when it is not whole: then nothing is
// printed.
tt_status tt_cli_print(tt_str *text);

typedef struct tt_command_def {
    const char *name, *doc;
    const char *usage;  // what follows the name: "[FILE.yaml] [key=value ...]"
    const char *detail; // a paragraph for --help
    const tt_flag *flags; // NULL: none
    int max_words;
    bool takes_paths; // only FILE.yaml is read as settings; a/b stays a word
    bool has_system;  // `system=NAME` puts in that system's settings
    bool has_ranks;   // under mpirun all ranks run it; else only rank 0 does
    // Sets an exit status, or fails: then main prints the message and exits with 2.
    tt_status (*run)(tt_cli *cli, int *exit_out);
} tt_command_def;

const tt_command_def *const *tt_command_all(int *n);
const tt_command_def *tt_command_find(const char *name); // NULL: unknown

#endif
