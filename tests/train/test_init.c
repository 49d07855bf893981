// init.from: files of others, by forgiving names.

#include "base/alloc.h"
#include "base/clock.h"
#include "jobs.h"
#include "store/checkpoint.h"
#include "test.h"
#include "weights/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const plain[] = {NULL};
enum { MAX_TENSORS = 256 };

// A folder for the files of one test.
typedef struct place {
    char folder[64], path[128];
} place;

static place make_place(const char *file)
{
    place p = {.folder = "/tmp/tutti-init-XXXXXX"};
    CHECK(mkdtemp(p.folder) != NULL);
    snprintf(p.path, sizeof p.path, "%s/%s", p.folder, file);
    return p;
}

static void remove_place(const place *p)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", p->folder);
    CHECK(system(command) == 0);
}

// A model's tensors, to be renamed and changed.
typedef struct content {
    made m;
    tt_snapshot s;
    tt_safetensor v[MAX_TENSORS];
    int64_t n;
} content;

static content make_content(const char *name, const char *const *more)
{
    content c = {.m = start_job(family_named(name), more, false)};
    step_job(&c.m);
    CHECK_OK(
        tt_snapshot_take(c.m.job->exec, &c.m.job->tensors, c.m.arena, &c.s));
    CHECK(c.s.n_model <= MAX_TENSORS - 8);
    memcpy(c.v, c.s.model, sizeof *c.v * (size_t)c.s.n_model);
    c.n = c.s.n_model;
    return c;
}

static void close_content(content *c)
{
    tt_snapshot_free(&c->s);
    close_job(&c->m);
}

static void rename_all(content *c, const char *drop, const char *add)
{
    for (int64_t i = 0; i < c->n; i++) {
        const size_t n = strlen(drop);
        const char *name = c->v[i].name;
        if (strncmp(name, drop, n) == 0)
            c->v[i].name = tt_arena_printf(c->m.arena, "%s%s", add, name + n);
    }
}

static tt_status init_from(made *m, const char *path, tt_str *notes)
{
    m->job->train.from = path;
    return tt_job_init_from(m->job, notes);
}

static bool same_model(const made *a, const made *b)
{
    const tt_tensors model = tt_tensors_model(&a->job->tensors);
    bool is_same = true;
    for (int64_t i = 0; i < model.n; i++) {
        const tt_tensor *t = &model.v[i];
        char *x = tt_alloc(t->bytes), *y = tt_alloc(t->bytes);
        CHECK_OK(tt_tensor_read(a->job->exec, t, x));
        CHECK_OK(tt_tensor_read(b->job->exec,
                                tt_tensors_find(&b->job->tensors, t->name), y));
        is_same &= memcmp(x, y, (size_t)t->bytes) == 0;
        tt_free(x);
        tt_free(y);
    }
    return is_same;
}

static void loads(const content *c, const char *path, const char *model,
                  const char *note)
{
    made m = start_job(family_named(model),
                       (const char *const[]){"seed=9", "train.ema=0.5", NULL},
                       false);
    tt_str notes = {0};
    CHECK(!same_model(&c->m, &m));
    CHECK_OK(init_from(&m, path, &notes));
    CHECK(same_model(&c->m, &m));
    CHECK_MSG(strstr(tt_str_text(&notes), note) != NULL, "%s",
              tt_str_text(&notes));
    CHECK(strstr(tt_str_text(&notes), "lacks") == NULL);
    // Averages start as the weights that were loaded.
    for (int64_t i = 0; i < m.job->tensors.n; i++) {
        const tt_tensor *e = &m.job->tensors.v[i];
        if (e->role != TT_TENSOR_EMA)
            continue;
        char *x = tt_alloc(e->bytes), *y = tt_alloc(e->bytes);
        CHECK_OK(tt_tensor_read(m.job->exec, e, x));
        CHECK_OK(tt_exec_read(m.job->exec, e->of, y));
        CHECK(memcmp(x, y, (size_t)e->bytes) == 0);
        tt_free(x);
        tt_free(y);
    }
    tt_str_fini(&notes);
    close_job(&m);
}

TEST(init_takes_gpt2_with_and_without_prefix)
{
    static const char *const prefix[] = {"", "transformer.",
                                         "_orig_mod.transformer.",
                                         "module._orig_mod.transformer."};
    const place p = make_place("model.safetensors");
    for (int i = 0; i < 4; i++) {
        content c = make_content("gpt", plain);
        rename_all(&c, "transformer.", prefix[i]);
        CHECK_OK(tt_safetensors_write(p.path, c.v, c.n, NULL, 0));
        loads(&c, p.path, "gpt", "Loaded 28 tensors from ");
        loads(&c, p.folder, "gpt", "Loaded 28 tensors");
        close_content(&c);
    }
    remove_place(&p);
}

// Masks and a head that is the embedding once more are no weights.
TEST(init_ignores_masks_and_tied_heads)
{
    static const int64_t mask_shape[] = {1, 1, 2, 2}, one[1] = {0};
    static const float mask[4] = {1, 0, 1, 1};
    const place p = make_place("x.safetensors");
    content c = make_content("gpt", plain);
    const tt_safetensor wte = c.v[0];
    CHECK(strcmp(wte.name, "transformer.wte.weight") == 0);
    c.v[c.n++] = (tt_safetensor){.name = "transformer.h.0.attn.bias",
                                 .dtype = "F32",
                                 .ndim = 4,
                                 .shape = mask_shape,
                                 .data = mask};
    c.v[c.n++] = (tt_safetensor){.name = "h.1.attn.masked_bias",
                                 .dtype = "F32",
                                 .ndim = 0,
                                 .shape = one,
                                 .data = mask};
    c.v[c.n] = wte;
    c.v[c.n++].name = "lm_head.weight";
    CHECK_OK(tt_safetensors_write(p.path, c.v, c.n, NULL, 0));
    tt_weights *w = NULL;
    tt_weights_fit fit;
    CHECK_OK(tt_weights_open(p.path, &(tt_weights_options){0}, NULL, &w));
    CHECK(tt_weights_count(w) == c.n);
    CHECK(strcmp(tt_weights_folder(w), p.folder) == 0);
    CHECK_OK(tt_weights_load(w, c.m.job->exec, &c.m.job->tensors, NULL, &fit));
    CHECK(fit.n_loaded == 28 && fit.n_missing == 0 && fit.n_extra == 0);
    tt_weights_close(w);
    // A head of its own is not tied.
    float *other = tt_alloc(wte.bytes);
    other[0] = 1;
    c.v[c.n - 1].data = other;
    CHECK_OK(tt_safetensors_write(p.path, c.v, c.n, NULL, 0));
    loads(&c, p.path, "gpt", "The model has no lm_head.weight: ignored.\n");
    tt_free(other);
    close_content(&c);
    remove_place(&p);
}

static void refused(made *m, const char *path, const char *message)
{
    const states before = read_states(m);
    tt_str notes = {0};
    CHECK(init_from(m, path, &notes) != TT_OK);
    CHECK_MSG(strstr(tt_error_message(), message) != NULL,
              "\"%s\" lacks \"%s\"", tt_error_message(), message);
    CHECK(same_states(before, read_states(m)));
    tt_str_fini(&notes);
}

TEST(init_names_what_is_missing_and_left_over)
{
    const place p = make_place("x.safetensors");
    content c = make_content("resnet", plain);
    made m = start_job(family_named("resnet"),
                       (const char *const[]){"seed=9", NULL}, false);
    made gpt = start_job(family_named("gpt"), plain, false);
    tt_str notes = {0};
    c.v[0].name = "stem.weight";
    CHECK_OK(tt_safetensors_write(p.path, c.v, c.n, NULL, 0));
    CHECK_OK(init_from(&m, p.path, &notes));
    CHECK(strstr(tt_str_text(&notes),
                 "It lacks conv1.weight: initialised as usual.\n") != NULL);
    CHECK(strstr(tt_str_text(&notes),
                 "The model has no stem.weight: ignored.\n") != NULL);
    refused(&gpt, p.path, "has no tensor of this model: it has ");
    refused(&gpt, "/no/such/file.safetensors", "/no/such/file.safetensors");
    refused(&gpt, p.folder, p.folder);
    tt_str_fini(&notes);
    close_content(&c);
    close_job(&m);
    close_job(&gpt);
    remove_place(&p);
}

TEST(init_refuses_other_shapes)
{
    const place p = make_place("x.safetensors");
    content c = make_content("resnet", plain);
    made m = start_job(family_named("resnet"),
                       (const char *const[]){"model.width=16", NULL}, false);
    CHECK_OK(tt_safetensors_write(p.path, c.v, c.n, NULL, 0));
    refused(&m, p.path, "but the model wants [");
    close_content(&c);
    close_job(&m);
    remove_place(&p);
}

// Whether a weight is as it was made from the seed.
static bool is_fresh(const made *m, const made *untouched, const char *name)
{
    const tt_tensor *t = tt_tensors_find(&m->job->tensors, name);
    const tt_tensor *u = tt_tensors_find(&untouched->job->tensors, name);
    CHECK(t != NULL && u != NULL && t->bytes == u->bytes);
    char *x = tt_alloc(t->bytes), *y = tt_alloc(t->bytes);
    CHECK_OK(tt_tensor_read(m->job->exec, t, x));
    CHECK_OK(tt_tensor_read(untouched->job->exec, u, y));
    const bool is_same = memcmp(x, y, (size_t)t->bytes) == 0;
    tt_free(x);
    tt_free(y);
    return is_same;
}

// A head of another number of classes is begun anew, and so is what is to be.
TEST(init_begins_heads_anew)
{
    static const char *const fewer[] = {"model.classes=5", "seed=9", NULL};
    static const char *const skips[] = {"model.classes=5", "seed=9",
                                        "init.skip=layer4.*,bn1.weight", NULL};
    const place p = make_place("x.safetensors");
    content c = make_content("resnet", plain);
    made untouched = start_job(family_named("resnet"), fewer, false);
    CHECK_OK(tt_safetensors_write(p.path, c.v, c.n, NULL, 0));
    for (int i = 0; i < 2; i++) {
        made m =
            start_job(family_named("resnet"), i == 0 ? fewer : skips, false);
        tt_str notes = {0};
        CHECK_OK(init_from(&m, p.path, &notes));
        CHECK_MSG(strstr(tt_str_text(&notes),
                         "since the number of classes differs: fc.weight, "
                         "fc.bias.\n") != NULL,
                  "%s", tt_str_text(&notes));
        CHECK((strstr(tt_str_text(&notes), "as init.skip says: ") != NULL) ==
              (i == 1));
        CHECK(strstr(tt_str_text(&notes), "lacks") == NULL);
        CHECK(is_fresh(&m, &untouched, "fc.weight"));
        CHECK(is_fresh(&m, &untouched, "fc.bias"));
        CHECK(!is_fresh(&m, &untouched, "conv1.weight"));
        CHECK(is_fresh(&m, &untouched, "layer4.0.conv1.weight") == (i == 1));
        tt_str_fini(&notes);
        close_job(&m);
    }
    // What is only looked at needs its head.
    tt_weights *w = NULL;
    tt_weights_fit fit;
    CHECK_OK(tt_weights_open(p.path, &(tt_weights_options){0}, NULL, &w));
    CHECK(tt_weights_load(w, untouched.job->exec, &untouched.job->tensors, NULL,
                          &fit) != TT_OK);
    CHECK(strstr(tt_error_message(),
                 "fc.weight is [7, 64], but the model wants [5, 64]") != NULL);
    tt_weights_close(w);
    close_content(&c);
    close_job(&untouched);
    remove_place(&p);
}

TEST(init_skip_names_weights)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_job *job = NULL;
    family_settings(family_named("mlp"),
                    (const char *const[]){"init.skip=haed.*", NULL}, &settings,
                    arena);
    tt_status status = tt_job_configure(&settings, NULL, &job);
    if (status == TT_OK)
        status = tt_job_plan(job);
    CHECK(status != TT_OK);
    CHECK_MSG(strstr(tt_error_message(), "init.skip") != NULL, "%s",
              tt_error_message());
    tt_job_close(job);
    tt_arena_destroy(arena);
}

// Experts that files have one by one are one tensor of the model; one that is missing,
// or of another shape, is named.
TEST(init_stacks_experts)
{
    static const char *const some[] = {"model.experts=3", NULL};
    const place p = make_place("x.safetensors");
    content c = make_content("llama", some);
    tt_safetensor *all = tt_alloc(4 * c.n * (int64_t)sizeof *all);
    int64_t n = 0, last = 0;
    for (int64_t i = 0; i < c.n; i++) {
        const tt_safetensor *t = &c.v[i];
        const char *at = strstr(t->name, ".experts.");
        if (at == NULL) {
            all[n++] = *t;
            continue;
        }
        for (int e = 3; e-- > 0; n++) { // in any order
            all[n] = *t;
            all[n].name = tt_arena_printf(c.m.arena, "%.*s.experts.%d%s",
                                          (int)(at - t->name), t->name, e,
                                          at + strlen(".experts"));
            all[n].ndim = 2;
            all[n].shape = t->shape + 1;
            all[n].data = (const char *)t->data + e * (t->bytes / 3);
            last = n;
        }
    }
    CHECK(n > c.n);
    CHECK_OK(tt_safetensors_write(p.path, all, n, NULL, 0));
    made m = start_job(family_named("llama"),
                       (const char *const[]){"model.experts=3", "seed=9", NULL},
                       false);
    tt_str notes = {0};
    CHECK_OK(init_from(&m, p.path, &notes));
    CHECK(same_model(&c.m, &m));
    CHECK(strstr(tt_str_text(&notes), "lacks") == NULL);
    CHECK(strstr(tt_str_text(&notes), "has no") == NULL);
    CHECK_OK(
        tt_safetensors_write(p.path, all, last, NULL, 0)); // without expert 0
    refused(&m, p.path, "expert 0 is missing");
    all[last].ndim = 1;
    all[last].shape = (const int64_t[]){1};
    CHECK_OK(tt_safetensors_write(p.path, all, n, NULL, 0));
    refused(&m, p.path, "another shape or type than that of expert 0");
    tt_str_fini(&notes);
    tt_free(all);
    close_content(&c);
    close_job(&m);
    remove_place(&p);
}

TEST(init_converts_types)
{
    const place p = make_place("x.safetensors");
    content c =
        make_content("mlp", (const char *const[]){"precision=fp64", NULL});
    made m = start_job(family_named("mlp"), plain, false);
    tt_str notes = {0};
    CHECK_OK(tt_safetensors_write(p.path, c.v, c.n, NULL, 0));
    CHECK_OK(init_from(&m, p.path, &notes));
    const tt_tensor *t = &m.job->tensors.v[0];
    float *x = tt_alloc(t->bytes);
    double *y = tt_alloc(2 * t->bytes);
    CHECK_OK(tt_tensor_read(m.job->exec, t, x));
    CHECK_OK(tt_tensor_read(c.m.job->exec, &c.m.job->tensors.v[0], y));
    for (int64_t i = 0; i < t->count; i++)
        CHECK(x[i] == (float)y[i]);
    tt_free(x);
    tt_free(y);
    // Integers are no weights.
    c.v[0].dtype = "I64";
    CHECK_OK(tt_safetensors_write(p.path, c.v, c.n, NULL, 0));
    refused(&m, p.path, "has type I64, which does not become F32");
    tt_str_fini(&notes);
    close_content(&c);
    close_job(&m);
    remove_place(&p);
}

// ---- shards --------------------------------------------------------------

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

TEST(init_reads_shards)
{
    const place p = make_place("model.safetensors.index.json");
    char shard[2][128];
    content c = make_content("gpt", plain);
    tt_str index = {0};
    tt_str_add(&index, "{\"metadata\": {}, \"weight_map\": {");
    for (int k = 0; k < 2; k++) {
        snprintf(shard[k], sizeof shard[k], "%s/model-%d.safetensors", p.folder,
                 k);
        const int64_t half = c.n / 2, n = k == 0 ? half : c.n - half;
        CHECK_OK(tt_safetensors_write(shard[k], c.v + k * half, n, NULL, 0));
        for (int64_t i = k * half; i < k * half + n; i++)
            tt_str_addf(&index, "%s\"%s\": \"model-%d.safetensors\"",
                        i > 0 ? ", " : "", c.v[i].name, k);
    }
    tt_str_add(&index, "}}");
    write_text(p.path, tt_str_text(&index));
    loads(&c, p.folder, "gpt", "Loaded 28 tensors");
    loads(&c, p.path, "gpt", "Loaded 28 tensors");
    made m = start_job(family_named("gpt"), plain, false);
    write_text(p.path, "{\"weight_map\": {\"a\": \"../x\"}}");
    refused(&m, p.folder, "\"../x\" is not the name of a file");
    write_text(p.path, "{\"weight_map\": {\"a\": \"model-0.safetensors\"}}");
    refused(&m, p.folder, "names a, which no shard has");
    write_text(p.path, "{\"weight_map\": 3}");
    refused(&m, p.folder, "has no \"weight_map\"");
    write_text(p.path, "{\"weight_map\": {\"a\": \"none.safetensors\"}}");
    refused(&m, p.folder, "none.safetensors");
    CHECK_OK(tt_safetensors_write(shard[0], c.v, c.n, NULL, 0));
    write_text(p.path, tt_str_text(&index));
    refused(&m, p.folder, "is in two shards");
    tt_str_fini(&index);
    close_content(&c);
    close_job(&m);
    remove_place(&p);
}

// A map of as many shards as a large model has tensors is read in time that grows
// with their number. (The first is not there: only the map is read.)
TEST(init_reads_a_map_of_many_shards)
{
    enum { SHARDS = 100000 };
    const place p = make_place("model.safetensors.index.json");
    tt_str index = {0};
    tt_weights *w = NULL;
    tt_str_add(&index, "{\"weight_map\": {");
    for (int i = SHARDS; i-- > 0;)
        tt_str_addf(&index, "\"t%d\": \"model-%06d.safetensors\"%s", i, i,
                    i > 0 ? ", " : "}}");
    write_text(p.path, tt_str_text(&index));
    const double start = tt_clock_seconds();
    CHECK(tt_weights_open(p.path, &(tt_weights_options){0}, NULL, &w) != TT_OK);
    CHECK(strstr(tt_error_message(), "model-000000.safetensors") != NULL);
    CHECK(tt_clock_seconds() - start < 5); // measured: 0.08 s; it was 21 s
    tt_str_fini(&index);
    remove_place(&p);
}

// ---- checkpoints ---------------------------------------------------------

TEST(init_takes_checkpoints_and_their_averages)
{
    const place p = make_place("checkpoints");
    content c =
        make_content("mlp", (const char *const[]){"train.ema=0.5", NULL});
    tt_checkpoints *store = NULL;
    CHECK_OK(
        tt_checkpoints_open(p.path, &(tt_checkpoint_rules){.keep = 1}, &store));
    CHECK_OK(tt_checkpoints_save(
        store, &(tt_checkpoint_content){.step = 1,
                                        .model = c.s.model,
                                        .n_model = c.s.n_model,
                                        .optim = c.s.optim,
                                        .n_optim = c.s.n_optim,
                                        .state = "{}"}));
    CHECK_OK(tt_checkpoints_wait(store));
    tt_checkpoints_close(store);
    char one[160];
    snprintf(one, sizeof one, "%s/step-00000001", p.path);
    loads(&c, p.folder, "mlp", "Loaded 6 tensors");
    loads(&c, p.path, "mlp", "Loaded 6 tensors");
    loads(&c, one, "mlp", "Loaded 6 tensors");
    tt_weights *w = NULL;
    CHECK_OK(tt_weights_open(p.folder, &(tt_weights_options){.wants_ema = true},
                             NULL, &w));
    const tt_safetensor *weight = tt_weights_find(w, "layers.0.weight");
    const tt_safetensor *average = tt_weights_average(w, weight);
    CHECK(weight != average);
    CHECK(strcmp(average->name, "layers.0.weight.ema") == 0);
    tt_weights_close(w);
    close_content(&c);
    remove_place(&p);
}

TEST(plain_names)
{
    static const char *const cases[][2] = {
        {"transformer.wte.weight", "wte.weight"},
        {"wte.weight", "wte.weight"},
        {"_orig_mod.transformer.h.0.x", "h.0.x"},
        {"module.module.model.layers.0.x", "layers.0.x"},
        {"lm_head.weight", "lm_head.weight"},
        {"model.", "model."},
        {"models.x", "models.x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(strcmp(tt_weights_plain_name(cases[i][0]), cases[i][1]) == 0);
}
