// Ranks that share a batch compute what one rank computes: every family, every level
// of ZeRO, any optimiser, blocks that are not equal.

#include "crew.h"
#include "jobs.h"
#include "test.h"

#include <stdio.h>

static const family *named(const char *name)
{
    return family_named(name);
}

static void check_near(const crew_run *run, const crew_run *one, double most,
                       const char *what)
{
    const char *worst = "";
    const double rel = crew_difference(run, one, &worst);
    CHECK_MSG(rel <= most, "%s: %s differs by %g, more than %g", what, worst,
              rel, most);
    CHECK_CLOSE(run->loss, one->loss, most);
    CHECK_CLOSE(run->norm, one->norm, most);
}

// 2, 3 and 4 ranks against one, with the same global batch.
static void check_ranks(const family *f, const char *const *more, int64_t steps,
                        double most)
{
    crew_run *one = crew_train(f, more, 1, steps);
    for (int32_t n = 2; n <= 4; n++) {
        char what[64];
        snprintf(what, sizeof what, "%s on %d ranks", f->name, n);
        crew_run *run = crew_train(f, more, n, steps);
        check_near(run, one, most, what);
        crew_free(run);
    }
    crew_free(one);
}

static void check_family(const char *name, const char *const *more,
                         int64_t steps, double most)
{
    check_ranks(named(name), more, steps, most);
}

TEST_SLOW(ranks_train_gpt_as_one_does, 120)
{
    const char *const more[] = {"precision=fp64",    "device=ref",
                                "batch=7",           "optim.lr=1e-3",
                                "model.dropout=0.1", NULL};
    check_family("gpt", more, 20, 1e-9);
}

TEST_SLOW(ranks_train_resnet_as_one_does, 240)
{
    const char *const more[] = {
        "precision=fp64", "device=ref",    "batch=6", "model.width=4",
        "optim=sgd",      "optim.lr=1e-3", NULL};
    check_family("resnet", more, 20, 1e-9);
}

TEST_SLOW(ranks_train_vgg_as_one_does, 240)
{
    const char *const more[] = {
        "precision=fp64", "device=ref",    "batch=5", "model.width=4",
        "optim=sgd",      "optim.lr=1e-3", NULL};
    check_family("vgg", more, 20, 1e-9);
}

TEST_ALL(ranks_train_whole_nets_as_one_does)
{
    static const family nets[] = {
        {"resnet18",
         {"model=resnet18", "model.classes=10", "image=32", "batch=5", NULL},
         true},
        {"vgg11",
         {"model=vgg11", "model.classes=10", "model.hidden=64", "image=32",
          "batch=4", NULL},
         true},
        {"gpt",
         {"model=gpt", "model.layers=4", "model.width=96", "model.heads=6",
          "model.vocab=301", "seq=33", "batch=6", NULL},
         false},
    };
    const char *const more[] = {"precision=fp64", "device=ref", "optim=sgd",
                                "optim.lr=1e-3", NULL};
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        check_ranks(&nets[i], more, 20, 1e-9);
}

TEST(ranks_make_a_step_in_fp32_as_one_does)
{
    // Adam would make large updates of gradients that are zero but for rounding. The
    // rate is so large that weights become their updates: of a small update little is
    // left when the sum with a weight is rounded, and one weight that goes to the other
    // neighbour would be more than all that ranks change.
    const char *const more[] = {"batch=8", "accumulate=2", "optim=sgd",
                                "optim.lr=1000", NULL};
    // A gradient is a sum of about 72 terms (8 samples of 9 tokens), which ranks add in
    // another order: 2^-24 per rounding, the square root of 72 of them, and so in each
    // of the about 16 products and norms between it and the loss. Seen: 5e-7.
    const double most = ldexp(1, -24) * sqrt(72 * 16.0);
    check_family("gpt", more, 1, most);
    check_family("llama", more, 1, most);
    check_family("lstm", more, 1, most);
}

// ZeRO moves numbers and changes none: the order of sums is that of rings or blocks,
// so equality is that of fp64.
static void check_zero(const char *optim)
{
    char optim_setting[32];
    snprintf(optim_setting, sizeof optim_setting, "optim=%s", optim);
    const char *plain[] = {
        "precision=fp64", "device=ref", "batch=6", "accumulate=2",
        optim_setting,    NULL,         NULL};
    crew_run *data = crew_train(named("gpt"), plain, 3, 20);
    for (int zero = 1; zero <= 3; zero++) {
        char setting[16], what[64];
        snprintf(setting, sizeof setting, "zero=%d", zero);
        snprintf(what, sizeof what, "%s with %s", optim, setting);
        plain[5] = setting;
        crew_run *run = crew_train(named("gpt"), plain, 3, 20);
        check_near(run, data, 1e-9, what);
        CHECK(run->optim_bytes == 0 ||
              run->optim_bytes < data->optim_bytes / 2);
        CHECK(zero < 3 || run->param_bytes < data->param_bytes / 2);
        crew_free(run);
    }
    crew_free(data);
}

TEST_SLOW(zero_is_data_parallel_for_sgd, 120)
{
    check_zero("sgd");
}

TEST_SLOW(zero_is_data_parallel_for_adamw, 120)
{
    check_zero("adamw");
}

TEST_SLOW(zero_is_data_parallel_for_lamb, 120)
{
    check_zero("lamb");
}

TEST_SLOW(zero_splits_every_family, 120)
{
    const char *const whole[] = {"precision=fp64", "device=ref", "batch=5",
                                 "optim=momentum", NULL};
    const char *const split[] = {"precision=fp64", "device=ref", "batch=5",
                                 "optim=momentum", "zero=3",     NULL};
    for (const family *f = families; f->name != NULL; f++) {
        crew_run *one = crew_train(f, whole, 1, 3);
        crew_run *run = crew_train(f, split, 4, 3);
        check_near(run, one, 1e-9, f->name);
        crew_free(run);
        crew_free(one);
    }
}

TEST(what_no_ranks_can_do_is_refused)
{
    const char *const batch[] = {"model=mlp", "image=7", "batch=3",
                                 "mesh.data=4", NULL};
    check_refused(batch, "batch=4 or mesh.data=3 would do");
    const char *const micro[] = {"model=mlp",    "image=7",     "batch=8",
                                 "accumulate=4", "mesh.data=4", NULL};
    check_refused(micro, "accumulate=2 or mesh.data=2 would do");
    const char *const collective[] = {"model=mlp", "image=7", "collective=rnig",
                                      NULL};
    check_refused(collective, "did you mean ring?");
}

TEST(a_rate_may_grow_with_the_batch)
{
    const struct {
        const char *scale, *batch;
        double rate;
    } cases[] = {
        {"optim.lr_scale=none", "optim.lr_batch=0", 0.1},
        {"optim.lr_scale=linear", "optim.lr_batch=0", 0.4},
        {"optim.lr_scale=sqrt", "optim.lr_batch=0", 0.2},
        {"optim.lr_scale=linear", "optim.lr_batch=2", 0.6},
        {"optim.lr_scale=sqrt", "optim.lr_batch=3", 0.2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const more[] = {"batch=12",     "mesh.data=4",
                                    "optim.lr=0.1", cases[i].scale,
                                    cases[i].batch, NULL};
        made m = make_job(named("mlp"), more);
        CHECK_CLOSE(m.job->rate, cases[i].rate, 1e-12);
        CHECK(m.job->lr == m.job->rate);
        close_job(&m);
    }
}

// Blocks of states lie where the whole does, also in the layouts that kernels of the
// CPU want, and sums are scattered over them by every algorithm.
static void check_in_place(const family *f, const char *collective, int32_t n)
{
    crew_run *plain = NULL;
    for (int zero = 0; zero <= 2; zero++) {
        char by[40], level[16], what[80];
        const char *const more[] = {by,
                                    level,
                                    "device=cpu",
                                    "optim=momentum",
                                    "optim.clip=0",
                                    "optim.lr=1e-3",
                                    NULL};
        snprintf(by, sizeof by, "collective=%s", collective);
        snprintf(level, sizeof level, "zero=%d", zero);
        snprintf(what, sizeof what, "%s by %s with zero=%d on %d ranks",
                 f->name, collective, zero, n);
        crew_run *run = crew_train(f, more, n, 3);
        if (zero == 0) {
            plain = run;
            continue;
        }
        check_near(run, plain, 2e-4, what);
        crew_free(run);
    }
    crew_free(plain);
}

TEST_SLOW(ranks_update_blocks_in_their_place, 240)
{
    static const family nets[] = {
        {"blocked vgg",
         {"model=vgg", "model.depth=11", "model.width=16", "model.hidden=64",
          "model.classes=7", "image=32", "batch=4", NULL},
         true},
        {"gpt",
         {"model=gpt", "model.layers=2", "model.width=64", "model.heads=4",
          "model.vocab=96", "seq=16", "batch=4", NULL},
         false}};
    static const char *const collectives[] = {
        "naive", "ring", "halving", "direct", "native", "hierarchical"};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 6; k++)
            check_in_place(&nets[i], collectives[k], 2 + 2 * (k % 2));
}
