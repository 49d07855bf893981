// How many steps and bytes the plans of all families have on the reference device,
// as recorded: a lost in-place result, a copy too many or a buffer that lives too
// long changes no value, only these.

#include "base/alloc.h"
#include "families.h"
#include "golden.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static tt_job *plan(const family *f, int accumulate, const char *extra)
{
    char text[32];
    const char *const more[] = {"device=ref", "batch=6", text, extra, NULL};
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_job *job = NULL;
    snprintf(text, sizeof text, "accumulate=%d", accumulate);
    family_settings(f, more, &settings, arena);
    CHECK_OK(tt_job_configure(&settings, NULL, &job));
    CHECK_OK(tt_job_plan(job));
    tt_arena_destroy(arena);
    return job;
}

static void print(const family *f, int accumulate, const char *setting,
                  tt_str *out)
{
    tt_job *job = plan(f, accumulate, setting);
    const tt_plan *p = job->plan;
    tt_str_addf(out, "%s accumulate=%d %s: %d steps, %lld bytes", f->name,
                accumulate, setting, p->n_steps, (long long)p->peak_bytes);
    tt_str_addf(out, ", activations %lld, scratch %lld\n",
                (long long)p->bytes_by_use[TT_USE_ACTIVATION],
                (long long)p->bytes_by_use[TT_USE_SCRATCH]);
    tt_job_close(job);
}

TEST(golden_plans)
{
    tt_str text = {0};
    for (const family *f = families; f->name != NULL; f++) {
        print(f, 1, "recompute=none", &text);
        print(f, 3, "recompute=none", &text);
        print(f, 1, "recompute=selective", &text);
        print(f, 1, "recompute=full", &text);
    }
    CHECK_OK(tt_str_status(&text));
    golden_compare("plans", tt_str_text(&text));
    tt_str_fini(&text);
}

TEST(golden_plan)
{
    tt_job *job = plan(&families[0], 3, NULL);
    tt_str text = {0};
    tt_plan_print(job->plan, true, &text);
    CHECK_OK(tt_str_status(&text));
    golden_compare("plan", tt_str_text(&text));
    tt_str_fini(&text);
    tt_job_close(job);
}

// Both optimisers have one state and as many FLOPs: only the steps differ.
TEST(plans_that_differ_in_their_steps_have_other_hashes)
{
    tt_job *a = plan(&families[0], 1, "optim=adagrad");
    tt_job *b = plan(&families[0], 1, "optim=adagrad");
    tt_job *c = plan(&families[0], 1, "optim=momentum");
    CHECK(tt_plan_hash(a->plan) == tt_plan_hash(b->plan));
    CHECK(tt_plan_hash(a->plan) != tt_plan_hash(c->plan));
    tt_job_close(a);
    tt_job_close(b);
    tt_job_close(c);
}

TEST(a_trace_names_the_phases_of_its_steps)
{
    tt_job *job = plan(&families[3], 1, NULL);
    tt_step_result result;
    tt_str text = {0};
    CHECK_OK(tt_job_start(job, &(tt_exec_options){.trace = true}));
    CHECK_OK(tt_job_step(job, tt_job_feed_random, NULL, &result));
    CHECK_OK(tt_exec_trace_print(job->exec, &text));
    CHECK(strstr(tt_str_text(&text), "\"forward\"") != NULL);
    CHECK(strstr(tt_str_text(&text), "\"backward\"") != NULL);
    CHECK(strstr(tt_str_text(&text), "\"update\"") != NULL);
    tt_str_fini(&text);
    tt_job_close(job);
}

// Input and weight gradients are apart: how many nodes each phase has.
TEST(graphs_have_the_nodes_they_had_in_every_phase)
{
    tt_str text = {0};
    for (const family *f = families; f->name != NULL; f++)
        for (int p = 0; p < 2; p++) {
            int n[TT_N_PHASES] = {0};
            tt_job *job =
                plan(f, 1, p == 0 ? "precision=fp32" : "precision=bf16");
            for (int32_t i = 0; i < job->graph->n_nodes; i++)
                n[job->graph->node[i].phase]++;
            tt_str_addf(&text, "%s %s:", f->name, p == 0 ? "fp32" : "bf16");
            for (int i = 0; i < TT_N_PHASES; i++)
                tt_str_addf(&text, " %s %d", tt_phase_name(i), n[i]);
            tt_str_add(&text, "\n");
            tt_job_close(job);
        }
    CHECK_OK(tt_str_status(&text));
    golden_compare("phases", tt_str_text(&text));
    tt_str_fini(&text);
}
