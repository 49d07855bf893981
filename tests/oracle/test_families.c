// Models of transformers, read from the folders that it writes, compute what they do
// there: logits, loss, every gradient and one step. families.py makes them. Skipped
// without PyTorch and transformers.
//
// transformers computes the angles of rotary positions in fp32 whatever the precision:
// a frequency is off by 2^-24 of it, so at position 39 an angle by up to 39 times that,
// 2.3e-6, and queries and keys with it; a few layers add up to less than ten of these.

#include "oracle/oracle.h"
#include "test.h"
#include "weights/model_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double angles = 2e-5, exact = 1e-10, rounded = 2e-5;

static void find_python(char *path, size_t bytes)
{
    char command[2048];
    FILE *pipe = popen("python3 bench/find_torch.py 2>/dev/null", "r");
    CHECK(pipe != NULL);
    const bool is_found = fgets(path, (int)bytes, pipe) != NULL;
    if (pclose(pipe) != 0 || !is_found)
        SKIP("no PyTorch; on Debian: apt-get install python3-torch");
    path[strcspn(path, "\n")] = '\0';
    snprintf(command, sizeof command,
             "%s -c 'import transformers, safetensors' 2>/dev/null", path);
    if (system(command) != 0)
        SKIP("no transformers for that Python (TUTTI_TORCH_PYTHON names one)");
}

// The folder that it wrote: FOLDER/hf, and what it computed.
static tt_safetensors *make(const char *name, char *folder, size_t bytes)
{
    char python[1024], command[4096], path[2048];
    const char *build = getenv("TUTTI_BUILD");
    tt_safetensors *file = NULL;
    find_python(python, sizeof python);
    snprintf(folder, bytes, "%s/families.%d", build != NULL ? build : "build",
             (int)getpid());
    snprintf(command, sizeof command,
             "%s tests/oracle/families.py %s %s >/dev/null 2>&1", python,
             folder, name);
    CHECK_MSG(system(command) == 0, "failed: %s", command);
    snprintf(path, sizeof path, "%s/ref.safetensors", folder);
    CHECK_OK(tt_safetensors_open(path, &file));
    return file;
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

// What the folder says, and how to train.
static void settings_of(const char *folder, const char *how, tt_str *out)
{
    tt_settings settings = {0};
    tt_arena *arena = tt_arena_create();
    char hf[1024];
    snprintf(hf, sizeof hf, "%s/hf", folder);
    CHECK_OK(tt_model_folder_read(hf, arena, &settings));
    for (int64_t i = 0; i < settings.n; i++)
        tt_str_addf(out, "%s=%s ", settings.v[i].key, settings.v[i].value);
    tt_str_addf(out,
                "init.from=%s batch=2 seq=40 optim=sgd optim.lr=0.1 "
                "optim.weight_decay=0 optim.clip=0 %s",
                hf, how);
    tt_arena_destroy(arena);
}

static void compare_step(oracle *o)
{
    const tt_graph *g = o->job->graph;
    tt_step_result result;
    int64_t n_here = 0, n_there = 0;
    CHECK_OK(tt_job_step(o->job, feed, o, &result));
    CHECK_CLOSE(result.loss,
                oracle_number(tt_safetensors_find(o->file, "loss"), 0),
                o->tolerance);
    oracle_compare(o, o->job->io.logits, "logits", "", 1);
    for (int32_t i = 0; i < g->n_values; i++) {
        const tt_value *v = &g->value[i];
        if (v->role != TT_ROLE_PARAM)
            continue;
        oracle_compare(o, v->grad, "grad", v->name, 1 / result.count);
        oracle_compare(o, (tt_val){i}, "after", v->name, 1);
        n_here++;
    }
    for (int64_t i = 0; i < tt_safetensors_count(o->file); i++)
        n_there +=
            strncmp(tt_safetensors_at(o->file, i)->name, "after.", 6) == 0;
    CHECK_MSG(n_here == n_there, "%s: %lld weights here, %lld there", o->model,
              (long long)n_here, (long long)n_there);
}

static void check_as(const char *name, const char *folder, const char *how,
                     double tolerance)
{
    char path[2048];
    oracle o = {.model = name, .tolerance = tolerance};
    tt_str settings = {0}, notes = {0};
    snprintf(path, sizeof path, "%s/ref.safetensors", folder);
    CHECK_OK(tt_safetensors_open(path, &o.file));
    settings_of(folder, how, &settings);
    oracle_start(&o, tt_str_text(&settings));
    CHECK_OK(tt_job_init_from(o.job, &notes));
    CHECK_MSG(strstr(tt_str_text(&notes), "lacks") == NULL &&
                  strstr(tt_str_text(&notes), "has no") == NULL,
              "%s", tt_str_text(&notes));
    compare_step(&o);
    tt_str_fini(&settings);
    tt_str_fini(&notes);
    oracle_close(&o);
}

static void check_family(const char *name)
{
    char folder[1024], command[2048];
    const bool has_angles = strcmp(name, "gpt2") != 0;
    tt_safetensors_close(make(name, folder, sizeof folder));
    check_as(name, folder, "precision=fp64 device=ref",
             has_angles ? angles : exact);
    check_as(name, folder, "precision=fp32 device=cpu", rounded);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
}

#define FAMILY(id, name)                                                       \
    TEST_ALL(id##_computes_as_in_transformers)                                 \
    {                                                                          \
        check_family(name);                                                    \
    }

FAMILY(gpt2, "gpt2")
FAMILY(llama, "llama")
FAMILY(llama_tied, "llama-tied")
FAMILY(llama3, "llama3")
FAMILY(llama_linear, "llama-linear")
FAMILY(llama_yarn, "llama-yarn")
FAMILY(llama_yarn_with_its_own_numbers, "llama-yarn-set")
FAMILY(llama_with_a_head_size, "llama-head")
FAMILY(llama_with_biases, "llama-bias")
FAMILY(mistral, "mistral")
FAMILY(mistral_without_window, "mistral-plain")
FAMILY(qwen2, "qwen2")
FAMILY(qwen2_tied, "qwen2-tied")
FAMILY(qwen3, "qwen3")
FAMILY(qwen3_yarn, "qwen3-yarn")
FAMILY(mixtral, "mixtral")
