// port_folder - writes a folder that transformers' from_pretrained and Tutti both
// read.
//
// Names of tensors are those of Hugging Face already. Two things differ. A GPT
// without biases is written with zero biases, since GPT2LMHeadModel has them. And
// the experts of a layer, one tensor here, are written one by one.

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "data/tokenizer/tokenizer.h"
#include "port/port.h"
#include "port/port_out.h"
#include "session/session.h"
#include "weights/model_folder.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TOKENIZER = 1 << 30 }; // bytes of tokenizer.json

static tt_status write_text(const char *folder, const char *name, tt_str *text)
{
    char path[PATH_MAX];
    tt_status status = tt_str_status(text);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (status == TT_OK)
        status = tt_file_replace(path, tt_str_text(text), text->n);
    tt_str_fini(text);
    return status;
}

// ---- the tokenizer -------------------------------------------------------

// A tokenizer.json that exists is copied as it is: it may contain more than is read
// here.
static tt_status print_tokenizer(const char *spec, const tt_tokenizer *t,
                                 tt_str *out)
{
    if (tt_ends_with(spec, "tokenizer.json"))
        return tt_file_read(spec, MAX_TOKENIZER, out);
    tt_tokenizer_print(t, out);
    return TT_OK;
}

static void print_tokenizer_config(const tt_port_model *m,
                                   const tt_tokenizer *t, tt_str *out)
{
    tt_json json = {.out = out};
    const int32_t end = tt_tokenizer_end(t);
    tt_json_open(&json, NULL, '{');
    tt_json_str(&json, "tokenizer_class", "PreTrainedTokenizerFast");
    tt_json_i64(&json, "model_max_length", m->io.seq);
    tt_json_bool(&json, "clean_up_tokenization_spaces", false);
    if (end >= 0) {
        tt_json_str(&json, "bos_token", tt_tokenizer_token(t, end));
        tt_json_str(&json, "eos_token", tt_tokenizer_token(t, end));
    }
    tt_json_close(&json, '}');
    tt_str_add(out, "\n");
}

static tt_status write_tokenizer(const tt_port_model *m, const char *folder,
                                 const char *spec, const tt_origin *origin)
{
    tt_tokenizer *t = NULL;
    tt_str text = {0}, config = {0};
    TT_TRY(tt_tokenizer_open(spec, NULL, 0, &t));
    tt_status status = print_tokenizer(spec, t, &text);
    if (status == TT_OK)
        status = write_text(folder, "tokenizer.json", &text);
    if (status == TT_OK &&
        tt_origin_find(origin, "tokenizer_config.json") == NULL) {
        print_tokenizer_config(m, t, &config);
        status = write_text(folder, "tokenizer_config.json", &config);
    }
    tt_str_fini(&text);
    tt_tokenizer_close(t);
    return status;
}

// ---- biases -------------------------------------------------------------

static bool lacks_biases(const tt_port_model *m)
{
    if (strcmp(m->job->model->name, "gpt") != 0)
        return false;
    for (int64_t i = 0; i < m->n; i++)
        if (tt_ends_with(m->tensor[i].name, ".c_attn.bias"))
            return false;
    return true;
}

// ---- settings ------------------------------------------------------------

static void print_yaml(const tt_port_model *m, tt_str *out)
{
    const tt_job *job = m->job;
    tt_str_add(out, TT_PORT_MARK "\n");
    tt_str_addf(out, "model: %s\n", job->model->name);
    for (const tt_opt *o = job->model->options; o != NULL && o->name; o++) {
        tt_str_addf(out, "model.%s: ", o->name);
        if (strcmp(o->name, "bias") == 0 && lacks_biases(m))
            tt_str_add(out, "true"); // zeros are written for them
        else
            tt_opt_print_value(o, job->model_params, out);
        tt_str_add(out, "\n");
    }
    if (job->model->task == TT_TASK_IMAGES)
        tt_str_addf(out, "image: %lld\n", (long long)m->io.image);
    else
        tt_str_addf(out, "seq: %lld\n", (long long)m->io.seq);
}

// ---- tensors -------------------------------------------------------------

// Adds zero biases for GPT2LMHeadModel.
static tt_status add_biases(const tt_port_model *m, tt_arena *arena,
                            tt_safetensor *list, int64_t *n)
{
    static const char *const layers[] = {"attn.c_attn", "attn.c_proj",
                                         "mlp.c_fc", "mlp.c_proj"};
    for (int64_t i = 0; i < m->n; i++) {
        const tt_safetensor *w = &m->tensor[i];
        for (int k = 0; k < 4; k++) {
            char end[64];
            snprintf(end, sizeof end, ".%s.weight", layers[k]);
            if (!tt_ends_with(w->name, end))
                continue;
            const int64_t stem = (int64_t)(strlen(w->name) - strlen("weight"));
            int64_t *shape = tt_arena_alloc(arena, sizeof *shape);
            tt_safetensor *b = &list[(*n)++];
            *b = (tt_safetensor){.dtype = w->dtype, .ndim = 1, .shape = shape};
            b->name = tt_arena_printf(arena, "%.*sbias", (int)stem, w->name);
            if (shape == NULL || b->name == NULL)
                return TT_ERR_NOMEM;
            *shape = w->shape[1];
            b->data = tt_arena_alloc(arena, *shape * 8);
            if (b->data == NULL)
                return TT_ERR_NOMEM;
        }
    }
    return TT_OK;
}

// Whether a tensor holds a matrix of all experts.
static bool is_stack(const tt_safetensor *t)
{
    return strstr(t->name, ".block_sparse_moe.experts.w") != NULL &&
           t->ndim == 3;
}

static int64_t count_tensors(const tt_port_model *m)
{
    int64_t n = 0;
    for (int64_t i = 0; i < m->n; i++)
        n += is_stack(&m->tensor[i]) ? m->tensor[i].shape[0] : 2;
    return n; // 2: a bias may come beside it
}

static tt_status add_experts(const tt_safetensor *t, tt_arena *arena,
                             tt_safetensor *list, int64_t *n)
{
    const char *rest = strstr(t->name, ".experts.") + strlen(".experts.");
    for (int64_t e = 0; e < t->shape[0]; e++) {
        tt_safetensor *one = &list[(*n)++];
        *one = *t;
        one->name = tt_arena_printf(arena, "%.*s%lld.%s", (int)(rest - t->name),
                                    t->name, (long long)e, rest);
        if (one->name == NULL)
            return TT_ERR_NOMEM;
        one->ndim = t->ndim - 1;
        one->shape = t->shape + 1;
        one->bytes = t->bytes / t->shape[0];
        one->data = (const char *)t->data + e * one->bytes;
    }
    return TT_OK;
}

static tt_status add_tensors(const tt_port_model *m, tt_arena *arena,
                             tt_safetensor *list, int64_t *n)
{
    for (int64_t i = 0; i < m->n; i++)
        if (is_stack(&m->tensor[i]))
            TT_TRY(add_experts(&m->tensor[i], arena, list, n));
        else
            list[(*n)++] = m->tensor[i];
    return lacks_biases(m) ? add_biases(m, arena, list, n) : TT_OK;
}

static tt_status write_tensors(const tt_port_model *m, const char *folder)
{
    static const tt_safetensors_note note = {"format", "pt"};
    char path[PATH_MAX];
    tt_arena *arena = tt_arena_create();
    tt_safetensor *list = NULL;
    int64_t n = 0;
    tt_status status = TT_OK;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (arena != NULL)
        list = tt_arena_alloc(arena,
                              (count_tensors(m) + 1) * (int64_t)sizeof *list);
    if (list == NULL)
        status = tt_fail(TT_ERR_NOMEM, "%s: no memory to write it", path);
    if (status == TT_OK)
        status = add_tensors(m, arena, list, &n);
    if (status == TT_OK)
        status = tt_safetensors_write(path, list, n, &note, 1);
    tt_arena_destroy(arena);
    return status;
}

static tt_status write_origin(const char *folder, const tt_origin *origin)
{
    for (int i = 0; i < origin->n; i++) {
        const tt_origin_file *f = &origin->file[i];
        char path[PATH_MAX];
        if (strcmp(f->name, "config.json") == 0)
            continue; // made anew
        snprintf(path, sizeof path, "%s/%s", folder, f->name);
        TT_TRY(tt_file_replace(path, f->text, f->n));
    }
    return TT_OK;
}

static tt_status find_end(const char *spec, int32_t *end_out)
{
    tt_tokenizer *t = NULL;
    TT_TRY(tt_tokenizer_open(spec, NULL, 0, &t));
    *end_out = tt_tokenizer_end(t);
    tt_tokenizer_close(t);
    return TT_OK;
}

// Explains why the export has more parameters than were trained.
static void note_biases(const tt_port_model *m, tt_str *notes)
{
    tt_arena *arena = tt_arena_create();
    tt_safetensor *list = NULL;
    int64_t n = 0, count = 0;
    if (arena != NULL && lacks_biases(m))
        list = tt_arena_alloc(arena,
                              (count_tensors(m) + 1) * (int64_t)sizeof *list);
    if (list != NULL && add_biases(m, arena, list, &n) == TT_OK) {
        for (int64_t i = 0; i < n; i++)
            count += list[i].shape[0];
        tt_str_addf(notes,
                    "GPT-2 has biases and this model has none: zeros are "
                    "written for them, %lld numbers in %lld tensors, so that "
                    "an import counts %lld parameters\n",
                    (long long)count, (long long)n,
                    (long long)(m->parameters + count));
    }
    tt_arena_destroy(arena);
}

// All files of an export.
static tt_status write_files(const tt_port_model *model, const char *folder,
                             const char *tokenizer, const tt_origin *origin,
                             tt_str *json)
{
    tt_str yaml = {0};
    if (tokenizer != NULL)
        TT_TRY(write_tokenizer(model, folder, tokenizer, origin));
    TT_TRY(write_origin(folder, origin));
    if (json->n > 0)
        TT_TRY(write_text(folder, "config.json", json));
    print_yaml(model, &yaml);
    TT_TRY(write_text(folder, "config.yaml", &yaml));
    return write_tensors(model, folder);
}

tt_status tt_port_write_folder(const tt_port_model *model, const char *folder,
                               const char *tokenizer, const tt_origin *origin,
                               tt_str *notes)
{
    tt_str json = {0};
    tt_port_out out;
    int32_t end = -1;
    if (tokenizer != NULL)
        TT_TRY(find_end(tokenizer, &end));
    // A model that cannot be exported is refused before any file is written.
    tt_status status = tt_port_config_json(model, origin, end, &json);
    if (status == TT_OK)
        status = tt_port_out_begin(folder, model->arena, &out);
    if (status == TT_OK)
        status = tt_port_out_end(
            &out, write_files(model, out.staging, tokenizer, origin, &json));
    tt_str_fini(&json);
    if (status == TT_OK && notes != NULL) {
        note_biases(model, notes);
        tt_port_note_config(model, notes);
    }
    return status;
}
