// matmul_add, matmul_gelu_grad, matmul_grad_both - products that do what comes after
// them while the result is in registers.
//
//   matmul_add         y  = a * b + bias + plus
//   matmul_gelu_grad   dz = (a * b) * gelu'(z), tanh form
//   matmul_grad_both   dw = x^T * dy, and db, the sum of dy over all leading dims
//
// Operands as in matmul and matmul_grad_w. flops: the product's; of matmul_grad_both
// also the sum's.

#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/fused/fused.h"
#include "ops/infer_common.h"
#include "ops/matmul.h"
#include "ops/ops.h"

// The first n inputs are those of a plain product.
static tt_status infer_product(tt_op_io *io, const char *name, int n)
{
    const tt_matmul_params *p = io->params;
    tt_op_io product = *io;
    if (p->activation != TT_ACT_NONE)
        return tt_fail(TT_ERR_ARG, "%s: there is no activation", name);
    product.n_in = n;
    product.op = &tt_op_matmul;
    TT_TRY(tt_op_matmul.infer(&product));
    io->n_out = 1;
    return TT_OK;
}

// Input i lies beside the result.
static tt_status check_beside(const tt_op_io *io, const char *name, int i,
                              const char *what)
{
    if (!tt_io_has(io, i))
        return tt_fail(TT_ERR_ARG, "%s: %s is missing", name, what);
    TT_TRY(tt__expect_dtype(io, name, i, io->in[0].dtype, what));
    return tt__expect_dims(io, name, i, &io->out[0].shape, what);
}

static tt_status infer_add(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "matmul_add", 2, 4));
    TT_TRY(infer_product(io, "matmul_add", 3));
    return check_beside(io, "matmul_add", TT_MA_PLUS, "plus");
}

static tt_status infer_gelu_grad(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "matmul_gelu_grad", 3, 3));
    TT_TRY(infer_product(io, "matmul_gelu_grad", 2));
    return check_beside(io, "matmul_gelu_grad", TT_MG_Z, "z");
}

static tt_status infer_both(tt_op_io *io)
{
    tt_op_io weight = *io;
    TT_TRY(tt_infer_inputs(io, "matmul_grad_both", 2, 4));
    weight.n_in = io->n_in < TT_GB_B ? io->n_in : (int)TT_GB_B;
    TT_TRY(tt_op_matmul_grad_w.infer(&weight));
    const tt_shape *dy = &io->in[TT_GB_DY].shape;
    tt_shape db = {0};
    TT_TRY(tt_shape_push_dim(&db, dy, dy->ndim - 1));
    if (tt_io_has(io, TT_GB_B)) {
        TT_TRY(tt__expect_dims(io, "matmul_grad_both", TT_GB_B, &db, "b"));
        db = io->in[TT_GB_B].shape;
    }
    io->n_out = 1;
    tt_infer_add(io, io->out[0].dtype, &db);
    return TT_OK;
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_matmul_dims d =
        tt_matmul_dims_of(io->params, &io->in[0].shape, &io->in[1].shape);
    const double y = (double)d.batch * (double)d.m * (double)d.n;
    tt_cost_io(io, 0, cost_out);
    cost_out->flops = 2 * y * (double)d.k;
    cost_out->work = y * ((double)d.k + io->n_in - 2);
    cost_out->depth = tt_cost_log2((double)d.k) + io->n_in - 2;
}

static void cost_both(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_shape *x = &io->in[TT_GB_X].shape;
    const double lead =
        (double)tt_shape_count(x) / (double)tt_shape_dim(x, x->ndim - 1);
    tt_cost_io(io, 1U << TT_GB_W | 1U << TT_GB_B, cost_out);
    const double dw = tt_cost_count(&io->out[0]);
    const double db = tt_cost_count(&io->out[1]);
    cost_out->flops = lead * (2 * dw + db);
    cost_out->work = lead * (dw + db);
    cost_out->depth = tt_cost_log2(lead);
}

static const tt_opt options[] = {
    {"transpose_a", "false", "a is [..., k, m]", TT_OPT_BOOL,
     offsetof(tt_matmul_params, transpose_a), NULL, 0, 0},
    {"transpose_b", "false", "b is [..., n, k]", TT_OPT_BOOL,
     offsetof(tt_matmul_params, transpose_b), NULL, 0, 0},
    {0},
};

static const tt_opt options_both[] = {
    {"transposed", "false", "dw is [n, k]", TT_OPT_BOOL,
     offsetof(tt_matmul_grad_w_params, transposed), NULL, 0, 0},
    {0},
};

static const tt_sample samples_add[] = {
    {"", {"f m:3 k:5", "f k:5 n:4", "f n:4", "f m:3 n:4"}, 120},
    {"transpose_b=true",
     {"f batch:2 seq:4 embed:8", "f heads:2.head:4 embed:8", "-",
      "f batch:2 seq:4 heads:2.head:4"},
     1024},
    {"",
     {"f batch:8 embed:16", "f embed:16 ff:24", "f ff:24", "f batch:8 ff:24"},
     6144},
    {0},
};

static const tt_sample samples_gelu_grad[] = {
    {"", {"f m:3 k:5", "f k:5 n:4", "f m:3 n:4"}, 120},
    {"transpose_b=true",
     {"f batch:2 seq:4 embed:8", "f ff:16 embed:8", "f batch:2 seq:4 ff:16"},
     2048},
    {0},
};

static const tt_sample samples_both[] = {
    {"", {"f batch:3 k:5", "f batch:3 n:4"}, 132},
    {"transposed=true",
     {"f batch:2 seq:3 embed:4", "f batch:2 seq:3 heads:2.head:3",
      "f heads:2.head:3 embed:4"},
     324},
    {"",
     {"f batch:4 seq:4 embed:16", "f batch:4 seq:4 ff:24", "f embed:16 ff:24",
      "m out:24"},
     12672},
    {"transposed=true", {"f batch:32 embed:8", "f batch:32 ff:24"}, 13056},
    {0},
};

const tt_op_def tt_op_matmul_add = {
    .name = "matmul_add",
    .doc = "Matrix product, with bias, added to something.",
    .options = options,
    .params_bytes = sizeof(tt_matmul_params),
    .infer = infer_add,
    .cost = cost,
    .samples = samples_add,
};

const tt_op_def tt_op_matmul_gelu_grad = {
    .name = "matmul_gelu_grad",
    .doc = "Matrix product that is the gradient through a GELU.",
    .options = options,
    .params_bytes = sizeof(tt_matmul_params),
    .infer = infer_gelu_grad,
    .cost = cost,
    .samples = samples_gelu_grad,
};

const tt_op_def tt_op_matmul_grad_both = {
    .name = "matmul_grad_both",
    .doc = "Gradients of a matmul's shared right side and of its bias.",
    .options = options_both,
    .params_bytes = sizeof(tt_matmul_grad_w_params),
    .shape_only = 1U << TT_GB_W | 1U << TT_GB_B,
    .infer = infer_both,
    .cost = cost_both,
    .samples = samples_both,
};
