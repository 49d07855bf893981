// native - the transport's own collectives: in place over shared memory, MPI's own
// over MPI. Kinds that the transport does not have are done by another algorithm.
//
//   cost    that other algorithm's; what the transport really sends is not known

#include "comm/coll/coll.h"

extern const tt_coll_def tt_coll_ring, tt_coll_tree, tt_coll_doubling;

static const tt_coll_def *const stand_in[TT_N_COLLS] = {
    [TT_ALL_REDUCE] = &tt_coll_ring,  [TT_REDUCE_TO] = &tt_coll_tree,
    [TT_BROADCAST] = &tt_coll_tree,   [TT_REDUCE_SCATTER] = &tt_coll_ring,
    [TT_ALL_GATHER] = &tt_coll_ring,  [TT_GATHER] = &tt_coll_tree,
    [TT_SCATTER] = &tt_coll_tree,     [TT_ALL_TO_ALL] = &tt_coll_ring,
    [TT_BARRIER] = &tt_coll_doubling,
};

static tt_status run(tt_comm *comm, const tt_coll_call *call)
{
    if (tt_comm_has_native(comm, call))
        return tt_comm_native(comm, call);
    return stand_in[call->kind]->way[call->kind].run(comm, call);
}

static tt_coll_cost cost(const tt_coll_call *call)
{
    return stand_in[call->kind]->way[call->kind].cost(call);
}

const tt_coll_def tt_coll_native = {
    .name = "native",
    .doc = "The transport's own: in place over shared memory, MPI's over MPI.",
    .is_native = true,
    .way = {[TT_ALL_REDUCE] = {run, cost, 0},
            [TT_REDUCE_TO] = {run, cost, 1},
            [TT_BROADCAST] = {run, cost, 0},
            [TT_REDUCE_SCATTER] = {run, cost, 1},
            [TT_ALL_GATHER] = {run, cost, 0},
            [TT_GATHER] = {run, cost, 1},
            [TT_SCATTER] = {run, cost, 1},
            [TT_ALL_TO_ALL] = {run, cost, 0},
            [TT_BARRIER] = {run, cost, 0}},
};
