#include "cli/guess.h"

#include "base/file.h"
#include "base/json_read.h"
#include "cli/prepare/data.h"
#include "data/format.h"
#include "session/session.h"
#include "weights/model_folder.h"
#include "weights/model_path.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// guess - `tutti train my.txt`: finds out what the data are and chooses settings for
// them.
//
//   look at the path  -->  recipe (data, model, schedule)  -->  settings that the user
//   (sniff, folder)        trains in a minute or two             has not given
//
// The rest of the file is about being wrong in a helpful way. People name a run, a
// folder of runs, a checkpoint, weights, or a folder of images without classes. Each
// is recognised and answered with the command that was probably meant.

// Settings that train in a minute or two on two cores.
typedef struct recipe {
    const char *what;     // what the data are, for messages
    const char *settings; // key=value, separated by blanks
} recipe;

#define SCHEDULE "optim=adamw optim.lr=1e-3 optim.schedule=cosine "
#define LANGUAGE                                                               \
    "model=gpt model.layers=4 model.heads=4 model.width=128 model.bias=false " \
    "batch=12 " SCHEDULE                                                       \
    "optim.beta2=0.99 optim.weight_decay=0.1 optim.warmup=100 "                \
    "optim.final=0.1 train.steps=2000 eval.every=500 log.every=50 "
#define PICTURES                                                               \
    "model=resnet18 model.width=16 batch=64 " SCHEDULE                         \
    "train.epochs=5 log.every=20 "

static const recipe text = {
    "text", "data=text data.tokenizer=chars model.context=64 " LANGUAGE};
static const recipe tokens = {"tokens",
                              "data=tokens model.context=64 " LANGUAGE};
static const recipe megatron = {"Megatron's tokens",
                                "data=megatron model.context=64 " LANGUAGE};
static const recipe digits = {"images in MNIST's format",
                              "data=idx model=lenet batch=64 " SCHEDULE
                              "train.epochs=3 log.every=50 "};
static const recipe cifar = {"CIFAR's images", "data=cifar data.pad=4 "
                                               "data.flip=true " PICTURES};
static const recipe folder = {"images in a folder per class",
                              "data=folder image=64 data.resize=fit " PICTURES};
static const recipe shards = {
    "tar shards of images",
    "data=webdataset image=64 data.resize=fit " PICTURES};
static const recipe table = {"a table of numbers",
                             "data=csv model=mlp batch=32 " SCHEDULE
                             "train.epochs=20 log.every=20 "};
static const recipe array = {"an array of numbers",
                             "data=npy model=mlp batch=32 " SCHEDULE
                             "train.epochs=20 log.every=20 "};

static bool ends(const char *path, const char *end)
{
    const size_t n = strlen(path), m = strlen(end);
    return n > m && strcasecmp(path + n - m, end) == 0;
}

static const recipe *recipe_of(const char *path, const tt_sniff *s)
{
    static const struct {
        const char *source;
        const recipe *recipe;
    } known[] = {{"tokens", &tokens}, {"megatron", &megatron},
                 {"idx", &digits},    {"cifar", &cifar},
                 {"npy", &array},     {"webdataset", &shards}};
    if (s->kind == TT_SNIFF_TEXT)
        return ends(path, ".csv") ? &table : &text;
    if (s->source == NULL)
        return NULL;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].source, s->source) == 0)
            return &known[i].recipe[0];
    return NULL;
}

// ---- folders -------------------------------------------------------------

static bool is_image(const char *name)
{
    return ends(name, ".jpg") || ends(name, ".jpeg") || ends(name, ".png");
}

// Whether a folder, or the folders `depth` levels below it, have a file for which `is`
// holds. Only the first entries are looked at: a folder may have millions.
static bool has_file(tt_arena *arena, const char *path,
                     bool (*is)(const char *name), int depth)
{
    enum { MOST = 4096 };
    DIR *dir = opendir(path);
    bool is_found = false;
    int n = 0;
    if (dir == NULL)
        return false;
    for (struct dirent *e = readdir(dir); e != NULL && !is_found && n < MOST;
         e = readdir(dir), n++) {
        if (e->d_name[0] == '.')
            continue;
        is_found = depth == 0 && is(e->d_name);
        const char *below =
            depth > 0 ? tt_arena_printf(arena, "%s/%s", path, e->d_name) : NULL;
        if (below != NULL && tt_file_is_folder(below))
            is_found = has_file(arena, below, is, depth - 1);
    }
    closedir(dir);
    return is_found;
}

static bool is_ubyte(const char *name)
{
    return strstr(name, "ubyte") != NULL;
}

static bool is_text_file(const char *name)
{
    return ends(name, ".txt") || ends(name, ".md") || ends(name, ".jsonl");
}

static bool is_batch(const char *name)
{
    return ends(name, ".bin") && strstr(name, "batch") != NULL;
}

static bool is_tar(const char *name)
{
    return ends(name, ".tar");
}

// The order matters: the most specific names first.
static const recipe *recipe_of_folder(tt_arena *arena, const char *path)
{
    if (has_file(arena, path, is_ubyte, 0))
        return &digits;
    if (has_file(arena, path, is_batch, 0))
        return &cifar;
    if (has_file(arena, path, is_tar, 0))
        return &shards;
    if (has_file(arena, path, is_image, 1) ||
        has_file(arena, path, is_image, 2))
        return &folder;
    return has_file(arena, path, is_text_file, 0) ? &text : NULL;
}

// ---- settings ------------------------------------------------------------

// Settings that the user has given are left alone.
static tt_status set(tt_cli *cli, const char *key, const char *value)
{
    return tt_settings_find(&cli->settings, key) != NULL
               ? TT_OK
               : tt_settings_set(&cli->settings, key, value, tt_session_chosen,
                                 cli->arena);
}

// Whether the key is an option of a model or optimiser that the user chose instead of
// the recipe's: it has other options.
static bool is_foreign(const tt_cli *cli, const char *key)
{
    static const char *const part[] = {"model", "optim"};
    for (int i = 0; i < 2; i++) {
        const size_t n = strlen(part[i]);
        const tt_setting *own = tt_settings_find(&cli->settings, part[i]);
        if (own != NULL && strcmp(own->origin, tt_session_chosen) != 0 &&
            strncmp(key, part[i], n) == 0 && key[n] == '.')
            return true;
    }
    return false;
}

// What depends on the length of the run (warm-up, intervals) is left out if the user
// says how long it is.
static tt_status set_all(tt_cli *cli, const char *settings)
{
    char *words = tt_arena_strdup(cli->arena, settings), *rest = NULL;
    if (words == NULL)
        return TT_ERR_NOMEM;
    const bool has_length =
        tt_settings_find(&cli->settings, "train.steps") != NULL ||
        tt_settings_find(&cli->settings, "train.epochs") != NULL;
    for (char *word = strtok_r(words, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        const bool is_length = strcmp(word, "train.steps") == 0 ||
                               strcmp(word, "train.epochs") == 0 ||
                               strcmp(word, "optim.warmup") == 0 ||
                               strcmp(word, "eval.every") == 0 ||
                               strcmp(word, "log.every") == 0;
        if (!(is_length && has_length) && !is_foreign(cli, word))
            TT_TRY(set(cli, word, equals + 1));
    }
    return TT_OK;
}

// A short text gets a short context: a tenth of it is for validation, and that must
// hold some contexts.
static tt_status fit_context(tt_cli *cli, int64_t bytes)
{
    char context[24];
    int64_t n = 64;
    while (n > 4 && bytes / 10 < 2 * n)
        n /= 2;
    snprintf(context, sizeof context, "%lld", (long long)n);
    return is_foreign(cli, "model.context")
               ? TT_OK
               : set(cli, "model.context", context);
}

static const char *value(const tt_cli *cli, const char *key)
{
    const tt_setting *s = tt_settings_find(&cli->settings, key);
    return s != NULL ? s->value : "";
}

static void say(const tt_cli *cli, const recipe *r, const char *path)
{
    const bool is_epochs = value(cli, "train.epochs")[0] != '\0';
    fprintf(stderr,
            "note: %s is %s: data=%s model=%s, %s %s; any setting can be "
            "changed, as with train.%s=N, and --dry-run prints them all\n",
            path, r->what, value(cli, "data"), value(cli, "model"),
            value(cli, is_epochs ? "train.epochs" : "train.steps"),
            is_epochs ? "epochs" : "steps", is_epochs ? "epochs" : "steps");
}

static tt_status no_data(tt_cli *cli, const char *path, const char *what)
{
    const char *yaml = tt_arena_printf(cli->arena, "%s.yaml", path);
    if (yaml != NULL && tt_file_exists(yaml))
        return tt_fail(TT_ERR_ARG, "%s: %s; did you mean %s?", path, what,
                       yaml);
    return tt_fail(TT_ERR_ARG,
                   "%s: %s; settings are in a .yaml file or written "
                   "key=value, as data=text data.path=FILE",
                   path, what);
}

static bool is_weights(const char *name)
{
    return ends(name, ".safetensors") ||
           strncmp(name, "pytorch_model", 13) == 0;
}

static bool has(tt_cli *cli, const char *path, const char *name)
{
    const char *whole = tt_arena_printf(cli->arena, "%s/%s", path, name);
    return whole != NULL && tt_file_exists(whole);
}

// The command that began a run, as the run wrote it down; otherwise one that does the
// same.
static const char *command_of(tt_cli *cli, const char *run)
{
    enum { MOST = 1 << 20 };
    const char *path = tt_arena_printf(cli->arena, "%s/facts.json", run);
    const tt_json_value *root = NULL;
    const char *command = "";
    tt_str json = {0};
    if (path != NULL && tt_file_read(path, MOST, &json) == TT_OK &&
        tt_json_read(tt_str_text(&json), json.n, path, cli->arena, &root) ==
            TT_OK)
        command = tt_json_text(
            tt_json_get(tt_json_get(root, "facts"), "command"), "");
    command = tt_arena_strdup(cli->arena, command);
    tt_str_fini(&json);
    if (command != NULL && strncmp(command, "tutti train ", 12) == 0)
        return command;
    command = tt_arena_printf(cli->arena, "tutti train %s/config.yaml", run);
    return command != NULL ? command : "";
}

// Runs, checkpoints and models contain text files too, but are not data.
static tt_status refuse_model(tt_cli *cli, const char *path)
{
    if (has(cli, path, "config.yaml") && !has(cli, path, "state.json") &&
        tt_model_folder_was_run(path, cli->arena))
        return tt_fail(TT_ERR_ARG,
                       "%s is a run, not data; the command that began it goes "
                       "on with it, and with --fork in a new folder: `%s`",
                       path, command_of(cli, path));
    if (has(cli, path, "state.json") && has(cli, path, "model.safetensors"))
        return tt_fail(TT_ERR_ARG,
                       "%s is a checkpoint, not data; the command that began "
                       "its run goes on with it, and init.from=%s begins "
                       "another with these weights",
                       path, path);
    if (tt_model_folder_is(path) && has_file(cli->arena, path, is_weights, 0))
        return tt_fail(TT_ERR_ARG,
                       "%s is a model, not data; init.from=%s data=text "
                       "data.path=FILE trains it on a text",
                       path, path);
    return TT_OK;
}

static tt_status refuse_folder(tt_cli *cli, const char *path)
{
    const char *run = tt_model_path_find_run(path, cli->arena);
    if (has_file(cli->arena, path, is_image, 0))
        return tt_fail(TT_ERR_ARG,
                       "%s has images, but no folders that say what they "
                       "show; make one for each class, as %s/cats and "
                       "%s/dogs, and move the images there",
                       path, path, path);
    if (run != NULL)
        return tt_fail(TT_ERR_ARG,
                       "%s is a folder with runs in it, not data; the command "
                       "that began one goes on with it: `%s`",
                       path, command_of(cli, run));
    if (tt_model_folder_is_run(path))
        return tt_fail(TT_ERR_ARG,
                       "%s holds checkpoints, not data; the command that began "
                       "their run goes on with it",
                       path);
    return no_data(cli, path,
                   "is a folder, and no data to train on are seen in it");
}

static tt_status look_at_folder(tt_cli *cli, const char *path,
                                const recipe **recipe_out)
{
    char full[PATH_MAX];
    if (realpath(path, full) != NULL && strcmp(full, "/") == 0)
        return tt_fail(TT_ERR_ARG,
                       "%s is the root of all files; name the folder that has "
                       "the data",
                       path);
    TT_TRY(refuse_model(cli, path));
    *recipe_out = recipe_of_folder(cli->arena, path);
    return *recipe_out != NULL ? TT_OK : refuse_folder(cli, path);
}

static tt_status look(tt_cli *cli, const char *path, const recipe **recipe_out)
{
    tt_blob blob;
    tt_sniff sniff;
    if (tt_file_oddity(path) != NULL)
        return no_data(cli, path,
                       tt_arena_printf(cli->arena, "is %s, and data are files",
                                       tt_file_oddity(path)));
    if (tt_model_path_is_file(path))
        return tt_fail(TT_ERR_ARG,
                       "%s is a file of weights, not data; init.from=%s "
                       "data=text data.path=FILE trains it on a text",
                       path, path);
    TT_TRY(tt_blob_open(path, &blob));
    const int64_t n = blob.n;
    tt_status status = tt_cmd_data_sniff(cli, path, &blob, &sniff);
    if (status == TT_OK)
        *recipe_out = recipe_of(path, &sniff);
    if (status == TT_OK && *recipe_out == NULL)
        status = tt_format_refuse(path, blob.p, blob.n, "data to train on");
    tt_blob_close(&blob);
    TT_TRY(status);
    if (*recipe_out == NULL)
        return no_data(cli, path,
                       tt_arena_printf(cli->arena,
                                       "is %s, which is no data "
                                       "to train on",
                                       sniff.format));
    return *recipe_out == &text ? fit_context(cli, n) : TT_OK;
}

tt_status tt_cli_guess(tt_cli *cli, bool is_silent)
{
    const recipe *found = NULL;
    char full[PATH_MAX];
    if (cli->n_words == 0)
        return TT_OK;
    const char *path = cli->word[0];
    if (tt_file_is_folder(path)) {
        TT_TRY(look_at_folder(cli, path, &found));
    } else if (!tt_file_exists(path)) {
        return no_data(cli, path, "No such file");
    } else {
        TT_TRY(look(cli, path, &found));
    }
    // The run is named after the data, and not "." where these are the current folder.
    if (cli->file == NULL)
        cli->file = realpath(path, full) != NULL
                        ? tt_arena_strdup(cli->arena, full)
                        : path;
    if (cli->file == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(set(cli, "data.path", path));
    TT_TRY(set_all(cli, found->settings));
    if (!is_silent)
        say(cli, found, path);
    return TT_OK;
}
