// matmul_fp8 - a product of operands in 8 bits, both with the inner dimension last.
//
//   a [lead..., k]   b [n, k]   y [lead..., n] = (a b') units[a] units[b] + bias
//   + plus
//
// in bf16, or in f32 for gradients of weights; `like` gives the result's shape where
// the weight has other factors. Sums are in f32. Quantized operands of the linear
// layers are what it is for: see pass/fp8.c. flops: 2mnk.

#include "ops/codec/fp8.h"
#include "ops/comm/comm.h"
#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

static bool is_tiny(tt_dtype dtype)
{
    return dtype == TT_E4M3 || dtype == TT_E5M2;
}

static tt_status check_operands(const tt_op_io *io)
{
    const tt_matmul_fp8_params *p = io->params;
    const tt_shape *a = &io->in[TT_M8_A].shape, *b = &io->in[TT_M8_B].shape;
    const tt_shape *units = &io->in[TT_M8_UNITS].shape;
    TT_TRY(tt_infer_inputs(io, "matmul_fp8", 3, TT_M8_N));
    if (!is_tiny(io->in[TT_M8_A].dtype) || !is_tiny(io->in[TT_M8_B].dtype))
        return tt_fail(TT_ERR_ARG, "matmul_fp8: a and b must be e4m3 or e5m2");
    if (a->ndim < 2 || b->ndim != 2 ||
        tt_shape_dim(a, a->ndim - 1) != tt_shape_dim(b, 1))
        return tt_infer_fail_shapes("matmul_fp8",
                                    "b must be [n, k], a [..., k]", a, b);
    if (units->ndim != 1 || p->a_site >= tt_shape_dim(units, 0) ||
        p->b_site >= tt_shape_dim(units, 0))
        return tt_fail(TT_ERR_ARG, "matmul_fp8: a unit is missing");
    if (tt_io_has(io, TT_M8_BIAS))
        TT_TRY(tt__expect_vector(io, "matmul_fp8", TT_M8_BIAS,
                                 tt_shape_dim(b, 0), "bias"));
    return TT_OK;
}

static tt_status infer(tt_op_io *io)
{
    const tt_matmul_fp8_params *p = io->params;
    const tt_shape *a = &io->in[TT_M8_A].shape, *b = &io->in[TT_M8_B].shape;
    tt_shape y = {0};
    TT_TRY(check_operands(io));
    const bool has_like = tt_io_has(io, TT_M8_LIKE);
    for (int d = 0; d < a->ndim - 1 && !has_like; d++)
        TT_TRY(tt_shape_push_dim(&y, a, d));
    if (!has_like)
        TT_TRY(tt_shape_push_dim(&y, b, 0));
    if (has_like) {
        TT_TRY(tt_shape_push(&y, "m", tt_shape_dim(a, 0)));
        TT_TRY(tt_shape_push(&y, "n", tt_shape_dim(b, 0)));
        TT_TRY(tt__expect_dims(io, "matmul_fp8", TT_M8_LIKE, &y, "like"));
        y = io->in[TT_M8_LIKE].shape;
    }
    TT_TRY(tt__expect_legal("matmul_fp8", &y));
    if (tt_io_has(io, TT_M8_PLUS)) { // of the fused one
        TT_TRY(tt__expect_dtype(io, "matmul_fp8", TT_M8_PLUS, TT_BF16, "plus"));
        TT_TRY(tt__expect_dims(io, "matmul_fp8", TT_M8_PLUS, &y, "plus"));
    }
    tt_infer_add(io, p->is_wide ? TT_F32 : TT_BF16, &y);
    return TT_OK;
}

// The placement of the terms along another axis, by rows or columns. A split of the
// inner dimension along that axis needs nothing here: its terms were summed and are
// wide.
static tt_place place_of_terms(const tt_builder *b, tt_val terms,
                               const tt_val *in, int axis)
{
    const tt_type *x = tt_type_of(b, in[TT_M8_A]);
    const tt_type *w = tt_type_of(b, in[TT_M8_B]);
    const tt_place *rows = &x->place[axis], *columns = &w->place[axis];
    const char *name = NULL;
    if (rows->kind == TT_SPLIT)
        name = x->shape.factor[rows->factor].name;
    if (columns->kind == TT_SPLIT)
        name = w->shape.factor[columns->factor].name;
    const tt_shape *y = &tt_type_of(b, terms)->shape;
    return name == NULL ? tt_place_replicate()
                        : tt_place_split(tt_shape_find(y, name));
}

// The terms are summed in 32 bits and rounded to 16 bits after that.
static tt_status expand_inner(tt_builder *b, const tt_node *node,
                              const tt_sig *sig, int axis, const tt_val *in,
                              tt_val *out)
{
    tt_matmul_fp8_params wide = *(const tt_matmul_fp8_params *)node->params;
    wide.is_wide = true;
    (void)sig; // says that the bias is one of the terms
    const tt_val terms =
        tt_call(b, &tt_op_matmul_fp8, &wide, in, node->n_in, NULL);
    TT_TRY(tt_builder_status(b));
    for (int a = 0; a < b->graph->mesh.n_axes; a++)
        tt_place_set(b, terms, a,
                     a == axis ? tt_place_partial(TT_SUM)
                               : place_of_terms(b, terms, in, a));
    const tt_val sum = tt_all_reduce(b, terms, axis, TT_SUM);
    out[0] = tt_cast(b, sum, TT_BF16);
    tt_place_like(b, out[0], sum, -1);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    if (tt_io_has(io, TT_M8_PLUS))
        return; // put there when ranks have their parts
    const tt__split lead = {TT_M8_A, "=...=", "=", NULL};
    const tt__split columns = {TT_M8_B, ".=.0z", "z", NULL};
    const tt_matmul_fp8_params *p = io->params;
    const tt__split inner = {TT_M8_A, "=1.+.", p->is_wide ? "+" : ".",
                             p->is_wide ? NULL : expand_inner};
    tt__shard_lead(io, axis_size, &lead, sigs);
    tt__shard_dim(io, axis_size, 0, &columns, sigs);
    const int before = sigs->n;
    tt__shard_last(io, axis_size, &inner, sigs);
    for (int s = before; s < sigs->n && !p->is_wide; s++)
        sigs->sig[s].sent_bytes =
            4 * (axis_size - 1.0) / axis_size * tt_cost_bytes(&io->out[0]);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_shape *b = &io->in[TT_M8_B].shape;
    const double y = tt_cost_count(&io->out[0]);
    const double k = (double)tt_shape_dim(b, 1);
    const int epilogue = (tt_io_has(io, TT_M8_BIAS) ? 1 : 0) +
                         (tt_io_has(io, TT_M8_PLUS) ? 1 : 0);
    tt_cost_io(io, 1U << TT_M8_LIKE, cost_out);
    cost_out->flops = 2 * y * k;
    cost_out->work = y * (k + epilogue);
    cost_out->depth = tt_cost_log2(k) + epilogue;
}

static const tt_opt options[] = {
    {"a_site", "0", "which unit is a's", TT_OPT_I64,
     .offset = offsetof(tt_matmul_fp8_params, a_site), .min = 0,
     .max = 1 << 24},
    {"b_site", "0", "which unit is b's", TT_OPT_I64,
     .offset = offsetof(tt_matmul_fp8_params, b_site), .min = 0,
     .max = 1 << 24},
    {"wide", "false", "the result is f32, not bf16", TT_OPT_BOOL,
     .offset = offsetof(tt_matmul_fp8_params, is_wide)},
    {0},
};

static const tt_sample samples[] = {
    {"wide=true", {"q m:3 k:5", "q n:4 k:5", "m=0.5 site:1"}, 120},
    {"a_site=1",
     {"q batch:2 seq:8 embed:16", "q heads:2.head:8 embed:16", "m=2 site:2",
      "m heads:2.head:8"},
     8192},
    {"b_site=1 wide=true",
     {"q embed:16 batch:4.seq:8", "r ff:32 batch:4.seq:8", "m=0.25 site:2", "-",
      "f embed:16 ff:32"},
     32768},
    {"b_site=2",
     {"r batch:16 ff:32", "q embed:16 ff:32", "m=0.25 site:3"},
     16384},
    {"",
     {"q batch:16 ff:32", "q embed:16 ff:32", "m=0.25 site:3", "m embed:16",
      "-", "b batch:16 embed:16"},
     16384},
    {0},
};

const tt_op_def tt_op_matmul_fp8 = {
    .name = "matmul_fp8",
    .doc = "Matrix product of operands in 8 bits, with bias.",
    .options = options,
    .params_bytes = sizeof(tt_matmul_fp8_params),
    .shape_only = 1U << TT_M8_LIKE,
    .infer = infer,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};
