// slices - reads tensors from files; every rank reads the parts that it holds.
//
// Rank 0 has looked into the files and says where each tensor lies. When all ranks
// see the same files, each reads its parts; else rank 0 reads and hands out. Tensors
// that have sums (store/checksum.h) are checked by what ranks read: parts add up.

#ifndef TT_STATE_SLICES_H
#define TT_STATE_SLICES_H

#include "state/tensors.h"

typedef struct tt_slices {
    tt_exec *exec;
    const tt_tensors *all;
    // The source of each tensor, in open files; types must be convertible and
    // shapes right. NULL: the tensor stays as it is. On rank 0 only; NULL on
    // others.
    const tt_safetensor *const *from;
    const char *name; // what is read, for error messages
} tt_slices;

typedef struct tt_slices_result { // the same on all ranks, but for `bytes_read`
    int64_t bytes_read;           // of files, by this rank
    int64_t least_read, most_read; // by any rank
    // Of the files, headers included. A rank may have read more: weights and their
    // copies of another type may be cut differently, and are then read separately.
    int64_t bytes;
    // Data are not what was saved, or cannot be read: states have changed, and only
    // another checkpoint, or a new beginning, makes sense of them.
    bool is_damaged;
    char hidden[256];    // why rank 0 read for all; "": it did not
    bool lacks_replicas; // states of replicas (NAME.replica) began anew
} tt_slices_result;

// Called on all ranks. Rank 0 has the error's message; others return TT_ERR_PEER.
// The result is written in any case.
tt_status tt_slices_load(const tt_slices *slices, tt_slices_result *result_out);

#endif
