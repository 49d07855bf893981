// bench_products - the matrix products inside a model: which shapes they have, and how
// fast each would be by itself.
//
// The weighted mean of these rates is what the model's step could reach if it did
// nothing else and lost nothing. It is a fairer limit than the peak of the data sheet,
// because narrow shapes are slow for everybody.

#include "base/alloc.h"
#include "cli/bench/bench.h"
#include "ops/ops.h"

#include <string.h>

typedef struct product {
    tt_dtype dtype; // of its operands
    int64_t mnk[3];
    double flops; // of all steps with this shape
} product;

typedef struct products {
    product *list;
    int n;
} products;

static int64_t lead(const tt_operand *o)
{
    return tt_operand_count(o) / tt_operand_dim(o, o->local.shape.ndim - 1);
}

static int64_t last(const tt_operand *o)
{
    return tt_operand_dim(o, o->local.shape.ndim - 1);
}

static bool is_matrix(const tt_op_def *op)
{
    const tt_op_def *const all[] = {
        &tt_op_matmul,           &tt_op_matmul_fp8,    &tt_op_matmul_add,
        &tt_op_matmul_gelu_grad, &tt_op_matmul_grad_w, &tt_op_matmul_grad_both};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (op == all[i])
            return true;
    return false;
}

// The product that a step is: two extents from its operands, the third from its FLOPs,
// which are 2mnk.
static bool product_of(const tt_step *step, int64_t mnk[3])
{
    const tt_operand *x = &step->in[0].operand;
    const tt_operand *y = &step->out[0].operand;
    double third;
    if (is_matrix(step->op)) { // batched ones count as one wide product
        mnk[0] = lead(y);
        mnk[1] = last(y);
    } else if (step->op == &tt_op_conv || step->op == &tt_op_conv_relu ||
               step->op == &tt_op_conv_grad_x ||
               step->op == &tt_op_conv_grad_x_add) {
        mnk[1] = tt_operand_dim(y, 1);
        mnk[0] = tt_operand_count(y) / mnk[1];
    } else if (step->op == &tt_op_conv_grad_w) {
        mnk[0] = tt_operand_dim(y, 0);
        mnk[1] = tt_operand_count(y) / mnk[0];
    } else {
        return false;
    }
    third = step->cost.flops / 2 / (double)mnk[0] / (double)mnk[1];
    mnk[2] = third < 1 ? 1 : (int64_t)(third + 0.5);
    return x->dtype < TT_N_DTYPES;
}

static void add(products *p, tt_dtype dtype, const int64_t mnk[3], double flops)
{
    for (int i = 0; i < p->n; i++)
        if (p->list[i].dtype == dtype &&
            memcmp(p->list[i].mnk, mnk, sizeof p->list[i].mnk) == 0) {
            p->list[i].flops += flops;
            return;
        }
    memcpy(p->list[p->n].mnk, mnk, sizeof p->list[p->n].mnk);
    p->list[p->n].dtype = dtype;
    p->list[p->n++].flops = flops;
}

tt_status tt_bench_model_products(const tt_job *job, double *rate_out)
{
    const tt_plan *plan = job->plan;
    products p = {.list =
                      tt_alloc((int64_t)sizeof *p.list * (plan->n_steps + 1))};
    double flops = 0, seconds = 0;
    tt_status status = TT_OK;
    if (p.list == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a benchmark");
    for (int32_t s = 0; s < plan->n_steps; s++) {
        int64_t mnk[3];
        if (!product_of(&plan->step[s], mnk))
            continue;
        // Both kinds of 8 bits are as fast.
        const tt_dtype dtype = plan->step[s].in[0].operand.dtype;
        add(&p, dtype == TT_E5M2 ? TT_E4M3 : dtype, mnk,
            plan->step[s].cost.flops);
    }
    for (int i = 0; i < p.n && status == TT_OK; i++) {
        double one = 0;
        const int64_t *d = p.list[i].mnk;
        status = tt_bench_product(job->backend, p.list[i].dtype, d, &one);
        flops += p.list[i].flops;
        seconds += one * p.list[i].flops /
                   (2 * (double)d[0] * (double)d[1] * (double)d[2]);
    }
    tt_free(p.list);
    *rate_out = seconds > 0 ? flops / seconds : 0;
    return status;
}
