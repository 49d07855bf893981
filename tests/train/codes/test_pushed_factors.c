// Workers that push activations and errors to a server (exchange.policy=ps
// exchange.codec=factors): weights are those of pushed gradients, and bytes are fewer. That
// ranks, clocks and stops make no difference is tests/e2e/async/codes.sh.

#include "job/workers.h"
#include "test.h"
#include "train/crew.h"
#include "train/jobs.h"

#include <math.h>
#include <string.h>

enum { SETTINGS = 16 };

#define WORKERS "exchange.policy=ps", "exchange.replicas=4"
#define WIDE "model.width=64", WORKERS

static crew_run *train(const family *f, const char *const *more,
                       const char *codec)
{
    const char *all[SETTINGS];
    int n = 0;
    for (; more[n] != NULL; n++)
        all[n] = more[n];
    all[n++] = "precision=fp64";
    all[n++] = codec;
    all[n] = NULL;
    return crew_train(f, all, 1, 3);
}

TEST_SLOW(pushed_factors_give_the_weights_of_pushed_gradients, 120)
{
    static const family lenet = {
        "lenet", {"model=lenet", "model.classes=7", "image=28", NULL}, true};
    static const char *const table[][SETTINGS] = {
        {"mlp", WIDE, "batch=8"},
        {"mlp", WIDE, "batch=24", "accumulate=3"},
        {"mlp", WIDE, "batch=8", "exchange.clock=bsp",
         "exchange.gather=median"},
        {"mlp", WIDE, "batch=8", "exchange.staleness=compensate"},
        // some workers have finished fewer micro-batches, and some none
        {"mlp", WIDE, "batch=16", "accumulate=4", "exchange.clock=absp",
         "exchange.bound=1", "exchange.spread=0.9"},
        {"lenet", WORKERS, "batch=8"},
        {"lenet", WORKERS, "batch=16", "accumulate=2"},
        {"gpt", "model.width=48", "seq=2", WORKERS, "batch=8", "accumulate=2"},
        {"gpt", "model.width=48", "seq=2", WORKERS, "batch=4", "recompute=full",
         "loss.chunks=2"},
        {"vgg", "model.hidden=64", WORKERS, "batch=8"}, // has statistics
        {"lstm", "model.hidden=40", "seq=2", WORKERS, "batch=8"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *const *more = table[i] + 1, *worst = "";
        const family *f = strcmp(table[i][0], "lenet") == 0
                              ? &lenet
                              : family_named(table[i][0]);
        crew_run *factors = train(f, more, "exchange.codec=factors");
        crew_run *dense = train(f, more, "exchange.codec=none");
        const double rel = crew_difference(factors, dense, &worst);
        CHECK_MSG(rel < 1e-9, "row %d, %s: %s differs by %g", (int)i, f->name,
                  worst, rel);
        crew_free(factors);
        crew_free(dense);
    }
}

// ---- bytes ---------------------------------------------------------------

// Weights of 49 x 64, 64 x 64 and 64 x 1000, and a bias of each.
enum { N_LAYERS = 3 };
static const int64_t in[N_LAYERS] = {49, 64, 64},
                     out[N_LAYERS] = {64, 64, 1000};

// A length and what follows, up to the next 8 bytes.
static int64_t framed(int64_t bytes)
{
    return 8 + (bytes + 7) / 8 * 8;
}

// Of a push with `rows` rows of numbers of so many bytes; gradients have 4.
static int64_t expected(int64_t rows, int64_t each, int *n_factored)
{
    int64_t sum = 0, dense = 0;
    *n_factored = 0;
    for (int i = 0; i < N_LAYERS; i++) {
        const int64_t gradient = 4 * in[i] * out[i];
        const bool pays = each * rows * (in[i] + out[i]) < gradient;
        *n_factored += pays;
        sum += pays ? framed(each * rows * in[i]) + framed(each * rows * out[i])
                    : framed(gradient);
        sum += framed(4 * out[i]);
        dense += gradient + 4 * out[i];
    }
    return *n_factored > 0 ? sum : dense;
}

TEST(factors_are_pushed_where_they_are_fewer_bytes)
{
    enum { STEPS = 3 };
    static const struct {
        const char *batch, *accumulate, *precision;
        int64_t rows, each;
        int n_factored;
    } table[] = {
        {"batch=4", "accumulate=1", "precision=fp32", 2, 4, 3},
        {"batch=54", "accumulate=1", "precision=fp32", 27, 4, 3},
        {"batch=56", "accumulate=1", "precision=fp32", 28, 4, 2},
        {"batch=56", "accumulate=2", "precision=fp32", 28, 4, 2},
        {"batch=80", "accumulate=4", "precision=fp32", 40, 4, 1},
        {"batch=122", "accumulate=1", "precision=fp32", 61, 4, 0},
        // factors of 16 bits, gradients of 32
        {"batch=80", "accumulate=2", "precision=bf16", 40, 2, 3},
        {"batch=122", "accumulate=1", "precision=bf16", 61, 2, 2},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *more[] = {"model.width=64",     "model.classes=1000",
                              "exchange.policy=ps", "exchange.replicas=2",
                              "optim=sgd",          "exchange.codec=factors",
                              table[i].batch,       table[i].accumulate,
                              table[i].precision,   NULL};
        made m = start_job(family_named("mlp"), more, false);
        tt_workers did;
        int n = 0;
        const int64_t push = expected(table[i].rows, table[i].each, &n);
        int64_t sum = 0;
        for (int k = 0; k < STEPS; k++)
            CHECK(isfinite(step_job(&m).loss));
        CHECK_OK(tt_job_workers_did(m.job, m.arena, &did));
        for (int32_t k = 0; k < did.n; k++)
            sum += did.worker[k].up;
        CHECK_MSG(n == table[i].n_factored && sum == did.pushed * push,
                  "%s %s %s: %d factored, %lld bytes in %lld pushes of %lld",
                  table[i].batch, table[i].accumulate, table[i].precision, n,
                  (long long)sum, (long long)did.pushed, (long long)push);
        close_job(&m);
    }
}

// Gradients that are too long, of so many steps.
static int64_t refused(const char *codec, int steps, int64_t *pushed_out)
{
    const char *more[] = {WIDE, "batch=8", "exchange.limit=1.3", codec, NULL};
    made m = start_job(family_named("mlp"), more, false);
    tt_workers did;
    for (int i = 0; i < steps; i++)
        (void)step_job(&m);
    CHECK_OK(tt_job_workers_did(m.job, m.arena, &did));
    const int64_t n = did.refused;
    *pushed_out = did.pushed;
    close_job(&m);
    return n;
}

TEST(gradients_that_are_pushed_as_factors_are_judged)
{
    int64_t pushed = 0;
    const int64_t dense = refused("exchange.codec=none", 8, &pushed);
    const int64_t factors = refused("exchange.codec=factors", 8, &pushed);
    CHECK_MSG(dense > 0 && dense < pushed && factors == dense,
              "of %lld gradients %lld are refused, as factors %lld",
              (long long)pushed, (long long)dense, (long long)factors);
}

TEST(changes_of_weights_have_no_factors)
{
    static const struct {
        const char *setting[SETTINGS], *message;
    } table[] = {
        {{"exchange.local_steps=2"}, "exchange.local_steps=1 would do"},
        {{"exchange.optimiser=worker"}, "exchange.optimiser=server would do"},
        {{"exact=true"}, "exchange.codec=none would do"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *more[] = {"model=mlp",         WORKERS,
                              "batch=16",          "exchange.codec=factors",
                              table[i].setting[0], NULL};
        check_refused(more, table[i].message);
    }
}
