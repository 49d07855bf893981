// Plans of one rank of several: local shapes, collectives through a wire, stages.

#include "exec/world.h"
#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/comm/comm.h"
#include "ops/comm/exchange_points.h"
#include "ops/matmul.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

// Two ranks, x split over them: sum of all entries, then all-reduced.
static void build_split(tt_builder *b)
{
    tt_mesh *mesh = &b->graph->mesh;
    mesh->n_axes = 1;
    memcpy(mesh->axis[0].name, "data", 5);
    mesh->axis[0].size = 2;
    const tt_val x = tt_input(b, "x", TT_F64, "row:5 col:3");
    tt_place_set(b, x, 0, tt_place_split(0));
    const tt_val part = tt_reduce_dims(b, x, TT_REDUCE_SUM, NULL, 0);
    tt_place_set(b, part, 0, tt_place_partial(TT_SUM));
    const tt_val all = tt_all_reduce(b, part, 0, TT_SUM);
    tt_output(b, "y", tt_scale(b, all, 2));
}

// The other rank's part is 100.
static tt_status add_hundred(void *ctx, const tt_step *step,
                             const void *const *in, void *const *out)
{
    CHECK(strcmp(step->op->name, "all_reduce") == 0);
    CHECK(tt_operand_is_dense(&step->in[0].operand));
    *(double *)out[0] = *(const double *)in[0] + 100;
    ++*(int *)ctx;
    return TT_OK;
}

TEST(a_rank_computes_its_part_and_talks_through_the_wire)
{
    for (int rank = 0; rank < 2; rank++) {
        world w;
        world_init(&w);
        build_split(&w.b);
        CHECK_OK(tt_builder_take(&w.b, &w.graph));
        CHECK_OK(tt_backend_open(tt_backend_find("ref"), NULL, &w.backend));
        CHECK_OK(tt_plan_lower(w.graph, &w.backend->target,
                               &(tt_lower_options){.rank = rank}, &w.plan));
        CHECK(w.plan->cost.messages > 0 && w.plan->cost.wire_bytes > 0);
        CHECK(tt_exec_create(w.plan, w.backend, NULL, &w.exec) == TT_ERR_ARG);
        CHECK(strstr(tt_error_message(), "no wire") != NULL);
        int n_calls = 0;
        const tt_wire wire = {.collective = add_hundred, .ctx = &n_calls};
        const tt_exec_options options = {.wire = &wire};
        CHECK_OK(tt_exec_create(w.plan, w.backend, &options, &w.exec));
        const int n = rank == 0 ? 6 : 9; // rows 0, 1 and rows 2, 3, 4
        double x[9];
        for (int i = 0; i < 9; i++)
            x[i] = i + 1;
        CHECK_OK(tt_exec_write(w.exec, world_find(&w, "x"), x));
        CHECK_OK(tt_exec_run(w.exec, NULL, NULL));
        CHECK(world_scalar(&w, "y") == 2 * (n * (n + 1) / 2 + 100));
        CHECK(n_calls == 1);
        world_fini(&w);
    }
}

static tt_status fail_wire(void *ctx, const tt_step *step,
                           const void *const *in, void *const *out)
{
    (void)ctx;
    (void)step;
    (void)in;
    (void)out;
    return tt_fail(TT_ERR_PEER, "rank 1 is gone");
}

TEST(a_step_that_fails_is_named)
{
    world w;
    world_init(&w);
    (void)tt_scope_push(&w.b, "net");
    build_split(&w.b);
    CHECK_OK(tt_builder_take(&w.b, &w.graph));
    CHECK_OK(tt_backend_open(tt_backend_find("ref"), NULL, &w.backend));
    CHECK_OK(tt_plan_lower(w.graph, &w.backend->target, &(tt_lower_options){0},
                           &w.plan));
    const tt_wire wire = {.collective = fail_wire};
    const tt_exec_options options = {.wire = &wire};
    CHECK_OK(tt_exec_create(w.plan, w.backend, &options, &w.exec));
    CHECK(tt_exec_run(w.exec, NULL, NULL) == TT_ERR_PEER);
    CHECK_MSG(strcmp(tt_error_message(), "net: all_reduce: rank 1 is gone") ==
                  0,
              "%s", tt_error_message());
    world_fini(&w);
}

// A chain of layers, one stage each.
static void build_stages(tt_builder *b, int n_stages)
{
    const tt_init normal = {.kind = TT_INIT_NORMAL, .a = 0.5};
    const tt_matmul_params p = {0};
    tt_val h = tt_input(b, "x", TT_F64, "batch:4 in:3");
    for (int s = 0; s < 3; s++) {
        b->stage = s < n_stages ? s : n_stages - 1;
        const int scope = tt_scope_push(b, "layer.%d", s);
        const tt_val weight =
            tt_param(b, "w", normal, s == 0 ? "in:3 out:3" : "mid:3 out:3");
        h = tt_tanh(b, tt_matmul(b, h, weight, TT_NONE, &p));
        tt_scope_pop(b, scope);
    }
    const tt_val loss =
        tt_reduce_dims(b, tt_mul(b, h, h), TT_REDUCE_SUM, NULL, 0);
    tt_output(b, "loss", tt_tally(b, loss));
    CHECK_OK(tt_grad(b, loss, NULL, NULL));
    world_add_sgd(b);
    CHECK_OK(tt_builder_status(b));
}

TEST(stages_run_forward_then_backward)
{
    double want[9], got[9];
    for (int n_stages = 1; n_stages <= 3; n_stages++) {
        world w;
        world_init(&w);
        build_stages(&w.b, n_stages);
        world_open(&w, NULL, &(tt_lower_options){.n_micro = 2});
        for (int i = 0; i < 2; i++)
            CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
        world_read(&w, "layer.0.w", n_stages == 1 ? want : got);
        CHECK(n_stages == 1 || memcmp(want, got, sizeof(want)) == 0);
        if (n_stages == 3) {
            CHECK(strcmp(w.plan->segment[2].name, "forward.2") == 0);
            CHECK(strcmp(w.plan->segment[3].name, "backward.2") == 0);
            CHECK(strcmp(w.plan->segment[5].name, "backward.0") == 0);
        }
        CHECK_OK(tt_plan_verify(w.plan));
        world_fini(&w);
    }
}
