// split - the parts of x along one factor; join, the inverse.
//
//   split   "seq:5 qkv:3.embed:8"   factor=qkv   3 times "seq:5 embed:8"
//   join    puts them back: the factor is first in dim 1
//
// When the factor was a dim by itself, that dim vanishes.
//
//   flops   none

#include "graph/site.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shape/view.h"
#include "ops/shard_common.h"

#include <string.h>

// ---- shapes --------------------------------------------------------------

static tt_shape without_factor(const tt_shape *x, int f)
{
    const int dim = tt_shape_dim_of(x, f);
    if (x->first[dim + 1] - x->first[dim] == 1)
        return tt_shape_drop(x, dim);
    tt_shape y = *x;
    for (int i = f; i + 1 < x->n_factors; i++)
        y.factor[i] = x->factor[i + 1];
    memset(&y.factor[x->n_factors - 1], 0, sizeof(y.factor[0]));
    y.n_factors--;
    for (int d = dim + 1; d <= x->ndim; d++)
        y.first[d]--;
    return y;
}

static tt_status infer_split(tt_op_io *io)
{
    const tt_split_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "split", 1, 1));
    const char *name = p->factor != NULL ? p->factor : "";
    const int f = tt_shape_find(&io->in[0].shape, name);
    if (f < 0)
        return tt_fail(TT_ERR_ARG, "split: there is no factor '%s'", name);
    const int64_t n = io->in[0].shape.factor[f].size;
    if (n > TT_MAX_OUT)
        return tt_fail(TT_ERR_ARG,
                       "split: factor %s has %lld parts; at most %d", name,
                       (long long)n, TT_MAX_OUT);
    const tt_shape part = without_factor(&io->in[0].shape, f);
    for (int i = 0; i < n; i++)
        tt_infer_add(io, io->in[0].dtype, &part);
    return TT_OK;
}

// The index of the new factor in the joined shape, or -1.
static int joined_factor(const tt_join_params *p, const tt_shape *part)
{
    if (p->dim < 0 || p->dim >= part->ndim + (p->new_dim ? 1 : 0))
        return -1;
    if (p->new_dim)
        return p->pos == 0 ? part->first[p->dim] : -1;
    const int n = part->first[p->dim + 1] - part->first[p->dim];
    if (p->pos < 0 || p->pos > n)
        return -1;
    return part->first[p->dim] + (int)p->pos;
}

// Whether factors are as large; their names do not count.
static bool same_factors(const tt_shape *a, tt_shape b)
{
    for (int f = 0; f < a->n_factors; f++)
        memcpy(b.factor[f].name, a->factor[f].name, sizeof(b.factor[f].name));
    return tt_shape_equal(a, &b);
}

static tt_status check_join(const tt_op_io *io)
{
    const tt_join_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "join", 1, TT_MAX_OUT));
    const tt_shape *part = &io->in[0].shape;
    for (int i = 1; i < io->n_in; i++) {
        if (!tt_io_has(io, i))
            return tt_fail(TT_ERR_ARG, "join: input %d is missing", i);
        if (io->in[i].dtype != io->in[0].dtype)
            return tt_fail(TT_ERR_ARG, "join: input %d is %s, not %s", i,
                           tt_dtype_name(io->in[i].dtype),
                           tt_dtype_name(io->in[0].dtype));
        if (!same_factors(part, io->in[i].shape))
            return tt_infer_fail_shapes("join", "shapes differ", part,
                                        &io->in[i].shape);
    }
    if (p->factor == NULL || p->factor[0] == '\0')
        return tt_fail(TT_ERR_ARG, "join: the new factor has no name");
    if (strlen(p->factor) >= TT_NAME_BYTES)
        return tt_fail(TT_ERR_ARG, "join: the name %s is too long", p->factor);
    if (tt_shape_find(part, p->factor) >= 0)
        return tt_fail(TT_ERR_ARG, "join: there is a factor %s already",
                       p->factor);
    if (part->n_factors == TT_MAX_FACTORS ||
        (p->new_dim && part->ndim == TT_MAX_DIMS))
        return tt_fail(TT_ERR_ARG, "join: too many dims or factors");
    return TT_OK;
}

static tt_status infer_join(tt_op_io *io)
{
    TT_TRY(check_join(io));
    const tt_join_params *p = io->params;
    const tt_shape *part = &io->in[0].shape;
    const int f = joined_factor(p, part);
    if (f < 0)
        return tt_fail(TT_ERR_ARG, "join: no position %lld in dim %lld",
                       (long long)p->pos, (long long)p->dim);
    tt_shape y = {.ndim = part->ndim + (p->new_dim ? 1 : 0),
                  .n_factors = part->n_factors + 1};
    for (int i = 0; i < y.n_factors; i++)
        if (i != f)
            y.factor[i] = part->factor[i < f ? i : i - 1];
    y.factor[f].size = io->n_in;
    memcpy(y.factor[f].name, p->factor, strlen(p->factor));
    for (int d = 1; d <= y.ndim; d++) {
        const int before = d > p->dim && p->new_dim ? d - 1 : d;
        y.first[d] = (uint8_t)(part->first[before] + (d > p->dim ? 1 : 0));
    }
    tt_infer_add(io, io->in[0].dtype, &y);
    return TT_OK;
}

// ---- gradients -----------------------------------------------------------

static tt_status grad_split(tt_builder *b, const tt_node *node,
                            const tt_val *dout, const bool *need, tt_val *din)
{
    const tt_split_params *p = node->params;
    if (!need[0])
        return TT_OK;
    const tt_shape *x = &tt_type_of(b, node->in[0])->shape;
    const int f = tt_shape_find(x, p->factor);
    const int dim = tt_shape_dim_of(x, f);
    const tt_join_params join = {
        .factor = p->factor,
        .dim = dim,
        .pos = f - x->first[dim],
        .new_dim = x->first[dim + 1] - x->first[dim] == 1,
    };
    tt_val part[TT_MAX_OUT];
    for (int i = 0; i < node->n_out; i++)
        part[i] = tt_is(dout[i]) ? dout[i] : tt_fill(b, node->out[i], 0);
    din[0] = tt_join(b, part, node->n_out, &join);
    return tt_builder_status(b);
}

static tt_status grad_join(tt_builder *b, const tt_node *node,
                           const tt_val *dout, const bool *need, tt_val *din)
{
    const tt_join_params *p = node->params;
    tt_val part[TT_MAX_OUT];
    // The gradient has the factor where p says, whatever its name is there.
    const tt_shape *dy = &tt_type_of(b, dout[0])->shape;
    const int f = joined_factor(p, &tt_type_of(b, node->in[0])->shape);
    tt_split_factor(b, dout[0], dy->factor[f].name, part);
    for (int i = 0; i < node->n_in; i++)
        if (need[i])
            din[i] = part[i];
    return tt_builder_status(b);
}

// ---- placements and cost -------------------------------------------------

// One signature per factor of the parts; `f` is the whole's extra factor, `whole`
// and `part` its places and theirs.
static void shard_parts(const tt_type *part, int f, int axis_size,
                        tt_sigs *sigs, bool is_split)
{
    for (int k = 0; k < part->shape.n_factors; k++) {
        if (!tt_can_split(part, k, axis_size))
            continue;
        tt_sig *sig = tt_sigs_add(sigs);
        if (sig == NULL)
            return;
        tt_place *whole = is_split ? &sig->in[0] : &sig->out[0];
        tt_place *parts = is_split ? sig->out : sig->in;
        *whole = tt_place_split(k < f ? k : k + 1);
        for (int i = 0; i < TT_MAX_OUT; i++)
            parts[i] = tt_place_split(k);
    }
}

static void shard_split(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_split_params *p = io->params;
    const int f = tt_shape_find(&io->in[0].shape, p->factor);
    shard_parts(&io->out[0], f, axis_size, sigs, true);
    tt_shard_partial(io, 1, TT_SUM, sigs);
    tt_shard_partial(io, 1, TT_MAX, sigs);
}

static void shard_join(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const int f = joined_factor(io->params, &io->in[0].shape);
    for (int i = 1; i < io->n_in; i++) // the same factors, not only extents
        for (int k = 0; k < io->in[0].shape.n_factors; k++)
            if (tt_shard_twin(&io->in[0].shape, k, &io->in[i].shape) != k)
                return;
    shard_parts(&io->in[0], f, axis_size, sigs, false);
    tt_shard_partial(io, ~0u, TT_SUM, sigs);
    tt_shard_partial(io, ~0u, TT_MAX, sigs);
}

static bool view_split(const tt_site *site, int i, int64_t *stride_out,
                       int64_t *offset_out)
{
    const tt_split_params *p = site->params;
    const int f = tt_shape_find(&site->in[0].local.shape, p->factor);
    return tt_view_select(&site->in[0], f, i, &site->out[i].local.shape,
                          stride_out, offset_out);
}

static bool view_join(const tt_site *site, int i, int64_t *stride_out,
                      int64_t *offset_out)
{
    const int f = joined_factor(site->params, &site->in[i].local.shape);
    return tt_view_select(&site->out[0], f, i, &site->in[i].local.shape,
                          stride_out, offset_out);
}

// ---- builders ------------------------------------------------------------

void tt_split_factor(tt_builder *b, tt_val x, const char *factor, tt_val *out)
{
    tt_call(b, &tt_op_split, &(tt_split_params){factor}, &x, 1, out);
}

tt_val tt_join(tt_builder *b, const tt_val *x, int n,
               const tt_join_params *params)
{
    return tt_call(b, &tt_op_join, params, x, n, NULL);
}

static const tt_opt options_split[] = {
    {"factor", NULL, "the factor that goes away", TT_OPT_STR,
     .offset = offsetof(tt_split_params, factor)},
    {0},
};

static const tt_opt options_join[] = {
    {"factor", NULL, "the new factor", TT_OPT_STR,
     .offset = offsetof(tt_join_params, factor)},
    {"dim", "0", "the dim that gets it", TT_OPT_I64,
     .offset = offsetof(tt_join_params, dim)},
    {"pos", "0", "its position among the factors of that dim", TT_OPT_I64,
     .offset = offsetof(tt_join_params, pos)},
    {"new_dim", "false", "whether it is a dim by itself", TT_OPT_BOOL,
     .offset = offsetof(tt_join_params, new_dim)},
    {0},
};

static const tt_sample samples_split[] = {
    {"factor=q", {"f a:5 q:3.h:4"}, 0},
    {"factor=q", {"f a:4.q:2.h:3 b:3"}, 0},
    {"factor=a", {"f a:3 b:5"}, 0},
    {"factor=a", {"f a:2"}, 0},
    {0},
};

static const tt_sample samples_join[] = {
    {"factor=q dim=1", {"f a:5 h:4", "f a:5 h:4", "f a:5 h:4"}, 0},
    {"factor=q pos=1", {"f a:4.h:3 b:3", "f a:4.h:3 b:3"}, 0},
    {"factor=q dim=1 new_dim=true", {"f a:4 b:3", "f a:4 b:3"}, 0},
    {"factor=q new_dim=true", {"f", "f"}, 0},
    {"factor=q dim=1", {"f a:4 b:3"}, 0},
    {0},
};

const tt_op_def tt_op_split = {
    .name = "split",
    .doc = "The parts of a value along one factor.",
    .options = options_split,
    .params_bytes = sizeof(tt_split_params),
    .flags = TT_OP_VIEW,
    .infer = infer_split,
    .grad = grad_split,
    .shard = shard_split,
    .cost = tt_cost_moved,
    .view = view_split,
    .samples = samples_split,
};

const tt_op_def tt_op_join = {
    .name = "join",
    .doc = "Values side by side along a new factor.",
    .options = options_join,
    .params_bytes = sizeof(tt_join_params),
    .flags = TT_OP_CONCAT,
    .infer = infer_join,
    .grad = grad_join,
    .shard = shard_join,
    .cost = tt_cost_moved,
    .view = view_join,
    .samples = samples_join,
};
