// flops - the work of a step, by the formulas that papers use, so that MFU can be
// compared with other programs: 6 N per token (2 forward, 4 backward) plus
// attention for language models, three times the forward pass for image models.
// Recomputed work is not counted; element-wise work is not either.

#include "base/alloc.h"
#include "job/job.h"
#include "ops/ops.h"

#include <stdio.h>

// Replicas with weights of their own train these, not the model's.
static bool is_trained(const tt_graph *g, const tt_value *value)
{
    char name[512];
    snprintf(name, sizeof name, "%s.replica", value->name);
    return tt_is(value->grad) || tt_is(tt_graph_find(g, name));
}

static int64_t count_params(const tt_job *job, bool trained)
{
    int64_t n = 0;
    for (int32_t v = 0; v < job->graph->n_values; v++) {
        const tt_value *value = &job->graph->value[v];
        if (value->role == TT_ROLE_PARAM &&
            is_trained(job->graph, value) == trained)
            n += tt_shape_count(&value->type.shape);
    }
    return n;
}

int64_t tt_job_parameters(const tt_job *job)
{
    return count_params(job, true);
}

int64_t tt_job_frozen(const tt_job *job)
{
    return count_params(job, false);
}

// A matrix product or convolution, alone or fused with what follows it.
static bool is_product(const tt_op_def *op)
{
    const tt_op_def *const all[] = {&tt_op_matmul, &tt_op_matmul_add,
                                    &tt_op_matmul_fp8, &tt_op_conv,
                                    &tt_op_conv_relu};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (op == all[i])
            return true;
    return false;
}

// Work of the forward pass; a multiply-add counts as two.
static double forward_flops(const tt_job *job, bool only_attention)
{
    const tt_graph *g = job->graph;
    double flops = 0;
    for (int32_t n = 0; n < g->n_nodes; n++) {
        const tt_node *node = &g->node[n];
        const bool is_attention = node->op == &tt_op_attention;
        if (node->phase != TT_FORWARD ||
            (!is_attention && !is_product(node->op)) ||
            (only_attention && !is_attention))
            continue;
        tt_type in[8], out[TT_MAX_OUT];
        tt_op_io io;
        tt_cost cost = {0};
        tt_node_io(g, node, in, out, &io);
        node->op->cost(&io, 1, &cost);
        flops += cost.flops;
    }
    return flops;
}

double tt_job_flops(const tt_job *job)
{
    // A rank's graph has the nodes of its own replicas only.
    const double ranks =
        job->replicas.n > 0 ? (double)job->grid.size[TT_AXIS_DATA] : 1;
    const double steps = (double)job->step_samples / (double)job->options.batch;
    const double micro = ranks * (double)job->options.accumulate * steps;
    if (job->model->task == TT_TASK_IMAGES)
        return 3 * forward_flops(job, false) * micro;
    const double tokens = (double)(job->step_samples * job->io.seq);
    // A frozen weight gets no gradient, which saves one of the three products.
    const double per_token =
        6 * (double)tt_job_parameters(job) + 4 * (double)tt_job_frozen(job);
    return per_token * tokens + 3 * forward_flops(job, true) * micro;
}
