// replicas - what each replica has of its own, as one value of all replicas and back.
//
//   own(x)          what this rank has of x, taken for itself: terms of a sum, or its part
//                   of a split value. `drop` leaves out dims at the front, of extent 1
//   stack(x)        the x of all replicas one after another, along a first dim `replica`
//                   (or several dims); x is own, or the same in all of them
//   replica_seed(s)   a seed for each replica and tensor, made of the run's seed
//   replica_number    numbers that are known beforehand, one for each replica: what its
//                     neighbours count for, say. Of the input only the dtype is read
//
//   residuals   replica:4 a:3 b:5   S(replica) / data      in files
//      own drop=1     a:3 b:5       O / data               what an encoder reads
//      stack          replica:4 a:3 b:5                    what it leaves
//
// A rank has one replica's entry, so own and stack are views. A rank that does the work
// of several replicas has a copy of each node for each of them (pass/blocks.c).
//
//   flops   none; replica_seed is counted as none

#include "ops/comm/replicas.h"

#include "graph/site.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

static tt_status infer_own(tt_op_io *io)
{
    const tt_own_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "own", 1, 1));
    const tt_shape *x = &io->in[0].shape;
    tt_shape shape = {0};
    if (p->drop > x->ndim)
        return tt_fail(TT_ERR_ARG, "own: cannot leave out %lld of %d dims",
                       (long long)p->drop, x->ndim);
    for (int d = (int)p->drop; d < x->ndim; d++)
        TT_TRY(tt_shape_push_dim(&shape, x, d));
    tt_infer_add(io, io->in[0].dtype, &shape);
    return TT_OK;
}

static tt_status infer_stack(tt_op_io *io)
{
    const tt_stack_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "stack", 1, 1));
    const tt_shape *x = &io->in[0].shape;
    tt_shape shape;
    TT_TRY(tt_shape_parse(p->dims, &shape));
    for (int d = 0; d < x->ndim; d++)
        TT_TRY(tt_shape_push_dim(&shape, x, d));
    const tt_status status = tt_shape_check(&shape);
    if (status != TT_OK)
        return tt_fail_context(status, "stack");
    tt_infer_add(io, io->in[0].dtype, &shape);
    return TT_OK;
}

static tt_status infer_seed(tt_op_io *io)
{
    const tt_replica_seed_params *p = io->params;
    tt_shape shape = {0};
    TT_TRY(tt_infer_inputs(io, "replica_seed", 1, 1));
    TT_TRY(tt_infer_scalar(io, "replica_seed", 0, TT_I64));
    if (p->replicas > 0)
        TT_TRY(tt_shape_push(&shape, TT_REPLICA, p->replicas));
    tt_infer_add(io, TT_I64, &shape);
    return TT_OK;
}

double tt_replica_number_at(const char *values, int64_t i)
{
    for (; i > 0; i--)
        values = strchr(values, ',') + 1;
    return strtod(values, NULL);
}

int64_t tt_replica_number_count(const char *values)
{
    int64_t n = 1;
    for (const char *p = values; *p != '\0'; p++)
        n += *p == ',';
    return n;
}

static tt_status infer_number(tt_op_io *io)
{
    const tt_replica_number_params *p = io->params;
    tt_shape shape = {0};
    TT_TRY(tt_infer_inputs(io, "replica_number", 1, 1));
    TT_TRY(tt_infer_float(io, "replica_number", 0));
    TT_TRY(
        tt_shape_push(&shape, TT_REPLICA, tt_replica_number_count(p->values)));
    tt_infer_add(io, io->in[0].dtype, &shape);
    return TT_OK;
}

static void cost_seed(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_move(io, 0, cost);
}

static bool view_own(const tt_site *site, int i, int64_t *stride_out,
                     int64_t *offset_out)
{
    const tt_own_params *p = site->params;
    (void)i;
    *offset_out = 0;
    for (int d = (int)p->drop; d < site->in[0].local.shape.ndim; d++)
        stride_out[d - p->drop] = site->in[0].stride[d];
    return true;
}

// A view where the rank has one replica.
static bool view_stack(const tt_site *site, int i, int64_t *stride_out,
                       int64_t *offset_out)
{
    (void)i;
    *offset_out = 0;
    const int n = site->in[0].local.shape.ndim;
    const int first = site->out[0].local.shape.ndim - n;
    for (int d = 0; d < first; d++)
        stride_out[d] = tt_operand_count(&site->in[0]);
    for (int d = 0; d < n; d++)
        stride_out[first + d] = site->in[0].stride[d];
    return tt_operand_count(&site->in[0]) == tt_operand_count(&site->out[0]);
}

tt_val tt_own(tt_builder *b, tt_val x, int64_t drop)
{
    const tt_own_params params = {drop};
    return tt_call(b, &tt_op_own, &params, &x, 1, NULL);
}

tt_val tt_stack(tt_builder *b, tt_val x, const char *dims)
{
    const tt_stack_params params = {dims};
    return tt_call(b, &tt_op_stack, &params, &x, 1, NULL);
}

tt_val tt_replica_seed(tt_builder *b, tt_val seed,
                       const tt_replica_seed_params *params)
{
    return tt_call(b, &tt_op_replica_seed, params, &seed, 1, NULL);
}

tt_val tt_replica_number(tt_builder *b, tt_val like, const char *values)
{
    const tt_replica_number_params params = {values};
    return tt_call(b, &tt_op_replica_number, &params, &like, 1, NULL);
}

static const tt_opt options_own[] = {
    {"drop", "0", "dims at the front that are left out", TT_OPT_I64,
     .offset = offsetof(tt_own_params, drop), .min = 0, .max = TT_MAX_DIMS},
    {0},
};

static const tt_opt options_stack[] = {
    {"dims", "replica:1", "dims at the front, as a shape", TT_OPT_STR,
     .offset = offsetof(tt_stack_params, dims)},
    {0},
};

static const tt_opt options_seed[] = {
    {"replicas", "0", "how many seeds; 0: one, the same for all replicas",
     TT_OPT_I64, .offset = offsetof(tt_replica_seed_params, replicas), .min = 0,
     .max = 65536},
    {"salt", "0", "tells tensors apart", TT_OPT_I64,
     .offset = offsetof(tt_replica_seed_params, salt), .min = 0, .max = 9e15},
    {0},
};

static const tt_opt options_number[] = {
    {"values", "1", "one for each replica, with commas", TT_OPT_STR,
     .offset = offsetof(tt_replica_number_params, values)},
    {0},
};

static const tt_sample samples_own[] = {
    {"", {"f a:3 b:5"}, 0},
    {"drop=1", {"f replica:1 a:3 b:5"}, 0},
    {"drop=2", {"f replica:1 tensor:1 a:7"}, 0},
    {0},
};

static const tt_sample samples_stack[] = {
    {"", {"f a:3 b:5"}, 0},
    {"dims=replica:3", {"f a:2 b:4"}, 0},
    {0},
};

static const tt_sample samples_seed[] = {
    {"", {"I=7"}, 0},
    {"replicas=3 salt=12345", {"I=7"}, 0},
    {0},
};

static const tt_sample samples_number[] = {
    {"", {"f a:3"}, 0},
    {"values=0.5,-0.25,1e-3", {"f a:2 b:4"}, 0},
    {0},
};

const tt_op_def tt_op_own = {
    .name = "own",
    .doc = "What each rank has of a value, taken for itself.",
    .options = options_own,
    .params_bytes = sizeof(tt_own_params),
    .flags = TT_OP_VIEW,
    .infer = infer_own,
    .cost = tt_cost_moved,
    .view = view_own,
    .samples = samples_own,
};

const tt_op_def tt_op_stack = {
    .name = "stack",
    .doc = "What each replica has, one after another along a first dim.",
    .options = options_stack,
    .params_bytes = sizeof(tt_stack_params),
    .flags = TT_OP_VIEW,
    .infer = infer_stack,
    .cost = tt_cost_moved,
    .view = view_stack,
    .samples = samples_stack,
};

const tt_op_def tt_op_replica_seed = {
    .name = "replica_seed",
    .doc = "Seeds of codes, made of the run's seed.",
    .options = options_seed,
    .params_bytes = sizeof(tt_replica_seed_params),
    .infer = infer_seed,
    .cost = cost_seed,
    .samples = samples_seed,
};

const tt_op_def tt_op_replica_number = {
    .name = "replica_number",
    .doc = "Numbers known beforehand, one for each replica.",
    .options = options_number,
    .params_bytes = sizeof(tt_replica_number_params),
    .shape_only = 1,
    .infer = infer_number,
    .cost = tt_cost_moved,
    .samples = samples_number,
};
