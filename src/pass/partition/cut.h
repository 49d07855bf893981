// cut - what the files of the pass `partition` share; nobody else includes it.
//
//   partition  axis after axis, a new graph, node by node
//   leaves     where layout and ZeRO put inputs, weights and state
//   stay       which values do not move
//   zero       which values ZeRO splits, and along which factor
//   versions   one value at several placements, and the way from one to another
//   wide       terms of sums in more bits than the sum
//   choose     the signature of a node that moves the fewest bytes
//   stages     the axis of a pipeline: no choice, a node's stage says where it runs

#ifndef TT_PASS_PARTITION_CUT_H
#define TT_PASS_PARTITION_CUT_H

#include "graph/build.h"
#include "pass/partition/layout.h"
#include "pass/partition/partition.h"

// One version of an old value in the new graph; versions form a list, from the
// newest to the oldest, which is the operator's own result.
typedef struct tt__version {
    tt_val val;
    int32_t next; // -1: last
    tt_phase phase;
    const char *origin; // of the node that it was made for
} tt__version;

// A graph being split along one axis. "Old" is before, with ids of that graph.
typedef struct tt__cut {
    const tt_graph *old;
    tt_builder b;
    const tt_partition_params *params;
    const tt_layout *layout; // without rules on an axis of one rank
    int axis, size;
    int64_t zero;      // of this axis
    bool is_canonical; // params->canonical is about this axis
    bool is_pipe;      // the axis of stages
    uint64_t *at;      // per old value made of weights: who reads it (is_pipe)
    int32_t *shard;    // per old value: the factor that ZeRO may split, or -1
    bool *is_held;     // per old value: a weight that is split between its uses
    bool *is_weight;   // per old value: a weight, or made of nothing else
    bool cuts_weights; // the layout splits some weight along this axis
    int32_t *first;    // per old value: its versions
    tt__version *versions;
    int32_t n_versions, capacity;
    tt_type *in; // room for one node's inputs
    tt_val *val;
    tt_sigs sigs;
} tt__cut;

// ---- leaves ----

// Whether the layout cuts this dimension along the axis: for this node (a rule for some
// layers holds for nodes that read these layers' weights, or whose origin matches), and
// for this leaf.
bool tt__cuts_node(const tt__cut *c, const tt_node *node, const char *dim);
bool tt__cuts_leaf(const tt__cut *c, int32_t old, const char *dim);

// Whether splits of a dimension along this axis go zigzag. Only `seq` can: the laws
// prove it for all operators, while some operators need other dimensions in blocks.
bool tt__goes_zigzag(const tt__cut *c, const char *dim);

// Whether the layout, not ZeRO, splits this leaf.
bool tt__is_laid_out(const tt__cut *c, int32_t old);

tt_status tt__leaf_place(const tt__cut *c, int32_t old, tt_place *place_out);

// ---- stay ----

// Fills is_weight, which has room for every old value.
void tt__weights_mark(tt__cut *c);

// Whether the layout splits some weight along this axis.
bool tt__axis_cuts_weights(const tt__cut *c);

// Whether a value is a split weight that this node should read where it lies.
bool tt__stays(const tt__cut *c, const tt_node *node, int32_t old);

// ---- zero ----

// Fills shard and is_held, which have room for every old value.
void tt__zero_mark(tt__cut *c);

// Whether ZeRO allows this split of the value for this node.
bool tt__zero_allows(const tt__cut *c, const tt_node *node, int32_t old,
                     const tt_place *want);

// Whether the node needs the whole of a weight that ZeRO 3 holds in parts.
bool tt__zero_uses(const tt__cut *c, const tt_node *node, int32_t old);

// Whether a node must give its result split (offers of ZeRO 2 and 3).
bool tt__zero_splits(const tt__cut *c, const tt_node *node);

// Whether a node's terms must be summed over ranks before it: those offers, and all
// offers when sums are canonical.
bool tt__must_finish(const tt__cut *c, const tt_node *node);

// ---- versions ----

tt_status tt__version_add(tt__cut *c, int32_t old, tt_val val);

static inline const tt_place *tt__place_of(const tt__cut *c, tt_val val)
{
    return &c->b.graph->value[val.id].type.place[c->axis];
}

tt_val tt__original(const tt__cut *c, int32_t old);

// The version of a gradient that the update reads: the sum over ranks, if somebody
// asked for it, and not its terms.
tt_val tt__finished(const tt__cut *c, int32_t old);

// The newest version that somebody else may read: no copy with a halo.
tt_val tt__version_newest(const tt__cut *c, int32_t old);

// A version for reading the shape only: placed as wanted if there is one.
tt_val tt__version_shaped(const tt__cut *c, int32_t old, const tt_place *want);

// The cheapest version for a wanted placement, and the bytes it takes to get there;
// -1: impossible.
int32_t tt__version_best(const tt__cut *c, int32_t old, const tt_place *want,
                         double *bytes_out);

// A version at that placement, converted if need be.
tt_status tt__version_convert(tt__cut *c, int32_t old, const tt_place *want,
                              tt_val *val_out);

// ---- wide ----

// Whether a version is in a wider type than the value: terms that are rounded only
// after they were added.
bool tt__is_wide(const tt__cut *c, int32_t old, tt_val val);

// The node as it is emitted for this signature: with wide terms, where it may.
tt_status tt__widen(tt__cut *c, const tt_node *node, const tt_sig *sig,
                    tt_node *wide_out);

// Rounds a sum of wide terms to the value's type.
tt_val tt__narrow(tt__cut *c, int32_t old, tt_val val);

// ---- stages ----

// Fills `at`, which has room for every old value.
void tt__stages_mark(tt__cut *c);

tt_place tt__stages_leaf(const tt__cut *c, int32_t old);

// A version that lies at least where `want` says, brought there if need be.
tt_status tt__stages_convert(tt__cut *c, int32_t old, const tt_place *want,
                             tt_val *val_out);

// Sets c->val to the node's inputs at the coordinate where it runs, and the placements
// of its outputs.
tt_status tt__stages_inputs(tt__cut *c, const tt_node *node, tt_sig *sig);

// ---- choose ----

static inline bool tt__is_shape_only(const tt_node *node, int i)
{
    return i < 32 && (node->op->shape_only >> i & 1) != 0;
}

static inline const tt_place *tt__sig_in(const tt_sig *sig, int i)
{
    return &sig->in[i < TT_SIG_IN ? i : TT_SIG_IN - 1];
}

const tt_sig *tt__choose(tt__cut *c, const tt_node *node); // NULL: none

#endif
