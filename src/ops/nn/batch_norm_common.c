// batch_norm_common - shapes, placements and cost of the batch_norm operators.

#include "ops/nn/batch_norm_common.h"

#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"

#include <math.h>

static int64_t space_of(const tt_shape *x)
{
    int64_t n = 1;
    for (int d = 2; d < x->ndim; d++)
        n *= tt_shape_dim(x, d);
    return n;
}

static bool has_groups(const tt_batch_norm_params *p)
{
    return p->training && p->group > 0;
}

tt_batch_norm_geometry tt_batch_norm_geometry_of(const tt_batch_norm_params *p,
                                                 const tt_local *x,
                                                 const tt_local *stats)
{
    const int64_t n = tt_shape_dim(&x->shape, 0);
    double whole_n = 1, whole_points = 1;
    for (int f = 0; f < x->shape.n_factors; f++) {
        const int d = tt_shape_dim_of(&x->shape, f);
        if (d != 1)
            *(d == 0 ? &whole_n : &whole_points) *= (double)x->global[f];
    }
    tt_batch_norm_geometry g = {.n = n,
                                .channels = tt_shape_dim(&x->shape, 1),
                                .points = space_of(&x->shape),
                                .groups = 1,
                                .samples = n,
                                .rows = 1,
                                .count = whole_n * whole_points,
                                .whole_groups = 1};
    if (!has_groups(p))
        return g;
    // Where groups are cut, samples are one factor.
    const int64_t origin = x->shape.first[1] == 1 ? x->origin[0] : 0;
    const int row = stats->shape.n_factors - 2;
    g.samples = p->group;
    g.before = origin % p->group;
    g.groups = (g.before + n + p->group - 1) / p->group;
    g.rows = stats->shape.factor[row].size;
    g.first_row = origin / p->group - stats->origin[row];
    g.count = (double)p->group * whole_points;
    g.whole_groups = whole_n / (double)p->group;
    return g;
}

// The error names the divisors of n next to `group`, which would do.
static tt_status not_whole(const char *op, int64_t n, int64_t group)
{
    int64_t below = group < n ? group : n, above = group;
    while (n % below != 0)
        below--;
    while (above < n && n % above != 0)
        above++;
    if (above > n || above == below)
        return tt_fail(
            TT_ERR_ARG,
            "%s: %lld samples are not whole groups of %lld; nearest: "
            "%lld",
            op, (long long)n, (long long)group, (long long)below);
    return tt_fail(TT_ERR_ARG,
                   "%s: %lld samples are not whole groups of %lld; nearest: "
                   "%lld or %lld",
                   op, (long long)n, (long long)group, (long long)below,
                   (long long)above);
}

tt_status tt__bn_check(const tt_op_io *io, const char *op,
                       const char *channelwise)
{
    const tt_batch_norm_params *p = io->params;
    const tt_shape *x = &io->in[0].shape;
    TT_TRY(tt_infer_float(io, op, 0));
    if (x->ndim < 2 || x->ndim > 5)
        return tt_fail(TT_ERR_ARG,
                       "%s: x must be [batch, channels, up to 3 spatial "
                       "dimensions], not have %d dimensions",
                       op, (int)x->ndim);
    if (x->first[2] - x->first[1] != 1)
        return tt_fail(TT_ERR_ARG, "%s: the channels must be a single factor",
                       op);
    const int64_t n = tt_shape_dim(x, 0);
    if (p->group > 0 && n % p->group != 0)
        return not_whole(op, n, p->group);
    if (p->training && (p->group > 0 ? p->group : n) * space_of(x) < 2)
        return tt_fail(TT_ERR_ARG,
                       "%s: training needs more than one value per channel",
                       op);
    for (int i = 0; channelwise[i] != '\0'; i++)
        if (channelwise[i] == 'c') {
            TT_TRY(tt__expect_weight(io, op, i, io->in[0].dtype,
                                     "a value per channel"));
            TT_TRY(tt__expect_vector(io, op, i, tt_shape_dim(x, 1),
                                     "a vector of channels"));
        }
    return TT_OK;
}

tt_status tt__bn_check_like_x(const tt_op_io *io, const char *op, int i,
                              const char *what)
{
    TT_TRY(tt__expect_dtype(io, op, i, io->in[0].dtype, what));
    return tt__expect_dims(io, op, i, &io->in[0].shape, what);
}

tt_status tt__bn_stats(const tt_op_io *io, bool pair, tt_shape *shape)
{
    const tt_batch_norm_params *p = io->params;
    const tt_shape *x = &io->in[0].shape;
    *shape = (tt_shape){0};
    if (pair)
        TT_TRY(tt_shape_push(shape, "moment", 2));
    if (p->group > 0)
        TT_TRY(tt_shape_push(shape, x->factor[0].name,
                             tt_shape_dim(x, 0) / p->group));
    return tt_shape_push_dim(shape, x, 1);
}

tt_status tt__bn_check_stats(const tt_op_io *io, const char *op, int i,
                             bool pair)
{
    tt_shape want;
    TT_TRY(tt__bn_stats(io, pair, &want));
    TT_TRY(tt__expect_dtype(io, op, i, tt_dtype_master(io->in[0].dtype),
                            "a statistic"));
    return tt__expect_dims(io, op, i, &want, "a statistic");
}

// ---- placements ----

typedef enum cut_kind {
    CUT_CHANNELS,
    CUT_GROUPS, // whole groups of samples on every rank
    CUT_SPAN,   // statistics span ranks: every rank has all of them
    CUT_FROZEN, // there are no statistics to compute
} cut_kind;

typedef struct cut {
    cut_kind kind;
    int factor; // of x
} cut;

// The placement of an operand with an entry per channel. Gradients of weights, moments
// and, with groups, running statistics are sums over samples: partial where ranks have
// different samples.
static tt_place place_channelwise(const tt_type *type, const cut *c, char role,
                                  bool is_out)
{
    if (c->kind == CUT_CHANNELS)
        return tt_place_split(type->shape.n_factors - 1);
    const bool is_stat = role == 's' || role == 'm';
    if (c->kind == CUT_GROUPS && is_stat)
        return tt_place_split(type->shape.n_factors - 2);
    const bool is_term = (role == 'g') || (role == 'm' && is_out) ||
                         (role == 'r' && c->kind == CUT_GROUPS);
    return is_term ? tt_place_partial(TT_SUM) : tt_place_replicate();
}

static tt_place place(const tt_type *type, const cut *c, char role, bool is_out)
{
    if (type->dtype == TT_N_DTYPES)
        return tt_place_replicate();
    if (role == 'x')
        return tt_place_split(c->factor);
    return place_channelwise(type, c, role, is_out);
}

// Whether all images have the same factors, so that a split of x splits them alike.
static bool has_x_factors(const tt_op_io *io, const tt__bn_roles *roles)
{
    const tt_shape *x = &io->in[0].shape;
    for (int i = 0; i < io->n_in; i++) {
        const tt_shape *s = &io->in[i].shape;
        if (roles->in[i] != 'x' || !tt_io_has(io, i))
            continue;
        for (int f = 0; f < x->n_factors; f++)
            if (s->n_factors != x->n_factors ||
                s->factor[f].size != x->factor[f].size)
                return false;
    }
    return true;
}

static void add(const tt_op_io *io, const tt__bn_roles *roles, const cut *c,
                tt_sigs *sigs)
{
    tt_sig *sig = tt_sigs_add(sigs);
    if (sig == NULL)
        return;
    for (int i = 0; i < io->n_in; i++)
        sig->in[i] = place(&io->in[i], c, roles->in[i], false);
    for (int i = 0; i < io->n_out; i++)
        sig->out[i] = place(&io->out[i], c, roles->out[i], true);
    if (c->kind == CUT_SPAN)
        sig->expand = roles->expand;
}

// Whether each rank has whole groups if the samples are cut into equal blocks. If
// another axis has cut the samples already, it may have cut groups: then the answer is
// no.
static bool ranks_have_groups(const tt_op_io *io, int axis_size)
{
    const tt_batch_norm_params *p = io->params;
    const tt_type *x = &io->in[0];
    for (int a = 0; a < TT_MAX_AXES; a++)
        if (x->place[a].kind == TT_SPLIT && x->place[a].factor == 0)
            return false;
    return tt_shape_dim(&x->shape, 0) / p->group % axis_size == 0;
}

void tt__bn_shard(const tt_op_io *io, const tt__bn_roles *roles, int axis_size,
                  tt_sigs *sigs)
{
    const tt_batch_norm_params *p = io->params;
    const tt_shape *x = &io->in[0].shape;
    if (!has_x_factors(io, roles))
        return;
    for (int f = 0; f < x->n_factors; f++) {
        const int d = tt_shape_dim_of(x, f);
        if (!tt_can_split(&io->in[0], f, axis_size))
            continue;
        cut c = {CUT_SPAN, f};
        if (d == 1)
            c.kind = CUT_CHANNELS;
        else if (!p->training)
            c.kind = CUT_FROZEN;
        else if (d == 0 && p->group > 0) {
            if (x->first[1] != 1)
                continue;
            if (ranks_have_groups(io, axis_size))
                c.kind = CUT_GROUPS;
        }
        add(io, roles, &c, sigs);
    }
}

void tt__bn_cost(const tt_op_io *io, uint32_t shape_only, double per_element,
                 tt_cost *cost)
{
    const tt_batch_norm_params *p = io->params;
    const tt_shape *x = &io->in[0].shape;
    const double n = (double)(p->group > 0 ? p->group : tt_shape_dim(x, 0));
    tt_cost_reduction(io, shape_only, per_element * tt_cost_count(&io->in[0]),
                      p->training ? n * (double)space_of(x) : 1, cost);
}

const tt_opt tt__bn_options[] = {
    {"eps", "1e-5", "added to the variance", TT_OPT_F64,
     offsetof(tt_batch_norm_params, eps), NULL, 0, 1},
    {"momentum", "0.1", "weight of the new statistics", TT_OPT_F64,
     offsetof(tt_batch_norm_params, momentum), NULL, 0, 1},
    {"training", "true", "statistics of the batch, not the running ones",
     TT_OPT_BOOL, offsetof(tt_batch_norm_params, training), NULL, 0, 0},
    {"activation", "none", "applied last", TT_OPT_CHOICE,
     offsetof(tt_batch_norm_params, activation), "none|relu", 0, 0},
    {"has_residual", "false", "gradients: give the residual's too", TT_OPT_BOOL,
     offsetof(tt_batch_norm_params, has_residual), NULL, 0, 0},
    {"group", "0", "samples with statistics in common; 0: all", TT_OPT_I64,
     offsetof(tt_batch_norm_params, group), NULL, 0, 1e9},
    {0},
};
