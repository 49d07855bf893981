// port - a model's tensors found in files, converted where that was asked for.

#include "port/port.h"

#include "base/alloc.h"
#include "job/internal.h"

#include <stdlib.h>
#include <string.h>

static bool wanted_dtype(tt_port_type type, tt_dtype have, tt_dtype *want)
{
    static const tt_dtype dtype[] = {[TT_PORT_F32] = TT_F32,
                                     [TT_PORT_BF16] = TT_BF16,
                                     [TT_PORT_F16] = TT_F16};
    if (type == TT_PORT_AS_IS || !tt_dtype_is_float(have) ||
        dtype[type] == have)
        return false;
    *want = dtype[type];
    return true;
}

// Converts through aligned memory, since tensors in foreign files need not be
// aligned.
static tt_status convert(tt_port_model *m, int64_t i, tt_dtype from,
                         tt_dtype to)
{
    tt_safetensor *t = &m->tensor[i];
    const int64_t n = t->bytes / tt_dtype_bytes(from);
    char *raw = tt_alloc_aligned(t->bytes + 1, 64);
    char *data = tt_alloc_aligned(n * tt_dtype_bytes(to) + 1, 64);
    m->memory[i] = data;
    tt_status status =
        raw != NULL && data != NULL
            ? tt_safetensor_copy(t, 0, t->bytes, raw)
            : tt_fail(TT_ERR_NOMEM, "%s: no memory to convert it", t->name);
    if (status == TT_OK) {
        tt_tensor_convert(from, raw, to, data, n);
        t->data = data;
        t->file = NULL;
        t->bytes = n * tt_dtype_bytes(to);
        t->dtype = tt_tensor_file_dtype(to);
    }
    tt_free_aligned(raw);
    return status;
}

static tt_status check_form(const tt_tensor *want, const tt_safetensor *have)
{
    tt_dtype dtype;
    bool is_same = want->ndim == have->ndim;
    for (int32_t d = 0; is_same && d < want->ndim; d++)
        is_same = want->dim[d] == have->shape[d];
    if (!is_same || !tt_tensor_own_dtype(have->dtype, &dtype))
        return tt_fail(TT_ERR_ARG,
                       "%s: %s (%s, %lld dimensions) does not fit the model's "
                       "%s: are the settings of the model right?",
                       have->name, is_same ? "its type" : "its shape",
                       have->dtype, (long long)have->ndim, want->name);
    return TT_OK;
}

static tt_status take_tensors(tt_port_model *m, const tt_weights *weights,
                              tt_port_type type)
{
    tt_tensors all;
    TT_TRY(tt_tensors_list(m->graph, NULL, m->arena, &all));
    const tt_tensors model = tt_tensors_model(&all);
    m->tensor = tt_arena_alloc(m->arena, model.n * (int64_t)sizeof *m->tensor);
    m->memory = tt_arena_alloc(m->arena, model.n * (int64_t)sizeof *m->memory);
    if (m->tensor == NULL || m->memory == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < model.n; i++) {
        const tt_tensor *want = &model.v[i];
        const tt_safetensor *have = tt_weights_find(weights, want->name);
        tt_dtype from = TT_F32, to = TT_F32;
        if (have == NULL)
            return tt_fail(TT_ERR_ARG, "%s has no %s, which %s needs",
                           tt_weights_path(weights), want->name,
                           m->job->options.model);
        TT_TRY(check_form(want, have));
        m->tensor[i] = *tt_weights_average(weights, have);
        m->tensor[i].name = want->name;
        if (want->role == TT_TENSOR_PARAM)
            m->parameters += want->count;
        m->n++;
        (void)tt_tensor_own_dtype(m->tensor[i].dtype, &from);
        if (wanted_dtype(type, from, &to))
            TT_TRY(convert(m, i, from, to));
    }
    return TT_OK;
}

static int by_address(const void *a, const void *b)
{
    const tt_safetensor *x = *(const tt_safetensor *const *)a;
    const tt_safetensor *y = *(const tt_safetensor *const *)b;
    return x < y ? -1 : x > y;
}

// Names tensors in the files that the model lacks; masks and tied heads do not
// count.
static tt_status note_extra(const tt_port_model *m, const tt_weights *weights,
                            tt_str *notes)
{
    const tt_safetensor **used = tt_alloc((m->n + 1) * (int64_t)sizeof *used);
    if (used == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to compare tensors");
    for (int64_t i = 0; i < m->n; i++)
        used[i] = tt_weights_find(weights, m->tensor[i].name);
    qsort(used, (size_t)m->n, sizeof *used, by_address);
    for (int64_t i = 0; i < tt_weights_count(weights); i++) {
        const tt_safetensor *t = tt_weights_at(weights, i);
        if (bsearch(&t, used, (size_t)m->n, sizeof *used, by_address) == NULL &&
            !tt_weights_is_nothing(weights, t))
            tt_str_addf(notes, "left out: %s, which %s does not have\n",
                        t->name, m->job->options.model);
    }
    tt_free(used);
    return TT_OK;
}

static tt_status open_model(tt_port_model *m, tt_settings *settings,
                            const tt_weights *weights, tt_port_type type)
{
    // The graph is built to know which tensors there are; nothing is run.
    TT_TRY(tt_job_configure(settings, NULL, &m->job));
    tt_train_recipe recipe = {.model = m->job->model,
                              .model_params = m->job->model_params};
    tt__recipe_precision(TT_PRECISION_FP32, &recipe);
    m->io = m->job->io;
    m->io.batch = 1;
    TT_TRY(tt_inference_graph(&recipe, true, &m->io, &m->graph));
    return take_tensors(m, weights, type);
}

tt_status tt_port_open(tt_settings *settings, const tt_weights *weights,
                       tt_port_type type, tt_str *notes,
                       tt_port_model **model_out)
{
    tt_port_model *m = tt_alloc(sizeof *m);
    tt_status status = TT_ERR_NOMEM;
    if (m != NULL)
        m->arena = tt_arena_create();
    if (m == NULL || m->arena == NULL)
        (void)tt_fail(status, "no memory for a model");
    else
        status = open_model(m, settings, weights, type);
    if (status == TT_OK && notes != NULL)
        status = note_extra(m, weights, notes);
    if (status != TT_OK) {
        tt_port_close(m);
        return status;
    }
    *model_out = m;
    return TT_OK;
}

void tt_port_close(tt_port_model *model)
{
    if (model == NULL)
        return;
    for (int64_t i = 0; i < model->n; i++)
        tt_free_aligned(model->memory[i]);
    tt_graph_destroy(model->graph);
    tt_job_close(model->job);
    tt_arena_destroy(model->arena);
    tt_free(model);
}
