// How many steps and bytes the plans of all families have on the reference device,
// as recorded: a lost in-place result, a copy too many or a buffer that lives too
// long changes no value, only these. After an intended change, copy the new ones.

#include "base/alloc.h"
#include "families.h"
#include "golden.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

typedef struct figures {
    const char *name;
    int accumulate;
    int32_t steps;
    int64_t peak, activations, scratch;
    const char *setting; // one more, or NULL
} figures;

static const figures want[] = {
    {"gpt", 1, 154, 1137752, 194832, 294912},
    {"gpt", 3, 162, 1004232, 64944, 294912},
    {"llama", 1, 141, 738200, 180144, 294912},
    {"llama", 3, 148, 617608, 60048, 294912},
    {"lstm", 1, 65, 491616, 65376, 300672},
    {"lstm", 3, 67, 439136, 21792, 296832},
    {"mlp", 1, 32, 350256, 2616, 294912},
    {"mlp", 3, 34, 347792, 872, 294912},
    {"vit", 1, 109, 494000, 82320, 294912},
    {"vit", 3, 114, 428432, 27440, 294912},
    {"resnet", 1, 306, 3530144, 316776, 294912},
    {"resnet", 3, 308, 3272096, 108792, 294912},
    {"vgg", 1, 184, 4685024, 1178560, 294912},
    {"vgg", 3, 186, 3852000, 394688, 294912},
    {"gpt", 1, 161, 1101464, 163728, 294912, "recompute=selective"},
    {"gpt", 1, 168, 1053080, 100008, 310464, "recompute=full"},
    {"llama", 1, 149, 688088, 121392, 294912, "recompute=selective"},
    {"llama", 1, 167, 655576, 98064, 294912, "recompute=full"},
    {"resnet", 1, 346, 3408928, 196160, 294912, "recompute=selective"},
    {"resnet", 1, 382, 3428896, 192256, 294912, "recompute=full"},
    {"lstm", 1, 71, 486176, 60576, 300672, "recompute=selective"},
    {"lstm", 1, 75, 471712, 44640, 298752, "recompute=full"},
    {0},
};

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

static void check(const family *f, const figures *w)
{
    tt_job *job = plan(f, w->accumulate, w->setting);
    const tt_plan *p = job->plan;
    const figures got = {f->name,
                         w->accumulate,
                         p->n_steps,
                         p->peak_bytes,
                         p->bytes_by_use[TT_USE_ACTIVATION],
                         p->bytes_by_use[TT_USE_SCRATCH],
                         w->setting};
    CHECK_MSG(got.steps == w->steps && got.peak == w->peak &&
                  got.activations == w->activations &&
                  got.scratch == w->scratch,
              "{\"%s\", %d, %d, %lld, %lld, %lld} %s", got.name, got.accumulate,
              got.steps, (long long)got.peak, (long long)got.activations,
              (long long)got.scratch, w->setting ? w->setting : "");
    tt_job_close(job);
}

TEST(plans_have_the_steps_and_bytes_they_had)
{
    for (const figures *w = want; w->name != NULL; w++)
        for (const family *f = families; f->name != NULL; f++)
            if (strcmp(f->name, w->name) == 0)
                check(f, w);
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
