// rotary - turns pairs (i, i + head/2) of each head by an angle that grows with
// the position: rotary position embedding in its rotate-half form.
//
//   angle = (position + s) * theta^(-2 i / head), scaled (embed.h)
//   y = amplitude * turned x; the gradient turns back
//
//   flops   3 per element: two products and a sum (the angles are a table)
//   source  Su et al. 2021 (RoFormer); Chen et al. 2023 (linear); Peng et al. 2023
//           (YaRN); Llama 3.1's config.json (llama3)

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/embed.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"
#include "ops/shard_common.h"

#include <math.h>

enum { X, POSITION };

// ---- frequencies ---------------------------------------------------------

// A head has half as many frequencies as entries: pair i turns by theta^(-i / half) per
// token. A model that was trained on `context` tokens has never seen the angles of
// later positions. The scalings divide frequencies by `factor`, so that longer texts
// fit the angles it knows. Fast pairs have turned many times within the context and are
// left alone; slow ones are divided; a ramp lies between. All kinds are one formula
// with different numbers (embed.h), so that kernels need not know them.
static const double tau = 6.283185307179586476925;

// The pair that turns so many times in `context` tokens.
static double pair_of(const tt_rotary_params *p, int64_t head, double turns)
{
    return (double)head * log(p->context / (turns * tau)) / (2 * log(p->theta));
}

// YaRN's ramp runs over the number of the pair: 1 (left alone) before the first pair, 0
// (divided) from the last on.
static void set_ramp(const tt_rotary_params *p, int64_t head,
                     tt_rotary_turns *t)
{
    const double first = fmax(floor(pair_of(p, head, p->high)), 0);
    double last = fmin(ceil(pair_of(p, head, p->low)), (double)head - 1);
    if (first == last)
        last += 0.001; // as its authors do
    t->at = last / (last - first);
    t->per_pair = -1 / (last - first);
}

tt_rotary_turns tt_rotary_turns_of(const tt_rotary_params *p, int64_t head)
{
    tt_rotary_turns t = {p->theta, p->factor, p->amplitude, 1, 0, 0};
    if (p->scaling != TT_ROTARY_PLAIN)
        t.at = 0;
    if (p->scaling == TT_ROTARY_YARN)
        set_ramp(p, head, &t);
    if (p->scaling == TT_ROTARY_LLAMA3) {
        t.at = -p->low / (p->high - p->low);
        t.per_frequency = p->context / (tau * (p->high - p->low));
    }
    return t;
}

double tt_rotary_frequency(const tt_rotary_turns *t, int64_t i, int64_t half)
{
    const double f = pow(t->theta, -(double)i / (double)half);
    const double m = t->at + t->per_pair * (double)i + t->per_frequency * f;
    const double kept = fmin(fmax(m, 0), 1);
    return f * (kept + (1 - kept) / t->factor);
}

// ---- the operator --------------------------------------------------------

static tt_status check_scaling(const tt_rotary_params *p)
{
    const bool is_ramp =
        p->scaling == TT_ROTARY_LLAMA3 || p->scaling == TT_ROTARY_YARN;
    if (is_ramp && p->high <= p->low)
        return tt_fail(TT_ERR_ARG, "rotary: high=%g is not above low=%g",
                       p->high, p->low);
    if (p->scaling == TT_ROTARY_YARN && p->theta <= 1)
        return tt_fail(TT_ERR_ARG, "rotary: theta=%g has no ramp", p->theta);
    return TT_OK;
}

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "rotary", 1, 2));
    TT_TRY(tt_infer_float(io, "rotary", X));
    const tt_shape *x = &io->in[X].shape;
    if (x->ndim < 3)
        return tt_fail(TT_ERR_ARG, "rotary: needs [.., seq, heads, head]");
    if (tt__last(x) % 2 != 0)
        return tt_fail(TT_ERR_ARG,
                       "rotary: a head of %lld entries has no pairs",
                       (long long)tt__last(x));
    TT_TRY(check_scaling(io->params));
    if (tt_io_has(io, POSITION))
        TT_TRY(tt__want_dtype(io, POSITION, TT_I64, "rotary"));
    io->n_out = 1;
    io->out[0].dtype = io->in[X].dtype;
    io->out[0].shape = *x;
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    tt_rotary_params p = *(const tt_rotary_params *)node->params;
    p.inverse = !p.inverse;
    const tt_val position =
        node->n_in > POSITION ? node->in[POSITION] : TT_NONE;
    if (need[X])
        din[X] = tt_call(b, &tt_op_rotary, &p, (tt_val[]){dout[0], position}, 2,
                         NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){X, "=.", "=", NULL}, sigs);
    tt_shard_partial(io, 1U << X, TT_SUM, sigs);
}

tt_val tt_rotary(tt_builder *b, tt_val x, tt_val position,
                 const tt_rotary_params *params)
{
    return tt_call(b, &tt_op_rotary, params, (tt_val[]){x, position},
                   tt_is(position) ? 2 : 1, NULL);
}

static const tt_opt options[] = {
    {.name = "theta",
     .fallback = "10000",
     .doc = "base of the wavelengths",
     .type = TT_OPT_F64,
     .offset = offsetof(tt_rotary_params, theta),
     .min = 1,
     .max = 1e12},
    {.name = "inverse",
     .fallback = "false",
     .doc = "turn back",
     .type = TT_OPT_BOOL,
     .offset = offsetof(tt_rotary_params, inverse)},
    {"scaling", "none", "of frequencies", TT_OPT_CHOICE,
     offsetof(tt_rotary_params, scaling), "none|linear|llama3|yarn"},
    {"factor", "1", "by which frequencies become smaller", TT_OPT_F64,
     offsetof(tt_rotary_params, factor), NULL, 1e-6, 1e9},
    {"low", "1", "turns in context below which they do", TT_OPT_F64,
     offsetof(tt_rotary_params, low), NULL, 1e-6, 1e9},
    {"high", "4", "turns in context above which they do not", TT_OPT_F64,
     offsetof(tt_rotary_params, high), NULL, 1e-6, 1e9},
    {"context", "8192", "tokens that turns are counted in", TT_OPT_F64,
     offsetof(tt_rotary_params, context), NULL, 1, 1e12},
    {"amplitude", "1", "factor on what is turned", TT_OPT_F64,
     offsetof(tt_rotary_params, amplitude), NULL, 1e-6, 1e6},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f batch:2 seq:5 heads:3 head:4"}, 360},
    {"theta=10", {"f part:2.seq:3 heads:1 head:2"}, 36},
    {"theta=100 inverse=true", {"f seq:3 heads:2 head:6", "I=4"}, 108},
    {"scaling=linear factor=3 amplitude=1.5",
     {"f batch:2 seq:5 heads:3 head:4"},
     360},
    {"theta=500 scaling=llama3 factor=8 context=32",
     {"f batch:2 seq:5 heads:3 head:12"},
     1080},
    {"theta=500 scaling=yarn factor=4 high=8 context=32 amplitude=1.1",
     {"f batch:2 seq:5 heads:3 head:12"},
     1080},
    {0},
};

const tt_op_def tt_op_rotary = {
    .name = "rotary",
    .doc = "Rotary position embedding (rotate-half form).",
    .options = options,
    .params_bytes = sizeof(tt_rotary_params),
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = tt_cost_each,
    .flops_each = 3,
    .samples = samples,
};
