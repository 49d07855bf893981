// registry - the only file that names every operator.

#include "base/registry.h"

#include "ops/ops.h"

enum tally {
#define TT_OP(name) COUNT_##name,
#include "ops/list.h"
#undef TT_OP
    N_LISTED,
};

static const tt_op_def *all[N_LISTED + TT_REGISTRY_ROOM] = {
#define TT_OP(name) &tt_op_##name,
#include "ops/list.h"
#undef TT_OP
};

TT_REGISTRY_OPEN(tt_op, "an operator", all, N_LISTED, tt_op_find)

const tt_op_def *tt_op_find(const char *name)
{
    return tt_op_look_up(name);
}
