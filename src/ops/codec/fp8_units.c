// largest, fp8_units - the units of 8-bit operands, from the peaks of this step and of
// the steps before (delayed scaling, see fp8.h).
//
//   largest(x) -> x     the largest over micro-batches
//   fp8_units (history [steps, sites], units, peaks, skip) -> (history, units)
//                       peaks become the newest row of history. The unit of a site is
//                       its largest peak in history, rounded up to a power of two, so
//                       that dividing by it rounds nothing
//
// units may have several entries per site, because libraries want each unit at an
// aligned address. The first entry is the unit; the others are not changed.
//
// A site that was 0 all the time keeps its unit, and a peak that is not finite counts
// as 0. A step that is skipped changes nothing.
//
//   flops   largest none; fp8_units 1 per entry of history

#include "ops/codec/fp8.h"
#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

static void shard_largest(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 1, TT_MAX, sigs);
}

static tt_status infer_units(tt_op_io *io)
{
    const char *op = "fp8_units";
    TT_TRY(tt_infer_inputs(io, op, TT_U8S_N, TT_U8S_N));
    for (int i = 0; i < TT_U8S_SKIP; i++)
        TT_TRY(tt_infer_float(io, op, i));
    const tt_shape *history = &io->in[TT_U8S_HISTORY].shape;
    if (history->ndim != 2)
        return tt_fail(TT_ERR_ARG, "%s: history must be [steps, sites]", op);
    const int64_t n = tt_shape_dim(history, 1);
    const int64_t units = tt_shape_count(&io->in[TT_U8S_UNITS].shape);
    TT_TRY(tt__expect_vector(io, op, TT_U8S_UNITS,
                             units > n && units % n == 0 ? units : n, "units"));
    TT_TRY(tt__expect_vector(io, op, TT_U8S_PEAKS, n, "peaks"));
    TT_TRY(tt_infer_scalar(io, op, TT_U8S_SKIP, TT_U8));
    for (int i = 0; i < TT_U8S_PEAKS; i++)
        tt_infer_add(io, io->in[i].dtype, &io->in[i].shape);
    return TT_OK;
}

static void cost_units(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[TT_U8S_HISTORY]);
    tt_cost_reduction(io, 0, n, n, cost);
}

static const tt_sample samples_largest[] = {
    {"", {"f+ a:3 b:5"}, 0},
    {"", {"f+ site:7"}, 0},
    {0},
};

static const tt_sample samples_units[] = {
    {"", {"m+ step:3 site:5", "m=0.5 site:5", "m+ site:5", "u=0"}, 15},
    {"", {"m+ step:2 site:3", "m=0.5 site:3", "m+ site:3", "u=1"}, 6},
    {"", {"m=0 step:2 site:3", "m=0.5 site:3", "m=0 site:3", "u=0"}, 6},
    {"", {"m=0 step:1 site:2", "m=0.5 site:2", "m=1e999 site:2", "u=0"}, 2},
    {"", {"m=1 step:4 site:2", "m=0.5 site:2", "m=3 site:2", "u=0"}, 8},
    {"", {"m=0 step:2 site:2", "m=0.5 site:2", "m=4 site:2", "u=0"}, 4},
    {"", {"m+ step:3 site:5", "m+ site:20", "m+ site:5", "u=0"}, 15},
    {0},
};

const tt_op_def tt_op_largest = {
    .name = "largest",
    .doc = "The largest of a value over micro-batches.",
    .flags = TT_OP_ACCUMULATE | TT_OP_ELEMENTWISE,
    .infer = tt_infer_unary,
    .shard = shard_largest,
    .cost = tt_cost_moved,
    .samples = samples_largest,
};

const tt_op_def tt_op_fp8_units = {
    .name = "fp8_units",
    .doc = "Units of 8-bit operands, from the peaks of the last steps.",
    .infer = infer_units,
    .cost = cost_units,
    .samples = samples_units,
};
