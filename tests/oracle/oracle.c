// oracle - starts a job, moves tensors between it and a file, compares.

#include "oracle/oracle.h"

#include "base/alloc.h"
#include "base/settings/settings.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256 };

static tt_job *configure(const oracle *o, const char *settings_text)
{
    tt_settings settings = {0};
    tt_job *job = NULL;
    char *text = tt_arena_strdup(o->arena, settings_text);
    for (char *rest, *word = strtok_r(text, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest))
        CHECK_OK(tt_settings_assign(&settings, word, "oracle", o->arena));
    CHECK_OK(tt_job_configure(&settings, NULL, &job));
    return job;
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

void oracle_start(oracle *o, const char *settings)
{
    o->arena = tt_arena_create();
    o->job = configure(o, settings);
    CHECK_OK(tt_job_plan(o->job));
    keep_gradients(o);
    CHECK_OK(tt_job_start(o->job, &(tt_exec_options){.poison = true}));
}

void oracle_close(oracle *o)
{
    tt_job_close(o->job);
    tt_safetensors_close(o->file);
    tt_arena_destroy(o->arena);
    CHECK(tt_alloc_live() == 0);
}

const tt_safetensor *oracle_find(const oracle *o, const char *kind,
                                 const char *name)
{
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s%s%s", kind, name[0] ? "." : "", name);
    return tt_safetensors_find(o->file, full);
}

static int64_t size_of(const tt_safetensor *t)
{
    return tt_safetensors_bits(t->dtype) / 8;
}

double oracle_number(const tt_safetensor *t, int64_t i)
{
    const char *at = (const char *)t->data + i * size_of(t);
    float f;
    double d;
    int64_t n;
    if (strcmp(t->dtype, "F32") == 0) {
        memcpy(&f, at, sizeof f);
        return (double)f;
    }
    if (strcmp(t->dtype, "F64") == 0) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    CHECK(strcmp(t->dtype, "I64") == 0);
    memcpy(&n, at, sizeof n);
    return (double)n;
}

static const tt_type *type_of(const oracle *o, tt_val v)
{
    return &o->job->graph->value[v.id].type;
}

static void check_shape(const oracle *o, const tt_shape *shape,
                        const tt_safetensor *t)
{
    CHECK_MSG(t->ndim == shape->ndim, "%s: %s has %lld dims, not %lld",
              o->model, t->name, (long long)shape->ndim, (long long)t->ndim);
    for (int d = 0; d < shape->ndim; d++)
        CHECK_MSG(t->shape[d] == tt_shape_dim(shape, d),
                  "%s: %s: extent %d is %lld, not %lld", o->model, t->name, d,
                  (long long)tt_shape_dim(shape, d), (long long)t->shape[d]);
}

static void convert(const tt_type *type, const tt_safetensor *t, void *out)
{
    const int64_t n = tt_shape_count(&type->shape);
    CHECK(t->bytes == n * size_of(t));
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(type->dtype, out, i, oracle_number(t, i));
}

void oracle_convert(const oracle *o, const char *input, const tt_safetensor *t,
                    void *out)
{
    CHECK(t != NULL);
    convert(type_of(o, tt_graph_find(o->job->graph, input)), t, out);
}

void oracle_write(const oracle *o, tt_val v, const tt_safetensor *t)
{
    const tt_type *type = type_of(o, v);
    check_shape(o, &type->shape, t);
    void *data =
        tt_alloc(tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype));
    CHECK(data != NULL);
    convert(type, t, data);
    CHECK_OK(tt_exec_write(o->job->exec, v, data));
    tt_free(data);
}

// ---- comparing ------------------------------------------------------------

typedef struct sums {
    double squares, n; // of all tensors of a kind
} sums;

static sums all_of(const oracle *o, const tt_safetensor *like)
{
    sums all = {0};
    const size_t length = strcspn(like->name, ".");
    for (int64_t i = 0; i < tt_safetensors_count(o->file); i++) {
        const tt_safetensor *t = tt_safetensors_at(o->file, i);
        if (strncmp(t->name, like->name, length) != 0 ||
            strcspn(t->name, ".") != length)
            continue;
        const int64_t n = t->bytes / size_of(t);
        for (int64_t k = 0; k < n; k++)
            all.squares += oracle_number(t, k) * oracle_number(t, k);
        all.n += (double)n;
    }
    return all;
}

void oracle_compare_part(const oracle *o, tt_val v, const tt_safetensor *t,
                         oracle_part part, double scale)
{
    const tt_type *type = type_of(o, v);
    const sums all = all_of(o, t);
    double difference = 0, squares = 0;
    void *got =
        tt_alloc(tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype));
    CHECK(got != NULL);
    CHECK_OK(tt_exec_read(o->job->exec, v, got));
    for (int64_t i = part.first; i < part.first + part.n; i++) {
        const double want = oracle_number(t, i);
        const double d = tt_dtype_load(type->dtype, got, i) * scale - want;
        difference += d * d;
        squares += want * want;
    }
    const double least = 0.01 * sqrt(all.squares * (double)part.n / all.n);
    const double error = sqrt(difference) / fmax(sqrt(squares), least);
    CHECK_MSG(error <= o->tolerance, "%s: %s is off by %.3g", o->model, t->name,
              error);
    tt_free(got);
}

void oracle_compare(const oracle *o, tt_val v, const char *kind,
                    const char *name, double scale)
{
    const tt_shape *shape = &type_of(o, v)->shape;
    const tt_safetensor *t = oracle_find(o, kind, name);
    CHECK_MSG(t != NULL, "%s: no %s %s in the file", o->model, kind, name);
    check_shape(o, shape, t);
    oracle_compare_part(o, v, t, (oracle_part){0, tt_shape_count(shape)},
                        scale);
}
