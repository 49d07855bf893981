// quantize - numbers of 8 or 4 bits, on a linear scale from minus to plus the largest
// absolute value of a block; dequantize is the way back.
//
//   scale   of a block: its largest absolute value, as the wide type
//   code    floor(x / scale * levels + 1/2) + levels + 1, with 127 or 7 levels;
//           two codes of 4 bits in a byte, the first in its lower half
//   random  with a seed and a step, a random u of [0, 1) takes the place of 1/2. The
//           result is then x on average (Alistarh et al. 2017, QSGD). u is a function
//           of the element's global index, so it does not depend on how ranks cut x
//   error   at most scale / levels / 2 per element; with random numbers twice that
//
// A block with a number that is not finite comes back as NaN.
//
//   flops   3 per element; back 2

#include "ops/codec/codec.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

enum { X, SEED, STEP };
enum { SCALES, CODES, LIKE };

static tt_status check(const char *op, const tt_quantize_params *p)
{
    if (p->bits != 8 && p->bits != 4)
        return tt_fail(TT_ERR_ARG, "%s: bits=%lld; 8 or 4 would do", op,
                       (long long)p->bits);
    if (p->block < 1 || p->block % 2 != 0)
        return tt_fail(TT_ERR_ARG, "%s: block=%lld is no even number", op,
                       (long long)p->block);
    return TT_OK;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static tt_status infer(tt_op_io *io)
{
    const tt_quantize_params *p = io->params;
    tt_shape codes = {0}, scales = {0};
    TT_TRY(tt_infer_inputs(io, "quantize", 1, 3));
    TT_TRY(tt_infer_float(io, "quantize", X));
    TT_TRY(check("quantize", p));
    if (io->n_in == 2)
        return tt_fail(TT_ERR_ARG, "quantize: there is a seed, but no step");
    for (int i = SEED; i < io->n_in; i++)
        TT_TRY(tt_infer_scalar(io, "quantize", i, TT_I64));
    const int64_t n = tt_shape_count(&io->in[X].shape);
    TT_TRY(tt_shape_push(&codes, "codes", ceil_div(n * p->bits, 8)));
    TT_TRY(tt_shape_push(&scales, "blocks", ceil_div(n, p->block)));
    tt_infer_add(io, tt_dtype_master(io->in[X].dtype), &scales);
    tt_infer_add(io, TT_U8, &codes);
    return TT_OK;
}

static tt_status infer_back(tt_op_io *io)
{
    const tt_quantize_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "dequantize", 3, 3));
    TT_TRY(tt_infer_float(io, "dequantize", SCALES));
    TT_TRY(tt_infer_float(io, "dequantize", LIKE));
    TT_TRY(check("dequantize", p));
    const int64_t n = tt_shape_count(&io->in[LIKE].shape);
    if (io->in[CODES].dtype != TT_U8 ||
        tt_shape_count(&io->in[CODES].shape) != ceil_div(n * p->bits, 8) ||
        tt_shape_count(&io->in[SCALES].shape) != ceil_div(n, p->block))
        return tt_fail(TT_ERR_ARG,
                       "dequantize: these are not the codes of %lld numbers",
                       (long long)n);
    tt_infer_add(io, io->in[LIKE].dtype, &io->in[LIKE].shape);
    return TT_OK;
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_quantize_params *p = io->params;
    tt_cost_reduction(io, 0, 3 * tt_cost_count(&io->in[X]), (double)p->block,
                      cost_out);
}

static const tt_opt options[] = {
    {"bits", "8", "of a code: 8 or 4", TT_OPT_I64,
     .offset = offsetof(tt_quantize_params, bits), .min = 4, .max = 8},
    {"block", "256", "entries that share a scale, an even number", TT_OPT_I64,
     .offset = offsetof(tt_quantize_params, block), .min = 2, .max = 1 << 20},
    {0},
};

static const tt_sample samples[] = {
    {"block=4", {"f a:3 b:5"}, 45},
    {"bits=4 block=6", {"f a:13"}, 39},
    {"", {"f a:7 b:11"}, 231},
    {"bits=4 block=8", {"f a:3 b:2.c:4", "I=11", "I=3"}, 72},
    {"bits=8 block=32", {"f a:6 b:7", "I=5", "I=2"}, 126},
    {"block=4", {"=0 a:9"}, 27},
    {0},
};

static const tt_sample samples_back[] = {
    {"block=4", {"m+ blocks:4", "u<255 codes:15", "f a:3 b:5"}, 30},
    {"bits=4 block=6", {"m+ blocks:3", "u<255 codes:7", "f a:13"}, 26},
    {"block=1048576", {"m+ blocks:1", "u<255 n:64", "f n:64"}, 128},
    {0},
};

const tt_op_def tt_op_quantize = {
    .name = "quantize",
    .doc = "Numbers of 8 or 4 bits, with a scale per block.",
    .options = options,
    .params_bytes = sizeof(tt_quantize_params),
    .infer = infer,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_dequantize = {
    .name = "dequantize",
    .doc = "The numbers that quantize made codes of.",
    .options = options,
    .params_bytes = sizeof(tt_quantize_params),
    .shape_only = 1U << LIKE,
    .infer = infer_back,
    .cost = tt_cost_each,
    .flops_each = 2,
    .samples = samples_back,
};
