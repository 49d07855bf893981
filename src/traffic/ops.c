// ops - the table of communication operators. A new one gets a row here; exec/wire has
// one more table, with a row for each way.

#include "ops/ops.h"

#include "traffic/site.h"

static const tt_traffic_op all[] = {
    {&tt_op_all_reduce, TT_TRAFFIC_REDUCE, .coll = TT_ALL_REDUCE},
    {&tt_op_all_gather, TT_TRAFFIC_BLOCKS, .coll = TT_ALL_GATHER},
    {&tt_op_reduce_scatter, TT_TRAFFIC_BLOCKS, .coll = TT_REDUCE_SCATTER},
    {&tt_op_all_to_all, TT_TRAFFIC_BOXES},
    {&tt_op_shift, TT_TRAFFIC_BOXES},
    {&tt_op_halo, TT_TRAFFIC_BOXES},
    {&tt_op_halo_add, TT_TRAFFIC_BOXES, .is_sum = true},
    {&tt_op_move, TT_TRAFFIC_MOVE},
    {&tt_op_take, TT_TRAFFIC_TAKE},
    {&tt_op_keep_first, TT_TRAFFIC_KEEP},
};
enum { N_ALL = sizeof(all) / sizeof(all[0]) };

_Static_assert((int)N_ALL <= (int)TT_TRAFFIC_OPS, "each kind is counted");

const tt_traffic_op *tt_traffic_op_find(const tt_op_def *op)
{
    for (int i = 0; i < N_ALL; i++)
        if (all[i].op == op)
            return &all[i];
    return NULL;
}

int tt_traffic_op_number(const tt_traffic_op *op)
{
    return (int)(op - all);
}
