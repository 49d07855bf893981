// train.freeze, optim.no_decay, optim.lr_groups: patterns over tensor names.

#include "base/alloc.h"
#include "config/globs.h"
#include "jobs.h"
#include "test.h"

#include <string.h>

TEST(globs_match)
{
    static const struct {
        const char *pattern, *name;
        bool is_match;
    } cases[] = {
        {"*", "", true},
        {"*", "a.b", true},
        {"", "", true},
        {"", "a", false},
        {"h.?.*", "h.1.ln.weight", true},
        {"h.?.*", "h.11.ln.weight", false},
        {"h.[0-3].*", "h.3.x", true},
        {"h.[0-3].*", "h.4.x", false},
        {"h.[!0-3].*", "h.4.x", true},
        {"h.[!0-3].*", "h.2.x", false},
        {"*.bias", "a.bias", true},
        {"*.bias", "a.bias2", false},
        {"*a*b*c", "xxaxxbxxbxxc", true},
        {"*a*b*c", "xxaxxcxxb", false},
        {"[]x]", "]", true},
        {"[x-]", "-", true},
        {"[ab", "[ab", true},
        {"a**", "a", true},
        {"*aab", "aaaab", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_MSG(tt_glob_match(cases[i].pattern, cases[i].name) ==
                      cases[i].is_match,
                  "%s and %s", cases[i].pattern, cases[i].name);
}

TEST(globs_are_read)
{
    tt_arena *arena = tt_arena_create();
    tt_globs g;
    CHECK_OK(tt_globs_read("k", "", false, arena, &g));
    CHECK(g.n == 0);
    CHECK_OK(tt_globs_read("k", " [ a*, h.[0,1].* ] ", false, arena, &g));
    CHECK(g.n == 2 && strcmp(g.v[0].pattern, "a*") == 0 &&
          strcmp(g.v[1].pattern, "h.[0,1].*") == 0);
    CHECK_OK(tt_globs_read("k", "[ab]*.[cd]", false, arena, &g));
    CHECK(g.n == 1 && strcmp(g.v[0].pattern, "[ab]*.[cd]") == 0);
    CHECK_OK(tt_globs_read("k", "a:0.5,*.b:2", true, arena, &g));
    CHECK(g.n == 2 && g.v[0].factor == 0.5 && g.v[1].factor == 2 &&
          strcmp(g.v[1].pattern, "*.b") == 0);
    CHECK(tt_globs_find(&g, "x.b") == &g.v[1] && !tt_globs_find(&g, "c"));
    CHECK(tt_globs_read("k", "a,,b", false, arena, &g) == TT_ERR_ARG);
    CHECK(tt_globs_read("k", "a", true, arena, &g) == TT_ERR_ARG);
    CHECK(tt_globs_read("k", "a:-1", true, arena, &g) == TT_ERR_ARG);
    CHECK(tt_globs_read("k", "a:nan", true, arena, &g) == TT_ERR_ARG);
    tt_arena_destroy(arena);
}

// How far a weight is from where it was at the start.
static double moved(const made *now, const made *before, const char *name)
{
    const tt_tensor *t = tt_tensors_find(&now->job->tensors, name);
    CHECK_MSG(t != NULL, "no %s", name);
    float *a = tt_alloc(t->bytes), *b = tt_alloc(t->bytes);
    CHECK_OK(tt_tensor_read(now->job->exec, t, a));
    CHECK_OK(tt_tensor_read(before->job->exec,
                            tt_tensors_find(&before->job->tensors, name), b));
    double sum = 0;
    for (int64_t i = 0; i < t->count; i++)
        sum += fabs((double)(a[i] - b[i]));
    tt_free(a);
    tt_free(b);
    return sum / (double)t->count;
}

TEST(frozen_weights_stay_and_cost_nothing)
{
    static const char *const frozen[] = {
        "train.freeze=[transformer.wte.weight, *.h.0.*]", "train.ema=0.9",
        NULL};
    static const char *const free_[] = {"train.ema=0.9", NULL};
    const family *f = family_named("gpt");
    made a = start_job(f, frozen, false), start = start_job(f, frozen, false);
    made b = start_job(f, free_, false);
    step_job(&a);
    step_job(&b);
    CHECK(moved(&a, &start, "transformer.wte.weight") == 0);
    CHECK(moved(&a, &start, "transformer.h.0.mlp.c_fc.weight") == 0);
    CHECK(moved(&a, &start, "transformer.h.1.mlp.c_fc.weight") > 0);
    CHECK(moved(&a, &start, "transformer.wpe.weight") > 0);
    const tt_tensors *all = &a.job->tensors;
    CHECK(tt_tensors_find(all, "transformer.wte.weight.exp_avg") == NULL);
    CHECK(tt_tensors_find(all, "transformer.wte.weight.ema") == NULL);
    CHECK(tt_tensors_find(all, "transformer.wpe.weight.ema") != NULL);
    CHECK(a.job->plan->peak_bytes < b.job->plan->peak_bytes);
    CHECK(a.job->plan->bytes_by_use[TT_USE_GRAD] <
          b.job->plan->bytes_by_use[TT_USE_GRAD]);
    CHECK(a.job->plan->cost.flops < b.job->plan->cost.flops);
    CHECK(tt_job_frozen(b.job) == 0 && tt_job_frozen(a.job) > 37 * 24);
    CHECK(tt_job_frozen(a.job) + tt_job_parameters(a.job) ==
          tt_job_parameters(b.job));
    CHECK(tt_job_flops(a.job) < tt_job_flops(b.job));
    close_job(&a);
    close_job(&b);
    close_job(&start);
}

// Only a head to train: nothing is differentiated below it.
TEST(frozen_bodies_need_no_backward_pass)
{
    static const char *const head[] = {"train.freeze=conv1*,bn1*,layer*",
                                       "batch=4", NULL};
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const char *const more[] = {
            head[0], head[1], bf16 ? "precision=bf16" : "precision=fp32", NULL};
        made m = start_job(family_named("resnet"), more, false);
        made start = start_job(family_named("resnet"), more, false);
        step_job(&m);
        CHECK(moved(&m, &start, "layer1.0.conv1.weight") == 0);
        CHECK(moved(&m, &start, "fc.weight") > 0);
        CHECK(moved(&m, &start, "bn1.running_mean") > 0);
        for (int32_t n = 0; n < m.job->graph->n_nodes; n++)
            CHECK(strstr(m.job->graph->node[n].op->name, "conv_grad") == NULL);
        close_job(&m);
        close_job(&start);
    }
}

TEST(patterns_without_a_match_are_refused)
{
    static const char gpt[] = "model.layers=2";
    check_refused(
        (const char *const[]){gpt, "train.freeze=transfomer.h.0.*", NULL},
        "no weight is called \"transfomer.h.0.*\"; did you mean "
        "\"transformer.h.0.*\"?");
    check_refused(
        (const char *const[]){gpt, "train.freeze=transformer.wte.wieght", NULL},
        "did you mean \"transformer.wte.weight\"?");
    check_refused((const char *const[]){gpt, "train.freeze=*.foo", NULL},
                  "no weight is called \"*.foo\"; there are "
                  "transformer.wte.weight, transformer.wpe.weight, ");
    check_refused((const char *const[]){gpt, "optim.no_decay=x*", NULL},
                  "optim.no_decay: no weight");
    check_refused((const char *const[]){gpt, "optim.lr_groups=x*:2", NULL},
                  "optim.lr_groups: no weight");
    check_refused((const char *const[]){gpt, "train.freeze=*", NULL},
                  "train.freeze leaves no weight to train");
    check_refused((const char *const[]){gpt, "optim.lr_groups=*.bias", NULL},
                  "not of the form PATTERN:FACTOR");
}

TEST(groups_have_their_own_rates)
{
    static const char *const more[] = {
        "optim=sgd", "optim.clip=0",
        "optim.lr_groups=[layers.0.*:0, layers.2.weight:3]", NULL};
    static const char *const same[] = {"optim=sgd", "optim.clip=0", NULL};
    const family *f = family_named("mlp");
    made a = start_job(f, more, false), b = start_job(f, same, false);
    made start = start_job(f, same, false);
    a.job->lr = b.job->lr = 0.5;
    step_job(&a);
    step_job(&b);
    CHECK(moved(&a, &start, "layers.0.weight") == 0);
    CHECK(moved(&b, &start, "layers.0.weight") > 0);
    CHECK_CLOSE(moved(&a, &start, "layers.2.weight") /
                    moved(&b, &start, "layers.2.weight"),
                3, 1e-3);
    CHECK(moved(&a, &b, "layers.2.bias") == 0);
    close_job(&a);
    close_job(&b);
    close_job(&start);
}

TEST(weights_may_be_spared_from_decay)
{
    static const char *const spared[] = {"optim.weight_decay=10",
                                         "optim.no_decay=layers.0.*", NULL};
    static const char *const all[] = {"optim.weight_decay=10", NULL};
    static const char *const none[] = {"optim.weight_decay=0", NULL};
    const family *f = family_named("mlp");
    made a = start_job(f, spared, false), b = start_job(f, all, false);
    made c = start_job(f, none, false);
    step_job(&a);
    step_job(&b);
    step_job(&c);
    CHECK(moved(&a, &c, "layers.0.weight") == 0);
    CHECK(moved(&b, &c, "layers.0.weight") > 0);
    CHECK(moved(&a, &b, "layers.2.weight") == 0);
    close_job(&a);
    close_job(&b);
    close_job(&c);
}
