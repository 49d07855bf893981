// point_to_point - operators in which a rank talks to one or two others along a mesh
// axis: ring attention (shift), images split in space (halo), pipelines (move).
//
//                 sent per rank                              messages
//   shift         the local part, if its receiver gets any   1 (0 when p divides by)
//   halo          what the window adds to the rank's block   2 (1 when p is 2)
//   halo_add      the same, the other way
//   move          the local part, by coordinate `from` only  1 (0 when from is to)
//
// A move carries the value from coordinate `from` of the axis to coordinate `to`. The
// other coordinates do nothing, and so does `from` after it has sent: only `to` has a
// defined result. Its gradient is the move back.

#include "ops/comm/comm_def.h"
#include "ops/cost.h"
#include "ops/ops.h"

#include <math.h>

static void set_cost(const tt_op_io *io, double wire, double messages,
                     tt_cost *cost)
{
    *cost = (tt_cost){.bytes = tt_cost_bytes(&io->in[0]) +
                               tt_cost_bytes(&io->out[0]),
                      .depth = 1,
                      .wire_bytes = wire,
                      .messages = messages};
}

static void cost_shift(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    const tt_comm_params *p = io->params;
    const double n = p->by % axis_size == 0 ? 0 : 1;
    set_cost(io, n * tt_cost_bytes(&io->in[0]), n, cost);
}

// A window with a stride may skip entries and so be smaller than the rank's block.
static void window_cost(const tt_op_io *io, int p, double grown, tt_cost *cost)
{
    const double neighbours = p > 2 ? 2 : p - 1;
    set_cost(io, neighbours > 0 ? fmax(0, grown) : 0, neighbours, cost);
}

static void cost_halo(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    window_cost(io, axis_size,
                tt_cost_bytes(&io->out[0]) - tt_cost_bytes(&io->in[0]), cost);
}

static void cost_halo_add(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    window_cost(io, axis_size,
                tt_cost_bytes(&io->in[0]) - tt_cost_bytes(&io->out[0]), cost);
}

static tt_status grad_move(tt_builder *b, const tt_node *node,
                           const tt_val *dout, const bool *need, tt_val *din)
{
    const tt_comm_params *p = node->params;
    const int axis = (int)p->axis;
    if (!need[0] || !tt_is(dout[0]))
        return TT_OK;
    din[0] =
        tt_move_value(b, dout[0], axis, (int)p->to_coord, (int)p->from_coord);
    return tt_builder_status(b);
}

// Of the rank that sends. Lowering knows the rank and clears it for the others.
static void cost_move(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    const tt_comm_params *p = io->params;
    const double n = p->from_coord == p->to_coord ? 0 : 1;
    (void)axis_size;
    set_cost(io, n * tt_cost_bytes(&io->in[0]), n, cost);
}

static const tt_opt options_shift[] = {
    {TT__COMM_AXIS},
    {TT__COMM_NUMBER("by", by, "1", "rank r's block goes to rank r + by")},
    {TT__COMM_FACTOR("only", only,
                     "1 for each rank that gets a block; 0: it keeps its own")},
    {"packets", "false", "blocks are codes, of which what is used is sent",
     TT_OPT_BOOL, offsetof(tt_comm_params, packets)},
    {0},
};

static const tt_opt options_halo[] = {
    {TT__COMM_AXIS},
    {TT__COMM_FACTOR("factor", factor,
                     "the factor over which the window slides")},
    {TT__COMM_NUMBER("kernel", kernel, "1", "entries of the window"), .min = 1},
    {TT__COMM_NUMBER("stride", stride, "1", "step of the window"), .min = 1},
    {TT__COMM_NUMBER("pad", pad, "0", "entries before the first"), .max = -1},
    {TT__COMM_NUMBER("dilation", dilation, "1",
                     "distance of the window's entries"),
     .min = 1},
    {0},
};

static const tt_opt options_move[] = {
    {TT__COMM_AXIS},
    {TT__COMM_NUMBER("from", from_coord, "0", "coordinate that sends"),
     .max = -1},
    {TT__COMM_NUMBER("to", to_coord, "0", "coordinate that receives"),
     .max = -1},
    {0},
};

static const tt_sample samples_shift[] = {
    {"", {"f batch:3 seq:5"}, 0},
    {"axis=1 by=-2", {"f embed:7"}, 0},
    {"by=2", {"f replica:12 embed:3"}, 0},
    {0},
};

static const tt_sample samples_halo[] = {
    {"factor=height kernel=3 pad=1", {"f batch:2 height:7 width:5"}, 0},
    {"factor=width kernel=5 stride=2 dilation=2", {"f batch:2 width:11"}, 0},
    {0},
};

static const tt_sample samples_move[] = {
    {"to=1", {"f batch:3 seq:5"}, 0},
    {"from=1", {"f embed:7"}, 0},
    {0},
};

const tt_op_def tt_op_shift = {
    TT__COMM_OP(shift),
    .doc = "Move every block of a split value around the ring of an axis.",
    .options = options_shift,
    .flags = TT_OP_COLLECTIVE,
    .infer = tt__infer_comm,
    .grad = tt__comm_grad,
    .cost = cost_shift,
    .samples = samples_shift,
};

const tt_op_def tt_op_halo = {
    TT__COMM_OP(halo),
    .doc = "Give each rank the entries its part of a sliding window reads.",
    .options = options_halo,
    .flags = TT_OP_COLLECTIVE,
    .infer = tt__infer_comm_factor,
    .grad = tt__comm_grad,
    .cost = cost_halo,
    .samples = samples_halo,
};

const tt_op_def tt_op_halo_add = {
    TT__COMM_OP(halo_add),
    .doc = "Sum the terms of overlapping windows into the ranks' own blocks.",
    .options = options_halo,
    .flags = TT_OP_COLLECTIVE,
    .infer = tt__infer_comm_factor,
    .grad = tt__comm_grad,
    .cost = cost_halo_add,
    .samples = samples_halo,
};

const tt_op_def tt_op_move = {
    TT__COMM_OP(move),
    .doc = "Carry a value from one coordinate of an axis to another.",
    .options = options_move,
    .flags = TT_OP_COLLECTIVE,
    .infer = tt__infer_comm,
    .grad = grad_move,
    .cost = cost_move,
    .samples = samples_move,
};
