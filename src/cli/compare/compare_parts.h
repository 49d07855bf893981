// compare_parts - between the files of `tutti compare`.

#ifndef TT_CLI_COMPARE_COMPARE_PARTS_H
#define TT_CLI_COMPARE_COMPARE_PARTS_H

#include "cli/compare/compare.h"

#include <sys/types.h>

enum { TT_COMPARE_ARGS = 512 };
#define TT_COMPARE_NO_END ((int64_t)100000000) // steps of a run that time ends

typedef enum tt__compare_kind {
    TT__COMPARE_RUN,
    TT__COMPARE_TRACE, // a few steps, with a trace of all ranks
    TT__COMPARE_DRY,   // none
} tt__compare_kind;

typedef struct tt__compare_run { // a process
    const tt_compare *of;
    const char *folder; // of the run
    const char *out, *log;
    const char *program; // what is started: this one, or a launcher
    const char *arg[TT_COMPARE_ARGS];
    int n;
    pid_t pid;
    int64_t seen;  // bytes of its metrics when they were looked at last
    bool is_over;  // its end was reached: a signal was sent by us
    bool is_asked; // the user's signal was handed on
} tt__compare_run;

// Reads words and flags. Nothing is started or written.
tt_status tt__compare_ask(tt_cli *cli, tt_compare *out);

// Refuses what no run could work with, before any is started.
tt_status tt__compare_check(const tt_compare *c);

// All settings of a system's runs: the system's, the file's, the command line's.
tt_status tt__compare_settings(const tt_compare *c, const tt_compare_one *one,
                               tt_settings *out);

// Whether the clock of its workers is drawn, which says nothing about times.
bool tt__compare_is_drawn(const tt_compare *c, const tt_compare_one *one);

// The words that start a run, and the program that they are for.
tt_status tt__compare_args(tt__compare_run *p, const tt_compare_one *one,
                           tt__compare_kind kind);

#endif
