// site - one communication operator of a plan as a rank sees it, in numbers: who takes
// part, which elements go where. The main header of `traffic`.
//
// What belongs into `traffic`: what a plan's ranks say to each other, worked out from the
// plan alone. Who talks to whom, by which algorithm, how many messages and bytes. Whoever
// carries it out (exec/wire), shows it (`tutti plan`) or simulates it asks here, so they
// cannot disagree. What does not: memory, threads, devices, transports that are open.
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

#include "comm/calibrate.h"
#include "ops/comm/comm.h"
#include "plan/plan.h"
#include "traffic/region.h"

// ---- the operators ---------------------------------------------------------

// How an operator is carried out. Few operators differ in more than the boxes.
typedef enum tt_traffic_way {
    TT_TRAFFIC_REDUCE, // a collective on the operand as it lies
    TT_TRAFFIC_BLOCKS, // a collective on blocks
    TT_TRAFFIC_BOXES,  // what two parts have in common goes from rank to rank
    TT_TRAFFIC_MOVE,   // one message
    TT_TRAFFIC_TAKE,   // nothing is sent: a part of what is here
    TT_TRAFFIC_KEEP,   // nothing is sent: all of it, or zeros
    TT_TRAFFIC_WAYS,
} tt_traffic_way;

// The one table of communication operators (ops.c).
typedef struct tt_traffic_op {
    const tt_op_def *op;
    tt_traffic_way way;
    tt_coll_kind coll; // of REDUCE and BLOCKS
    bool is_sum;       // of BOXES: what arrives more than once is added up
} tt_traffic_op;
const tt_traffic_op *tt_traffic_op_find(const tt_op_def *op); // NULL: unknown
int tt_traffic_op_number(const tt_traffic_op *op); // for counting each kind
enum { TT_TRAFFIC_OPS = 16 };                      // no number is that large

// ---- sites -----------------------------------------------------------------

typedef struct tt_traffic_site {
    const tt_traffic_op *kind; // NULL: nobody knows how to carry it out
    const tt_op_def *op;
    const tt_comm_params *p;
    const tt_mesh *mesh;
    const tt_type *in_type, *out_type;
    int32_t rank, axis, size, coord;
    uint64_t at;   // coordinates that take part; 0: all of the axis
    int64_t count; // elements of the input as it lies
    int64_t in_bytes, out_bytes; // 0 where this rank does not touch the operand
    int32_t node;                // of the graph, whose tag it has
    int32_t tag;                 // alike on all ranks that take part
    tt_fold fold;
    bool is_in_place; // both sides lie in one buffer
} tt_traffic_site;

enum { TT_TRAFFIC_TAGS = 32000 }; // tags that every transport has

tt_traffic_site tt_traffic_site_of(const tt_plan *plan, int32_t step);
// The coordinates that take part in a node, as every rank sees it; 0: all of the axis.
uint64_t tt_traffic_at(const tt_graph *g, const tt_node *node);
// All members of a joined flight as one; of a piece, that piece. The gaps between
// members are summed too, and nobody reads them.
tt_traffic_site tt_traffic_site_joined(const tt_plan *plan,
                                       const tt_flight *flight);
// Whether the coordinate takes part.
bool tt_traffic_site_has(const tt_traffic_site *x, int32_t coord);
int tt_traffic_site_rank(const tt_traffic_site *x, int32_t coord);
// Of a move: whether this rank sends, and whether it receives.
bool tt_traffic_site_sends(const tt_traffic_site *x);
bool tt_traffic_site_receives(const tt_traffic_site *x);

static inline int64_t tt_traffic_site_bytes(const tt_traffic_site *x, int64_t n)
{
    return n * tt_num_bytes(x->fold.type);
}

// ---- calls: without data ---------------------------------------------------

// What decides about the algorithm, besides the call.
typedef struct tt_traffic_rules {
    const tt_coll_def *coll;           // NULL: the cheapest
    const tt_calibration *calibration; // for that; NULL: the usual. Borrowed
    const int32_t *host; // of every rank; NULL: all on one. Borrowed
    // Exact mode: only algorithms that sum in the order of comm/coll/pairs.h.
    bool is_exact;
} tt_traffic_rules;

// Where a call's group and bounds are written. A call refers to it.
typedef struct tt_traffic_group {
    int32_t *member, *member_host; // room for all ranks of the axis
    int64_t *bound;                // and one more
} tt_traffic_group;

// The algorithm for a call whose numbers are set.
const tt_coll_def *tt_traffic_choose(const tt_traffic_rules *rules,
                                     const tt_coll_call *call);

tt_coll_call tt_traffic_reduce_call(const tt_traffic_site *x,
                                    const tt_traffic_rules *rules,
                                    const tt_traffic_group *group);

// The split side of a gather or a scatter, in blocks.
typedef struct tt_traffic_blocks {
    tt_part whole;
    const tt_type *split;
    int32_t first;  // coordinate that holds block 0
    bool is_in_row; // blocks lie one after the other in the whole
} tt_traffic_blocks;

tt_part tt_traffic_block_of(const tt_traffic_site *x,
                            const tt_traffic_blocks *b, int32_t i);
// Sets the group's bounds too, which the call refers to.
tt_traffic_blocks tt_traffic_blocks_of(const tt_traffic_site *x,
                                       const tt_traffic_group *group);
tt_coll_call tt_traffic_blocks_call(const tt_traffic_site *x,
                                    const tt_traffic_rules *rules,
                                    const tt_traffic_group *group,
                                    const tt_traffic_blocks *b);
// Fails when the ranks along the axis do not hold the whole value.
tt_status tt_traffic_blocks_check(const tt_traffic_site *x,
                                  const tt_traffic_group *group,
                                  const tt_traffic_blocks *b);

// ---- from box to box -------------------------------------------------------

typedef struct tt_traffic_boxes {
    tt_part in, out;           // this rank's
    int64_t arriving, largest; // elements; of what is sent at once the most
} tt_traffic_boxes;

tt_traffic_boxes tt_traffic_boxes_of(const tt_traffic_site *x);
tt_common tt_traffic_sent_to(const tt_traffic_site *x,
                             const tt_traffic_boxes *b, int32_t coord);
tt_common tt_traffic_got_from(const tt_traffic_site *x,
                              const tt_traffic_boxes *b, int32_t coord);
// Whether nothing arrives here: the result is what the rank has.
bool tt_traffic_boxes_keep(const tt_traffic_site *x);
// Fails when this rank needs elements that nobody along the axis holds.
tt_status tt_traffic_boxes_check(const tt_traffic_site *x,
                                 const tt_traffic_boxes *b);

#endif
