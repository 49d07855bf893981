// A chain keeps the order of list.h, whoever adds first; when a pass fails the graph is
// what the one before it made.

#include "base/alloc.h"
#include "base/settings/settings.h"
#include "job/job.h"
#include "pass/chain.h"
#include "pass/partition/partition.h"
#include "test.h"

#include <string.h>

static tt_job *plan(tt_arena *arena)
{
    static const char *const words[] = {
        "model=gpt",      "model.layers=2",  "model.width=16", "model.heads=2",
        "model.vocab=12", "model.context=8", "batch=4",        "seq=8",
        "precision=fp64", "device=ref",      "threads=1"};
    tt_settings settings = {0};
    tt_job *job = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        CHECK_OK(tt_settings_assign(&settings, words[i], "test", arena));
    CHECK_OK(tt_job_configure(&settings, NULL, &job));
    CHECK_OK(tt_job_plan(job));
    return job;
}

static tt_graph *copy(const tt_graph *g)
{
    const int none = 0; // recomputes nothing: a copy
    tt_graph *made = NULL;
    CHECK_OK(tt_pass_apply(&tt_pass_recompute, &none, g, &made));
    return made;
}

static void print(const tt_graph *g, tt_str *out)
{
    tt_graph_print(g, out);
    CHECK(out->n > 1000);
}

TEST(a_chain_has_one_order)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan(arena);
    const int full = 2;
    tt_partition_params cut = {0};
    CHECK_OK(tt_opt_defaults(tt_pass_partition.options, &cut, arena));
    cut.mesh = "data:2";
    cut.layout = "batch:data";
    tt_str text[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        tt_chain chain = {0};
        tt_graph *g = copy(job->graph);
        if (i == 0)
            tt_chain_add(&chain, &tt_pass_recompute, &full);
        tt_chain_add(&chain, &tt_pass_partition, &cut);
        if (i == 1)
            tt_chain_add(&chain, &tt_pass_recompute, &full);
        CHECK_OK(tt_chain_apply(&chain, &g));
        print(g, &text[i]);
        tt_graph_destroy(g);
    }
    CHECK(strcmp(tt_str_text(&text[0]), tt_str_text(&text[1])) == 0);
    // Partition came first: what is computed again sends nothing again.
    tt_graph *parts = NULL, *again = NULL;
    tt_str want = {0};
    CHECK_OK(tt_pass_apply(&tt_pass_partition, &cut, job->graph, &parts));
    CHECK_OK(tt_pass_apply(&tt_pass_recompute, &full, parts, &again));
    print(again, &want);
    CHECK(strcmp(tt_str_text(&want), tt_str_text(&text[0])) == 0);
    tt_graph_destroy(parts);
    tt_graph_destroy(again);
    tt_str_fini(&want);
    tt_str_fini(&text[0]);
    tt_str_fini(&text[1]);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

TEST(a_chain_that_fails_leaves_the_last_good_graph)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan(arena);
    tt_partition_params bad = {0};
    tt_chain chain = {0};
    CHECK_OK(tt_opt_defaults(tt_pass_partition.options, &bad, arena));
    bad.mesh = "data:2";
    bad.layout = "nonsense";
    tt_graph *g = copy(job->graph);
    tt_str before = {0}, after = {0};
    print(g, &before);
    tt_chain_add(&chain, &tt_pass_partition, &bad);
    CHECK(tt_chain_apply(&chain, &g) != TT_OK);
    CHECK(strstr(tt_error_message(), "pass partition") != NULL);
    print(g, &after);
    CHECK(strcmp(tt_str_text(&before), tt_str_text(&after)) == 0);
    tt_str_fini(&before);
    tt_str_fini(&after);
    tt_graph_destroy(g);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

// ---- when memory ends ---------------------------------------------------

// Applies a pass with memory that ends at each allocation in turn. Returns how many there
// were.
static int64_t starve(const tt_pass_def *pass, const void *params,
                      const tt_graph *g)
{
    const int64_t alive = tt_alloc_live();
    int64_t k = 1;
    for (bool fails = true; fails; k++) {
        tt_graph *made = NULL;
        tt_alloc_fail_at(k);
        const tt_status status = tt_pass_apply(pass, params, g, &made);
        tt_alloc_fail_at(0);
        tt_graph_destroy(made);
        fails = status != TT_OK;
        CHECK_MSG(!fails || status == TT_ERR_NOMEM, "%s, allocation %d: %s",
                  pass->name, (int)k, tt_error_message());
        CHECK_MSG(tt_alloc_live() == alive, "%s, allocation %d leaks",
                  pass->name, (int)k);
    }
    return k;
}

TEST_SLOW(without_memory_every_pass_fails_and_leaves_nothing, 120)
{
    tt_arena *arena = tt_arena_create();
    tt_job *job = plan(arena);
    int n = 0, tried = 0;
    const tt_pass_def *const *all = tt_pass_all(&n);
    for (int i = 0; i < n; i++)
        for (const char *const *o = all[i]->samples; o != NULL && *o; o++) {
            void *params = tt_arena_alloc(arena, all[i]->params_bytes);
            CHECK_OK(tt_opt_defaults(all[i]->options, params, arena));
            CHECK_OK(tt_opt_parse(all[i]->options, params, *o, arena));
            CHECK(starve(all[i], params, job->graph) > 10);
            tried++;
        }
    CHECK(tried >= 4);
    tt_job_close(job);
    tt_arena_destroy(arena);
}
