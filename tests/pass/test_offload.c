// What is offloaded comes back as it was, and the device holds it only meanwhile.

#include "base/alloc.h"
#include "base/settings/settings.h"
#include "job/job.h"
#include "ops/ops.h"
#include "pass/offload.h"
#include "pass/pass.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static tt_job *configure(const char *more, tt_arena *arena)
{
    tt_settings settings = {0};
    tt_job *job = NULL;
    char text[512], *rest = NULL;
    snprintf(text, sizeof text,
             "model=gpt model.layers=4 model.width=32 model.heads=2 "
             "model.vocab=61 model.context=16 batch=4 seq=16 threads=1 %s",
             more);
    for (char *t = strtok_r(text, " ", &rest); t != NULL;
         t = strtok_r(NULL, " ", &rest))
        CHECK_OK(tt_settings_assign(&settings, t, "test", arena));
    CHECK_OK(tt_job_configure(&settings, NULL, &job));
    CHECK_OK(tt_job_plan(job));
    return job;
}

static void write_leaf(tt_exec *exec, const tt_graph *g, int32_t v, int step)
{
    const tt_value *value = &g->value[v];
    const int64_t n = tt_shape_count(&value->type.shape);
    char *data = tt_alloc(n * tt_dtype_bytes(value->type.dtype));
    double number = strcmp(value->name, "lr") == 0     ? 1e-2
                    : strcmp(value->name, "step") == 0 ? step + 1
                                                       : 0;
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(value->type.dtype, data, i,
                       value->role == TT_ROLE_INPUT
                           ? (double)((i * 7 + step * 5 + value->name[0]) % 61)
                           : number);
    CHECK_OK(tt_exec_write(exec, (tt_val){v}, data));
    tt_free(data);
}

// Two runs; then everything that a step leaves behind.
static void run(const tt_plan *plan, tt_backend *backend, const tt_graph *names,
                tt_str *out)
{
    const tt_graph *g = plan->graph;
    tt_exec *exec = NULL;
    CHECK_OK(tt_exec_create(
        plan, backend, &(tt_exec_options){.poison = true, .check_finite = true},
        &exec));
    CHECK_OK(tt_exec_init_state(exec, 3));
    for (int i = 0; i < 2; i++) {
        for (int32_t v = 0; v < g->n_values; v++)
            if (g->value[v].role == TT_ROLE_INPUT ||
                g->value[v].role == TT_ROLE_SCALAR)
                write_leaf(exec, g, v, i);
        CHECK_OK(tt_exec_run(exec, NULL, NULL));
    }
    for (int32_t i = 0; i < names->n_values; i++) {
        const tt_value *value = &names->value[i];
        if (!tt_role_is_state(value->role))
            continue;
        const tt_val v = tt_graph_find(g, value->name);
        const int64_t n = tt_shape_count(&value->type.shape) *
                          tt_dtype_bytes(value->type.dtype);
        unsigned char *data = tt_alloc(n);
        uint64_t sum = 1469598103934665603u;
        CHECK_OK(tt_exec_read(exec, v, data));
        for (int64_t b = 0; b < n; b++)
            sum = (sum ^ data[b]) * 1099511628211u;
        tt_str_addf(out, "%s %llx\n", value->name, (unsigned long long)sum);
        tt_free(data);
    }
    CHECK(tt_exec_peak_used(exec) == plan->peak_bytes);
    CHECK(tt_exec_overrun(exec) < 0);
    tt_exec_destroy(exec);
}

static bool is_copy(const tt_step *step)
{
    return step->op == &tt_op_offload || step->op == &tt_op_reload;
}

// Every copy ends after it began, before anybody needs what it makes.
static void check_copies(const tt_plan *plan)
{
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const tt_step *step = &plan->step[s];
        int32_t end = -1;
        if (!is_copy(step))
            continue;
        for (int32_t t = 0; t < plan->n_steps; t++)
            for (int32_t c = plan->step[t].ends; c >= 0;
                 c = plan->step[c].next_end)
                if (c == s) {
                    CHECK(end < 0);
                    end = t;
                }
        CHECK(end >= s);
        for (int32_t t = s + 1; t <= end; t++)
            for (int i = 0; i < plan->step[t].n_in; i++)
                CHECK(plan->step[t].in[i].buffer != step->out[0].buffer);
        const bool is_in = step->op == &tt_op_reload;
        CHECK(plan->buffer[step->in[0].buffer].on_host == is_in);
        CHECK(plan->buffer[step->out[0].buffer].on_host == !is_in);
        CHECK(plan->buffer[step->in[0].buffer].last >= end);
    }
}

static void check(const char *more, tt_offload_params params)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = configure(more, arena);
    tt_graph *moved = NULL;
    tt_plan *plan = NULL;
    tt_str before = {0}, after = {0};
    CHECK_OK(
        tt_pass_apply(tt_pass_find("offload"), &params, job->graph, &moved));
    const tt_lower_options options = {.n_micro =
                                          (int32_t)job->options.accumulate};
    CHECK_OK(tt_plan_lower(moved, &job->backend->target, &options, &plan));
    CHECK_OK(tt_plan_verify(plan));
    CHECK(plan->peak_bytes < job->plan->peak_bytes);
    CHECK(plan->host_bytes > 0 && job->plan->host_bytes == 0);
    check_copies(plan);
    run(job->plan, job->backend, job->graph, &before);
    run(plan, job->backend, job->graph, &after);
    CHECK(strcmp(tt_str_text(&after), tt_str_text(&before)) == 0);
    tt_str_fini(&before);
    tt_str_fini(&after);
    tt_plan_destroy(plan);
    tt_graph_destroy(moved);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

TEST(states_on_the_host_are_updated_in_every_bit)
{
    check("device=ref", (tt_offload_params){.optimiser = true});
    check("device=cpu optim=adamw train.ema=0.9",
          (tt_offload_params){.optimiser = true});
}

TEST(activations_come_back_in_every_bit)
{
    check("device=ref accumulate=2", (tt_offload_params){.activations = true});
    check("device=cpu recompute=full", (tt_offload_params){true, true});
    check("device=cpu recompute=selective", (tt_offload_params){true, true});
}

// The optimiser's state is on the host but for what is small; the rest of the plan
// is what it was.
TEST(the_host_holds_what_the_device_does_not)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = configure("device=ref", arena);
    tt_graph *moved = NULL;
    tt_plan *plan = NULL;
    const tt_offload_params params = {.optimiser = true};
    CHECK_OK(
        tt_pass_apply(tt_pass_find("offload"), &params, job->graph, &moved));
    CHECK_OK(tt_plan_lower(moved, &job->backend->target, &(tt_lower_options){0},
                           &plan));
    const int64_t all = job->plan->bytes_by_use[TT_USE_OPTIM];
    const int64_t left = plan->bytes_by_use[TT_USE_OPTIM];
    CHECK_MSG(left + plan->host_bytes >= all && left < all / 20,
              "%lld of %lld on the device, %lld on the host", (long long)left,
              (long long)all, (long long)plan->host_bytes);
    CHECK(plan->host_bytes < all + 64 * 100);
    CHECK(plan->bytes_by_use[TT_USE_PARAM] ==
          job->plan->bytes_by_use[TT_USE_PARAM]);
    tt_plan_destroy(plan);
    tt_graph_destroy(moved);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

TEST(the_hosts_own_memory_is_not_offloaded)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_job *job = NULL;
    CHECK_OK(tt_settings_assign(&settings, "model=mlp", "test", arena));
    CHECK_OK(tt_settings_assign(&settings, "offload=all", "test", arena));
    CHECK_OK(tt_job_configure(&settings, NULL, &job));
    CHECK(tt_job_plan(job) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "device=cpu") != NULL);
    tt_job_close(job);
    tt_arena_destroy(arena);
}
