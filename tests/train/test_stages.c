// Stages of a pipeline compute what one rank computes: families, chunks, schedules,
// levels of ZeRO, tensor parallelism. States are read where they lie, with the guard,
// which keeps copies of those that are here.

#include "crew.h"
#include "jobs.h"
#include "test.h"

enum { STEPS = 3, MOST = 12 };

typedef struct layout {
    int32_t ranks;
    const char *setting[5]; // ends with NULL
} layout;

static const layout layouts[] = {
    {2, {"mesh.pipe=2", NULL}},
    {3, {"mesh.pipe=3", "pipe.schedule=gpipe", NULL}},
    {2, {"mesh.pipe=2", "pipe.chunks=2", NULL}},
    {2, {"mesh.pipe=2", "pipe.schedule=zb-h1", NULL}},
    {4, {"mesh.pipe=2", "zero=0", NULL}},
    {4, {"mesh.pipe=2", "zero=1", NULL}},
    {4, {"mesh.pipe=2", "zero=1", "pipe.schedule=gpipe", NULL}},
    {4, {"mesh.pipe=2", "zero=2", "pipe.chunks=2", NULL}},
    {4, {"mesh.pipe=2", "zero=3", NULL}},
    {4, {"mesh.pipe=2", "mesh.tensor=2", NULL}},
};

enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void join(const char *const *a, const char *const *b,
                 const char *out[MOST])
{
    int n = 0;
    for (; *a != NULL; a++)
        out[n++] = *a;
    for (; *b != NULL; b++)
        out[n++] = *b;
    CHECK(n < MOST);
    out[n] = NULL;
}

static void check_layout(const family *f, const layout *l,
                         const char *const *more, const crew_run *one)
{
    const char *all[MOST], *worst = "";
    join(more, l->setting, all);
    crew_run *run = crew_train(f, all, l->ranks, STEPS);
    const double rel = crew_difference(run, one, &worst);
    CHECK_MSG(rel <= 1e-9, "%s, %s %s: %s differs by %g", f->name,
              l->setting[0], l->setting[1] != NULL ? l->setting[1] : "", worst,
              rel);
    CHECK_CLOSE(run->loss, one->loss, 1e-9);
    CHECK_CLOSE(run->norm, one->norm, 1e-9);
    crew_free(run);
}

static void check_family(const char *name, const char *const *more)
{
    const family *f = family_named(name);
    crew_run *one = crew_train(f, more, 1, STEPS);
    for (int i = 0; i < LAYOUTS; i++)
        check_layout(f, &layouts[i], more, one);
    crew_free(one);
}

TEST_SLOW(stages_train_gpt_as_one_rank_does, 180)
{
    const char *const more[] = {"precision=fp64", "batch=8",
                                "accumulate=4",   "model.layers=4",
                                "model.heads=4",  "model.dropout=0.1",
                                "train.ema=0.9",  NULL};
    check_family("gpt", more);
}

TEST_SLOW(stages_train_llama_as_one_rank_does, 180)
{
    const char *const more[] = {"precision=fp64", "batch=8", "accumulate=4",
                                "model.layers=4", NULL};
    check_family("llama", more);
}

TEST_SLOW(stages_train_lstm_as_one_rank_does, 180)
{
    const char *const more[] = {"precision=fp64", "batch=8", "accumulate=4",
                                "model.layers=4", NULL};
    check_family("lstm", more);
}

// An input that is cut in a zigzag is made anew where it is read, forward or backward,
// and at no other stage.
TEST_SLOW(stages_take_their_parts_of_inputs_where_they_read_them, 120)
{
    const family *f = family_named("gpt");
    const layout cut[] = {
        {4, {"mesh.pipe=2", "mesh.context=2", "layout.ff=context", NULL}},
        {4,
         {"mesh.pipe=2", "mesh.context=2", "layout.heads=context", "zero=1",
          NULL}}};
    const char *const more[] = {"precision=fp64", "batch=4", "accumulate=2",
                                "seq=8", NULL};
    crew_run *one = crew_train(f, more, 1, STEPS);
    for (int i = 0; i < 2; i++)
        check_layout(f, &cut[i], more, one);
    crew_free(one);
}

// A weight that the first stage and the last share has a gradient at both: in exact
// mode, with several blocks, each is summed where it lies.
TEST_SLOW(stages_share_a_weight_in_exact_mode, 120)
{
    const family *f = family_named("gpt");
    const layout shared[] = {{2, {"mesh.pipe=2", NULL}},
                             {4, {"mesh.pipe=2", "zero=2", NULL}}};
    const char *const more[] = {"precision=fp64", "batch=8", "accumulate=2",
                                "exact=true", NULL};
    crew_run *one = crew_train(f, more, 1, STEPS);
    for (int i = 0; i < 2; i++)
        check_layout(f, &shared[i], more, one);
    crew_free(one);
}

// Pieces of a loss have their gradient in the forward pass: it is sent before the rest
// of the backward pass, also where a stage has other chunks.
TEST_SLOW(stages_send_the_gradient_of_a_loss_in_pieces_at_once, 120)
{
    const family *f = family_named("llama");
    const layout cut = {2,
                        {"mesh.pipe=2", "pipe.chunks=3", "loss.chunks=2",
                         "pipe.cut=layers.1,layers.2,layers.3,norm,lm_head",
                         NULL}};
    const char *const more[] = {"precision=fp64", "batch=4", "accumulate=2",
                                "model.layers=4", NULL};
    crew_run *one = crew_train(f, more, 1, STEPS);
    check_layout(f, &cut, more, one);
    crew_free(one);
}

// Blocks of exact mode slice an input at the stage that reads it. One stage has all
// layers here, the others what is before and after: transposed words, the loss.
TEST_SLOW(stages_without_layers_send_what_they_were_given, 120)
{
    const family *f = family_named("lstm");
    const layout cut = {4,
                        {"mesh.pipe=2", "mesh.tensor=2", "pipe.chunks=2",
                         "pipe.cut=encoder,decoder,loss", NULL}};
    const char *const more[] = {"precision=fp64", "batch=4", "accumulate=2",
                                "exact=true", NULL};
    crew_run *one = crew_train(f, more, 1, STEPS);
    check_layout(f, &cut, more, one);
    crew_free(one);
}

// exact=true: the same bits along stages and replicas as on one rank.
static void check_exact(const char *name)
{
    static const layout exact[] = {
        {2, {"mesh.pipe=2", NULL}},
        {2, {"mesh.pipe=2", "pipe.chunks=2", NULL}},
        {4, {"mesh.pipe=2", "zero=1", NULL}},
        {4, {"mesh.pipe=2", "zero=3", "pipe.schedule=zb-h1", NULL}},
    };
    const family *f = family_named(name);
    const char *const more[] = {"exact=true",   "precision=fp32", "batch=8",
                                "accumulate=2", "model.layers=4", NULL};
    crew_run *one = crew_train(f, more, 1, STEPS);
    for (size_t i = 0; i < sizeof exact / sizeof *exact; i++) {
        const char *all[MOST], *worst = "";
        join(more, exact[i].setting, all);
        crew_run *run = crew_train(f, all, exact[i].ranks, STEPS);
        const double rel = crew_difference(run, one, &worst);
        CHECK_MSG(rel == 0 && run->loss == one->loss && run->norm == one->norm,
                  "%s, layout %d: %s differs by %g", name, (int)i, worst, rel);
        crew_free(run);
    }
    crew_free(one);
}

TEST_SLOW(stages_have_the_bits_of_one_rank_in_exact_mode, 180)
{
    check_exact("gpt"); // a weight that two stages share
    check_exact("llama");
    check_exact("lstm");
}

// Batch norm has statistics that each micro-batch changes: buffers at a stage.
TEST_SLOW(stages_train_resnet_as_one_rank_does, 240)
{
    const family *f = family_named("resnet");
    const char *const more[] = {"precision=fp64", "batch=8",   "accumulate=2",
                                "model.width=4",  "optim=sgd", "optim.lr=1e-3",
                                "image=16",       NULL};
    crew_run *one = crew_train(f, more, 1, STEPS);
    for (int i = 0; i < LAYOUTS - 1; i++) // without tensor
        check_layout(f, &layouts[i], more, one);
    crew_free(one);
}

// What is computed again for a micro-batch reads statistics as they were for it, though
// others have moved them since.
TEST_SLOW(stages_recompute_with_the_statistics_of_their_micro_batch, 240)
{
    const family *f = family_named("resnet");
    const layout again[] = {
        {2, {"mesh.pipe=2", "recompute=full", NULL}},
        {2,
         {"mesh.pipe=2", "recompute=selective", "pipe.schedule=zb-h1", NULL}},
        {4,
         {"mesh.pipe=2", "recompute=full", "mesh.space=2",
          "pipe.schedule=gpipe", NULL}}};
    const char *const more[] = {"precision=fp64", "batch=12",  "accumulate=3",
                                "model.width=4",  "optim=sgd", "optim.lr=1e-3",
                                "image=16",       NULL};
    crew_run *one = crew_train(f, more, 1, STEPS);
    for (int i = 0; i < 3; i++)
        check_layout(f, &again[i], more, one);
    crew_free(one);
}
