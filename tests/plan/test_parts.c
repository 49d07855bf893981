// Blocks of weights that lie in a layout of the backend: where every rank's is a run
// of memory they are summed, updated and gathered as they lie; elsewhere densely.

#include "base/alloc.h"
#include "base/settings.h"
#include "ops/ops.h"
#include "test.h"
#include "train/job.h"

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

static bool has_layouts(const tt_plan *plan)
{
    for (int32_t v = 0; v < plan->graph->n_values; v++)
        if (plan->graph->value[v].role == TT_ROLE_PARAM &&
            plan->home[v].operand.layout != 0)
            return true;
    return false;
}

TEST(blocks_in_a_layout_travel_as_they_lie)
{
    planned p = make("mesh.data=2", "zero=1");
    if (has_layouts(p.plan)) { // not so on every CPU
        const counts sums = count(p.plan, &tt_op_reduce_scatter);
        const counts weights = count(p.plan, &tt_op_all_gather);
        CHECK_MSG(sums.in_layout >= 4, "%d of %d", sums.in_layout, sums.dense);
        CHECK(weights.in_layout == sums.in_layout);
        CHECK_MSG(sums.apart == 0, "%d", sums.apart);
        CHECK_MSG(weights.apart == 0, "%d", weights.apart);
    }
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
