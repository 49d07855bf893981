// coll - collectives: what a group of ranks does together, and by which algorithm.
//
//   kind             in (elements)      out
//   all_reduce       count              count: the fold of all, on every rank
//   reduce           count              count, on the root
//   broadcast        -                  count: the root's, on every rank
//   reduce_scatter   count              this rank's block of the fold
//   all_gather       this rank's block  count: all blocks
//   gather           this rank's block  count, on the root
//   scatter          count, on the root this rank's block
//   all_to_all       count              one block per rank: the one of this rank's
//                                       index, from each
//   barrier          -                  -
//
// Where only the root has a result the others' `out` is not touched.
//
// Block i is [bound[i], bound[i + 1]) of the count elements, possibly empty; without
// bounds the first count % n blocks have one more than the others.
//
// `in` and `out` do not overlap, with three exceptions. Where both sides have `count`
// elements they may be the same address. all_gather's input may lie at its place in
// `out`. And reduce_scatter's `out` may lie at its place in `in` when the transport's
// own collective carries it out and scatters in place; it changes no other block then.
//
// The order of every fold is fixed by the algorithm, so the bits are the same on every
// rank and in every run.

#ifndef TT_COMM_COLL_COLL_H
#define TT_COMM_COLL_COLL_H

#include "comm/comm.h"

typedef enum tt_coll_kind {
    TT_ALL_REDUCE,
    TT_REDUCE_TO,
    TT_BROADCAST,
    TT_REDUCE_SCATTER,
    TT_ALL_GATHER,
    TT_GATHER,
    TT_SCATTER,
    TT_ALL_TO_ALL,
    TT_BARRIER,
    TT_N_COLLS,
} tt_coll_kind;
const char *tt_coll_name(tt_coll_kind kind);

// The ranks that take part, in their order.
typedef struct tt_group {
    int32_t n, me;       // members; this rank's index among them
    const int32_t *rank; // NULL: member i is rank i
    const int32_t *host; // of member i; NULL: all on one
} tt_group;

typedef struct tt_coll_call {
    tt_coll_kind kind;
    tt_group group;
    int32_t root; // index in the group
    tt_fold fold;
    int64_t count;
    const int64_t *bound; // n + 1, the same on every member; NULL: tt_block_of
    const void *in;
    void *out;
    void *scratch; // tt_coll_def.scratch bytes
    int32_t tag;
    // Ordered folds round sums of 16-bit floats after every two terms, not once at the
    // end: as pass `blocks` does within a rank.
    bool rounds_each;
} tt_coll_call;

// What one member sends. `tutti plan` prints it, and the law `coll` compares it with
// what was counted.
typedef struct tt_coll_cost {
    int64_t messages, bytes;
} tt_coll_cost;

// What the slowest member does one after another: for choosing among algorithms.
typedef struct tt_coll_path {
    int64_t rounds;       // messages that wait for each other
    int64_t bytes, folds; // that these carry; that are folded on the way
} tt_coll_path;

typedef tt_status tt_coll_fn(tt_comm *comm, const tt_coll_call *call);
typedef tt_coll_cost tt_coll_cost_fn(const tt_coll_call *call);
typedef tt_coll_path tt_coll_path_fn(const tt_coll_call *call);

typedef struct tt_coll_way {
    tt_coll_fn *run;
    tt_coll_cost_fn
        *cost;   // exactly what run() sends, from call's numbers alone
    int scratch; // how many times count elements; 0: none
    tt_coll_path_fn *path; // NULL: never chosen by `auto`
} tt_coll_way;

typedef struct tt_coll_def {
    const char *name, *doc;
    bool is_native;  // the transport's own: its cost is not what is sent
    bool sees_hosts; // works differently when members are on several hosts
    // Folds neighbours in pairs, these in pairs, ... (pairs.h): all such have the same
    // bits, and `auto` takes no others for what is folded.
    bool is_ordered;
    tt_coll_way way[TT_N_COLLS]; // run NULL: the algorithm has no such kind
} tt_coll_def;

const tt_coll_def *const *tt_coll_all(int *n);
const tt_coll_def *tt_coll_find(const char *name); // NULL: unknown

// Runs the call by the algorithm, or by naive where that has no such kind.
tt_status tt_coll_run(const tt_coll_def *def, tt_comm *comm,
                      const tt_coll_call *call);
int64_t tt_coll_scratch_bytes(const tt_coll_def *def, const tt_coll_call *call);

// ---- what algorithms are made of -----------------------------------------

typedef struct tt_block {
    int64_t first, n;
} tt_block;
tt_block tt_block_of(int64_t count, int32_t n, int32_t i);

// Block i of the call, and blocks [i, i + k), k >= 1, as one.
tt_block tt_coll_block(const tt_coll_call *call, int32_t i);
tt_block tt_coll_blocks(const tt_coll_call *call, int32_t i, int32_t k);

// A path of `rounds` rounds that carry bytes_n / n and fold folds_n / n of the array.
tt_coll_path tt_coll_path_of(const tt_coll_call *call, int64_t rounds,
                             int64_t bytes_n, int64_t folds_n);
int64_t tt_coll_log2(int32_t n); // rounded up

int32_t tt_coll_rank(const tt_group *group, int32_t i); // of member i

// The address of element `first`, and messages of elements between members.
const void *tt_coll_from(const tt_coll_call *call, int64_t first); // of in
void *tt_coll_to(const tt_coll_call *call, int64_t first);         // of out
void *tt_coll_at(const tt_coll_call *call, void *base, int64_t first);
tt_msg tt_coll_out(const tt_coll_call *call, int32_t to, const void *data,
                   int64_t n);
tt_msg tt_coll_in(const tt_coll_call *call, int32_t from, void *data,
                  int64_t n); // overwrites
tt_msg tt_coll_add(const tt_coll_call *call, int32_t from, void *data,
                   int64_t n); // folds

// Moves `n` elements within this rank; the same address is fine.
void tt_coll_copy(const tt_coll_call *call, void *to, const void *from,
                  int64_t n);
int64_t tt_coll_bytes(const tt_coll_call *call, int64_t n);

#endif
