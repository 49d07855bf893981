// ranks - from one process to ranks that can talk to each other, and back.
//
//   alone   nobody asked for more: the work is done in this process
//   fork    `n` children over shared memory, watched by this process to the end
//   join    mpirun, srun or torchrun has started the ranks, and this process is one
//
// The steps are the same in each case:
//
//   find who we are -> open the transport -> slow it down, if asked (a trial)
//     -> measure the links -> inject faults, if asked (a trial) -> open the wire
//     -> the work -> all ranks end with rank 0's exit status
//
// Two rules shape the code. First, ranks are forked before OpenMP or any other thread
// is started, and before a file is opened: a child has only the thread that forked,
// and locks that another thread held stay locked in it for ever. Second, rank 0 speaks
// for all. An error on rank 0 is reported with the words that a single process would
// use, so a user need not know that there were several.
//
// What does not belong here: what ranks do between steps (peers/peers.h), and what a
// rank's process looks like to a user (cli, api).

#ifndef TT_RANKS_RANKS_H
#define TT_RANKS_RANKS_H

#include "base/settings/settings.h"
#include "comm/team.h"
#include "peers/peers.h"

enum { TT_RANKS_MOST = 256 }; // on one machine; a launcher may start more

// What the program around the ranks does for them. The program and the library differ:
// the program prints and handles signals, the library must do neither. Every member
// but `get` may be NULL.
typedef struct tt_ranks_program {
    tt_env_fn *get;      // reads the environment, which only cli and api may do
    const char *plugins; // folders that hold plug-ins, separated by ':'
    const char *name;    // how the user asked for ranks: "tutti -n"
    // A forked child calls this before anything else.
    void (*be_rank)(bool speaks);
    // A process that a launcher started calls this when another rank speaks.
    void (*be_silent)(void);
    // Reports what rank 0 cannot: how another rank ended. A rank that `is_lost` was
    // killed or gave no sign of life; it did not fail.
    void (*say)(void *user, const char *text, bool is_lost);
    void *user;
} tt_ranks_program;

typedef struct tt_ranks_request {
    const tt_ranks_program *program;
    tt_settings *settings;
    tt_arena *arena;
    int32_t n; // ranks that the user wants; 0: the user did not say
} tt_ranks_request;

// What every rank does. Rank 0's `exit_out` becomes the exit status of all ranks.
typedef tt_status tt_ranks_fn(const tt_peers *peers, void *user, int *exit_out);

// Runs `fn` on all ranks. In the process that forks them, this returns when the last
// rank has ended. Memory is not shared: what the ranks computed is gone with them,
// unless they wrote it to files.
tt_status tt_ranks_run(const tt_ranks_request *request, tt_ranks_fn *fn,
                       void *user, int *exit_out);

// How many ranks tt_ranks_run would use, with the same checks. Starts nothing.
tt_status tt_ranks_count(const tt_ranks_request *request, int32_t *n_out);

// Identifies this build, so that ranks can check that all of them run the same
// program. Equal programs have equal texts. A rank that is alone gets "".
const char *tt_ranks_build(const tt_peers *peers, tt_arena *arena);

enum { TT_RANKS_INTERRUPTED = 128 + 2 }; // exit status after a second SIGINT

#endif
