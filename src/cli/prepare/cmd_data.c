// data - makes and looks at training data; one file for each part.

#include "base/file.h"
#include "cli/prepare/data.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    tt_status (*run)(tt_cli *cli);
} parts[] = {
    {"train-bpe", tt_cmd_data_train_bpe},
    {"tokenize", tt_cmd_data_tokenize},
    {"pack", tt_cmd_data_pack},
    {"inspect", tt_cmd_data_inspect},
};

enum { N_PARTS = sizeof(parts) / sizeof(parts[0]), MAX_KEYS = 32 };

// ---- signals -------------------------------------------------------------

static volatile sig_atomic_t stopped_by; // a handler has no other way

static void handle(int signal)
{
    stopped_by = signal;
}

void tt_cmd_data_catch(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handle;
    action.sa_flags = (int)SA_RESETHAND; // the second one ends it at once
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGHUP, &action, NULL);
}

bool tt_cmd_data_is_stopped(void)
{
    return stopped_by != 0;
}

tt_status tt_cmd_data_interrupted(void)
{
    return tt_fail(TT_ERR_STATE, "interrupted; nothing was written");
}

void tt_cmd_data_end(void)
{
    if (stopped_by == 0)
        return;
    (void)signal((int)stopped_by, SIG_DFL);
    (void)raise((int)stopped_by);
}

// ---- the command line ----------------------------------------------------

tt_status tt_cmd_data_options(tt_cli *cli, const tt_opt *table, void *params)
{
    const char *known[MAX_KEYS];
    int n = 0;
    for (const tt_opt *o = table; o->name != NULL && n < MAX_KEYS; o++)
        known[n++] = o->name;
    TT_TRY(tt_opt_defaults(table, params, cli->arena));
    TT_TRY(tt_settings_apply(&cli->settings, "", table, params, cli->arena));
    return tt_settings_check_unused(&cli->settings, known, n);
}

tt_status tt_cmd_data_files(tt_cli *cli, const char *what, tt_paths *paths_out)
{
    const char **v = NULL;
    int64_t n = 0;
    if (cli->n_words < 2)
        return tt_fail(TT_ERR_ARG, "which %s? `tutti data --help` says more",
                       what);
    for (int pass = 0; pass < 2; pass++) {
        n = 0;
        for (int i = 1; i < cli->n_words; i++) {
            tt_paths some = {0};
            TT_TRY(tt_paths_find(what, cli->word[i], cli->arena, &some));
            for (int64_t k = 0; k < some.n; k++, n++)
                if (v != NULL)
                    v[n] = some.v[k];
        }
        if (v == NULL)
            v = tt_arena_alloc(cli->arena, n * (int64_t)sizeof(*v));
        if (v == NULL)
            return TT_ERR_NOMEM;
    }
    *paths_out = (tt_paths){n, v};
    return TT_OK;
}

const char *tt_cmd_data_beside(tt_cli *cli, const char *path, const char *from,
                               const char *to)
{
    if (!tt_path_ends(path, from))
        return NULL;
    const char *other = tt_arena_printf(
        cli->arena, "%.*s%s", (int)(strlen(path) - strlen(from)), path, to);
    return other != NULL && tt_file_exists(other) ? other : NULL;
}

tt_status tt_cmd_data_make_folder(const char *path)
{
    char folder[PATH_MAX];
    const int64_t n = tt_path_base(path) - path;
    if (n < 2 || n >= PATH_MAX)
        return TT_OK;
    memcpy(folder, path, (size_t)n - 1);
    folder[n - 1] = '\0';
    return tt_file_make_folder(folder);
}

const char *tt_cmd_data_name(tt_cli *cli, const char *out, const char *name)
{
    const size_t n = strlen(out);
    const bool is_folder =
        tt_file_is_folder(out) || (n > 0 && out[n - 1] == '/');
    char *path =
        is_folder
            ? tt_arena_printf(cli->arena, "%.*s/%s",
                              (int)(out[n - 1] == '/' ? n - 1 : n), out, name)
            : tt_arena_printf(cli->arena, "%s_%s", out, name);
    return path != NULL && tt_cmd_data_make_folder(path) == TT_OK ? path : NULL;
}

typedef struct search {
    const char *base; // how the name of a file would begin
    size_t n;
    char found[NAME_MAX + 1];
} search;

static tt_status look_at(void *user, const char *name)
{
    search *s = user;
    if (s->found[0] == '\0' && strncmp(name, s->base, s->n) == 0 &&
        (name[s->n] == '.' ||
         (name[s->n] == '_' && isdigit((unsigned char)name[s->n + 1]))))
        snprintf(s->found, sizeof s->found, "%s", name);
    return TT_OK;
}

tt_status tt_cmd_data_check_free(tt_cli *cli, const char *prefix)
{
    const char *base = tt_path_base(prefix);
    const int n = (int)(base - prefix);
    const char *folder =
        n > 0 ? tt_arena_printf(cli->arena, "%.*s", n, prefix) : ".";
    search s = {.base = base, .n = strlen(base)};
    if (folder == NULL)
        return TT_ERR_NOMEM;
    if (!tt_file_is_folder(folder))
        return TT_OK;
    TT_TRY(tt_file_each(folder, look_at, &s));
    return s.found[0] == '\0'
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "%.*s%s is there already; remove it and what belongs "
                         "to it, or name another out=",
                         n, prefix, s.found);
}

static tt_status unknown_part(const char *name)
{
    const char *names[N_PARTS];
    for (int i = 0; i < N_PARTS; i++)
        names[i] = parts[i].name;
    const char *near = name != NULL ? tt_nearest(name, names, N_PARTS) : NULL;
    if (near != NULL)
        return tt_fail(TT_ERR_ARG,
                       "there is no `tutti data %s`; did you mean %s?", name,
                       near);
    return tt_fail(TT_ERR_ARG,
                   "tutti data what? train-bpe, tokenize, pack or inspect");
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    (void)exit_out;
    for (int i = 0; i < N_PARTS && cli->n_words > 0; i++) {
        if (strcmp(cli->word[0], parts[i].name) != 0)
            continue;
        const tt_status status = parts[i].run(cli);
        tt_cmd_data_end();
        return status;
    }
    return unknown_part(cli->n_words > 0 ? cli->word[0] : NULL);
}

static const tt_flag flags[] = {
    {"--json", "JSON instead of text"},
    {0},
};

const tt_command_def tt_command_data = {
    .name = "data",
    .doc = "Makes and looks at training data: tokenizers, token files.",
    .usage = "train-bpe|tokenize|pack|inspect FILE... [key=value ...] [--json]",
    .detail =
        "tutti data train-bpe TEXT... out=FOLDER [vocab=4096] [pattern=...]\n"
        "    [special=<|endoftext|>,...] [field=NAME]\n"
        "  learns a tokenizer: tokenizer.json, vocab.json and merges.txt\n"
        "tutti data tokenize TEXT... tokenizer=SPEC out=PREFIX\n"
        "    [format=llmc|nanogpt|megatron|npy] [holdout=0.1] [end=true]\n"
        "    [special=false] [shard=TOKENS] [threads=0] [field=NAME]\n"
        "  writes PREFIX_train and PREFIX_val; SPEC is bytes, chars, or a\n"
        "  folder or file of a tokenizer; TEXT is text or JSON lines "
        "(*.jsonl,\n"
        "  or with field), .gz or not\n"
        "tutti data pack FILE... out=PREFIX [format=...] [shard=TOKENS]\n"
        "    [vocab=N] [end=ID] [dtype=u16|u32|i32|u8]\n"
        "  token files of any format, one after another, in another format\n"
        "tutti data inspect FILE... [tokenizer=SPEC] [dtype=...] [field=NAME]\n"
        "    [--json]\n"
        "  what a file is and holds",
    .flags = flags,
    .max_words = 1 << 20,
    .takes_paths = true,
    .run = run,
};
