// ops - declares every operator of list.h, so that a definition which drifts from its
// type is a compile error and passes can name operators directly.
//
// An operator's file says everything about it except how it is computed:
//
//   infer     types and shapes of the outputs, or a sentence about what is wrong
//   grad      the gradient, as more nodes; often an operator of its own (gelu_grad)
//   shard     the placements of operands that fit together, and what must be sent
//   cost      flops, bytes, work and depth on local shapes
//   samples   small examples, with flops counted by hand; the laws test all of the
//             above, and every kernel, on them
//
// Kernels are in backend/. Communication (comm/), optimisers (optim/) and codecs
// (codec/) are operators too, so that passes, plans and laws treat them like all
// others.

#ifndef TT_OPS_OPS_H
#define TT_OPS_OPS_H

#include "graph/op.h"

#define TT_OP(name) extern const tt_op_def tt_op_##name;
#include "ops/list.h"
#undef TT_OP

const tt_op_def *const *tt_op_all(int *n);
const tt_op_def *tt_op_find(const char *name); // NULL: unknown

// Adds a member at run time. The def must live until the process ends; a name that
// is there already is refused. Any thread.
tt_status tt_op_register(const tt_op_def *def);

#endif
