// Same bits: on every run, and with one thread as with two where that is promised
// (models without convolution, and all models under exact=true).

#include "base/alloc.h"
#include "base/rng.h"
#include "families.h"
#include "test.h"

#include <string.h>

enum { STEPS = 3, MAX_VALUES = 1024 };

// Losses of all steps and every state afterwards, as one number per state.
typedef struct trace {
    double loss[STEPS], norm[STEPS];
    int n;
    uint64_t state[MAX_VALUES];
    char name[MAX_VALUES][64];
} trace;

static uint64_t digest(const unsigned char *bytes, int64_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (int64_t i = 0; i < n; i++)
        h = (h ^ bytes[i]) * 0x100000001b3u;
    return h;
}

static void read_states(tt_job *job, trace *t)
{
    const tt_graph *g = job->graph;
    for (int32_t v = 0; v < g->n_values && t->n < MAX_VALUES; v++) {
        const tt_value *value = &g->value[v];
        if (value->role < TT_ROLE_PARAM)
            continue;
        const int64_t bytes = tt_shape_count(&value->type.shape) *
                              tt_dtype_bytes(value->type.dtype);
        unsigned char *data = tt_alloc(bytes);
        CHECK_OK(tt_exec_read(job->exec, (tt_val){v}, data));
        t->state[t->n] = digest(data, bytes);
        strncat(t->name[t->n++], value->name, 63);
        tt_free(data);
    }
}

// The same samples however they are cut into micro-batches.
static tt_status feed(void *user, const tt_job *job, int64_t micro, void *x,
                      void *y)
{
    static const char *const name[] = {"x", "y"};
    void *const data[] = {x, y};
    (void)user;
    for (int k = 0; k < 2; k++) {
        const tt_type *type =
            &job->graph->value[tt_graph_find(job->graph, name[k]).id].type;
        const int64_t n = tt_shape_count(&type->shape);
        const uint64_t key = tt_rng_key(3, name[k], (uint64_t)job->step);
        for (int64_t i = 0; i < n; i++) {
            const double u = tt_rng_uniform(key, (uint64_t)(micro * n + i));
            tt_dtype_store(type->dtype, data[k], i,
                           tt_dtype_is_float(type->dtype) ? 2 * u - 1
                                                          : floor(7 * u));
        }
    }
    return TT_OK;
}

static trace *train(const family *f, const char *const *more)
{
    trace *t = tt_alloc(sizeof *t);
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_job *job = NULL;
    family_settings(f, more, &settings, arena);
    CHECK_OK(family_start(&settings, false, &job));
    for (int i = 0; i < STEPS; i++) {
        tt_step_result result;
        CHECK_OK(tt_job_step(job, feed, NULL, &result));
        t->loss[i] = result.loss;
        t->norm[i] = result.norm;
    }
    read_states(job, t);
    CHECK(t->n > 0);
    tt_job_close(job);
    tt_arena_destroy(arena);
    return t;
}

static void compare(const family *f, const trace *a, const trace *b)
{
    for (int i = 0; i < STEPS; i++) {
        CHECK_MSG(a->loss[i] == b->loss[i], "%s: loss %d is %.17g and %.17g",
                  f->name, i, a->loss[i], b->loss[i]);
        CHECK_MSG(a->norm[i] == b->norm[i], "%s: norm %d is %.17g and %.17g",
                  f->name, i, a->norm[i], b->norm[i]);
    }
    for (int i = 0; i < a->n; i++)
        CHECK_MSG(a->state[i] == b->state[i], "%s: %s differs", f->name,
                  a->name[i]);
}

typedef struct setup {
    const char *threads, *precision, *exact;
} setup;

static void same_bits(const family *f, setup one, setup two)
{
    const char *const first[] = {one.threads, one.precision, one.exact, NULL};
    const char *const second[] = {two.threads, two.precision, two.exact, NULL};
    trace *a = train(f, first);
    trace *b = train(f, second);
    compare(f, a, b);
    tt_free(a);
    tt_free(b);
}

static void same_in_both(setup one, setup two, bool with_convolution)
{
    static const char *const precision[] = {"precision=fp32", "precision=bf16"};
    for (int p = 0; p < 2; p++)
        for (const family *f = families; f->name != NULL; f++) {
            one.precision = two.precision = precision[p];
            if (with_convolution || !f->convolves)
                same_bits(f, one, two);
        }
}

TEST_SLOW(bits_are_the_same_on_every_run, 240)
{
    const setup two = {"threads=2", NULL, "exact=false"};
    same_in_both(two, two, true);
}

TEST_SLOW(bits_do_not_depend_on_threads_without_convolution, 240)
{
    const setup one = {"threads=1", NULL, "exact=false"};
    const setup two = {"threads=2", NULL, "exact=false"};
    same_in_both(one, two, false);
}

TEST_SLOW(bits_do_not_depend_on_threads_when_exact, 240)
{
    const setup one = {"threads=1", NULL, "exact=true"};
    const setup two = {"threads=2", NULL, "exact=true"};
    same_in_both(one, two, true);
}

// Sums of micro-batches round differently: close, not equal. Batch norm sees other
// batches, and dropout other masks, so those families are left out.
TEST(micro_batches_give_nearly_the_whole_batch)
{
    static const char *const whole[] = {"batch=6", NULL};
    static const char *const parts[] = {"batch=6", "accumulate=3", NULL};
    for (const family *f = families; f->name != NULL; f++) {
        if (strcmp(f->name, "resnet") == 0 || strcmp(f->name, "vgg") == 0 ||
            strcmp(f->name, "lstm") == 0)
            continue;
        trace *a = train(f, whole);
        trace *b = train(f, parts);
        for (int i = 0; i < STEPS; i++) {
            CHECK_CLOSE(a->loss[i], b->loss[i], 1e-4);
            CHECK_CLOSE(a->norm[i], b->norm[i], 1e-3);
        }
        tt_free(a);
        tt_free(b);
    }
}
