// States: all of them can be taken out and put back, bit for bit.

#include "base/alloc.h"
#include "jobs.h"
#include "state/restore.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const plain[] = {NULL};
static const char *const in_bf16[] = {"precision=bf16", "train.ema=0.9", NULL};

typedef struct files {
    char folder[64], model[96], optim[96];
} files;

static files write_files(const tt_snapshot *s)
{
    files f = {"/tmp/tutti-tensors-XXXXXX"};
    CHECK(mkdtemp(f.folder) != NULL);
    snprintf(f.model, sizeof f.model, "%s/model", f.folder);
    snprintf(f.optim, sizeof f.optim, "%s/optim", f.folder);
    CHECK_OK(tt_safetensors_write(f.model, s->model, s->n_model, NULL, 0));
    CHECK_OK(tt_safetensors_write(f.optim, s->optim, s->n_optim, NULL, 0));
    return f;
}

static tt_status restore(made *m, const files *f, tt_str *notes)
{
    tt_safetensors *model = NULL, *optim = NULL;
    CHECK_OK(tt_safetensors_open(f->model, &model));
    CHECK_OK(tt_safetensors_open(f->optim, &optim));
    const tt_restore from = {model, optim, "step-3", notes};
    tt_slices_result result;
    const tt_status status =
        tt_tensors_restore(m->job->exec, &m->job->tensors, &from, &result);
    tt_safetensors_close(model);
    tt_safetensors_close(optim);
    return status;
}

static void remove_files(const files *f)
{
    unlink(f->model);
    unlink(f->optim);
    rmdir(f->folder);
}

static tt_snapshot take(made *m)
{
    tt_snapshot s = {0};
    CHECK_OK(tt_snapshot_take(m->job->exec, &m->job->tensors, m->arena, &s));
    CHECK(s.n_model + s.n_optim == m->job->tensors.n);
    CHECK(s.bytes == tt_tensors_bytes(&m->job->tensors));
    return s;
}

// Training on after a restart equals training on.
static void restart(const family *f, const char *const *more)
{
    made a = start_job(f, more, false), b = start_job(f, more, false);
    for (int i = 0; i < 3; i++)
        step_job(&a);
    tt_snapshot s = take(&a);
    const files written = write_files(&s);
    tt_snapshot_free(&s);
    step_job(&b); // other states than the initial ones
    CHECK_OK(restore(&b, &written, NULL));
    b.job->step = a.job->step;
    CHECK_MSG(same_states(read_states(&a), read_states(&b)),
              "%s: restored to other bits", f->name);
    for (int i = 0; i < 2; i++) {
        step_job(&a);
        step_job(&b);
    }
    CHECK_MSG(same_states(read_states(&a), read_states(&b)),
              "%s: goes on otherwise", f->name);
    remove_files(&written);
    close_job(&a);
    close_job(&b);
}

TEST(tensors_restart_in_fp32)
{
    restart(family_named("llama"), plain);
    restart(family_named("vit"), plain);
    restart(family_named("vgg"), plain);
}

TEST(tensors_restart_in_bf16_with_averages)
{
    restart(family_named("gpt"), in_bf16);
    restart(family_named("lstm"), in_bf16);
    restart(family_named("resnet"), in_bf16);
}

TEST(tensors_put_back_a_snapshot)
{
    made m = start_job(family_named("resnet"), in_bf16, false);
    step_job(&m);
    tt_snapshot s = take(&m);
    const states before = read_states(&m);
    step_job(&m);
    CHECK_OK(tt_snapshot_put_back(m.job->exec, &m.job->tensors, &s));
    CHECK(same_states(before, read_states(&m)));
    void *const old = s.memory;
    tt_safetensor *const list = s.model;
    CHECK_OK(tt_snapshot_take(m.job->exec, &m.job->tensors, m.arena, &s));
    CHECK(s.model == list && s.memory == old);
    CHECK((const char *)s.model[0].data == (const char *)s.memory);
    tt_snapshot_free(&s);
    CHECK(s.memory == NULL);
    close_job(&m);
}

TEST(tensors_are_listed_by_role)
{
    made m = start_job(family_named("vgg"), in_bf16, false);
    const tt_tensors *all = &m.job->tensors;
    int64_t n[4] = {0};
    for (int64_t i = 0; i < all->n; i++) {
        n[all->v[i].role]++;
        CHECK(i == 0 || all->v[i].role >= all->v[i - 1].role);
    }
    CHECK(n[TT_TENSOR_EMA] == n[TT_TENSOR_PARAM]);
    CHECK(n[TT_TENSOR_OPTIM] == 2 * n[TT_TENSOR_PARAM]);
    CHECK(n[TT_TENSOR_BUFFER] > 0);
    CHECK(tt_tensors_model(all).n == n[TT_TENSOR_PARAM] + n[TT_TENSOR_BUFFER]);
    const tt_tensor *w = tt_tensors_find(all, "features.0.weight");
    CHECK(w != NULL && w->ndim == 4 && w->dim[1] == 3 && tt_is(w->work));
    CHECK(tt_tensors_find(all, "features.0.weight.ema")->of.id == w->val.id);
    CHECK(tt_tensors_find(all, "features.0.weight.work") == NULL);
    close_job(&m);
}

static void refuses(made *m, const files *f, const char *message)
{
    const states before = read_states(m);
    CHECK(restore(m, f, NULL) == TT_ERR_ARG);
    CHECK_MSG(strstr(tt_error_message(), message) != NULL,
              "\"%s\" lacks \"%s\"", tt_error_message(), message);
    CHECK(same_states(before, read_states(m)));
}

TEST(tensors_refuse_what_does_not_fit)
{
    static const char *const wide[] = {"model.width=20", NULL};
    static const char *const sgd[] = {"optim=sgd", NULL};
    static const char *const wide_type[] = {"precision=fp64", NULL};
    const family *mlp = family_named("mlp");
    made a = start_job(mlp, plain, false), b = start_job(mlp, wide, false);
    made c = start_job(mlp, sgd, false), d = start_job(mlp, wide_type, false);
    tt_snapshot s = take(&a), bare = take(&c);
    const files f = write_files(&s), g = write_files(&bare);
    refuses(&b, &f,
            "step-3: layers.0.weight is F32 [33, 49], but the model "
            "wants F32 [20, 49]");
    refuses(&c, &f, "which this model has not");
    refuses(&a, &g, "step-3 lacks layers.0.weight.exp_avg");
    refuses(&d, &f, "is F32 [33, 49], but the model wants F64 [33, 49]");
    tt_snapshot_free(&s);
    tt_snapshot_free(&bare);
    remove_files(&f);
    remove_files(&g);
    close_job(&a);
    close_job(&b);
    close_job(&c);
    close_job(&d);
}

// A fork may have another optimiser: its states start anew.
TEST(tensors_of_a_fork_may_lack_states)
{
    static const char *const sgd[] = {"optim=sgd", NULL};
    static const char *const averaged[] = {"train.ema=0.5", NULL};
    const family *mlp = family_named("mlp");
    made a = start_job(mlp, sgd, false), b = start_job(mlp, averaged, false);
    step_job(&a);
    tt_snapshot s = take(&a);
    const files f = write_files(&s);
    tt_str notes = {0};
    CHECK_OK(restore(&b, &f, &notes));
    CHECK(
        strstr(tt_str_text(&notes),
               "step-3 lacks layers.0.weight.exp_avg, which starts anew.\n") !=
        NULL);
    CHECK(strstr(tt_str_text(&notes), "more states") != NULL);
    const tt_tensor *w = tt_tensors_find(&b.job->tensors, "layers.0.weight");
    const tt_tensor *e =
        tt_tensors_find(&b.job->tensors, "layers.0.weight.ema");
    float *weight = tt_alloc(w->bytes), *average = tt_alloc(e->bytes);
    CHECK_OK(tt_tensor_read(b.job->exec, w, weight));
    CHECK_OK(tt_tensor_read(b.job->exec, e, average));
    CHECK(memcmp(weight, average, (size_t)w->bytes) == 0);
    tt_free(weight);
    tt_free(average);
    tt_str_fini(&notes);
    tt_snapshot_free(&s);
    remove_files(&f);
    close_job(&a);
    close_job(&b);
}
