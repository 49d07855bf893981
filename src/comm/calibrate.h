// calibrate - what messages between these ranks cost, measured once and kept on
// disk, and what follows: which algorithm a collective is done by, how large a
// bucket of gradients is. The same numbers, so the same choices, on every rank.

#ifndef TT_COMM_CALIBRATE_H
#define TT_COMM_CALIBRATE_H

#include "comm/coll/coll.h"

typedef struct tt_calibration {
    tt_link near, far;      // within a host; between hosts (one host: the same)
    double fold;            // seconds per byte folded
    tt_link native;         // of the transport's own all-reduce; 0, 0: none
    bool is_native_ordered; // that one folds as coll/pairs.h says
    bool is_measured;       // now, not read from the file
} tt_calibration;

// Links as they usually are, for who has not measured; without a transport's own
// collectives, which not every transport has.
extern const tt_calibration tt_calibration_usual;

typedef struct tt_calibrate_options {
    // The file that keeps the numbers: one per set of hosts. NULL: none. If it is
    // missing, damaged or of other ranks, links are measured again and it is rewritten.
    // If it cannot be written, the numbers are not kept.
    const char *path;
    const int32_t *host; // of every rank; NULL: all on one
} tt_calibrate_options;

// A collective over all ranks of `comm`; rank 0 reads and writes the file. Takes
// about a tenth of a second when it measures.
tt_status tt_calibrate(tt_comm *comm, const tt_calibrate_options *options,
                       tt_calibration *out);

// The cheapest algorithm for an array of `bytes`. Where something is folded, only
// algorithms with the same bits are compared; the hierarchical one is taken where hosts
// have several ranks each. So no measurement ever changes a result.
const tt_coll_def *tt_coll_choose(const tt_calibration *c, tt_coll_kind kind,
                                  int64_t bytes, const tt_group *group);

// Bytes of a bucket of gradients, so large that latency hardly counts.
int64_t tt_calibration_bucket(const tt_calibration *c, const tt_group *group);

#endif
