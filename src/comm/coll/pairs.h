// pairs - the order of ordered folds: neighbours first, then pairs of neighbours, and
// so on.
//
//   ((0 + 1) + (2 + 3)) + ((4 + 5) + 6)
//
// Addition of floats is not associative, so the order of a sum decides about its last
// bits. In this order a sum over 4 ranks contains the sums over pairs of ranks as
// intermediate results. If one rank does the work of two and adds its two terms first,
// nothing changes. That is why exact mode has the same bits on 1, 2 and 4 ranks.
//
// Members' data come one after another. Each is copied to a place where it waits for
// its neighbour, or folded into what waits there. It works like a binary counter:
// part[l] is occupied where bit l of the number of members so far is set, and adding a
// member carries. So log2 n places are enough.
//
// 16-bit floats whose sum is rounded only once need all terms at the same time
// (is_wide): they wait in n places. Only files of this folder include this.

#ifndef TT_COMM_COLL_PAIRS_H
#define TT_COMM_COLL_PAIRS_H

#include "comm/coll/coll.h"
#include "comm/fold_pairs.h"

enum { TT__LEVELS = 32, TT__PAIRS_BYTES = 4096 };

typedef struct tt__coll_pairs {
    tt_fold fold;
    int64_t bytes; // of one member's data
    int32_t i;     // the member that comes next
    int n_free;
    char *free[TT__LEVELS];
    char *part[TT__LEVELS]; // the fold of 2^level members; NULL: none waits
    // Where each waits for all others, if they do.
    bool is_wide;
    tt_fold_set set;
    char *few[TT__LEVELS], **all;
} tt__coll_pairs;

// Scratch memory. If it is too little, the comm's is used (TT_ROOM_PAIRS).
typedef struct tt__pairs_room {
    tt_comm *comm;
    void *data;
    int64_t bytes;
} tt__pairs_room;

// Begins a fold of `count` elements of each member into `to`.
tt_status tt__pairs_begin(tt__coll_pairs *p, const tt_coll_call *call,
                          int64_t count, void *to, tt__pairs_room room);

// Where the next member's data go. *adds_out: they are folded into what is there.
char *tt__pairs_next(tt__coll_pairs *p, bool *adds_out);
void tt__pairs_took(tt__coll_pairs *p); // it is there

// All are there: `to` has the fold.
void tt__pairs_finish(tt__coll_pairs *p);

#endif
