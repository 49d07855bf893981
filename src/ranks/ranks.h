// ranks - from one process to ranks that can talk to each other, and back.
//
//   alone   nobody asked for more: the work is done in this process
//   fork    `n` children over shared memory, watched by this process until the last ends
//   join    mpirun, srun or torchrun has started the ranks, and this process is one
//
// In each case: transport, trials that were asked for (slow links, faults), what links
// cost, the wire, the work, and an end with rank 0's exit status on all of them.
//
// Ranks are forked before OpenMP or any thread is started, and before anything is opened.
// Rank 0 speaks for all. What goes wrong on rank 0 is said as one process would say it.
//
// What does not belong here: what ranks do between steps (peers/peers.h), what a
// rank's process looks like to a user (cli, api).

#ifndef TT_RANKS_RANKS_H
#define TT_RANKS_RANKS_H

#include "base/settings.h"
#include "comm/team.h"
#include "peers/peers.h"

enum { TT_RANKS_MOST = 256 }; // that one machine starts

// What the program around the ranks does for them. Members may be NULL, but for `get`.
typedef struct tt_ranks_program {
    tt_env_fn *get;      // the environment
    const char *plugins; // folders of plug-ins, with ':' between
    const char *name;    // "tutti -n": how ranks were asked for, for people
    void (*be_rank)(bool speaks); // in a process that was forked, first of all
    void (*be_silent)(void);      // in one that was joined: another rank speaks
    void (*say)(const char *text); // what rank 0 cannot say: another rank's end
} tt_ranks_program;

typedef struct tt_ranks_request {
    const tt_ranks_program *program;
    tt_settings *settings;
    tt_arena *arena;
    int32_t n; // wanted; 0: nobody said
} tt_ranks_request;

// What every rank does; `exit_out` counts on rank 0 and becomes that of all ranks.
typedef tt_status tt_ranks_fn(const tt_peers *peers, void *user, int *exit_out);

// Runs `fn` on all ranks. In the process that forks them it returns when the last has
// ended; what they computed is theirs.
tt_status tt_ranks_run(const tt_ranks_request *request, tt_ranks_fn *fn,
                       void *user, int *exit_out);

// How many that will be; nothing is started.
tt_status tt_ranks_count(const tt_ranks_request *request, int32_t *n_out);

// Which build this is, for several ranks to compare: the same text for the same
// program. Alone: "".
const char *tt_ranks_build(const tt_peers *peers, tt_arena *arena);

enum { TT_RANKS_INTERRUPTED = 128 + 2 }; // exit status after a second SIGINT

#endif
