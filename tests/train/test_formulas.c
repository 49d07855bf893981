// What layers send is what the literature says, to the byte: tensor, sequence, context,
// expert and spatial parallelism, from plans of several models, sizes and meshes. (That
// ranks send what plans say: test_sent.)

#include "job/survey.h"
#include "test.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct planned {
    tt_arena *arena;
    tt_job *job;
    tt_survey survey;
} planned;

// Settings as one text; a rank of as many as the mesh has.
__attribute__((format(printf, 2, 3))) static planned plan(int32_t rank,
                                                          const char *fmt, ...)
{
    char text[512];
    va_list args;
    planned p = {.arena = tt_arena_create()};
    tt_settings settings = {0};
    tt_job *probe = NULL;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        CHECK_OK(tt_settings_assign(&settings, word, "test", p.arena));
    CHECK_OK(tt_job_configure(&settings, NULL, &probe));
    const tt_peers peers = {.rank = rank, .size = probe->grid.ranks};
    tt_job_close(probe);
    CHECK_OK(tt_job_configure_peers(&settings, NULL, &peers, &p.job));
    CHECK_OK(tt_job_plan(p.job));
    CHECK_OK(tt_survey_make(p.job, p.arena, &p.survey));
    return p;
}

static void close_plan(planned *p)
{
    tt_job_close(p->job);
    tt_arena_destroy(p->arena);
}

// Sums of what layers whose names end so do.
static tt_survey_sent sum(const planned *p, const char *layer,
                          const char *direction, const char *kind)
{
    tt_survey_sent sum = {0};
    for (int64_t i = 0; i < p->survey.n_sent; i++) {
        const tt_survey_sent *s = &p->survey.sent[i];
        if (!tt_ends_with(s->layer, layer) ||
            strcmp(s->direction, direction) != 0 || strcmp(s->kind, kind) != 0)
            continue;
        sum.count += s->count;
        sum.bytes += s->bytes;
        sum.formula += s->formula;
    }
    return sum;
}

static void check(const planned *p, const char *layer, const char *direction,
                  const char *kind, int64_t count, double bytes)
{
    const tt_survey_sent s = sum(p, layer, direction, kind);
    CHECK_MSG(s.count == count && (double)s.bytes == bytes &&
                  s.formula == bytes,
              "%s of %s, %s: %lld with %lld bytes (formula %.17g), not %lld "
              "with %.17g",
              kind, layer, direction, (long long)s.count, (long long)s.bytes,
              s.formula, (long long)count, bytes);
}

// Collectives of a layer other than these three kinds (NULL: none).
static void check_no_other(const planned *p, const char *layer,
                           const char *direction, const char *kind,
                           const char *kind2)
{
    for (int64_t i = 0; i < p->survey.n_sent; i++) {
        const tt_survey_sent *s = &p->survey.sent[i];
        CHECK_MSG(!tt_ends_with(s->layer, layer) ||
                      strcmp(s->direction, direction) != 0 ||
                      strcmp(s->kind, kind) == 0 ||
                      (kind2 != NULL && strcmp(s->kind, kind2) == 0),
                  "%s does %s %s too", s->layer, direction, s->kind);
    }
}

// ---- tensor ----------------------------------------------------------------

static const struct {
    const char *settings, *layer;
    int64_t width;
} decoders[] = {
    {"model=gpt model.layers=3 model.width=64 model.heads=8 model.vocab=48",
     "h.1", 64},
    {"model=gpt model.layers=2 model.width=96 model.heads=12 model.vocab=40 "
     "model.bias=false",
     "h.0", 96},
    {"model=llama model.layers=2 model.width=64 model.heads=8 model.kv_heads=4 "
     "model.ff=80 model.vocab=48",
     "layers.1", 64},
};
enum { N_DECODERS = sizeof decoders / sizeof decoders[0] };

TEST(tensor_parallel_layers_sum_twice_each_way)
{
    static const int64_t meshes[][4] = {// tensor, data, batch, seq
                                        {2, 1, 4, 16},
                                        {4, 1, 2, 24},
                                        {2, 2, 8, 12},
                                        {4, 2, 6, 8}};
    for (int i = 0; i < N_DECODERS; i++)
        for (int m = 0; m < 4; m++) {
            const int64_t *mesh = meshes[m];
            planned p = plan(
                0, "%s mesh.tensor=%lld mesh.data=%lld batch=%lld seq=%lld",
                decoders[i].settings, (long long)mesh[0], (long long)mesh[1],
                (long long)mesh[2], (long long)mesh[3]);
            const double n =
                (double)(mesh[2] / mesh[1] * mesh[3] * decoders[i].width * 4);
            const double each =
                2.0 * (double)(mesh[0] - 1) / (double)mesh[0] * n;
            check(&p, decoders[i].layer, "forward", "all_reduce", 2, 2 * each);
            check(&p, decoders[i].layer, "backward", "all_reduce", 2, 2 * each);
            check_no_other(&p, decoders[i].layer, "forward", "all_reduce",
                           NULL);
            check_no_other(&p, decoders[i].layer, "backward", "all_reduce",
                           NULL);
            close_plan(&p);
        }
}

TEST(sequence_parallel_layers_send_halves_of_that)
{
    static const int64_t sizes[][2] = {{2, 16}, {4, 24}};
    for (int i = 0; i < N_DECODERS; i++)
        for (int m = 0; m < 2; m++) {
            const int64_t p = sizes[m][0], seq = sizes[m][1];
            if (decoders[i].layer[strlen(decoders[i].layer) - 1] == '0')
                continue; // the first layer reads what every rank has
            planned q =
                plan(0,
                     "%s mesh.tensor=%lld layout.seq=tensor batch=4 "
                     "seq=%lld",
                     decoders[i].settings, (long long)p, (long long)seq);
            const double n = 4.0 * (double)(seq * decoders[i].width * 4);
            const double each = (double)(p - 1) / (double)p * n;
            static const char *const direction[] = {"forward", "backward"};
            for (int d = 0; d < 2; d++) {
                check(&q, decoders[i].layer, direction[d], "reduce_scatter", 2,
                      2 * each);
                check(&q, decoders[i].layer, direction[d], "all_gather", 2,
                      2 * each);
                check_no_other(&q, decoders[i].layer, direction[d],
                               "reduce_scatter", "all_gather");
            }
            close_plan(&q);
        }
}

// ---- experts ---------------------------------------------------------------

TEST(expert_parallel_layers_exchange_tokens_twice_each_way)
{
    static const int64_t cases[][4] = {// ranks, experts, batch, seq
                                       {2, 4, 4, 16},
                                       {4, 4, 8, 8},
                                       {4, 8, 4, 24}};
    for (int i = 0; i < 3; i++) {
        const int64_t n = cases[i][0], experts = cases[i][1];
        const int64_t batch = cases[i][2], seq = cases[i][3];
        planned p = plan(0,
                         "model=gpt model.layers=2 model.width=32 "
                         "model.heads=4 model.vocab=24 model.experts=%lld "
                         "mesh.expert=%lld batch=%lld seq=%lld",
                         (long long)experts, (long long)n, (long long)batch,
                         (long long)seq);
        // Two choices, a quarter more slots than an equal share, per sample.
        const int64_t slots = (2 * seq * 5 + 4 * experts - 1) / (4 * experts);
        const double local = (double)(experts * batch / n * slots * 32 * 4);
        const double each = (double)(n - 1) / (double)n * local;
        check(&p, "h.1.mlp", "forward", "all_to_all", 2, 2 * each);
        check(&p, "h.1.mlp", "backward", "all_to_all", 2, 2 * each);
        check_no_other(&p, "h.1.mlp", "forward", "all_to_all", NULL);
        check_no_other(&p, "h.1.mlp", "backward", "all_to_all", NULL);
        close_plan(&p);
    }
}

TEST(no_rank_holds_all_experts)
{
    static const char *const zero[] = {"zero=0", "zero=3"};
    for (int z = 0; z < 2; z++)
        for (int32_t rank = 0; rank < 4; rank++) {
            planned p = plan(rank,
                             "model=gpt model.layers=2 model.width=32 "
                             "model.heads=4 model.vocab=24 model.experts=4 "
                             "mesh.expert=2 mesh.data=2 batch=4 seq=16 %s",
                             zero[z]);
            int n = 0;
            const tt_graph *g = p.job->graph;
            for (int32_t v = 0; v < g->n_values; v++) {
                const tt_shape *shape = &g->value[v].type.shape;
                const tt_ref *home = &p.job->plan->home[v];
                const int f = tt_shape_find(shape, "experts");
                if (f < 0 || tt_shape_find(shape, "ff") < 0 || home->buffer < 0)
                    continue;
                const int64_t whole = tt_shape_count(shape) *
                                      tt_dtype_bytes(g->value[v].type.dtype);
                tt_local local;
                tt_local_of(&g->value[v].type, &g->mesh, rank, &local);
                CHECK(local.shape.factor[f].size == 2);
                CHECK(p.job->plan->buffer[home->buffer].bytes * 2 <= whole);
                n++;
            }
            CHECK(n > 8);
            close_plan(&p);
        }
}

// ---- space -----------------------------------------------------------------

// VGG-11: convolutions of 3x3 with a row of padding, each stage half as high.
static const struct {
    const char *layer;
    int inputs, height; // relative to width and image
} convs[] = {{"features.3", 1, 2},  {"features.6", 2, 4},
             {"features.8", 4, 4},  {"features.11", 4, 8},
             {"features.13", 8, 8}, {"features.16", 8, 16},
             {"features.18", 8, 16}};

TEST(spatial_parallel_convolutions_send_a_row_to_each_neighbour)
{
    static const int cases[][4] = {// ranks, rank, image, width
                                   {2, 0, 64, 4},
                                   {2, 1, 96, 8},
                                   {4, 1, 128, 4},
                                   {4, 3, 64, 8}};
    for (int i = 0; i < 4; i++) {
        const int n = cases[i][0], rank = cases[i][1];
        const int image = cases[i][2], width = cases[i][3];
        planned p = plan(rank,
                         "model=vgg11 model.width=%d model.hidden=8 "
                         "model.classes=5 batch=2 image=%d mesh.space=%d",
                         width, image, n);
        const int neighbours = (rank > 0) + (rank < n - 1);
        const double rows = 2.0 * neighbours * 4;
        check(&p, "features.0", "forward", "halo", 1, rows * 3 * image);
        for (int c = 0; c < 7; c++) {
            const int side = image / convs[c].height;
            const double bytes = rows * convs[c].inputs * width * side;
            if (side % n != 0 || side / n < 2)
                continue;
            check(&p, convs[c].layer, "forward", "halo", 1, bytes);
            check(&p, convs[c].layer, "backward", "halo_add", 1, bytes);
        }
        close_plan(&p);
    }
}

TEST(no_rank_holds_a_whole_image)
{
    for (int32_t rank = 0; rank < 4; rank++) {
        planned p = plan(rank, "model=resnet18 model.width=8 model.classes=5 "
                               "batch=2 image=67 mesh.space=4");
        const tt_graph *g = p.job->graph;
        const tt_plan *plan_ = p.job->plan;
        int n = 0;
        for (int32_t v = 0; v < g->n_values; v++) {
            const tt_type *type = &g->value[v].type;
            const int f = tt_shape_find(&type->shape, "height");
            const tt_ref *home = &plan_->home[v];
            if (f < 0 || home->buffer < 0 || type->shape.factor[f].size < 8)
                continue;
            tt_local local;
            tt_local_of(type, &g->mesh, rank, &local);
            const int64_t whole =
                tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype);
            CHECK(local.shape.factor[f].size < type->shape.factor[f].size);
            CHECK(plan_->buffer[home->buffer].bytes < whole);
            n++;
        }
        CHECK(n > 20);
        close_plan(&p);
    }
}

// ---- context and vocabulary --------------------------------------------------

TEST(context_parallel_layers_pass_keys_and_values_around)
{
    static const struct {
        const char *settings, *layer;
        int64_t columns; // of keys
    } models[] = {
        {"model=gpt model.layers=2 model.width=32 model.heads=4 model.vocab=24",
         "h.1", 32},
        {"model=llama model.layers=2 model.width=64 model.heads=8 "
         "model.kv_heads=2 model.ff=80 model.vocab=24",
         "layers.1", 16},
    };
    static const int64_t cases[][3] = {// ranks, batch, seq
                                       {2, 2, 16},
                                       {3, 1, 24},
                                       {4, 4, 32}};
    for (int m = 0; m < 2; m++)
        for (int i = 0; i < 3; i++) {
            const int64_t n = cases[i][0], batch = cases[i][1];
            const int64_t seq = cases[i][2];
            planned p = plan(0, "%s mesh.context=%lld batch=%lld seq=%lld",
                             models[m].settings, (long long)n, (long long)batch,
                             (long long)seq);
            const double block =
                (double)(batch * seq / n * models[m].columns * 4);
            // Forward n-1 blocks of keys and values; back the same again, and
            // the gradients of both all the way round.
            check(&p, models[m].layer, "forward", "shift", 2 * (n - 1),
                  2 * (double)(n - 1) * block);
            check(&p, models[m].layer, "backward", "shift", 2 * (n - 1) + 2 * n,
                  2 * (double)(n - 1 + n) * block);
            check_no_other(&p, models[m].layer, "forward", "shift", NULL);
            check_no_other(&p, models[m].layer, "backward", "shift", NULL);
            close_plan(&p);
        }
}

// Values with this dimension: what a rank has of it, and how large its buffers are.
static void check_split(const planned *p, const char *dim, const char *other,
                        int32_t rank)
{
    const tt_graph *g = p->job->graph;
    int n = 0;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_type *type = &g->value[v].type;
        const int f = tt_shape_find(&type->shape, dim);
        const tt_ref *home = &p->job->plan->home[v];
        if (f < 0 || tt_shape_find(&type->shape, other) < 0 || home->buffer < 0)
            continue;
        const int64_t whole =
            tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype);
        tt_local local;
        tt_local_of(type, &g->mesh, rank, &local);
        CHECK_MSG(local.shape.factor[f].size < type->shape.factor[f].size &&
                      p->job->plan->buffer[home->buffer].bytes < whole,
                  "rank %d holds all of %s in %s", rank, dim, g->value[v].name);
        n++;
    }
    CHECK_MSG(n > 1, "no value has %s and %s", dim, other);
}

TEST(no_rank_holds_all_keys_or_all_logits)
{
    for (int32_t rank = 0; rank < 4; rank++) {
        planned p = plan(rank, "model=gpt model.layers=2 model.width=32 "
                               "model.heads=4 model.vocab=26 mesh.context=4 "
                               "batch=2 seq=16");
        check_split(&p, "seq", "heads", rank);
        close_plan(&p);
        p = plan(rank, "model=llama model.layers=2 model.width=64 "
                       "model.heads=8 model.kv_heads=2 model.ff=80 "
                       "model.vocab=26 mesh.context=2 mesh.data=2 batch=2 "
                       "seq=15 zero=3");
        check_split(&p, "seq", "kv_heads", rank);
        close_plan(&p);
        p = plan(rank, "model=gpt model.layers=2 model.width=32 "
                       "model.heads=4 model.vocab=26 mesh.tensor=4 batch=2 "
                       "seq=16");
        check_split(&p, "vocab", "seq", rank);
        check_split(&p, "vocab", "embed", rank);
        close_plan(&p);
    }
}
