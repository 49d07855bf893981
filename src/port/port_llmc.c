// port_llmc - GPT-2 as a file of llm.c.

#include "port/port.h"
#include "store/llmc.h"

#include <stdlib.h>
#include <string.h>

static const tt_safetensor *find(void *user, const char *name)
{
    const tt_port_model *m = user;
    for (int64_t i = 0; i < m->n; i++)
        if (strcmp(m->tensor[i].name, name) == 0)
            return &m->tensor[i];
    return NULL;
}

static int64_t extent(const tt_port_model *m, const char *name, int d)
{
    const tt_safetensor *t = find((void *)(uintptr_t)m, name);
    return t != NULL && t->ndim > d ? t->shape[d] : 0;
}

tt_status tt_port_write_llmc(const tt_port_model *model, const char *path)
{
    const char *wte = "transformer.wte.weight", *wpe = "transformer.wpe.weight";
    tt_llmc_sizes sizes = {.vocab = extent(model, wte, 0),
                           .width = extent(model, wte, 1),
                           .positions = extent(model, wpe, 0)};
    const tt_safetensor *first = find((void *)(uintptr_t)model, wte);
    if (first == NULL || strcmp(model->job->model->name, "gpt") != 0)
        return tt_fail(TT_ERR_ARG,
                       "llm.c reads GPT-2 only; %s can be exported with "
                       "format=folder",
                       model->job->options.model);
    tt_str text = {0};
    const char *const keys[] = {"layers", "heads"};
    int64_t *const to[] = {&sizes.layers, &sizes.heads};
    tt_status status = TT_OK;
    for (int i = 0; i < 2 && status == TT_OK; i++) {
        tt_str_clear(&text);
        tt_opt_print_value(tt_opt_find(model->job->model->options, keys[i]),
                           model->job->model_params, &text);
        *to[i] = strtoll(tt_str_text(&text), NULL, 10);
        status = tt_str_status(&text);
    }
    tt_str_fini(&text);
    TT_TRY(status);
    sizes.is_bf16 = strcmp(first->dtype, "BF16") == 0;
    if (!sizes.is_bf16 && strcmp(first->dtype, "F32") != 0)
        return tt_fail(TT_ERR_ARG,
                       "llm.c has fp32 and bf16, not %s; add precision=fp32",
                       first->dtype);
    return tt_llmc_write(path, &sizes, find, (void *)(uintptr_t)model);
}
