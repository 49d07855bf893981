// cost - what the cost functions of operators share.
//
// A cost function says flops, bytes, work and depth of a node on local shapes. The
// schedule, recomputation and reports use them. Bytes count every input
// that is read and every output once. Depth is the longest chain of dependent scalar
// operations: 1 for element-wise operators, the logarithm of the length for reductions
// (Ben-Nun & Hoefler, table 4).

#ifndef TT_OPS_COST_H
#define TT_OPS_COST_H

#include "graph/op.h"

double tt_cost_count(const tt_type *type); // elements
double tt_cost_bytes(const tt_type *type); // of its elements; 0 when absent

// ceil(log2(n)), at least 1: the depth of a reduction of n terms.
double tt_cost_log2(double n);

// Adds to bytes. Bit i of `shape_only`: input i is not read (as in tt_op_def).
void tt_cost_io(const tt_op_io *io, uint32_t shape_only, tt_cost *cost);

// An element-wise operator: flops = work = `per_element` for each element of
// output 0; depth 1.
void tt_cost_elementwise(const tt_op_io *io, uint32_t shape_only,
                         double per_element, tt_cost *cost);

// The cost function of element-wise operators with the same flops for each element
// of output 0: op->flops_each.
tt_op_cost_fn tt_cost_each;

// Moves data: no flops; work is one per output element; depth 1.
void tt_cost_move(const tt_op_io *io, uint32_t shape_only, tt_cost *cost);

// The cost function of operators that only move data.
tt_op_cost_fn tt_cost_moved;

// `flops` operations of which the longest chain reduces `length` terms.
void tt_cost_reduction(const tt_op_io *io, uint32_t shape_only, double flops,
                       double length, tt_cost *cost);

#endif
