// slices_parts - what the files of slices share. Internal.

#ifndef TT_STATE_SLICES_PARTS_H
#define TT_STATE_SLICES_PARTS_H

#include "state/parts.h"
#include "state/slices.h"
#include "store/span.h"

// The name of this collective in errors. Paths may differ between ranks, so it has
// none.
#define TT__READING "reading weights"

typedef struct tt__slice_place { // of a tensor's data
    int64_t offset;              // in the file
    uint64_t sum;
    int32_t file; // or one of those below
    int32_t dtype;
    int32_t has_sum, unused;
} tt__slice_place;

enum {
    TT__SLICE_NONE = -1,   // the tensor is not there
    TT__SLICE_MEMORY = -2, // rank 0 has it in memory, and hands it out
};

typedef struct tt__slice_verdict { // of one rank
    int32_t status, is_damage;
    int64_t bytes_read;
    char message[240];
} tt__slice_verdict;

typedef struct tt__loading {
    const tt_slices *s;
    const tt_graph *graph;
    const tt_peers *peers; // NULL: alone
    int32_t rank, size;
    tt_str shared; // files and places
    int64_t n_files;
    const tt_span_file *file;
    const tt_safetensors **known; // rank 0's: what they describe
    const tt__slice_place *place; // of each tensor
    tt_span *span;                // of each file
    bool is_hidden;               // rank 0 reads for all
    char *raw, *own,
        *work;     // a part: as in the file, as the tensor, as its copy
    char *whole;   // where rank 0 reads for all
    uint64_t *sum; // of what was read of each tensor and of each copy
    tt__slice_verdict verdict;
} tt__loading;

// Keeps the first failure of this rank. Content that makes no sense (TT_ERR_ARG)
// counts as damage if `may_be_damage`.
void tt__slices_note(tt__loading *l, tt_status status, bool may_be_damage);

tt_status tt__slices_prepare(tt__loading *l); // room for parts

// Reads and writes this rank's parts of all tensors. Fails only where ranks are no
// longer in step; all else is noted.
tt_status tt__slices_take(tt__loading *l);

// The name of a tensor of which something else was read than was saved, or NULL.
tt_status tt__slices_check(const tt__loading *l, const char **damaged_out);

#endif
