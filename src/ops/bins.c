// bins - sums of squares that have the same bits however the elements are cut and
// ordered. Norms in exact mode are made of them.
//
// The problem. Gradient clipping, LARS and LAMB need the norm of a tensor. ZeRO cuts
// the tensor wherever the ranks' shares end, so each number of ranks adds the squares
// in another order. Floating-point sums round at every addition, so the norms differ in
// the last bits, and with them every weight. Fixing the order, as exact mode does
// elsewhere, is not possible here: the cut may be anywhere.
//
// The idea. Sums of whole numbers have no order. Each square is written as a number
// with digits of 28 bits, at places that are the same for all numbers, and a bin per
// place adds up the digits:
//
//   square       0.00 ... 0 | 0000123 | 8a9b0c1 | 4000000 | 0 ...
//   bins (i64)         ...  |  += 123 | += 8a.. | += 40.. |
//
// A double has 53 bits, so a square touches two or three bins. A bin has 63 bits for
// digits of 28, so 2^35 elements fit before one could overflow. 76 bins cover all
// squares that a double can hold; the last entry counts squares that are not finite.
//
//   square_bins(x)       the bins of one tensor, or of a rank's part of it
//   bins_total(b...)     the sum of bins of several tensors
//   bins_value(b)        their sum as a number, rounded at the end only
//
// Along a mesh axis, bins of parts are terms of a sum of whole numbers: the all-reduce
// may add them in any order too.
//
//   flops   square_bins 2 per element; others none

#include "ops/bins.h"

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

#include <math.h>

enum { DIGIT = (1 << TT_BIN_BITS) - 1, NOT_FINITE = TT_BINS - 1 };

// ---- arithmetic ----------------------------------------------------------

void tt_bins_add(int64_t bins[TT_BINS], double square)
{
    enum { MANTISSA = 53 };
    int e = 0;
    if (!isfinite(square)) {
        bins[NOT_FINITE]++;
        return;
    }
    const double part = frexp(square, &e);
    uint64_t m = (uint64_t)ldexp(part, MANTISSA);
    int at = e - MANTISSA + TT_BIN_SHIFT; // place of the lowest bit of m
    for (; at < 0 && m != 0; at++) // zeros, below the smallest number there is
        m >>= 1;
    const int b = at / TT_BIN_BITS, skip = at % TT_BIN_BITS;
    const uint64_t low = m & ((UINT64_C(1) << (TT_BIN_BITS - skip)) - 1);
    if (m == 0)
        return;
    bins[b] += (int64_t)(low << skip);
    m >>= TT_BIN_BITS - skip;
    for (int i = b + 1; m != 0; i++, m >>= TT_BIN_BITS)
        bins[i] += (int64_t)(m & DIGIT);
}

// Carries first, so that every bin holds one digit again and the bins are the digits of
// the exact sum. Then the four highest digits, 112 bits at most, are more than a double
// can hold; the rest does not matter. They are added from the highest on, in a fixed
// order, so equal sums give equal bits.
double tt_bins_sum(const int64_t bins[TT_BINS])
{
    int64_t digit[TT_BINS + 2] = {0}, carry = 0;
    int top = 0;
    if (bins[NOT_FINITE] != 0)
        return (double)NAN;
    for (int b = 0; b < TT_BINS + 2; b++) {
        carry += b < NOT_FINITE ? bins[b] : 0;
        digit[b] = carry & DIGIT;
        carry >>= TT_BIN_BITS;
        top = digit[b] != 0 ? b : top;
    }
    double sum = 0;
    for (int b = top; b >= 0 && b > top - 4; b--)
        sum += ldexp((double)digit[b], b * TT_BIN_BITS - TT_BIN_SHIFT);
    return sum;
}

// ---- the operators -------------------------------------------------------

static tt_status infer_squares(tt_op_io *io)
{
    tt_shape shape = {0};
    TT_TRY(tt_infer_inputs(io, "square_bins", 1, 1));
    TT_TRY(tt_infer_float(io, "square_bins", 0));
    TT_TRY(tt_shape_push(&shape, "bin", TT_BINS));
    tt_infer_add(io, TT_I64, &shape);
    return TT_OK;
}

static tt_status check_bins(const tt_op_io *io, const char *op, int i)
{
    const tt_shape *shape = &io->in[i].shape;
    if (io->in[i].dtype != TT_I64 || shape->ndim != 1 ||
        tt_shape_count(shape) != TT_BINS)
        return tt_fail(TT_ERR_ARG, "%s: input %d is not %d bins of i64", op, i,
                       (int)TT_BINS);
    return TT_OK;
}

static tt_status infer_total(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "bins_total", 1, INT32_MAX));
    for (int i = 0; i < io->n_in; i++)
        TT_TRY(check_bins(io, "bins_total", i));
    tt_infer_add(io, TT_I64, &io->in[0].shape);
    return TT_OK;
}

static tt_status infer_value(tt_op_io *io)
{
    const tt_bins_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "bins_value", 1, 1));
    TT_TRY(check_bins(io, "bins_value", 0));
    if (!tt_dtype_is_float((tt_dtype)p->to))
        return tt_fail(TT_ERR_ARG, "bins_value: a sum of squares is no %s",
                       tt_dtype_name((tt_dtype)p->to));
    tt_infer_add(io, (tt_dtype)p->to, &(tt_shape){0});
    return TT_OK;
}

static void shard_squares(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    for (int f = 0; f < io->in[0].shape.n_factors; f++) {
        if (!tt_can_split(&io->in[0], f, axis_size))
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig == NULL)
            return;
        sig->in[0] = tt_place_split(f);
        sig->out[0] = tt_place_partial(TT_SUM);
    }
}

static void shard_total(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    (void)axis_size;
    tt_shard_partial(io, ~0u, TT_SUM, sigs);
}

static void cost_squares(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[0]);
    tt_cost_reduction(io, 0, 2 * n, n, cost_out);
}

tt_val tt_square_bins(tt_builder *b, tt_val x)
{
    return tt_call(b, &tt_op_square_bins, NULL, &x, 1, NULL);
}

tt_val tt_bins_total(tt_builder *b, const tt_val *x, int n)
{
    return tt_call(b, &tt_op_bins_total, NULL, x, n, NULL);
}

tt_val tt_bins_value(tt_builder *b, tt_val bins, tt_dtype to)
{
    const tt_bins_params params = {.to = (int)to};
    return tt_call(b, &tt_op_bins_value, &params, &bins, 1, NULL);
}

static const tt_opt options[] = {
    {"to", "f32", "the dtype of the sum", TT_OPT_CHOICE,
     .offset = offsetof(tt_bins_params, to),
     .choices = "f64|f32|bf16|f16|i64|i32|u8"},
    {0},
};

static const tt_sample samples_squares[] = {
    {"", {"f a:3 b:5"}, 30},
    {"", {"m a:4.b:3"}, 24},
    {"", {"=0 a:3"}, 6},
    {0},
};

static const tt_sample samples_total[] = {
    {"", {"I=3 bin:77"}, 0},
    {"", {"I=3 bin:77", "I=5 bin:77", "I=0 bin:77"}, 0},
    {0},
};

static const tt_sample samples_value[] = {
    {"to=f64", {"I=0 bin:77"}, 0},
    {0},
};

const tt_op_def tt_op_square_bins = {
    .name = "square_bins",
    .doc = "The squares of all elements, counted digit by digit.",
    .infer = infer_squares,
    .shard = shard_squares,
    .cost = cost_squares,
    .samples = samples_squares,
};

const tt_op_def tt_op_bins_total = {
    .name = "bins_total",
    .doc = "Bins of several tensors together.",
    .flags = TT_OP_SUMS,
    .infer = infer_total,
    .shard = shard_total,
    .cost = tt_cost_moved,
    .samples = samples_total,
};

const tt_op_def tt_op_bins_value = {
    .name = "bins_value",
    .doc = "The sum that bins hold.",
    .options = options,
    .params_bytes = sizeof(tt_bins_params),
    .infer = infer_value,
    .cost = tt_cost_moved,
    .samples = samples_value,
};
