// gradops - see the header.

#include "ops/gradops.h"

#include "ops/ops.h"

const tt_grad_ops tt_grad_ops_default = {
    .add = &tt_op_add,
    .ones_like = &tt_op_fill, // whose default value is 1
    .offer = &tt_op_offer,
    .fetch = &tt_op_fetch,
    .cast = &tt_op_cast,
    .match = &tt_op_match,
};
