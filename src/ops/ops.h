// ops - declares every operator of list.h, so that a definition which drifts
// from its type is a compile error and passes can name operators directly.

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
