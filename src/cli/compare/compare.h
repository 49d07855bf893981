// compare - systems side by side, shared by the files of `tutti compare`. Internal.
//
//   cmd_compare.c      the folder, the rounds, the end
//   compare_ask.c      what is asked for
//   compare_check.c    what no run could work with
//   compare_args.c     what one run is called with
//   compare_child.c    one run: the program itself, as `tutti train`, in a process
//   compare_read.c     what the runs left behind, as numbers
//   compare_lanes.c    one step of a run, from its trace
//   compare_print.c    table, JSON, CSV
//
// Every (system, round) is a run with a folder of its own:
//
//   FOLDER/compare.yaml   what is compared: another comparison may not lie here
//   FOLDER/ddp-1/         the run, as training leaves it
//   FOLDER/ddp-1.json     what it said at its end: it is not run again
//   FOLDER/ddp-1.log      what it said meanwhile
//   FOLDER/mine.system    a file of one's own, as it was
//   FOLDER/index.html     the page

#ifndef TT_CLI_COMPARE_COMPARE_H
#define TT_CLI_COMPARE_COMPARE_H

#include "cli/command.h"
#include "store/report/report_systems.h"
#include "system/system.h"

#include <signal.h>

typedef struct tt_compare_one { // a system
    tt_system system;           // where it is known
    bool is_known;
    const char *name; // of its folders
    const char *word; // for system=
    const char *refusal;
    int64_t steps; // of its runs; 0: as many as all have
} tt_compare_one;

typedef struct tt_compare {
    tt_cli *cli;
    const char *folder;
    int32_t ranks;
    int rounds;
    int n;
    tt_compare_one *one;
    double until_loss, until_seconds, until_samples; // NaN: no such end
    int64_t steps;                                   // of a run
    const char *const *extra; // settings of all runs: key=value; NULL ends them
    const char *const
        *launch;    // words that start ranks, before the program's own
    bool is_silent; // no progress
    const volatile sig_atomic_t *stop;
} tt_compare;

typedef enum tt_compare_outcome {
    TT_COMPARE_DONE,
    TT_COMPARE_STOPPED, // by a signal: it goes on later
    TT_COMPARE_REFUSED, // `why_out` says why
} tt_compare_outcome;

// Makes the run NAME of a system, or goes on with it. `is_trace`: a few steps, with a
// trace of all ranks.
tt_status tt_compare_child(const tt_compare *c, const tt_compare_one *one,
                           const char *name, bool is_trace,
                           tt_compare_outcome *outcome_out,
                           const char **why_out);

// How many steps a system needs for the samples that end its runs: a step of a federation
// has those of its clients.
tt_status tt_compare_find_steps(const tt_compare *c, tt_compare_one *one);

// Whether the run NAME is finished.
bool tt_compare_is_done(const tt_compare *c, const char *name);

// What the runs say, in the arena of the command.
tt_status tt_compare_read(const tt_compare *c, tt_compared *out);

// One step of FOLDER/NAME/trace.json; a trace that cannot be read gives none.
tt_status tt_compare_lanes(const tt_compare *c, const char *name,
                           tt_compared_system *out);

tt_status tt_compare_table(const tt_compare *c, const tt_compared *compared,
                           tt_str *out);
void tt_compare_json(const tt_compare *c, const tt_compared *compared,
                     const char *page, tt_str *out);
void tt_compare_csv(const tt_compared *compared, tt_str *out);

const char *
tt_compare_path(const tt_compare *c, const char *name,
                const char *ending); // in the arena; NULL: no memory

#endif
