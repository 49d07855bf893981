// Factors of gradients (exchange.codec=factors): ranks compute what one does, and factors
// are sent where they are fewer bytes.

#include "ops/ops.h"
#include "test.h"
#include "train/crew.h"
#include "train/jobs.h"

#include <string.h>

enum { SETTINGS = 10 };

TEST_SLOW(factors_give_the_weights_of_one_rank, 120)
{
    static const struct {
        const char *family;
        int32_t ranks;
        const char *setting[SETTINGS];
    } table[] = {
        {"mlp", 2, {"model.width=64", "batch=4"}},
        {"mlp", 3, {"model.width=64", "batch=7"}}, // parts of different size
        {"mlp", 4, {"model.width=64", "batch=4", "zero=1"}},
        {"gpt", 2, {"model.width=48", "seq=2", "batch=8", "accumulate=2"}},
        {"gpt", 4, {"model.width=48", "seq=2", "mesh.tensor=2"}},
        {"gpt",
         4,
         {"model.width=48", "seq=2", "mesh.pipe=2", "batch=4", "accumulate=2"}},
        {"lstm", 2, {"model.hidden=40", "seq=2", "batch=4"}},
        {"vgg", 2, {"model.hidden=64", "batch=2", "model.batch_norm=false"}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *more[SETTINGS + 3], *one[SETTINGS + 3], *worst = "";
        int n = 0, m = 0;
        for (int k = 0; table[i].setting[k] != NULL; k++) {
            more[n++] = table[i].setting[k];
            if (strncmp(table[i].setting[k], "mesh.", 5) != 0)
                one[m++] = table[i].setting[k];
        }
        more[n++] = one[m++] = "precision=fp64";
        more[n++] = one[m++] = "exchange.codec=factors";
        more[n] = one[m] = NULL;
        const family *f = family_named(table[i].family);
        crew_run *many = crew_train(f, more, table[i].ranks, 3);
        crew_run *alone = crew_train(f, one, 1, 3);
        const double rel = crew_difference(many, alone, &worst);
        CHECK_MSG(rel < 1e-9, "%s %s: %s differs by %g", f->name, more[0],
                  worst, rel);
        crew_free(many);
        crew_free(alone);
    }
}

// How often an operator stands outside the update, of a plan for two ranks.
static int count(const char *const *more, const tt_op_def *op)
{
    made m = make_job(family_named("mlp"), more);
    int n = 0;
    CHECK_OK(tt_job_plan(m.job));
    for (int32_t i = 0; i < m.job->graph->n_nodes; i++)
        n += m.job->graph->node[i].op == op &&
             m.job->graph->node[i].phase != TT_UPDATE;
    close_job(&m);
    return n;
}

// Weights of 49 x 64, 64 x 64 and 64 x 1000; each gradient has two factors.
TEST(factors_are_sent_where_they_are_fewer_bytes)
{
    static const struct {
        const char *batch, *accumulate, *codec;
        int gathers;
    } table[] = {
        {"batch=4", "accumulate=1", "exchange.codec=none", 0},
        {"batch=4", "accumulate=1", "exchange.codec=factors", 6},
        // 2 * 50 * (64 + 1000) numbers are fewer than 2 * 64 * 1000, and so are 2 * 27 of
        // 49 + 64 and of 64 + 64 than theirs, but not 2 * 50 of them
        {"batch=54", "accumulate=1", "exchange.codec=factors", 6},
        {"batch=100", "accumulate=1", "exchange.codec=factors", 2},
        {"batch=400", "accumulate=1", "exchange.codec=factors", 0},
        // factors are sent for each micro-batch
        {"batch=108", "accumulate=2", "exchange.codec=factors", 2},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *more[] = {"model.width=64",
                              "model.classes=1000",
                              "mesh.data=2",
                              table[i].batch,
                              table[i].accumulate,
                              table[i].codec,
                              NULL};
        const int gathers = count(more, &tt_op_all_gather);
        CHECK_MSG(gathers == table[i].gathers, "%s %s: %d gathers",
                  table[i].batch, table[i].accumulate, gathers);
    }
}
