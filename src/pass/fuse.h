// fuse - what the pass's two files share, and its options.

#ifndef TT_PASS_FUSE_H
#define TT_PASS_FUSE_H

#include "graph/graph.h"

typedef struct tt_fuse_params {
    // Whether the device has a kernel for this fused operator; NULL: it has all.
    bool (*wants)(void *user, const tt_op_def *op);
    void *user;
} tt_fuse_params;

// Whether the device wants at least one fused operator.
bool tt_fuse_wants_any(const tt_fuse_params *params);

enum { TT__FUSE_IN = 6, TT__FUSE_OUT = 4, TT__FUSE_NODES = 4 };

// Nodes that one fused node replaces.
typedef struct tt__fusion {
    const tt_op_def *op;
    const void *params;
    int32_t node[TT__FUSE_NODES]; // members; the first lends origin and phase
    int n_nodes;
    int32_t at; // index of the member whose position the new node takes
    tt_val in[TT__FUSE_IN];
    int n_in;
    tt_val out[TT__FUSE_OUT]; // what they replace; TT_NONE: nothing
    int n_out;
} tt__fusion;

typedef struct tt__reads { // of a value
    int32_t n;             // readers, outputs of the graph included
    int32_t first, last;   // nodes; -1: none
} tt__reads;

typedef struct tt__matcher {
    const tt_graph *g;
    const tt__reads *reads; // per value
    const bool *is_taken;   // per node: a member of some group already
} tt__matcher;

// Fills the group (its operator is NULL before) if a pattern begins at this node. The
// caller checks that the new node's position keeps the order of reads.
typedef void tt__match_fn(const tt__matcher *m, int32_t node,
                          tt__fusion *group_out);

typedef struct tt__pattern {
    const tt_op_def *op; // that the device must want
    tt__match_fn *match;
} tt__pattern;

// In the order in which they are looked for; ends with NULL.
extern const tt__pattern tt__patterns[];

#endif
