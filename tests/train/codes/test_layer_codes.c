// Codes of what ranks that share layers send (layout.codec): gradients are near those
// without codes, the loss falls, all ranks hold the same bits, bytes are what was planned,
// and what cannot be is refused.

#include "base/alloc.h"
#include "store/checksum.h"
#include "test.h"
#include "train/crew.h"
#include "train/jobs.h"

#include <math.h>

enum { SETTINGS = 10, STEPS = 12 };

typedef struct layout {
    const char *family;
    int32_t ranks;
    const char *setting[SETTINGS];
} layout;

// All kinds of transfers: sums, gathers, sums in parts, rings, exchanges, moves; rows in
// parts, blocks that differ in size, several axes, and several micro-batches.
static const layout layouts[] = {
    {"gpt", 2, {"mesh.tensor=2", "model.heads=4"}},
    {"gpt", 3, {"mesh.tensor=3", "layout.seq=tensor"}},
    {"gpt", 3, {"mesh.context=3"}},
    {"gpt",
     2,
     {"mesh.context=2", "layout.attention=all_to_all", "model.heads=4"}},
    {"gpt", 2, {"mesh.expert=2", "model.experts=4"}},
    {"gpt", 2, {"mesh.pipe=2", "batch=4", "accumulate=2"}},
    {"llama", 4, {"mesh.context=2", "mesh.tensor=2"}},
    {"llama", 4, {"mesh.pipe=2", "mesh.tensor=2", "batch=4", "accumulate=2"}},
    {"lstm", 2, {"mesh.tensor=2", "model.dropout=0"}},
    {"vgg", 2, {"mesh.tensor=2", "layout.filters=tensor"}},
    {"resnet", 2, {"mesh.pipe=2", "batch=32", "accumulate=2"}},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

// The settings of a layout, and after them others; all end with NULL.
static void join(const layout *l, const char *codec, const char *const *more,
                 const char *all[2 * SETTINGS])
{
    int n = 0;
    for (int i = 0; l->setting[i] != NULL; i++)
        all[n++] = l->setting[i];
    all[n++] = codec;
    for (; *more != NULL; more++)
        all[n++] = *more;
    all[n] = NULL;
}

// ---- gradients -----------------------------------------------------------

// How far the updates of one step are from those without codes, all together.
static double distance(const crew_run *a, const crew_run *b)
{
    const int64_t n = b->tensor[b->n - 1].first + b->tensor[b->n - 1].count;
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        const double u = a->after[i] - a->before[i];
        const double v = b->after[i] - b->before[i];
        off += (u - v) * (u - v);
        all += v * v;
    }
    return sqrt(off / all);
}

static void check_near(const layout *l, const char *codec, double most,
                       const crew_run *plain)
{
    static const char *const sgd[] = {"optim=sgd", "optim.clip=0", NULL};
    const char *more[2 * SETTINGS];
    join(l, codec, sgd, more);
    crew_run *run = crew_train(family_named(l->family), more, l->ranks, 1);
    const double rel = distance(run, plain);
    CHECK_MSG(rel > 0 && rel < most, "%s %s %s: updates differ by %g",
              l->family, l->setting[0], codec, rel);
    crew_free(run);
}

TEST_SLOW(codes_of_layers_change_gradients_by_little, 120)
{
    static const char *const sgd[] = {"optim=sgd", "optim.clip=0", NULL};
    for (int i = 0; i < LAYOUTS; i++) {
        const char *more[2 * SETTINGS];
        join(&layouts[i], "layout.codec=none", sgd, more);
        crew_run *plain = crew_train(family_named(layouts[i].family), more,
                                     layouts[i].ranks, 1);
        check_near(&layouts[i], "layout.codec=fp16", 0.001, plain);
        check_near(&layouts[i], "layout.codec=bf16", 0.01, plain);
        check_near(&layouts[i], "layout.codec=int8", 0.02, plain);
        crew_free(plain);
    }
}

// ---- training ------------------------------------------------------------

// Whether every rank has all of a value.
static bool is_whole(const tt_graph *g, int32_t v)
{
    for (int a = 0; a < g->mesh.n_axes; a++)
        if (g->value[v].type.place[a].kind != TT_REPLICATE ||
            g->value[v].type.place[a].at != 0)
            return false;
    return tt_role_is_state(g->value[v].role);
}

static tt_status sum_whole(tt_job *job, uint64_t *sum_out)
{
    const tt_graph *g = job->graph;
    for (int32_t v = 0; v < g->n_values; v++) {
        if (!is_whole(g, v))
            continue;
        const int64_t n = tt_shape_count(&g->value[v].type.shape);
        const int64_t each = tt_dtype_bytes(g->value[v].type.dtype);
        void *data = tt_alloc(n * each);
        TT_TRY(tt_exec_read(job->exec, (tt_val){v}, data));
        *sum_out = *sum_out * 31 + tt_checksum(data, n, each, 0);
        tt_free(data);
    }
    return TT_OK;
}

// The rank's part of the first batch, in every step: so the loss falls.
static tt_status feed_first(void *user, const tt_job *job, int64_t micro,
                            void *x, void *y)
{
    tt_job first = *job;
    first.step = 0;
    return tt_job_feed_random(user, &first, micro, x, y);
}

static tt_status train(tt_job *job, tt_arena *arena, void *user)
{
    const char *const *what = user;
    tt_step_result result;
    double first = 0;
    uint64_t mine = 0, all[8] = {0};
    (void)arena;
    TT_TRY(tt_job_start(job, NULL));
    for (int i = 0; i < STEPS; i++) {
        TT_TRY(tt_job_step(job, feed_first, NULL, &result));
        first = i == 0 ? result.loss : first;
    }
    if (!(result.loss < 0.97 * first))
        return tt_fail(TT_ERR_STATE, "%s %s: loss %g, then %g", what[0],
                       what[1], first, result.loss);
    TT_TRY(sum_whole(job, &mine));
    TT_TRY(tt_peers_collect(&job->peers, "sums", &mine, sizeof mine, all));
    for (int32_t r = 1; r < job->peers.size; r++)
        if (all[r] != all[0])
            return tt_fail(TT_ERR_STATE, "%s %s: rank %d has other weights",
                           what[0], what[1], r);
    return TT_OK;
}

typedef struct trial {
    const layout *layout;
    const char *codec;
} trial;

static tt_status be_rank(const tt_launch_rank *rank, void *user)
{
    static const char *const usual[] = {"optim.lr=0.01", NULL};
    const trial *t = user;
    const char *what[] = {t->layout->setting[0], t->codec};
    const char *more[2 * SETTINGS];
    join(t->layout, t->codec, usual, more);
    return crew_be_rank(rank, family_named(t->layout->family), more, train,
                        what);
}

TEST_SLOW(every_codec_of_layers_trains_and_ranks_hold_the_same_bits, 180)
{
    static const char *const codec[] = {
        "layout.codec=fp16", "layout.codec=bf16", "layout.codec=int8",
        "layout.codec=natural", "layout.codec=ternary"};
    for (int i = 0; i < LAYOUTS; i++)
        for (size_t c = 0; c < sizeof codec / sizeof *codec; c++) {
            trial t = {&layouts[i], codec[c]};
            const tt_launch_options options = {.n_ranks = layouts[i].ranks,
                                               .rank_bytes = INT64_C(1) << 28,
                                               .pin = false};
            CHECK_OK(tt_launch(&options, be_rank, &t));
        }
}

// ---- what is refused -----------------------------------------------------

#define GPT "model=gpt", "model.width=24", "model.heads=3", "seq=9", "batch=2"

TEST(what_codes_of_layers_cannot_do_is_said)
{
    static const struct {
        const char *setting[SETTINGS], *message;
    } table[] = {
        {{GPT, "layout.codec=topk"}, "layout.codec=int8 needs none"},
        {{GPT, "layout.codec=powersgd"}, "layout.codec=int8 needs none"},
        {{GPT, "layout.codec=dgc"}, "layout.codec=int8 needs none"},
        {{GPT, "layout.codec=randomk"}, "layout.codec=int8 sends all"},
        {{GPT, "layout.codec=qsgd"}, "layout.codec=int8 has"},
        {{GPT, "layout.codec=nonzero"}, "layout.codec=int8 has"},
        {{GPT, "layout.codec=factors"}, "layout.codec=int8 would do"},
        {{GPT, "layout.codec=int"}, "did you mean int8?"},
        {{"model=lstm", "model.hidden=20", "model.embed=12", "seq=7", "batch=3",
          "mesh.tensor=3", "layout.codec=int8"},
         "layout.codec=bf16 would do"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_refused(table[i].setting, table[i].message);
}
