// import - reads models of other programs: folders and files of Hugging Face,
// torchvision's, files of llm.c. A file of llm.c is first unpacked to safetensors in a
// staging folder, so that the rest of the import knows only one form.

#include "base/file.h"
#include "base/json.h"
#include "base/settings/opt.h"
#include "cli/command.h"
#include "cli/term.h"
#include "port/port.h"
#include "port/port_guess.h"
#include "port/port_out.h"
#include "store/llmc.h"
#include "weights/model_folder.h"

#include <stdio.h>
#include <string.h>

typedef struct options {
    const char *out, *config;
} options;

static const tt_opt table[] = {
    {"out", "", "the folder to write", TT_OPT_STR, offsetof(options, out)},
    {"config", "", "config.json, where it is not beside the weights",
     TT_OPT_STR, offsetof(options, config)},
    {0},
};

static tt_status read_options(tt_cli *cli, options *o)
{
    TT_TRY(tt_opt_defaults(table, o, cli->arena));
    TT_TRY(tt_settings_apply(&cli->settings, "", table, o, cli->arena));
    TT_TRY(tt_cli_need_model(
        cli, "which model? usage: tutti import PATH out=FOLDER"));
    if (o->out[0] == '\0')
        return tt_fail(TT_ERR_ARG, "where to? add out=FOLDER");
    return TT_OK;
}

// ---- llm.c ---------------------------------------------------------------

static tt_status set(tt_cli *cli, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return tt_settings_set(&cli->settings, key, text, "llm.c", cli->arena);
}

static tt_status set_sizes(tt_cli *cli, const tt_llmc_sizes *s)
{
    TT_TRY(
        tt_settings_set(&cli->settings, "model", "gpt", "llm.c", cli->arena));
    TT_TRY(set(cli, "model.layers", s->layers));
    TT_TRY(set(cli, "model.width", s->width));
    TT_TRY(set(cli, "model.heads", s->heads));
    TT_TRY(set(cli, "model.vocab", s->vocab));
    return set(cli, "model.context", s->positions);
}

// Writes the file as safetensors, where the rest of the import finds it.
static tt_status unpack_llmc(tt_cli *cli, const char *path, const char *folder)
{
    static const tt_safetensors_note note = {"format", "pt"};
    tt_llmc *file = NULL;
    const char *to =
        tt_arena_printf(cli->arena, "%s/model.safetensors", folder);
    if (to == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_llmc_read(path, &file));
    tt_status status = set_sizes(cli, &file->sizes);
    if (status == TT_OK)
        status = tt_safetensors_write(to, file->tensor, file->n, &note, 1);
    tt_llmc_close(file);
    return status;
}

// ---- settings ------------------------------------------------------------

static bool has_model(const tt_settings *settings)
{
    return tt_settings_find(settings, "model") != NULL;
}

// What the files say, overridden by the command line. If nobody says which model it
// is, the names and shapes of the tensors are looked at.
static tt_status find_settings(tt_cli *cli, const options *o,
                               const tt_weights *weights, tt_str *notes,
                               tt_settings *out)
{
    const char *folder = tt_weights_folder(weights);
    const char *json = tt_arena_printf(cli->arena, "%s/config.json", folder);
    const char *yaml = tt_arena_printf(cli->arena, "%s/config.yaml", folder);
    if (json == NULL || yaml == NULL)
        return TT_ERR_NOMEM;
    if (o->config[0] != '\0')
        TT_TRY(tt_model_folder_read_file(o->config, cli->arena, out));
    else if (!has_model(&cli->settings) &&
             (tt_file_exists(json) || tt_file_exists(yaml)))
        TT_TRY(tt_model_folder_read(folder, cli->arena, out));
    for (int64_t i = 0; i < cli->settings.n; i++) {
        const tt_setting *s = &cli->settings.v[i];
        if (tt_opt_find(table, s->key) == NULL)
            TT_TRY(
                tt_settings_set(out, s->key, s->value, s->origin, cli->arena));
    }
    return has_model(out) ? TT_OK
                          : tt_port_guess(weights, cli->arena, out, notes);
}

static void print_json(const char *out, const tt_port_model *model)
{
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    tt_json_bool(&json, "ok", true);
    tt_json_str(&json, "out", out);
    tt_json_str(&json, "model", model->job->model->name);
    tt_json_i64(&json, "parameters", model->parameters);
    tt_json_i64(&json, "tensors", model->n);
    tt_json_close(&json, '}');
    tt_str_add(&text, "\n");
    (void)tt_cli_print(&text);
}

static tt_status import_weights(tt_cli *cli, const options *o,
                                const tt_weights *weights, tt_str *notes)
{
    tt_settings settings = {0};
    tt_port_model *model = NULL;
    TT_TRY(find_settings(cli, o, weights, notes, &settings));
    TT_TRY(tt_port_open(&settings, weights, TT_PORT_AS_IS, notes, &model));
    const char *folder = tt_weights_folder(weights);
    const char *tokenizer = tt_model_folder_tokenizer(folder, cli->arena);
    tt_origin origin = {0};
    tt_status status = TT_OK;
    if (o->config[0] == '\0')
        status = tt_origin_read(folder, cli->arena, &origin);
    if (status == TT_OK)
        status = tt_port_write_folder(model, o->out, tokenizer, &origin, notes);
    if (status == TT_OK && tt_cli_has(cli, "--json"))
        print_json(o->out, model);
    else if (status == TT_OK)
        printf("%s: %s with %lld parameters in %lld tensors\n", o->out,
               model->job->model->name, (long long)model->parameters,
               (long long)model->n);
    tt_port_close(model);
    return status;
}

static tt_status import_path(tt_cli *cli, const options *o, const char *path,
                             tt_str *notes)
{
    const tt_weights_options how = {0};
    tt_weights *weights = NULL;
    tt_status status = tt_weights_open(path, &how, notes, &weights);
    if (status == TT_OK)
        status = tt_port_check_out(o->out, tt_weights_folder(weights),
                                   TT_PORT_FOLDER, cli->arena);
    if (status == TT_OK)
        status = import_weights(cli, o, weights, notes);
    tt_weights_close(weights);
    return status;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    options o;
    tt_port_out unpacked = {0};
    tt_str notes = {0};
    (void)exit_out;
    TT_TRY(read_options(cli, &o));
    const char *path = cli->word[0];
    TT_TRY(tt_port_check_out(o.out, path, TT_PORT_FOLDER, cli->arena));
    tt_status status = TT_OK;
    if (tt_llmc_is(path)) {
        status = tt_port_out_begin(o.out, cli->arena, &unpacked);
        if (status == TT_OK)
            status = unpack_llmc(cli, path, unpacked.staging);
        path = unpacked.staging;
    }
    if (status == TT_OK)
        status = import_path(cli, &o, path, &notes);
    tt_term_print_foreign(stderr, tt_str_text(&notes));
    tt_port_out_drop(&unpacked);
    tt_str_fini(&notes);
    return status;
}

static const tt_flag flags[] = {
    {"--json", "one JSON object"},
    {0},
};

const tt_command_def tt_command_import = {
    .name = "import",
    .doc = "Read a model of others: Hugging Face, torchvision, llm.c.",
    .usage = "PATH out=FOLDER [config=FILE] [model=NAME model.KEY=VALUE ...] "
             "[--json]",
    .detail =
        "PATH is a folder with config.json and safetensors or "
        "pytorch_model.bin, one file of\nsafetensors or of torch.save (.pt; "
        "nothing in it is executed), or a model file of\nllm.c. FOLDER then "
        "serves `tutti sample`, `tutti eval`, `tutti export` and\n"
        "init.from=FOLDER.",
    .flags = flags,
    .max_words = 1,
    .takes_paths = true,
    .run = run,
};
