// fp8_pack, fp8_pack_grad - a value in floats of 8 bits, twice: as it lies and
// transposed ("turned"). 8-bit matrix products need the inner dimension contiguous; a
// value is the operand of two products with different inner dimensions, so both are
// written at once.
//
//   x [lead..., c]   units [sites]
//   rows [lead..., c], turned [c, lead] = x / units[site], to nearest even; what is
//   beyond the type's largest becomes the largest, infinity NaN
//   peak [1] = the largest |x| / the type's largest: the unit that would just do
//
// With gelu=true it packs gelu(x), tanh form. The layer's activation is then never in
// memory in more than 8 bits.
//
//   fp8_pack_grad (x, units, z, b) -> (sums [c], rows, turned, peak)
//   the same for a gradient x, times the gradient of gelu at z where there is a z. The
//   sums over the rows are the gradient of a bias with the shape of b
//
//   flops   1 per element, with gelu 9; fp8_pack_grad 2, with z 20

#include "ops/codec/fp8.h"
#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

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
    const tt_fp8_pack_params *p = io->params;
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
    const tt_fp8_pack_params *p = io->params;
    tt_cost_reduction(io, 0, (p->is_gelu ? 9 : 1) * n, n, cost_out);
}

// As a bias's gradient, and as what is packed.
static tt_status infer_grad(tt_op_io *io)
{
    const char *op = "fp8_pack_grad";
    tt_op_io sums = *io, packed = *io;
    TT_TRY(tt_infer_inputs(io, op, 2, TT_QG_N));
    const tt_type of_sums[2] = {io->in[TT_QG_X], tt_io_has(io, TT_QG_B)
                                                     ? io->in[TT_QG_B]
                                                     : io->in[TT_QG_X]};
    sums.in = of_sums;
    sums.n_in = tt_io_has(io, TT_QG_B) ? 2 : 1;
    TT_TRY(tt_op_bias_grad.infer(&sums));
    packed.n_in = 2;
    packed.n_out = 0;
    packed.out = io->out + TT_QG_ROWS;
    TT_TRY(infer(&packed));
    io->n_out = TT_QG_N_OUT;
    if (!tt_io_has(io, TT_QG_Z))
        return TT_OK;
    TT_TRY(tt__expect_dtype(io, op, TT_QG_Z, io->in[TT_QG_X].dtype, "z"));
    return tt__expect_dims(io, op, TT_QG_Z, &io->in[TT_QG_X].shape, "z");
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt_cost_count(&io->in[TT_QG_X]);
    tt_cost_reduction(io, 1U << TT_QG_B, (tt_io_has(io, TT_QG_Z) ? 20 : 2) * n,
                      n, cost_out);
}

static const tt_opt options[] = {
    {"to", "e4m3", "the type", TT_OPT_CHOICE,
     .offset = offsetof(tt_fp8_pack_params, to), .choices = "e4m3|e5m2"},
    {"gelu", "false", "of gelu(x), tanh form", TT_OPT_BOOL,
     .offset = offsetof(tt_fp8_pack_params, is_gelu)},
    {"site", "0", "which unit", TT_OPT_I64,
     .offset = offsetof(tt_fp8_pack_params, site), .min = 0, .max = 1 << 24},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f a:3 b:5", "m=0.0625 site:1"}, 15},
    {"to=e5m2 site=2", {"f batch:2 seq:4 h:2.c:3", "m=0.5 site:3"}, 48},
    {"gelu=true", {"f batch:16 ff:32", "m=0.0625 site:1"}, 4608},
    {"site=1", {"f k:4 n:6", "m=0.000244140625 site:2"}, 24},
    {"to=e5m2", {"f batch:144 ff:80", "m=0.0625 site:1"}, 11520}, // tiles
    {"", {"f batch:97 ff:91", "m=0.0625 site:1"}, 8827},          // many blocks
    {0},
};

static const tt_sample samples_grad[] = {
    {"", {"f a:3 b:5", "m=0.0625 site:1"}, 30},
    {"to=e5m2 site=2",
     {"f batch:2 seq:4 h:2.c:3", "m=0.5 site:3", "f batch:2 seq:4 h:2.c:3",
      "f h:2.c:3"},
     960},
    {"to=e5m2", {"f batch:16 ff:32", "m=0.0625 site:1", "-", "f ff:32"}, 1024},
    {"to=e5m2", // tiles
     {"f batch:144 ff:80", "m=0.0625 site:1", "f batch:144 ff:80"},
     230400},
    {0},
};

const tt_op_def tt_op_fp8_pack_grad = {
    .name = "fp8_pack_grad",
    .doc = "A gradient in 8 bits, of what a GELU read too, and its sums.",
    .options = options,
    .params_bytes = sizeof(tt_fp8_pack_params),
    .shape_only = 1U << TT_QG_B,
    .infer = infer_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};

const tt_op_def tt_op_fp8_pack = {
    .name = "fp8_pack",
    .doc = "A value in 8 bits, as it lies and turned, and its peak.",
    .options = options,
    .params_bytes = sizeof(tt_fp8_pack_params),
    .infer = infer,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};
