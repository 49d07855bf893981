// Codes instead of gradients (exchange.codec): any number of ranks carries the replicas,
// codes that lose nothing change nothing, the loss falls, and what cannot be is refused.

#include "base/alloc.h"
#include "crew.h"
#include "jobs.h"
#include "ops/ops.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { SETTINGS = 12 };

// Settings of a codec, with room for more; the text is in the arena.
static void with_codec(const tt_codec_def *codec, const char *const *more,
                       tt_arena *arena, const char *all[SETTINGS])
{
    int n = 0;
    all[n++] = tt_arena_printf(arena, "exchange.codec=%s", codec->name);
    for (; *more != NULL; more++)
        all[n++] = *more;
    all[n] = NULL;
}

// Lossless codecs have nothing that replicas keep.
static bool is_used(const tt_codec_def *codec)
{
    return !codec->is_lossless;
}

// ---- ranks ---------------------------------------------------------------

static void check_ranks(const char *name, const char *const *more,
                        const int32_t *ranks)
{
    const family *f = family_named(name);
    crew_run *one = crew_train(f, more, 1, 3);
    for (; *ranks > 0; ranks++) {
        const char *worst = "";
        crew_run *run = crew_train(f, more, *ranks, 3);
        const double rel = crew_difference(run, one, &worst);
        CHECK_MSG(run->n == one->n, "%s: %lld tensors", more[0],
                  (long long)run->n);
        CHECK_MSG(rel < 1e-9, "%s %s on %d ranks: %s differs by %g", name,
                  more[0], *ranks, worst, rel);
        CHECK_MSG(fabs(run->loss - one->loss) < 1e-9 * one->loss,
                  "%s on %d ranks: loss %.17g, alone %.17g", more[0], *ranks,
                  run->loss, one->loss);
        crew_free(run);
    }
    crew_free(one);
}

TEST_SLOW(replicas_are_carried_by_any_number_of_ranks, 120)
{
    static const char *const more[] = {"exchange.replicas=4", "batch=8",
                                       "precision=fp64", "optim=sgd", NULL};
    int n = 0;
    const tt_codec_def *const *all = tt_codec_all(&n);
    tt_arena *arena = tt_arena_create();
    for (int i = 0; i < n; i++) {
        const char *setting[SETTINGS];
        if (!is_used(all[i]))
            continue;
        with_codec(all[i], more, arena, setting);
        check_ranks("gpt", setting, (const int32_t[]){2, 4, 0});
    }
    tt_arena_destroy(arena);
}

TEST_SLOW(replicas_are_carried_in_parts_of_zero_and_in_micro_batches, 120)
{
    static const struct {
        const char *family;
        const char *setting[SETTINGS];
        int32_t ranks[3];
    } table[] = {
        {"gpt", {"exchange.codec=topk", "batch=8", "zero=1"}, {2, 4}},
        {"gpt", {"exchange.codec=powersgd", "batch=8", "zero=2"}, {2, 4}},
        {"llama", {"exchange.codec=onebit", "batch=8", "zero=3"}, {4}},
        {"gpt",
         {"exchange.codec=qsgd", "batch=24", "accumulate=3", "zero=2"},
         {2}},
        {"resnet", {"exchange.codec=topk", "batch=4"}, {2}},
        {"lstm", {"exchange.codec=3lc", "batch=8", "accumulate=2"}, {2}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *more[SETTINGS + 2];
        int n = 0;
        for (; table[i].setting[n] != NULL; n++)
            more[n] = table[i].setting[n];
        more[n++] = "exchange.replicas=4";
        more[n++] = "precision=fp64";
        more[n] = NULL;
        check_ranks(table[i].family, more, table[i].ranks);
    }
}

// Lists that are added up on the way, also on ranks that are no power of two, of parts of
// other axes, and where sums turn dense.
TEST_SLOW(merged_lists_have_the_sum_of_gathered_ones, 120)
{
    static const struct {
        const char *setting[SETTINGS];
        int32_t ranks;
    } table[] = {
        {{"exchange.codec=topk", "exchange.codec.ratio=0.02",
          "exchange.replicas=3"},
         3},
        {{"exchange.codec=topk", "exchange.codec.ratio=0.4",
          "exchange.replicas=6"},
         3},
        {{"exchange.codec=threshold", "exchange.replicas=4"}, 4},
        {{"exchange.codec=threshold", "exchange.codec.relative=0.5",
          "exchange.codec.ratio=0.7", "exchange.replicas=4", "zero=1"},
         2},
        {{"exchange.codec=dgc", "exchange.codec.ratio=0.1",
          "exchange.replicas=2"},
         2},
        {{"exchange.codec=topk", "exchange.codec.ratio=0.3",
          "exchange.replicas=2", "mesh.tensor=3", "mesh.data=2"},
         6},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        static const char *const ways[] = {"exchange.sparse=gather",
                                           "exchange.sparse=merge",
                                           "exchange.sparse=auto"};
        crew_run *run[3];
        for (int w = 0; w < 3; w++) {
            const char *more[SETTINGS + 4];
            int n = 0;
            for (; table[i].setting[n] != NULL; n++)
                more[n] = table[i].setting[n];
            more[n++] = "batch=12";
            more[n++] = "optim=sgd";
            more[n++] = ways[w];
            more[n] = NULL;
            run[w] = crew_train(family_named("gpt"), more, table[i].ranks, 3);
        }
        for (int w = 1; w < 3; w++) {
            const char *worst = "";
            const double rel = crew_difference(run[w], run[0], &worst);
            CHECK_MSG(rel == 0, "%s, %s on %d ranks: %s differs by %g",
                      table[i].setting[0], ways[w], table[i].ranks, worst, rel);
        }
        for (int w = 0; w < 3; w++)
            crew_free(run[w]);
    }
}

// Each stage encodes the gradients of its layers; a weight of two stages is summed over
// them first.
TEST_SLOW(stages_send_codes, 120)
{
    static const struct {
        const char *family, *codec, *schedule, *more;
        int32_t ranks;
    } table[] = {
        {"gpt", "topk", "1f1b", "zero=0", 4},
        {"gpt", "onebit", "gpipe", "zero=1", 4},
        {"llama", "int8", "zb-h1", "zero=0", 4},
        {"gpt", "powersgd", "1f1b", "zero=2", 4},
        {"gpt", "bf16", "zb-h1", "zero=0", 2},
        {"gpt", "threshold", "gpipe", "exchange.sparse=merge", 4},
        {"gpt", "qsgd", "interleaved", "pipe.chunks=2", 2},
    };
    tt_arena *arena = tt_arena_create();
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const family *f = family_named(table[i].family);
        const char *worst = "";
        const char *alone[] = {
            tt_arena_printf(arena, "exchange.codec=%s", table[i].codec),
            "exchange.replicas=2",
            "precision=fp64",
            "batch=16",
            "accumulate=4",
            NULL};
        const char *staged[] = {
            alone[0],
            alone[1],
            alone[2],
            alone[3],
            alone[4],
            "mesh.pipe=2",
            tt_arena_printf(arena, "pipe.schedule=%s", table[i].schedule),
            table[i].more,
            NULL};
        crew_run *one = crew_train(f, alone, 1, 3);
        crew_run *run = crew_train(f, staged, table[i].ranks, 3);
        const double rel = crew_difference(run, one, &worst);
        CHECK_MSG(run->n == one->n && rel < 1e-9,
                  "%s in stages by %s: %s differs by %g", table[i].codec,
                  table[i].schedule, worst, rel);
        crew_free(run);
        crew_free(one);
    }
    tt_arena_destroy(arena);
}

// ---- when ----------------------------------------------------------------

static bool is_encode(const tt_step *step)
{
    return strstr(step->op->name, "_encode") != NULL;
}

// Whether a flight begins before the update.
static int leaves_early(const tt_plan *plan, const tt_flight *flight)
{
    const tt_segment *last = &plan->segment[plan->n_segments - 1];
    return plan->step[plan->member[flight->first]].op == &tt_op_all_gather &&
           flight->begin < last->first;
}

// Codes are made and leave in backward, and only once in a step.
TEST(codes_leave_in_backward)
{
    static const char *const more[] = {
        "exchange.codec=onebit", "mesh.data=2", "batch=8",
        "accumulate=2",          "zero=1",      NULL};
    made m = make_job(family_named("gpt"), more);
    CHECK_OK(tt_job_plan(m.job));
    const tt_plan *plan = m.job->plan;
    int n = 0, n_early = 0;
    for (int32_t o = 0; o < plan->n_order; o++) {
        const tt_segment *x = &plan->segment[plan->order[o].segment];
        for (int32_t s = x->first; s < x->first + x->n; s++) {
            if (!is_encode(&plan->step[s]))
                continue;
            CHECK_MSG(x->phase == TT_BACKWARD, "%s in %s", plan->step[s].name,
                      x->name);
            n += tt_step_runs(&plan->order[o], &plan->step[s]);
        }
    }
    for (int32_t f = 0; f < plan->n_flights; f++)
        n_early += leaves_early(plan, &plan->flight[f]);
    int weights = 0;
    for (int32_t v = 0; v < m.job->plan->graph->n_values; v++)
        weights += m.job->plan->graph->value[v].role == TT_ROLE_PARAM;
    CHECK_MSG(n == weights, "%d codes of %d weights in a step", n, weights);
    CHECK_MSG(n_early >= 3, "%d flights leave before the update", n_early);
    close_job(&m);
}

// ---- what loses nothing --------------------------------------------------

// Trains on one batch; the losses of all steps.
static void train(const family *f, const char *const *more, int steps,
                  double *loss)
{
    made m = start_job(f, more, false);
    for (int i = 0; i < steps; i++) {
        tt_step_result result;
        CHECK_OK(tt_job_step(m.job, feed_one_batch, NULL, &result));
        loss[i] = result.loss;
    }
    close_job(&m);
}

TEST(codes_that_lose_nothing_change_nothing)
{
    enum { STEPS = 5 };
    static const char *const codec[][3] = {
        {"exchange.codec=powersgd", "exchange.codec.rank=4096"},
        {"exchange.codec=topk", "exchange.codec.ratio=1"},
        {"exchange.codec=randomk", "exchange.codec.ratio=1"},
    };
    double dense[STEPS], loss[STEPS];
    const char *more[] = {"batch=8", "precision=fp64", NULL, NULL, NULL, NULL};
    train(family_named("gpt"), more, STEPS, dense);
    for (size_t i = 0; i < sizeof codec / sizeof *codec; i++) {
        more[2] = codec[i][0];
        more[3] = codec[i][1];
        more[4] = "exchange.replicas=4";
        train(family_named("gpt"), more, STEPS, loss);
        for (int s = 0; s < STEPS; s++)
            CHECK_MSG(fabs(loss[s] - dense[s]) < 1e-9 * dense[s],
                      "%s: loss %.17g at step %d, dense %.17g", more[2],
                      loss[s], s, dense[s]);
    }
}

TEST(codes_that_lose_something_change_the_weights)
{
    double dense[3], loss[3];
    const char *more[] = {"batch=8", "precision=fp64", NULL, NULL, NULL};
    train(family_named("gpt"), more, 3, dense);
    more[2] = "exchange.codec=topk";
    more[3] = "exchange.replicas=4";
    train(family_named("gpt"), more, 3, loss);
    CHECK(loss[0] == dense[0] || fabs(loss[0] - dense[0]) < 1e-9);
    CHECK(fabs(loss[2] - dense[2]) > 1e-4);
}

// ---- the loss falls ------------------------------------------------------

static void check_falls(const family *f, const tt_codec_def *codec,
                        const char *const *more, tt_arena *arena)
{
    enum { STEPS = 50 };
    const char *setting[SETTINGS];
    double loss[STEPS];
    with_codec(codec, more, arena, setting);
    train(f, setting, STEPS, loss);
    CHECK_MSG(isfinite(loss[STEPS - 1]) && loss[STEPS - 1] < 0.97 * loss[0],
              "%s with %s: loss %g, then %g", f->name, codec->name, loss[0],
              loss[STEPS - 1]);
}

TEST_SLOW(every_codec_trains_a_gpt_and_a_conv_net, 180)
{
    static const family lenet = {
        "lenet", {"model=lenet", "model.classes=7", "image=28", NULL}, true};
    static const char *const more[] = {"exchange.replicas=2", "batch=4",
                                       "optim=sgd", "optim.lr=0.1", NULL};
    int n = 0;
    const tt_codec_def *const *all = tt_codec_all(&n);
    tt_arena *arena = tt_arena_create();
    for (int i = 0; i < n; i++) {
        if (!is_used(all[i]))
            continue;
        check_falls(family_named("gpt"), all[i], more, arena);
        check_falls(&lenet, all[i], more, arena);
    }
    tt_arena_destroy(arena);
}

// ---- what is refused -----------------------------------------------------

#define GPT "model=gpt", "model.width=24", "model.heads=3", "seq=9"

TEST(what_codes_cannot_do_is_said)
{
    static const struct {
        const char *setting[SETTINGS], *message;
    } table[] = {
        {{GPT, "exchange.codec=factors", "mesh.data=2", "zero=2"},
         "zero=1 would do"},
        {{GPT, "exchange.codec=factors", "batch=8", "exact=true"},
         "exchange.codec=none would do"},
        {{GPT, "exchange.codec=dgc"}, "optim=sgd would do"},
        {{GPT, "exchange.codec=dgc", "optim=sgd", "exchange.feedback=false"},
         "exchange.feedback=auto would do"},
        {{GPT, "exchange.codec=topk", "precision=fp16"}, "precision=bf16"},
        {{GPT, "exchange.codec=topk", "mesh.pipe=2", "pipe.schedule=chimera",
          "batch=8", "accumulate=4"},
         "copies of the model has a part of one; pipe.schedule=1f1b would do"},
        {{GPT, "exchange.codec=factors", "mesh.pipe=2", "pipe.schedule=chimera",
          "batch=8", "accumulate=4"},
         "exchange.codec=factors is for whole gradients"},
        {{GPT, "exchange.codec=topk", "mesh.pipe=2", "pipe.schedule=2bw",
          "batch=8", "accumulate=4", "model.tied=false", "optim.clip=0"},
         "to be empty; pipe.schedule=1f1b would do"},
        {{GPT, "exchange.codec=topk", "exchange.replicas=4", "batch=2"},
         "batch=4 would do"},
        {{GPT, "exchange.codec=topk", "exchange.replicas=2", "batch=8",
          "exact=true"},
         "exchange.replicas=4 would do"},
        {{GPT, "exchange.codec=topk", "exchange.replicas=3", "batch=8",
          "mesh.data=2"},
         "exchange.replicas=2 would do"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_refused(table[i].setting, table[i].message);
}
