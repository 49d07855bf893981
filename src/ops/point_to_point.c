// point_to_point - operators in which a rank talks to one or two others along a mesh axis.
//
//                 sent per rank                              messages
//   shift         the local part                             1 (0 when p divides by)
//   halo          what the window adds to the rank's block   2 (1 when p is 2)
//   halo_add      the same, the other way
//   send          the local part                             1
//   recv          nothing: the sender counts it              0
//
// In one graph, recv(send(x; to); from) carries x from coordinate `from` to
// coordinate `to`; a pipeline's stages have one end each.

#include "ops/comm_def.h"
#include "ops/cost.h"
#include "ops/ops.h"

#include <math.h>

static void move_cost(const tt_op_io *io, double wire, double messages,
                      tt_cost *cost)
{
    *cost = (tt_cost){.bytes = tt_cost_bytes(&io->in[0]) +
                               tt_cost_bytes(&io->out[0]),
                      .depth = 1,
                      .wire_bytes = wire,
                      .messages = messages};
}

static tt_status infer_shift(tt_op_io *io)
{
    return tt__infer_comm(&tt_op_shift, io);
}

static void cost_shift(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    const tt_comm_params *p = io->params;
    const double n = p->by % axis_size == 0 ? 0 : 1;
    move_cost(io, n * tt_cost_bytes(&io->in[0]), n, cost);
}

static tt_status infer_halo(tt_op_io *io)
{
    const tt_comm_params *p = io->params;
    return tt__infer_comm_factor(&tt_op_halo, io, p->factor);
}

static tt_status infer_halo_add(tt_op_io *io)
{
    const tt_comm_params *p = io->params;
    return tt__infer_comm_factor(&tt_op_halo_add, io, p->factor);
}

// Windows that skip entries may be smaller than the block.
static void window_cost(const tt_op_io *io, int p, double grown, tt_cost *cost)
{
    const double neighbours = p > 2 ? 2 : p - 1;
    move_cost(io, neighbours > 0 ? fmax(0, grown) : 0, neighbours, cost);
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

static tt_status infer_send(tt_op_io *io)
{
    return tt__infer_comm(&tt_op_send, io);
}

static tt_status grad_send(tt_builder *b, const tt_node *node,
                           const tt_val *dout, const bool *need, tt_val *din)
{
    const tt_comm_params *p = node->params;
    if (need[0] && tt_is(dout[0]))
        din[0] = tt_recv(b, dout[0], (int)p->axis, (int)p->peer);
    return tt_builder_status(b);
}

static void cost_send(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    move_cost(io, tt_cost_bytes(&io->in[0]), 1, cost);
}

static tt_status infer_recv(tt_op_io *io)
{
    return tt__infer_comm(&tt_op_recv, io);
}

static tt_status grad_recv(tt_builder *b, const tt_node *node,
                           const tt_val *dout, const bool *need, tt_val *din)
{
    const tt_comm_params *p = node->params;
    if (need[0] && tt_is(dout[0]))
        din[0] = tt_send(b, dout[0], (int)p->axis, (int)p->peer);
    return tt_builder_status(b);
}

static void cost_recv(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    move_cost(io, 0, 0, cost);
}

static const tt_opt options_shift[] = {
    {.name = "axis",
     .fallback = "0",
     .doc = "mesh axis",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_comm_params, axis),
     .max = TT_MAX_AXES - 1},
    {.name = "by",
     .fallback = "1",
     .doc = "rank r's block goes to rank r + by",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_comm_params, by)},
    {0},
};

static const tt_opt options_halo[] = {
    {.name = "axis",
     .fallback = "0",
     .doc = "mesh axis",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_comm_params, axis),
     .max = TT_MAX_AXES - 1},
    {.name = "factor",
     .doc = "the factor over which the window slides",
     .type = TT_OPT_STR,
     .offset = offsetof(tt_comm_params, factor)},
    {.name = "kernel",
     .fallback = "1",
     .doc = "entries of the window",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_comm_params, kernel),
     .min = 1,
     .max = 0},
    {.name = "stride",
     .fallback = "1",
     .doc = "step of the window",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_comm_params, stride),
     .min = 1,
     .max = 0},
    {.name = "pad",
     .fallback = "0",
     .doc = "entries before the first",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_comm_params, pad),
     .min = 0,
     .max = -1},
    {.name = "dilation",
     .fallback = "1",
     .doc = "distance of the window's entries",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_comm_params, dilation),
     .min = 1,
     .max = 0},
    {0},
};

static const tt_opt options_send[] = {
    {.name = "axis",
     .fallback = "0",
     .doc = "mesh axis",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_comm_params, axis),
     .max = TT_MAX_AXES - 1},
    {.name = "to",
     .fallback = "0",
     .doc = "coordinate that receives",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_comm_params, peer),
     .max = -1},
    {0},
};

static const tt_opt options_recv[] = {
    {.name = "axis",
     .fallback = "0",
     .doc = "mesh axis",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_comm_params, axis),
     .max = TT_MAX_AXES - 1},
    {.name = "from",
     .fallback = "0",
     .doc = "coordinate that sends",
     .type = TT_OPT_I64,
     .offset = offsetof(tt_comm_params, peer),
     .max = -1},
    {0},
};

static const tt_sample samples_shift[] = {
    {"", {"f batch:3 seq:5"}, 0},
    {"axis=1 by=-2", {"f embed:7"}, 0},
    {0},
};

static const tt_sample samples_halo[] = {
    {"factor=height kernel=3 pad=1", {"f batch:2 height:7 width:5"}, 0},
    {"factor=width kernel=5 stride=2 dilation=2", {"f batch:2 width:11"}, 0},
    {0},
};

static const tt_sample samples_send[] = {
    {"to=1", {"f batch:3 seq:5"}, 0},
    {0},
};

static const tt_sample samples_recv[] = {
    {"from=1", {"f batch:3 seq:5"}, 0},
    {0},
};

const tt_op_def tt_op_shift = {
    .name = "shift",
    .doc = "Move every block of a split value around the ring of an axis.",
    .options = options_shift,
    .params_bytes = sizeof(tt_comm_params),
    .flags = TT_OP_COLLECTIVE,
    .infer = infer_shift,
    .grad = tt__comm_grad,
    .cost = cost_shift,
    .samples = samples_shift,
};

const tt_op_def tt_op_halo = {
    .name = "halo",
    .doc = "Give each rank the entries its part of a sliding window reads.",
    .options = options_halo,
    .params_bytes = sizeof(tt_comm_params),
    .flags = TT_OP_COLLECTIVE,
    .infer = infer_halo,
    .grad = tt__comm_grad,
    .cost = cost_halo,
    .samples = samples_halo,
};

const tt_op_def tt_op_halo_add = {
    .name = "halo_add",
    .doc = "Sum the terms of overlapping windows into the ranks' own blocks.",
    .options = options_halo,
    .params_bytes = sizeof(tt_comm_params),
    .flags = TT_OP_COLLECTIVE,
    .infer = infer_halo_add,
    .grad = tt__comm_grad,
    .cost = cost_halo_add,
    .samples = samples_halo,
};

const tt_op_def tt_op_send = {
    .name = "send",
    .doc = "Hand a value to one coordinate of an axis.",
    .options = options_send,
    .params_bytes = sizeof(tt_comm_params),
    .flags = TT_OP_COLLECTIVE,
    .infer = infer_send,
    .grad = grad_send,
    .cost = cost_send,
    .samples = samples_send,
};

const tt_op_def tt_op_recv = {
    .name = "recv",
    .doc = "Take a value that one coordinate of an axis sent.",
    .options = options_recv,
    .params_bytes = sizeof(tt_comm_params),
    .flags = TT_OP_COLLECTIVE,
    .infer = infer_recv,
    .grad = grad_recv,
    .cost = cost_recv,
    .samples = samples_recv,
};
