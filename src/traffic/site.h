// site - one collective of a plan as a rank sees it, in numbers: who takes part,
// which elements go where. Nobody but the files of the wire includes it.
//
// Nothing about a collective is negotiated between ranks. Each rank computes from the
// plan (types with placements, mesh, its own rank) what it sends and what it gets, and
// peers compute the other side of the same. Two descriptions are used:
//
//   blocks   the value is cut along one axis of the mesh, in the order of coordinates.
//            This is the usual all-gather or reduce-scatter
//   boxes    each rank holds some box of the value and wants another one. Two ranks
//            exchange the intersection of the sender's and the receiver's box

#ifndef TT_TRAFFIC_SITE_H
#define TT_TRAFFIC_SITE_H

#include "traffic/region.h"
#include "exec/wire/wire_state.h"
#include "ops/comm/comm.h"

typedef struct tt__wire_site { // one collective, seen by this rank
    const tt_op_def *op;
    const tt_comm_params *p;
    const tt_mesh *mesh;
    const tt_type *in_type, *out_type;
    int32_t rank, axis, size, coord;
    int64_t count; // elements of the input as it lies
    int64_t in_bytes, out_bytes;
    int32_t tag; // alike on all ranks that take part
    tt_fold fold;
    bool is_in_place; // both sides lie in one buffer
    const char *in;
    char *out;
} tt__wire_site;

// Without `args` for its numbers only.
tt__wire_site tt__wire_site_of(const tt_plan *plan, int32_t step,
                               const tt_args *args);
// All members of a joined flight as one; of a piece, that piece. The gaps between
// members are summed too, and nobody reads them.
tt__wire_site tt__joined_site(const tt_plan *plan, const tt_flight *flight,
                              const tt_args *args);
int tt__wire_site_rank(const tt__wire_site *x, int32_t coord); // along the axis
// Of a move: whether this rank sends, and whether it receives.
bool tt__move_sends(const tt__wire_site *x);
bool tt__move_receives(const tt__wire_site *x);

static inline int64_t tt__wire_site_bytes(const tt__wire_site *x, int64_t n)
{
    return n * tt_num_bytes(x->fold.type);
}

// ---- carrying it out -----------------------------------------------------

// In the host's memory.
tt_status tt__carry_site(tt__carrier *c, const tt__wire_site *x);
// In a device's memory, without peers: queued after all earlier work of that queue.
tt_status tt__carry_device(tt_backend *backend, tt_queue queue,
                           const tt__wire_site *x);
// Of a device, by links to the others.
tt_status tt__device_carry(tt__carrier *c, const tt__wire_site *x);
tt_status tt__device_groups_run(tt__carrier *c, const tt__wire_site *x,
                                const tt_device_coll *call, int n);
// In a device's memory, staged through the host's; results are copied back in the
// wire's queue.
tt_status tt__carry_staged(tt__carrier *c, tt_backend *backend,
                           const tt__wire_site *x);

// ---- by collectives: calls without data ----------------------------------

tt_coll_call tt__reduce_call(const tt__carrier *c, const tt__wire_site *x);

// The split side of a gather or a scatter, in blocks.
typedef struct tt__wire_blocks {
    tt_part whole;
    const tt_type *split;
    int32_t first;  // coordinate that holds block 0
    bool is_in_row; // blocks lie one after the other in the whole
} tt__wire_blocks;

tt_part tt__wire_block_of(const tt__wire_site *x, const tt__wire_blocks *b,
                          int32_t i);
// Sets the bounds of the carrier too, which the call refers to.
tt__wire_blocks tt__wire_blocks_of(const tt__carrier *c, const tt__wire_site *x,
                                   bool is_gather);
tt_coll_call tt__wire_block_call(const tt__carrier *c, const tt__wire_site *x,
                                 const tt__wire_blocks *b, tt_coll_kind kind);

// Fails when the ranks along the axis do not hold the whole value.
tt_status tt__wire_blocks_check(const tt__carrier *c, const tt__wire_site *x,
                                const tt__wire_blocks *b);

// The whole row of a joined flight; of one that is a piece, that piece.
tt_coll_call tt__joined_call(const tt__carrier *c, const tt_plan *plan,
                             const tt_flight *flight);

// ---- from box to box -----------------------------------------------------

typedef struct tt__boxes {
    tt_part in, out; // this rank's
    bool is_sum;     // what arrives more than once is added up
} tt__boxes;

tt__boxes tt__boxes_of(const tt__wire_site *x);
tt_common tt__sent_to(const tt__wire_site *x, const tt__boxes *b,
                      int32_t coord);
tt_common tt__got_from(const tt__wire_site *x, const tt__boxes *b,
                       int32_t coord);
// Fails when this rank needs elements that nobody along the axis holds.
tt_status tt__boxes_check(const tt__wire_site *x, const tt__boxes *b);

#endif
