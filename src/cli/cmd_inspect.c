// inspect - what a file or folder is, and what is in it.

#include "base/figures.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/inspect.h"
#include "cli/term.h"
#include "data/tokenizer/tokenizer.h"
#include "plan/plan.h"
#include "store/checkpoint.h"
#include "store/llmc.h"
#include "store/torch_file.h"
#include "weights/model_folder.h"
#include "weights/model_path.h"
#include "weights/weights.h"

#include <stdio.h>
#include <string.h>

typedef struct look {
    const char *path;
    tt_arena *arena;
    bool is_json;
    tt_str text;
    tt_json json; // into `text`
} look;

// ---- tensors -------------------------------------------------------------

static void print_shape(const tt_safetensor *t, tt_str *out)
{
    tt_str_add(out, "[");
    for (int64_t d = 0; d < t->ndim; d++)
        tt_str_addf(out, "%s%lld", d > 0 ? ", " : "", (long long)t->shape[d]);
    tt_str_add(out, "]");
}

// Names come from other people's files, so control characters are replaced. Padded
// with blanks to `width` columns.
static void add_name(const char *name, int64_t width, tt_str *out)
{
    tt_term_add_foreign(name, false, out);
    for (int64_t n = tt_term_columns(name); n < width; n++)
        tt_str_add(out, " ");
}

static void show_tensor(look *l, const tt_safetensor *t)
{
    if (!l->is_json) {
        tt_str_add(&l->text, "  ");
        add_name(t->name, 56, &l->text);
        tt_str_addf(&l->text, " %-5s ", t->dtype);
        print_shape(t, &l->text);
        tt_str_add(&l->text, "\n");
        return;
    }
    tt_json_open(&l->json, NULL, '{');
    tt_json_str(&l->json, "name", t->name);
    tt_json_str(&l->json, "dtype", t->dtype);
    tt_json_open(&l->json, "shape", '[');
    for (int64_t d = 0; d < t->ndim; d++)
        tt_json_i64(&l->json, NULL, t->shape[d]);
    tt_json_close(&l->json, ']');
    tt_json_i64(&l->json, "bytes", t->bytes);
    tt_json_close(&l->json, '}');
}

static int64_t elements(const tt_safetensor *t)
{
    int64_t n = 1;
    for (int64_t d = 0; d < t->ndim; d++)
        n *= t->shape[d];
    return n;
}

typedef const tt_safetensor *at_fn(const void *of, int64_t i);

static void show_tensors(look *l, const char *kind, const void *of, int64_t n,
                         at_fn *at)
{
    int64_t bytes = 0, numbers = 0;
    for (int64_t i = 0; i < n; i++) {
        bytes += at(of, i)->bytes;
        numbers += elements(at(of, i));
    }
    if (l->is_json) {
        tt_json_str(&l->json, "kind", kind);
        tt_json_i64(&l->json, "numbers", numbers);
        tt_json_i64(&l->json, "bytes", bytes);
        tt_json_open(&l->json, "tensors", '[');
    } else {
        tt_str_addf(&l->text, "%s: %s, %lld tensors, %lld numbers, ", l->path,
                    kind, (long long)n, (long long)numbers);
        tt_add_bytes(&l->text, bytes);
        tt_str_add(&l->text, "\n");
    }
    for (int64_t i = 0; i < n; i++)
        show_tensor(l, at(of, i));
    if (l->is_json)
        tt_json_close(&l->json, ']');
}

static const tt_safetensor *file_at(const void *of, int64_t i)
{
    return tt_safetensors_at(of, i);
}

static const tt_safetensor *llmc_at(const void *of, int64_t i)
{
    return &((const tt_llmc *)of)->tensor[i];
}

static const tt_safetensor *weights_at(const void *of, int64_t i)
{
    return tt_weights_at(of, i);
}

static void add_pair(look *l, const char *before, const char *key,
                     const char *between, const char *value)
{
    tt_str_add(&l->text, before);
    add_name(key, 0, &l->text);
    tt_str_add(&l->text, between);
    add_name(value, 0, &l->text);
    tt_str_add(&l->text, "\n");
}

static void show_notes(look *l, const tt_safetensors *file)
{
    int64_t n = 0;
    const tt_safetensors_note *note = tt_safetensors_notes(file, &n);
    if (l->is_json)
        tt_json_open(&l->json, "metadata", '{');
    for (int64_t i = 0; i < n; i++)
        if (l->is_json)
            tt_json_str(&l->json, note[i].key, note[i].value);
        else
            add_pair(l, "  # ", note[i].key, " = ", note[i].value);
    if (l->is_json)
        tt_json_close(&l->json, '}');
}

// ---- kinds of files ------------------------------------------------------

static tt_status show_safetensors(look *l)
{
    tt_safetensors *file = NULL;
    TT_TRY(tt_safetensors_open(l->path, &file));
    show_tensors(l, "safetensors", file, tt_safetensors_count(file), file_at);
    show_notes(l, file);
    tt_safetensors_close(file);
    return TT_OK;
}

static const tt_safetensor *torch_at(const void *of, int64_t i)
{
    return &((const tt_torch_file *)of)->tensor[i];
}

static tt_status show_torch(look *l)
{
    tt_torch_file *file = NULL;
    TT_TRY(tt_torch_file_open(l->path, &file));
    show_tensors(l, "a file of torch.save", file, file->n, torch_at);
    tt_torch_file_close(file);
    return TT_OK;
}

static tt_status show_llmc(look *l)
{
    tt_llmc *file = NULL;
    TT_TRY(tt_llmc_read(l->path, &file));
    show_tensors(l, "a model of llm.c", file, file->n, llmc_at);
    tt_llmc_close(file);
    return TT_OK;
}

static tt_status show_tokenizer(look *l)
{
    tt_tokenizer *t = NULL;
    TT_TRY(tt_tokenizer_open(l->path, NULL, 0, &t));
    if (l->is_json) {
        tt_json_str(&l->json, "kind", "tokenizer");
        tt_json_str(&l->json, "tokenizer", tt_tokenizer_kind(t));
        tt_json_i64(&l->json, "vocab", tt_tokenizer_vocab(t));
        tt_json_i64(&l->json, "end_of_text", tt_tokenizer_end(t));
    } else {
        tt_str_addf(&l->text, "%s: tokenizer of %s, %lld tokens", l->path,
                    tt_tokenizer_kind(t), (long long)tt_tokenizer_vocab(t));
        if (tt_tokenizer_end(t) >= 0)
            tt_str_addf(&l->text, ", %d ends a text", tt_tokenizer_end(t));
        tt_str_add(&l->text, "\n");
    }
    tt_tokenizer_close(t);
    return TT_OK;
}

// ---- folders -------------------------------------------------------------

static void show_settings(look *l, const char *folder)
{
    tt_settings settings = {0};
    if (tt_model_folder_read(folder, l->arena, &settings) != TT_OK)
        return; // then only the tensors are known
    if (l->is_json)
        tt_json_open(&l->json, "settings", '{');
    for (int64_t i = 0; i < settings.n; i++)
        if (l->is_json)
            tt_json_str(&l->json, settings.v[i].key, settings.v[i].value);
        else
            add_pair(l, "  ", settings.v[i].key, ": ", settings.v[i].value);
    if (l->is_json)
        tt_json_close(&l->json, '}');
}

static tt_status show_checkpoint(look *l)
{
    tt_checkpoint *c = NULL;
    TT_TRY(tt_checkpoint_read(l->path, NULL, NULL, &c));
    if (l->is_json) {
        tt_json_str(&l->json, "checkpoint", c->folder);
        tt_json_i64(&l->json, "step", c->step);
        tt_json_str(&l->json, "state", c->state);
    } else {
        tt_str_addf(&l->text, "%s: checkpoint of step %lld, all hashes right\n",
                    c->folder, (long long)c->step);
    }
    show_settings(l, c->folder);
    show_tensors(l, "weights", c->model, tt_safetensors_count(c->model),
                 file_at);
    tt_checkpoint_close(c);
    return TT_OK;
}

static tt_status show_weights(look *l)
{
    const tt_weights_options how = {.as_is = true};
    tt_weights *weights = NULL;
    TT_TRY(tt_weights_open(l->path, &how, NULL, &weights));
    show_settings(l, tt_weights_folder(weights));
    show_tensors(l, "weights", weights, tt_weights_count(weights), weights_at);
    tt_weights_close(weights);
    return TT_OK;
}

static tt_status show(look *l)
{
    if (!tt_file_exists(l->path))
        return tt_fail(TT_ERR_IO, "%s: there is no such file or folder",
                       l->path);
    TT_TRY(tt_model_path_check(l->path, l->arena));
    if (tt_file_is_folder(l->path)) {
        return tt_model_folder_is_run(l->path) ? show_checkpoint(l)
                                               : show_weights(l);
    }
    if (tt_llmc_is(l->path))
        return show_llmc(l);
    if (tt_torch_file_is(l->path))
        return show_torch(l);
    if (tt_ends_with(l->path, ".json") || tt_ends_with(l->path, ".bpe"))
        return show_tokenizer(l);
    const tt_status status = show_safetensors(l);
    return status == TT_OK
               ? TT_OK
               : tt_fail_context(status, "no file of weights or of a "
                                         "tokenizer (`tutti data inspect` "
                                         "looks at data)");
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    (void)exit_out;
    if (cli->n_words == 0 && cli->file != NULL)
        return tt_inspect_yaml(cli);
    if (cli->n_words == 0)
        return tt_fail(TT_ERR_ARG, "what? usage: tutti inspect PATH");
    look l = {.path = cli->word[0],
              .arena = cli->arena,
              .is_json = tt_cli_has(cli, "--json")};
    l.json.out = &l.text;
    TT_TRY(tt_settings_check_unused(&cli->settings, NULL, 0));
    if (l.is_json)
        tt_json_open(&l.json, NULL, '{');
    tt_status status = show(&l);
    if (l.is_json) {
        tt_json_close(&l.json, '}');
        tt_str_add(&l.text, "\n");
    }
    if (status == TT_OK)
        status = tt_str_status(&l.text);
    if (status == TT_OK)
        fputs(tt_str_text(&l.text), stdout);
    tt_str_fini(&l.text);
    return status;
}

static const tt_flag flags[] = {
    {"--json", "one JSON object"},
    {0},
};

const tt_command_def tt_command_inspect = {
    .name = "inspect",
    .doc = "What a file of weights or settings holds, or a folder.",
    .usage = "PATH [--json]",
    .detail = "PATH is a safetensors file, one of torch.save, a model file of "
              "llm.c, a tokenizer, a run,\na checkpoint, a folder in the form "
              "of Hugging Face, or a .yaml file of settings,\nwhich are "
              "checked. "
              "Checkpoints are verified on the way.",
    .flags = flags,
    .max_words = 1,
    .takes_paths = true,
    .run = run,
};
