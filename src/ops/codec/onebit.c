// onebit - one bit per number, its sign. A block also has two means, of its negative
// numbers and of the others. Each number comes back as the mean of its side, so that
// the block keeps its sum.
//
//   signs   bit i % 8 of byte i / 8 is set where x[i] >= 0
//   means   of each block, of its negative numbers and of the others; 0: none
//
// What is lost must be added to the next value (error feedback), or nothing is learnt.
//
//   flops   2 per element; back none
//   source  Seide et al. 2014

#include "ops/codec/codec.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

enum { MEANS, SIGNS, LIKE };

static tt_status check(const char *op, const tt_onebit_params *p)
{
    if (p->block < 8 || p->block % 8 != 0)
        return tt_fail(TT_ERR_ARG, "%s: block=%lld is no multiple of 8", op,
                       (long long)p->block);
    return TT_OK;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static tt_status infer(tt_op_io *io)
{
    const tt_onebit_params *p = io->params;
    tt_shape signs = {0}, means = {0};
    TT_TRY(tt_infer_inputs(io, "onebit", 1, 1));
    TT_TRY(tt_infer_float(io, "onebit", 0));
    TT_TRY(check("onebit", p));
    const int64_t n = tt_shape_count(&io->in[0].shape);
    TT_TRY(tt_shape_push(&signs, "codes", ceil_div(n, 8)));
    TT_TRY(tt_shape_push(&means, "blocks", ceil_div(n, p->block)));
    TT_TRY(tt_shape_push(&means, "sides", 2));
    tt_infer_add(io, tt_dtype_master(io->in[0].dtype), &means);
    tt_infer_add(io, TT_U8, &signs);
    return TT_OK;
}

static tt_status infer_back(tt_op_io *io)
{
    const tt_onebit_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "onebit_decode", 3, 3));
    TT_TRY(tt_infer_float(io, "onebit_decode", MEANS));
    TT_TRY(tt_infer_float(io, "onebit_decode", LIKE));
    TT_TRY(check("onebit_decode", p));
    const int64_t n = tt_shape_count(&io->in[LIKE].shape);
    if (io->in[SIGNS].dtype != TT_U8 ||
        tt_shape_count(&io->in[SIGNS].shape) != ceil_div(n, 8) ||
        tt_shape_count(&io->in[MEANS].shape) != 2 * ceil_div(n, p->block))
        return tt_fail(TT_ERR_ARG,
                       "onebit_decode: these are not the signs of %lld numbers",
                       (long long)n);
    tt_infer_add(io, io->in[LIKE].dtype, &io->in[LIKE].shape);
    return TT_OK;
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_onebit_params *p = io->params;
    tt_cost_reduction(io, 0, 2 * tt_cost_count(&io->in[0]), (double)p->block,
                      cost_out);
}

static const tt_opt options[] = {
    {"block", "1024", "entries that share two means, a multiple of 8",
     TT_OPT_I64, .offset = offsetof(tt_onebit_params, block), .min = 8,
     .max = 1 << 20},
    {0},
};

static const tt_sample samples[] = {
    {"block=8", {"f a:3 b:7"}, 42},
    {"", {"f a:9"}, 18},
    {"block=16", {"f+ a:2 b:3.c:4"}, 48},
    {0},
};

static const tt_sample samples_back[] = {
    {"block=8", {"m blocks:3 sides:2", "u<255 codes:3", "f a:3 b:7"}, 0},
    {"", {"m blocks:1 sides:2", "u<255 codes:2", "f a:9"}, 0},
    {0},
};

const tt_op_def tt_op_onebit = {
    .name = "onebit",
    .doc = "Signs, with two means per block.",
    .options = options,
    .params_bytes = sizeof(tt_onebit_params),
    .infer = infer,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_onebit_decode = {
    .name = "onebit_decode",
    .doc = "The means that stand for the numbers of onebit.",
    .options = options,
    .params_bytes = sizeof(tt_onebit_params),
    .shape_only = 1U << LIKE,
    .infer = infer_back,
    .cost = tt_cost_moved,
    .samples = samples_back,
};
