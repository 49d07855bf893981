// The models train as PyTorch trains them in double precision: logits, loss, every
// gradient, ten losses, and every weight and statistic afterwards; the fast
// backend's first step agrees to the precision of fp32. models.py writes the files;
// README.md says what is in them. Skipped without PyTorch.

#include "oracle/oracle.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t n_steps = 10;

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

// Two tests of one model may run at the same time: each has its own folder.
static tt_safetensors *make_file(const char *model)
{
    char python[1024], folder[1024], command[4096], path[2048];
    const char *build = getenv("TUTTI_BUILD");
    tt_safetensors *file = NULL;
    find_python(python, sizeof python);
    snprintf(folder, sizeof folder, "%s/oracle.%d",
             build != NULL ? build : "build", (int)getpid());
    snprintf(command, sizeof command, "%s tests/oracle/models.py %s %s 1>&2",
             python, folder, model);
    CHECK_MSG(system(command) == 0, "failed: %s", command);
    snprintf(path, sizeof path, "%s/%s.safetensors", folder, model);
    CHECK_OK(tt_safetensors_open(path, &file));
    CHECK(remove(path) == 0); // the open file stays mapped
    CHECK(rmdir(folder) == 0);
    return file;
}

// Weights and statistics; how many batches a norm has seen is not compared.
static bool is_compared(const tt_value *v)
{
    return (v->role == TT_ROLE_PARAM || v->role == TT_ROLE_BUFFER) &&
           tt_dtype_is_float(v->type.dtype);
}

// Writes the file's weights and statistics; there must be none besides.
static void load_weights(const oracle *o)
{
    const tt_graph *g = o->job->graph;
    int64_t n_here = 0, n_there = 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        const tt_value *v = &g->value[i];
        if (!is_compared(v))
            continue;
        const char *kind = v->role == TT_ROLE_PARAM ? "param" : "buffer";
        const tt_safetensor *t = oracle_find(o, kind, v->name);
        CHECK_MSG(t != NULL, "%s: PyTorch has no %s", o->model, v->name);
        oracle_write(o, (tt_val){i}, t);
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

static tt_status feed(void *user, const tt_job *job, int64_t micro, void *x,
                      void *y)
{
    (void)job;
    (void)micro;
    oracle_convert(user, "x", oracle_find(user, "input", "x"), x);
    oracle_convert(user, "y", oracle_find(user, "input", "y"), y);
    return TT_OK;
}

static void compare_states(const oracle *o, const char *kind, double scale)
{
    const tt_graph *g = o->job->graph;
    const bool is_grad = strcmp(kind, "grad") == 0;
    for (int32_t i = 0; i < g->n_values; i++) {
        const tt_value *v = &g->value[i];
        if (is_grad && v->role == TT_ROLE_PARAM)
            oracle_compare(o, v->grad, kind, v->name, scale);
        else if (!is_grad && is_compared(v))
            oracle_compare(o, (tt_val){i}, kind, v->name, scale);
    }
}

static void train(oracle *o, int64_t steps)
{
    const tt_safetensor *losses = tt_safetensors_find(o->file, "losses");
    CHECK(losses != NULL && losses->bytes == 8 * n_steps);
    for (int i = 0; i < steps; i++) {
        tt_step_result result;
        CHECK_OK(tt_job_step(o->job, feed, o, &result));
        CHECK_CLOSE(result.loss, oracle_number(losses, i), o->tolerance);
        if (i > 0)
            continue;
        oracle_compare(o, o->job->io.logits, "logits", "", 1);
        compare_states(o, "grad", 1 / result.count);
    }
    if (steps == n_steps)
        compare_states(o, "after", 1);
}

static void check_as(const char *model, const char *how, double tolerance,
                     int64_t steps)
{
    char settings[2048];
    oracle o = {
        .model = model, .tolerance = tolerance, .file = make_file(model)};
    const char *note = tt_safetensors_note_find(o.file, "settings");
    CHECK(note != NULL);
    snprintf(settings, sizeof settings, "%s %s", note, how);
    oracle_start(&o, settings);
    load_weights(&o);
    train(&o, steps);
    oracle_close(&o);
}

static void check_model(const char *model)
{
    check_as(model, "precision=fp64 device=ref", 1e-9, n_steps);
}

// One step from the same state. Not for networks with ReLU and max-pooling, where
// rounding decides which way a gradient goes.
static void check_fp32(const char *model)
{
    check_as(model, "precision=fp32 device=cpu", 1e-5, 1);
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

TEST_ALL(gpt2_steps_as_in_pytorch_in_fp32)
{
    check_fp32("gpt2");
}

TEST_ALL(llama_steps_as_in_pytorch_in_fp32)
{
    check_fp32("llama");
}

TEST_ALL(lstm_steps_as_in_pytorch_in_fp32)
{
    check_fp32("lstm");
}

TEST_ALL(vit_steps_as_in_pytorch_in_fp32)
{
    check_fp32("vit");
}
