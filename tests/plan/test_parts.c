// Blocks of weights that lie in a layout of the backend: where every rank's is a run
// of memory they are summed, updated and gathered as they lie; elsewhere densely.

#include "backend/cpu/isa.h"
#include "base/alloc.h"
#include "base/settings/settings.h"
#include "job/job.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

typedef struct planned {
    tt_arena *arena;
    tt_job *job;
    tt_plan *plan; // the job's
} planned;

static planned make(const char *ranks, const char *zero)
{
    const char *const settings[] = {"model=vgg",
                                    "model.depth=11",
                                    "model.width=16",
                                    "model.hidden=64",
                                    "model.classes=10",
                                    "image=32",
                                    "batch=12",
                                    "optim=momentum",
                                    ranks,
                                    zero};
    planned p = {.arena = tt_arena_create()};
    tt_settings s = {0};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        CHECK_OK(tt_settings_assign(&s, settings[i], "test", p.arena));
    CHECK_OK(tt_job_configure(&s, NULL, &p.job));
    CHECK_OK(tt_job_plan(p.job));
    p.plan = p.job->plan;
    CHECK_OK(tt_plan_verify(p.plan));
    return p;
}

static void destroy(planned *p)
{
    tt_job_close(p->job);
    tt_arena_destroy(p->arena);
    CHECK(tt_alloc_live() == 0);
}

typedef struct counts {
    int in_layout, dense, apart;
} counts;

// Collectives of one kind on convolutions' weights; `apart`: not in one buffer.
static counts count(const tt_plan *plan, const tt_op_def *op)
{
    counts c = {0};
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const tt_step *step = &plan->step[s];
        const tt_ref *in = &step->in[0], *out = &step->out[0];
        if (step->op != op || in->operand.local.shape.ndim != 4)
            continue;
        CHECK((in->operand.layout == 0) == (out->operand.layout == 0));
        c.in_layout += in->operand.layout != 0;
        c.dense += in->operand.layout == 0;
        c.apart += in->buffer != out->buffer;
    }
    return c;
}

// Gathered weights of convolutions that lie in a layout.
static int homes_in_layout(const tt_plan *plan)
{
    int n = 0;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const tt_step *step = &plan->step[s];
        const tt_ref *out = &step->out[0];
        if (step->op != &tt_op_all_gather || out->operand.local.shape.ndim != 4)
            continue;
        for (int32_t v = 0; v < plan->graph->n_values; v++)
            n += plan->graph->value[v].role == TT_ROLE_PARAM &&
                 plan->home[v].buffer == out->buffer &&
                 plan->home[v].operand.layout != 0;
    }
    return n;
}

// The layout in which the library computed the gradient that a step sums up; -1: some
// other step wrote it last.
static int32_t computed_in(const tt_plan *plan, int32_t sum)
{
    const int32_t buffer = plan->step[sum].in[0].buffer;
    for (int32_t s = sum - 1; s >= 0; s--)
        if (plan->step[s].out[0].buffer == buffer)
            return plan->step[s].op == &tt_op_conv_grad_w
                       ? plan->step[s].out[0].operand.layout
                       : -1;
    return -1;
}

// Which layouts there are is the library's choice, and differs between processors:
// AVX2's kernels compute some gradients densely, the plainest all of them. What is ours:
// each travels as it was computed, and each weight as it lies.
TEST(blocks_in_a_layout_travel_as_they_lie)
{
    planned p = make("mesh.data=2", "zero=1");
    const counts sums = count(p.plan, &tt_op_reduce_scatter);
    const counts weights = count(p.plan, &tt_op_all_gather);
    CHECK(sums.in_layout + sums.dense >= 4);
    for (int32_t s = 0; s < p.plan->n_steps; s++)
        if (p.plan->step[s].op == &tt_op_reduce_scatter &&
            p.plan->step[s].in[0].operand.local.shape.ndim == 4)
            CHECK(computed_in(p.plan, s) ==
                  p.plan->step[s].in[0].operand.layout);
    CHECK_MSG(weights.in_layout == homes_in_layout(p.plan), "%d of %d",
              weights.in_layout, homes_in_layout(p.plan));
    CHECK_MSG(sums.apart == 0, "%d", sums.apart);
    CHECK_MSG(weights.apart == 0, "%d", weights.apart);
    if (tt_isa_used() > TT_ISA_BASE) // else there may be none to look at
        CHECK_MSG(sums.in_layout >= 4 && weights.in_layout >= 4, "%d, %d",
                  sums.in_layout, weights.in_layout);
    destroy(&p);
}

// 128 filters are no three equal blocks.
TEST(blocks_that_differ_between_ranks_are_dense)
{
    planned p = make("mesh.data=3", "zero=1");
    CHECK(count(p.plan, &tt_op_reduce_scatter).in_layout == 0);
    CHECK(count(p.plan, &tt_op_all_gather).in_layout == 0);
    CHECK(count(p.plan, &tt_op_all_gather).dense >= 4);
    destroy(&p);
}

// Scattered in backward, from buffers that die there.
TEST(gradients_in_parts_lie_in_buffers_of_their_own)
{
    planned p = make("mesh.data=2", "zero=2");
    const counts sums = count(p.plan, &tt_op_reduce_scatter);
    CHECK(sums.apart >= 4 && sums.apart == sums.in_layout + sums.dense);
    destroy(&p);
}
