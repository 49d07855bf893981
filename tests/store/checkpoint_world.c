// checkpoint_world - see checkpoint_world.h.

#include "store/checkpoint_world.h"

#include "base/alloc.h"
#include "base/file.h"
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 700 }; // numbers per tensor

static char folder[] = "/tmp/tutti-checkpoint-XXXXXX";

void tt_world_enter(void)
{
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
}

void tt_world_leave(void)
{
    CHECK(chdir("/") == 0);
    CHECK_OK(tt_file_remove(folder));
    CHECK(tt_alloc_live() == 0);
}

tt_checkpoints *tt_world_open(int64_t keep, int64_t keep_every)
{
    tt_checkpoints *store = NULL;
    const tt_checkpoint_rules rules = {keep, keep_every};
    CHECK_OK(tt_checkpoints_open("c", &rules, &store));
    return store;
}

static float value(int64_t step, int64_t i)
{
    return (float)(step * 1000 + i);
}

typedef struct fetching {
    int64_t step, first;
    float v[N];
} fetching;

// One tensor at a time, in memory that is used again.
static tt_status fetch(void *user, const tt_safetensor *tensor,
                       const void **data_out)
{
    fetching *f = user;
    (void)tensor;
    for (int64_t i = 0; i < N; i++)
        f->v[i] = value(f->step, f->first + i);
    f->first += N;
    *data_out = f->v;
    return TT_OK;
}

// `v`: the data, or NULL when they are fetched.
static tt_status save(tt_checkpoints *store, int64_t step, float *v)
{
    char state[64], config[] = "{\"model\": \"tiny\"}\n";
    const int64_t shape[] = {N}, two[] = {2, N / 2};
    fetching f = {.step = step};
    const tt_safetensor model = {
        .name = "w", .dtype = "F32", .ndim = 1, .shape = shape, .data = v};
    const tt_safetensor optim = {.name = "w.exp_avg",
                                 .dtype = "F32",
                                 .ndim = 2,
                                 .shape = two,
                                 .data = v != NULL ? v + N : NULL};
    const tt_checkpoint_text text = {"config.json", config,
                                     (int64_t)strlen(config)};
    snprintf(state, sizeof state, "{\"position\": %lld}", (long long)step * 7);
    const tt_checkpoint_content content = {
        .step = step,
        .model = &model,
        .n_model = 1,
        .optim = &optim,
        .n_optim = 1,
        .text = &text,
        .n_text = 1,
        .state = state,
        .memory = v,
        .fetch = v == NULL ? fetch : NULL,
        .user = &f,
    };
    const tt_status status = v == NULL
                                 ? tt_checkpoints_save_now(store, &content)
                                 : tt_checkpoints_save(store, &content);
    memset(config, 0, sizeof config); // what was needed is copied
    return status;
}

tt_status tt_world_save(tt_checkpoints *store, int64_t step)
{
    float *v = tt_alloc_aligned(2 * N * (int64_t)sizeof(*v), 64);
    if (v == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < 2 * N; i++)
        v[i] = value(step, i);
    const tt_status status = save(store, step, v);
    if (status != TT_OK)
        tt_free_aligned(v);
    return status;
}

tt_status tt_world_save_now(tt_checkpoints *store, int64_t step)
{
    return save(store, step, NULL);
}

void tt_world_saved(tt_checkpoints *store, int64_t step)
{
    CHECK_OK(tt_world_save(store, step));
    CHECK_OK(tt_checkpoints_wait(store));
}

static void check_tensor(const tt_safetensors *file, const char *name,
                         int64_t step, int64_t first)
{
    const tt_safetensor *t = tt_safetensors_find(file, name);
    CHECK(t != NULL && t->bytes == N * (int64_t)sizeof(float));
    const float *v = t->data;
    for (int64_t i = 0; i < N; i++)
        CHECK(v[i] == value(step, first + i));
}

void tt_world_check(tt_checkpoint *c)
{
    char state[64];
    const char *text = NULL;
    int64_t n = 0;
    snprintf(state, sizeof state, "{\"position\": %lld}",
             (long long)c->step * 7);
    CHECK(strcmp(c->state, state) == 0);
    check_tensor(c->model, "w", c->step, 0);
    check_tensor(c->optim, "w.exp_avg", c->step, N);
    CHECK_OK(tt_checkpoint_text_read(c, "config.json", &text, &n));
    CHECK(strcmp(text, "{\"model\": \"tiny\"}\n") == 0);
    CHECK(n == (int64_t)strlen(text));
}

int64_t tt_world_newest(void)
{
    tt_checkpoint *c = NULL;
    tt_str notes = {0};
    int64_t step = -1;
    if (tt_checkpoint_read("c", NULL, &notes, &c) == TT_OK) {
        step = c->step;
        tt_world_check(c);
    }
    tt_checkpoint_close(c);
    tt_str_fini(&notes);
    return step;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

const char *tt_world_steps(void)
{
    static char text[512];
    char names[32][32];
    int n = 0, used = 0;
    DIR *dir = opendir("c");
    CHECK(dir != NULL);
    for (const struct dirent *e = readdir(dir); e && n < 32; e = readdir(dir))
        if (strncmp(e->d_name, "step-", 5) == 0)
            snprintf(names[n++], 32, "%.31s", e->d_name);
    closedir(dir);
    qsort(names, (size_t)n, sizeof names[0], compare);
    text[0] = '\0';
    for (int i = 0; i < n; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%d%s",
                         i ? " " : "", atoi(names[i] + 5),
                         strchr(names[i], '.') != NULL ? "d" : "");
    return text;
}

static int count(const char *path, const char *prefix)
{
    int n = 0;
    DIR *dir = opendir(path);
    if (dir == NULL)
        return 0;
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir))
        n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    closedir(dir);
    return n;
}

int tt_world_temporaries(void)
{
    return count("c", ".tmp");
}

int tt_world_descriptors(void)
{
    return count("/proc/self/fd", "");
}
