// fp8_pack - a value in floats of 8 bits: as it lies, and turned, so that matrix products
// find their inner dimension contiguous whichever it is.
//
//   x [lead..., c]   units [sites]
//   rows [lead..., c], turned [c, lead] = x / units[site], to nearest even; what is
//   beyond the type's largest becomes the largest, infinity NaN
//   peak [1] = the largest |x| / the type's largest: the unit that would just do
//
// With gelu=true it is gelu(x), tanh form, that is quantised: what a layer hands to the
// next one then never lies in memory in more than 8 bits.
//
//   flops   1 per element, with gelu 9

#include "ops/cost.h"
#include "ops/fp8.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

static tt_op_infer_fn infer;
static tt_op_shard_fn shard;
static tt_op_cost_fn cost;

static void push_factors(tt_shape *to, const tt_shape *from, int first, int end)
{
    for (int f = first; f < end; f++)
        to->factor[to->n_factors++] = from->factor[f];
    to->first[++to->ndim] = (uint8_t)to->n_factors;
}

static tt_shape turned(const tt_shape *x)
{
    const int lead = x->first[x->ndim - 1];
    tt_shape shape = {0};
    push_factors(&shape, x, lead, x->n_factors);
    push_factors(&shape, x, 0, lead);
    return shape;
}

static tt_status infer(tt_op_io *io)
{
    const tt_quantise_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "fp8_pack", 2, 2));
    TT_TRY(tt_infer_float(io, "fp8_pack", TT_Q_X));
    TT_TRY(tt_infer_float(io, "fp8_pack", TT_Q_UNITS));
    const tt_shape *x = &io->in[TT_Q_X].shape;
    const tt_shape *units = &io->in[TT_Q_UNITS].shape;
    if (x->ndim < 2)
        return tt_fail(TT_ERR_ARG, "fp8_pack: x needs two dimensions or more");
    if (units->ndim != 1 || p->site >= tt_shape_dim(units, 0))
        return tt_fail(TT_ERR_ARG, "fp8_pack: there is no unit %lld",
                       (long long)p->site);
    const tt_dtype dtype = p->to == 0 ? TT_E4M3 : TT_E5M2;
    const tt_shape other = turned(x);
    tt_shape one = {0};
    TT_TRY(tt_shape_push(&one, "site", 1));
    tt_infer_add(io, dtype, x);
    tt_infer_add(io, dtype, &other);
    tt_infer_add(io, io->in[TT_Q_UNITS].dtype, &one);
    return TT_OK;
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_shape *x = &io->in[TT_Q_X].shape;
    const int lead = x->first[x->ndim - 1], n_last = x->n_factors - lead;
    for (int f = 0; f < x->n_factors; f++) {
        if (!tt_can_split(&io->in[TT_Q_X], f, axis_size))
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig == NULL)
            return;
        sig->in[TT_Q_X] = sig->out[TT_Q_ROWS] = tt_place_split(f);
        sig->out[TT_Q_TURNED] =
            tt_place_split(f < lead ? f + n_last : f - lead);
        sig->out[TT_Q_PEAK] = tt_place_partial(TT_MAX);
    }
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[TT_Q_X]);
    const tt_quantise_params *p = io->params;
    tt_cost_reduction(io, 0, (p->is_gelu ? 9 : 1) * n, n, cost_out);
}

static const tt_opt options[] = {
    {"to", "e4m3", "the type", TT_OPT_CHOICE,
     .offset = offsetof(tt_quantise_params, to), .choices = "e4m3|e5m2"},
    {"gelu", "false", "of gelu(x), tanh form", TT_OPT_BOOL,
     .offset = offsetof(tt_quantise_params, is_gelu)},
    {"site", "0", "which unit", TT_OPT_I64,
     .offset = offsetof(tt_quantise_params, site), .min = 0, .max = 1 << 24},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f a:3 b:5", "m=0.0625 site:1"}, 15},
    {"to=e5m2 site=2", {"f batch:2 seq:4 h:2.c:3", "m=0.5 site:3"}, 48},
    {"gelu=true", {"f batch:16 ff:32", "m=0.0625 site:1"}, 4608},
    {"site=1", {"f k:4 n:6", "m=0.000244140625 site:2"}, 24},
    {"to=e5m2", {"f batch:144 ff:80", "m=0.0625 site:1"}, 11520}, // tiles
    {0},
};

const tt_op_def tt_op_fp8_pack = {
    .name = "fp8_pack",
    .doc = "A value in 8 bits, as it lies and turned, and its peak.",
    .options = options,
    .params_bytes = sizeof(tt_quantise_params),
    .infer = infer,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};
