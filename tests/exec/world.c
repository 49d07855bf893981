// world - a graph, its plan and an executor, for tests.

#include "exec/world.h"

#include "base/alloc.h"
#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/comm/exchange_points.h"
#include "ops/gradops.h"
#include "ops/matmul.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "test.h"

#include <math.h>
#include <string.h>

void world_init(world *w)
{
    *w = (world){0};
    CHECK_OK(tt_builder_init(&w->b, &tt_grad_ops_default));
    w->b.dtype = w->b.master = TT_F64;
    w->b.is_training = true;
}

void world_open(world *w, const tt_backend_def *def,
                const tt_lower_options *options)
{
    const tt_lower_options plain = {0};
    const tt_backend_options backend_options = {.n_threads = 1};
    const tt_exec_options exec_options = {
        .poison = true, .check_finite = true, .trace = true};
    CHECK_OK(tt_builder_take(&w->b, &w->graph));
    CHECK_OK(tt_backend_open(def != NULL ? def : tt_backend_find("ref"),
                             &backend_options, &w->backend));
    CHECK_OK(tt_plan_lower(w->graph, &w->backend->target,
                           options != NULL ? options : &plain, &w->plan));
    CHECK_OK(tt_exec_create(w->plan, w->backend, &exec_options, &w->exec));
    CHECK_OK(tt_exec_init_state(w->exec, 1));
}

void world_fini(world *w)
{
    tt_exec_destroy(w->exec);
    tt_plan_destroy(w->plan);
    tt_backend_close(w->backend);
    tt_graph_destroy(w->graph);
    tt_builder_fini(&w->b);
    CHECK(tt_alloc_live() == 0);
}

tt_val world_find(const world *w, const char *name)
{
    tt_val v = tt_graph_output_find(w->graph, name);
    if (!tt_is(v))
        v = tt_graph_find(w->graph, name);
    CHECK_MSG(tt_is(v), "no value %s", name);
    return v;
}

int world_count(const world *w, const char *op)
{
    int n = 0;
    for (int32_t s = 0; s < w->plan->n_steps; s++)
        n += strcmp(w->plan->step[s].op->name, op) == 0;
    return n;
}

double world_scalar(world *w, const char *name)
{
    double x = (double)NAN;
    CHECK_OK(tt_exec_get_scalar(w->exec, world_find(w, name), &x));
    return x;
}

void world_read(world *w, const char *name, double *data_out)
{
    const tt_val v = world_find(w, name);
    CHECK(tt_graph_value(w->graph, v)->type.dtype == TT_F64);
    CHECK_OK(tt_exec_read(w->exec, v, data_out));
}

void world_add_sgd(tt_builder *b)
{
    b->phase = TT_UPDATE;
    const int32_t n = b->graph->n_values;
    for (int32_t v = 0; v < n; v++) {
        const tt_val w = {v}, grad = b->graph->value[v].grad;
        if (b->graph->value[v].role != TT_ROLE_PARAM || !tt_is(grad))
            continue;
        b->origin = b->graph->value[v].name;
        tt_update(b, w, tt_agree(b, tt_add(b, w, tt_scale(b, grad, -0.1))));
    }
    b->origin = NULL;
    b->phase = TT_FORWARD;
}

void world_build_mlp(tt_builder *b, int64_t batch)
{
    tt_str shape = {0};
    tt_str_addf(&shape, "batch:%lld in:3", (long long)batch);
    const tt_matmul_params p = {0};
    const tt_init normal = {.kind = TT_INIT_NORMAL, .a = 0.5};
    const tt_val x = tt_input(b, "x", TT_F64, tt_str_text(&shape));
    tt_str_fini(&shape);
    tt_val w1 = tt_param(b, "w1", normal, "in:3 pair:2.half:4");
    tt_val w2 = tt_param(b, "w2", normal, "half:4 square:4");
    tt_val bias = tt_param(b, "bias", normal, "square:4");
    // w1 is used as a 2-d matrix after its factors were taken apart and joined.
    w1 = tt_reshape(b, w1, (int64_t[]){1, 1, 1}, 3);
    w1 = tt_reshape(b, w1, (int64_t[]){1, 2}, 2);
    tt_val part[TT_MAX_OUT];
    tt_split_factor(b, tt_tanh(b, tt_matmul(b, x, w1, TT_NONE, &p)), "pair",
                    part);
    // w2 is used twice: its gradient has two terms.
    tt_val h = tt_mul(b, part[0], part[1]);
    for (int i = 0; i < 2; i++) {
        (void)tt_scope_push(b, "layer.%d", i);
        h = tt_tanh(b, tt_matmul(b, h, w2, bias, &p));
        tt_scope_pop(b, 0);
    }
    const tt_val loss =
        tt_reduce_dims(b, tt_mul(b, h, h), TT_REDUCE_SUM, NULL, 0);
    tt_output(b, "loss", tt_tally(b, loss));
    CHECK_OK(tt_builder_status(b));
    CHECK_OK(tt_grad(b, loss, NULL, NULL));
    world_add_sgd(b);
    CHECK_OK(tt_builder_status(b));
}

tt_status world_feed_rows(void *user, tt_exec *exec, int32_t micro)
{
    const world *w = user;
    const tt_val x = world_find(w, "x");
    const tt_shape *shape = &tt_graph_value(w->graph, x)->type.shape;
    double data[3 * 64];
    const int64_t n = tt_shape_count(shape);
    for (int64_t i = 0; i < n; i++)
        data[i] = sin((double)(micro * n + i + 1));
    return tt_exec_write(exec, x, data);
}
