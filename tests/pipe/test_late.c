// Sums of gradients that end in the next step (exchange.chunks): weights after some steps
// are those of one rank, for families, levels of ZeRO, orders of buckets and micro-batches.

#include "test.h"
#include "train/crew.h"
#include "train/jobs.h"

enum { STEPS = 4, MOST = 12 };

typedef struct layout {
    int32_t ranks;
    const char *setting[5]; // ends with NULL
} layout;

static const layout layouts[] = {
    {2, {"exchange.chunks=2", NULL}},
    {2, {"exchange.chunks=4", "exchange.order=priority", NULL}},
    {3, {"exchange.chunks=3", "exchange.order=magnitude", NULL}},
    {2, {"exchange.chunks=3", "exchange.order=priority", "zero=1", NULL}},
    {2, {"exchange.chunks=3", "exchange.order=priority", "zero=2", NULL}},
    {2, {"exchange.chunks=3", "exchange.order=priority", "zero=3", NULL}},
    {4, {"exchange.chunks=2", "mesh.tensor=2", "zero=1", NULL}},
};

enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void check_family(const char *name, const char *accumulate)
{
    const family *f = family_named(name);
    const char *all[MOST] = {"precision=fp64",
                             "batch=12",
                             "model.layers=4",
                             "optim.clip=0",
                             "exchange.bucket=4000",
                             "pipe.steps=4",
                             accumulate,
                             NULL};
    const char *worst = "";
    const int n = 7;
    crew_run *one = crew_train(f, all, 1, STEPS);
    for (int i = 0; i < LAYOUTS; i++) {
        for (int k = 0; k < 5; k++)
            all[n + k] = layouts[i].setting[k];
        crew_run *run = crew_train(f, all, layouts[i].ranks, STEPS);
        const double rel = crew_difference(run, one, &worst);
        CHECK_MSG(rel <= 1e-9, "%s, layout %d: %s differs by %g", name, i,
                  worst, rel);
        CHECK_CLOSE(run->loss, one->loss, 1e-9);
        crew_free(run);
    }
    crew_free(one);
}

TEST_SLOW(sums_may_end_in_the_next_step, 120)
{
    check_family("gpt", "accumulate=1");
}

TEST_SLOW(sums_may_end_in_the_next_step_with_micro_batches, 120)
{
    check_family("llama", "accumulate=2");
}
