// The models train as PyTorch trains them in double precision: logits, loss, every
// gradient, ten losses, and every weight and statistic afterwards. models.py
// writes the files; README.md says what is in them. Skipped without PyTorch.

#include "base/alloc.h"
#include "base/settings.h"
#include "store/safetensors.h"
#include "test.h"
#include "train/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_STEPS = 10, NAME_BYTES = 256 };
static const double tolerance = 1e-9;

typedef struct oracle {
    const char *model;
    tt_safetensors *file;
    tt_job *job;
    tt_arena *arena;
} oracle;

// The Python that has PyTorch; skips the test when there is none.
static void find_python(char *path, size_t bytes)
{
    FILE *pipe = popen("python3 bench/find_torch.py 2>/dev/null", "r");
    CHECK(pipe != NULL);
    const bool is_found = fgets(path, (int)bytes, pipe) != NULL;
    if (pclose(pipe) != 0 || !is_found)
        SKIP("no PyTorch; on Debian: apt-get install python3-torch");
    path[strcspn(path, "\n")] = '\0';
}

static tt_safetensors *make_file(const char *model)
{
    char python[1024], command[2048], path[1024];
    const char *build = getenv("TUTTI_BUILD");
    tt_safetensors *file = NULL;
    find_python(python, sizeof python);
    if (build == NULL)
        build = "build";
    snprintf(command, sizeof command,
             "%s tests/oracle/models.py %s/oracle %s 1>&2", python, build,
             model);
    CHECK_MSG(system(command) == 0, "failed: %s", command);
    snprintf(path, sizeof path, "%s/oracle/%s.safetensors", build, model);
    CHECK_OK(tt_safetensors_open(path, &file));
    CHECK(remove(path) == 0); // the open file stays mapped
    return file;
}

static tt_job *configure(const oracle *o)
{
    tt_settings settings = {0};
    tt_job *job = NULL;
    const char *note = tt_safetensors_note_find(o->file, "settings");
    CHECK(note != NULL);
    char *text =
        tt_arena_printf(o->arena, "%s precision=fp64 device=ref", note);
    for (char *rest, *word = strtok_r(text, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest))
        CHECK_OK(tt_settings_assign(&settings, word, "oracle", o->arena));
    CHECK_OK(tt_job_configure(&settings, NULL, &job));
    return job;
}

static bool is_compared(const tt_value *v)
{
    return v->role == TT_ROLE_PARAM || v->role == TT_ROLE_BUFFER;
}

// Lowers again with the logits and every gradient kept for reading.
static void keep_gradients(oracle *o)
{
    tt_graph *g = o->job->graph;
    const int32_t room = g->n_outputs + g->n_values + 1;
    tt_graph_output *all =
        tt_arena_alloc(g->arena, (int64_t)sizeof *all * room);
    memcpy(all, g->output, sizeof *all * (size_t)g->n_outputs);
    g->output = all;
    g->outputs_capacity = room;
    all[g->n_outputs++] = (tt_graph_output){"logits", o->job->io.logits};
    for (int32_t i = 0; i < g->n_values; i++) {
        const tt_value *v = &g->value[i];
        if (v->role == TT_ROLE_PARAM)
            all[g->n_outputs++] = (tt_graph_output){
                tt_arena_printf(g->arena, "grad.%s", v->name), v->grad};
    }
    tt_plan_destroy(o->job->plan);
    o->job->plan = NULL;
    CHECK_OK(tt_plan_lower(g, &o->job->backend->target,
                           &(tt_lower_options){.n_micro = 1}, &o->job->plan));
}

static const tt_safetensor *find(const oracle *o, const char *kind,
                                 const char *name)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s%s%s", kind, name[0] ? "." : "", name);
    return tt_safetensors_find(o->file, full);
}

// The file's tensor, which must have the value's shape.
static const double *expected(const oracle *o, const char *kind,
                              const char *name, const tt_shape *shape)
{
    const tt_safetensor *t = find(o, kind, name);
    CHECK_MSG(t != NULL, "%s: no %s.%s", o->model, kind, name);
    CHECK_MSG(t->ndim == shape->ndim, "%s: %s has %lld dims here, %lld there",
              o->model, name, (long long)shape->ndim, (long long)t->ndim);
    for (int d = 0; d < shape->ndim; d++)
        CHECK_MSG(t->shape[d] == tt_shape_dim(shape, d),
                  "%s: %s: extent %d is %lld here, %lld there", o->model, name,
                  d, (long long)tt_shape_dim(shape, d), (long long)t->shape[d]);
    return t->data;
}

// Writes the file's weights and statistics; there must be none besides.
static void load_weights(const oracle *o)
{
    const tt_graph *g = o->job->graph;
    int64_t n_here = 0, n_there = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        const tt_value *v = &g->value[i];
        if (!is_compared(v) || v->type.dtype != TT_F64)
            continue;
        const char *kind = v->role == TT_ROLE_PARAM ? "param" : "buffer";
        CHECK_OK(tt_exec_write(o->job->exec, (tt_val){i},
                               expected(o, kind, v->name, &v->type.shape)));
        n_here++;
    }
    for (int64_t i = 0; i < tt_safetensors_count(o->file); i++) {
        const char *name = tt_safetensors_at(o->file, i)->name;
        n_there +=
            strncmp(name, "param.", 6) == 0 || strncmp(name, "buffer.", 7) == 0;
    }
    CHECK_MSG(n_here == n_there, "%s: %lld states here, %lld there", o->model,
              (long long)n_here, (long long)n_there);
}

static void convert(const oracle *o, const char *name, void *out)
{
    const tt_graph *g = o->job->graph;
    const tt_type *type = &g->value[tt_graph_find(g, name).id].type;
    const tt_safetensor *t = find(o, "input", name);
    const int64_t n = tt_shape_count(&type->shape);
    CHECK(t != NULL && t->bytes == 8 * n);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(type->dtype, out, i,
                       strcmp(t->dtype, "I64") == 0
                           ? (double)((const int64_t *)t->data)[i]
                           : ((const double *)t->data)[i]);
}

static tt_status feed(void *user, const tt_job *job, int64_t micro, void *x,
                      void *y)
{
    (void)job;
    (void)micro;
    convert(user, "x", x);
    convert(user, "y", y);
    return TT_OK;
}

// ---- comparing ------------------------------------------------------------

typedef struct sums {
    double squares, n; // of all tensors of a kind
} sums;

static double square(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}

static sums all_of(const oracle *o, const char *kind)
{
    sums all = {0};
    for (int64_t i = 0; i < tt_safetensors_count(o->file); i++) {
        const tt_safetensor *t = tt_safetensors_at(o->file, i);
        if (strncmp(t->name, kind, strlen(kind)) != 0)
            continue;
        all.squares += square(t->data, t->bytes / 8);
        all.n += (double)(t->bytes / 8);
    }
    return all;
}

// |a - b| / max(|b|, 0.01 |all| sqrt(n / N)): what is zero in mathematics has no
// relative error of its own.
static void compare(const oracle *o, tt_val v, const char *kind,
                    const char *name, double scale)
{
    const tt_shape *shape = &o->job->graph->value[v.id].type.shape;
    const int64_t n = tt_shape_count(shape);
    const double *want = expected(o, kind, name, shape);
    const sums all = all_of(o, kind);
    double *got = tt_alloc(8 * n + 8);
    CHECK(got != NULL);
    CHECK_OK(tt_exec_read(o->job->exec, v, got));
    for (int64_t i = 0; i < n; i++)
        got[i] = got[i] * scale - want[i];
    const double least = 0.01 * sqrt(all.squares * (double)n / all.n);
    const double error =
        sqrt(square(got, n)) / fmax(sqrt(square(want, n)), least);
    CHECK_MSG(error <= tolerance, "%s: %s %s is off by %.3g", o->model, kind,
              name, error);
    tt_free(got);
}

static void compare_states(const oracle *o, const char *kind, double scale)
{
    const tt_graph *g = o->job->graph;
    const bool is_grad = strcmp(kind, "grad") == 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        const tt_value *v = &g->value[i];
        if (is_grad && v->role == TT_ROLE_PARAM)
            compare(o, v->grad, kind, v->name, scale);
        else if (!is_grad && is_compared(v) && v->type.dtype == TT_F64)
            compare(o, (tt_val){i}, kind, v->name, scale);
    }
}

static void train(oracle *o)
{
    const tt_safetensor *losses = tt_safetensors_find(o->file, "losses");
    CHECK(losses != NULL && losses->bytes == 8 * N_STEPS);
    for (int i = 0; i < N_STEPS; i++) {
        tt_step_result result;
        CHECK_OK(tt_job_step(o->job, feed, o, &result));
        CHECK_CLOSE(result.loss, ((const double *)losses->data)[i], tolerance);
        if (i > 0)
            continue;
        compare(o, o->job->io.logits, "logits", "", 1);
        compare_states(o, "grad", 1 / result.count);
    }
    compare_states(o, "after", 1);
}

static void check_model(const char *model)
{
    oracle o = {.model = model, .file = make_file(model)};
    o.arena = tt_arena_create();
    o.job = configure(&o);
    CHECK_OK(tt_job_plan(o.job));
    keep_gradients(&o);
    CHECK_OK(tt_job_start(o.job, &(tt_exec_options){.poison = true}));
    load_weights(&o);
    train(&o);
    tt_job_close(o.job);
    tt_safetensors_close(o.file);
    tt_arena_destroy(o.arena);
    CHECK(tt_alloc_live() == 0);
}

TEST_ALL(gpt2_trains_as_in_pytorch)
{
    check_model("gpt2");
}

TEST_ALL(llama_trains_as_in_pytorch)
{
    check_model("llama");
}

TEST_ALL(llama_with_tied_head_trains_as_in_pytorch)
{
    check_model("llama-tied");
}

TEST_ALL(lstm_trains_as_in_pytorch)
{
    check_model("lstm");
}

TEST_ALL(mlp_trains_as_in_pytorch)
{
    check_model("mlp");
}

TEST_ALL(lenet_trains_as_in_pytorch)
{
    check_model("lenet");
}

TEST_ALL(resnet18_trains_as_in_pytorch)
{
    check_model("resnet18");
}

TEST_ALL(resnet50_trains_as_in_pytorch)
{
    check_model("resnet50");
}

TEST_ALL(vgg11_trains_as_in_pytorch)
{
    check_model("vgg11");
}

TEST_ALL(vgg11_with_batch_norm_trains_as_in_pytorch)
{
    check_model("vgg11-bn");
}

TEST_ALL(vit_trains_as_in_pytorch)
{
    check_model("vit");
}
