// collective - operators in which all ranks along a mesh axis take part alike.
//
//   p ranks, n bytes      sent per rank           messages (ring algorithms)
//   all_reduce            2 (p-1)/p n             2 (p-1)   n: the value
//   all_gather            (p-1)/p n               p-1       n: the whole result
//   reduce_scatter        (p-1)/p n               p-1       n: the whole input
//   all_to_all            (p-1)/p n               p-1       n: the local part
//   take, keep_first      0                       0
//
// take and keep_first send nothing: a rank has the value already and keeps a part of
// it, or clears it on all ranks but the first. flops is 0; the additions of a reduction
// are counted as work.

#include "ops/comm/comm_def.h"
#include "ops/cost.h"
#include "ops/ops.h"
#include "ops/shape/view.h"

// A ring of `rounds` times p-1 steps over n bytes.
static void ring_cost(const tt_op_io *io, int p, double rounds, double n,
                      tt_cost *cost)
{
    const double steps = rounds * (p - 1);
    *cost = (tt_cost){.bytes = tt_cost_bytes(&io->in[0]) +
                               tt_cost_bytes(&io->out[0]),
                      .depth = 1,
                      .wire_bytes = steps * n / p,
                      .messages = steps};
}

static void reduction_work(const tt_op_io *io, int p, tt_cost *cost)
{
    const double n = tt_cost_count(&io->in[0]);
    cost->work = n * (p - 1) / p;
    cost->depth = tt_cost_log2(p);
}

static void cost_all_reduce(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    ring_cost(io, axis_size, 2, tt_cost_bytes(&io->in[0]), cost);
    reduction_work(io, axis_size, cost);
}

static void cost_all_gather(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    ring_cost(io, axis_size, 1, tt_cost_bytes(&io->out[0]), cost);
}

static void cost_reduce_scatter(const tt_op_io *io, int axis_size,
                                tt_cost *cost)
{
    ring_cost(io, axis_size, 1, tt_cost_bytes(&io->in[0]), cost);
    reduction_work(io, axis_size, cost);
}

static tt_status infer_all_to_all(tt_op_io *io)
{
    const tt_comm_params *p = io->params;
    TT_TRY(tt__infer_comm_factor(io));
    return tt__check_comm_factor(io, p->to);
}

static void cost_all_to_all(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    ring_cost(io, axis_size, 1, tt_cost_bytes(&io->in[0]), cost);
}

// take is a view of what the rank has, if the split factor is the first of its dim and
// is not split in a zigzag. That is the same on all ranks, so all have a view or none.
static bool view_take(const tt_site *site, int i, int64_t *stride_out,
                      int64_t *offset_out)
{
    const tt_comm_params *p = site->params;
    const tt_shape *shape = &site->in[0].local.shape;
    const int f = tt_shape_find(shape, p->factor);
    (void)i;
    for (int d = 0; d < shape->ndim && !site->out[0].local.zigzag; d++)
        if (shape->first[d] == f)
            return tt_view_block(&site->in[0], &site->out[0].local, stride_out,
                                 offset_out);
    return false;
}

// Each rank keeps or clears what it has: nothing is sent.
static void cost_local(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    *cost = (tt_cost){.bytes = 2 * tt_cost_bytes(&io->out[0]), .depth = 1};
}

#define OPTION_OP                                                              \
    .name = "op", .fallback = "sum", .doc = "how terms combine",               \
    .type = TT_OPT_CHOICE, .offset = offsetof(tt_comm_params, reduce),         \
    .choices = "sum|max"

static const tt_opt options_reduce[] = {
    {TT__COMM_AXIS},
    {OPTION_OP},
    {"rounds_each", "false", "16-bit sums are rounded after every two terms",
     TT_OPT_BOOL, offsetof(tt_comm_params, rounds_each)},
    {0},
};

static const tt_opt options_factor[] = {
    {TT__COMM_AXIS},
    {TT__COMM_FACTOR("factor", factor, "the factor that is split")},
    {0},
};

static const tt_opt options_gather[] = {
    {TT__COMM_AXIS},
    {TT__COMM_FACTOR("factor", factor, "the factor that is split")},
    {"packets", "false", "blocks are codes, of which what is used is sent",
     TT_OPT_BOOL, offsetof(tt_comm_params, packets)},
    {"merge", "0", "numbers of lists that are merged on the way", TT_OPT_I64,
     offsetof(tt_comm_params, merge), .min = 0, .max = 1e10},
    {"value_bytes", "0", "bytes of a value in these lists", TT_OPT_I64,
     offsetof(tt_comm_params, value_bytes), .min = 0, .max = 8},
    {0},
};

static const tt_opt options_reduce_scatter[] = {
    {TT__COMM_AXIS},
    {OPTION_OP},
    {TT__COMM_FACTOR("factor", factor, "the factor that is split afterwards")},
    {0},
};

static const tt_opt options_all_to_all[] = {
    {TT__COMM_AXIS},
    {TT__COMM_FACTOR("from", factor, "the factor that is split before")},
    {TT__COMM_FACTOR("to", to, "the factor that is split afterwards")},
    {0},
};

static const tt_opt options_axis[] = {
    {TT__COMM_AXIS},
    {0},
};

static const tt_sample samples_reduce[] = {
    {"", {"f batch:3 seq:5"}, 0},
    {"axis=1 op=max", {"f embed:7"}, 0},
    {0},
};

static const tt_sample samples_factor[] = {
    {"factor=seq", {"f batch:3 seq:5"}, 0},
    {"axis=1 factor=heads", {"f batch:2 heads:3.head:4"}, 0},
    {0},
};

static const tt_sample samples_all_to_all[] = {
    {"from=seq to=heads", {"f batch:2 seq:5 heads:3.head:4"}, 0},
    {0},
};

static const tt_sample samples_axis[] = {
    {"", {"f batch:3 seq:5"}, 0},
    {"axis=1", {"f embed:7"}, 0},
    {0},
};

const tt_op_def tt_op_all_reduce = {
    TT__COMM_OP(all_reduce),
    .doc = "Combine the terms that the ranks along an axis hold; all get it.",
    .options = options_reduce,
    .flags = TT_OP_COLLECTIVE | TT_OP_INPLACE,
    .infer = tt__infer_comm,
    .grad = tt__comm_grad,
    .cost = cost_all_reduce,
    .samples = samples_reduce,
};

const tt_op_def tt_op_all_gather = {
    TT__COMM_OP(all_gather),
    .doc = "Give every rank along an axis all blocks of a split value.",
    .options = options_gather,
    .flags = TT_OP_COLLECTIVE,
    .infer = tt__infer_comm_factor,
    .grad = tt__comm_grad,
    .cost = cost_all_gather,
    .samples = samples_factor,
};

const tt_op_def tt_op_reduce_scatter = {
    TT__COMM_OP(reduce_scatter),
    .doc = "Combine the terms along an axis; each rank gets its block.",
    .options = options_reduce_scatter,
    .flags = TT_OP_COLLECTIVE,
    .infer = tt__infer_comm_factor,
    .grad = tt__comm_grad,
    .cost = cost_reduce_scatter,
    .samples = samples_factor,
};

const tt_op_def tt_op_all_to_all = {
    TT__COMM_OP(all_to_all),
    .doc = "Change the factor along which a value is split.",
    .options = options_all_to_all,
    .flags = TT_OP_COLLECTIVE,
    .infer = infer_all_to_all,
    .grad = tt__comm_grad,
    .cost = cost_all_to_all,
    .samples = samples_all_to_all,
};

const tt_op_def tt_op_take = {
    TT__COMM_OP(take),
    .doc = "Keep the rank's block of a value that every rank has.",
    .options = options_factor,
    .flags = TT_OP_COLLECTIVE | TT_OP_SILENT | TT_OP_VIEW,
    .infer = tt__infer_comm_factor,
    .grad = tt__comm_grad,
    .cost = cost_local,
    .view = view_take,
    .samples = samples_factor,
};

const tt_op_def tt_op_keep_first = {
    TT__COMM_OP(keep_first),
    .doc =
        "Keep a value on the axis' first rank, zero elsewhere: a sum's term.",
    .options = options_axis,
    .flags = TT_OP_COLLECTIVE | TT_OP_SILENT | TT_OP_INPLACE,
    .infer = tt__infer_comm,
    .grad = tt__comm_grad,
    .cost = cost_local,
    .samples = samples_axis,
};
