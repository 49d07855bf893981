// export - a trained model for others: transformers, llm.c, ONNX.

#include "base/json.h"
#include "base/settings/opt.h"
#include "cli/command.h"
#include "cli/term.h"
#include "port/port.h"
#include "port/port_out.h"
#include "weights/model_folder.h"

#include <stdio.h>

typedef struct options {
    const char *out;
    int format, precision;
} options;

static const tt_opt table[] = {
    {"out", "", "the folder or file to write", TT_OPT_STR,
     offsetof(options, out)},
    {"format", "folder", "folder: safetensors with config.json", TT_OPT_CHOICE,
     offsetof(options, format), "folder|llmc|onnx"},
    {"precision", "as-is", "of the numbers", TT_OPT_CHOICE,
     offsetof(options, precision), "as-is|fp32|bf16|fp16"},
    {0},
};

static tt_status read_options(tt_cli *cli, options *o)
{
    TT_TRY(tt_cli_need_model(
        cli, "which model? usage: tutti export RUN out=FOLDER"));
    TT_TRY(tt_cli_options(cli, table, o));
    if (o->out[0] == '\0')
        return tt_fail(TT_ERR_ARG, "where to? add out=FOLDER (or out=FILE with "
                                   "format=llmc or onnx)");
    return TT_OK;
}

static tt_status write_model(const tt_port_model *model, const options *o,
                             const char *from, tt_arena *arena, tt_str *notes)
{
    tt_origin origin;
    switch (o->format) {
    case TT_PORT_LLMC:
        return tt_port_write_llmc(model, o->out);
    case TT_PORT_ONNX:
        return tt_port_write_onnx(model, o->out);
    default:
        TT_TRY(tt_origin_read(from, arena, &origin));
        return tt_port_write_folder(model, o->out,
                                    tt_model_folder_tokenizer(from, arena),
                                    &origin, notes);
    }
}

static void print_json(const char *out, int64_t n, const char *from)
{
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    tt_json_bool(&json, "ok", true);
    tt_json_str(&json, "out", out);
    tt_json_i64(&json, "tensors", n);
    tt_json_str(&json, "from", from);
    tt_json_close(&json, '}');
    tt_str_add(&text, "\n");
    (void)tt_cli_print(&text);
}

static tt_status export_weights(tt_cli *cli, const tt_weights *weights,
                                const options *o, tt_str *notes)
{
    tt_settings settings = {0};
    tt_port_model *model = NULL;
    const char *folder = tt_weights_folder(weights);
    TT_TRY(tt_port_check_out(o->out, folder, (tt_port_format)o->format,
                             cli->arena));
    TT_TRY(tt_model_folder_read(folder, cli->arena, &settings));
    TT_TRY(tt_port_open(&settings, weights, (tt_port_type)o->precision, notes,
                        &model));
    const tt_status status = write_model(model, o, folder, cli->arena, notes);
    if (status == TT_OK && tt_cli_has(cli, "--json"))
        print_json(o->out, model->n, folder);
    else if (status == TT_OK)
        printf("%s: %lld tensors of %s\n", o->out, (long long)model->n, folder);
    tt_port_close(model);
    return status;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    options o;
    tt_weights *weights = NULL;
    tt_str notes = {0};
    (void)exit_out;
    TT_TRY(read_options(cli, &o));
    const tt_weights_options how = {.wants_best = tt_cli_has(cli, "--best"),
                                    .wants_ema = true};
    tt_status status = tt_weights_open(cli->word[0], &how, &notes, &weights);
    if (status == TT_OK)
        status = export_weights(cli, weights, &o, &notes);
    tt_term_print_foreign(stderr, tt_str_text(&notes));
    tt_weights_close(weights);
    tt_str_fini(&notes);
    return status;
}

static const tt_flag flags[] = {
    {"--best", "the checkpoint with the lowest validation loss"},
    {"--json", "one JSON object"},
    {0},
};

const tt_command_def tt_command_export = {
    .name = "export",
    .doc = "Write a model for others: transformers, llm.c, ONNX.",
    .usage = "RUN|CHECKPOINT|FOLDER out=PATH [format=folder|llmc|onnx] "
             "[precision=as-is|fp32|bf16|fp16] [--best] "
             "[--json]",
    .detail =
        "folder: model.safetensors in the names of Hugging Face or "
        "torchvision,\n"
        "        config.json and the tokenizer, so that from_pretrained loads "
        "it.\n"
        "llmc:   one file of llm.c (GPT-2).   onnx: one file (image models).\n"
        "Averaged weights are written where the run has them (train.ema).",
    .flags = flags,
    .max_words = 1,
    .takes_paths = true,
    .run = run,
};
