// data train-bpe - learns a tokenizer from text.

#include "base/clock.h"
#include "base/file_set.h"
#include "base/json.h"
#include "cli/prepare/data.h"
#include "cli/table.h"
#include "data/source/text_file.h"

#include <stdio.h>
#include <string.h>

enum { SPECIAL_MAX = 256 };

typedef struct options {
    int64_t vocab;
    const char *out, *pattern, *special, *field;
} options;

static const tt_opt table[] = {
    {"vocab", "4096", "tokens in all", TT_OPT_I64, offsetof(options, vocab),
     NULL, 256, 1 << 24},
    {"out", "", "folder to write to", TT_OPT_STR, offsetof(options, out)},
    {"field", "", "of JSON lines: the member that is the text", TT_OPT_STR,
     offsetof(options, field)},
    {"pattern", "", "how text is split first; default: GPT-2's", TT_OPT_STR,
     offsetof(options, pattern)},
    {"special", "<|endoftext|>", "special tokens, with commas between",
     TT_OPT_STR, offsetof(options, special)},
    {0},
};

typedef struct texts {
    int64_t n, bytes;
    tt_text_file *file;
    tt_text *text;
} texts;

static tt_status open_texts(tt_cli *cli, const char *field, texts *t)
{
    tt_paths paths = {0};
    TT_TRY(tt_cmd_data_files(cli, "text", &paths));
    t->file = tt_arena_alloc(cli->arena, paths.n * (int64_t)sizeof(*t->file));
    t->text = tt_arena_alloc(cli->arena, paths.n * (int64_t)sizeof(*t->text));
    if (t->file == NULL || t->text == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < paths.n; i++) {
        TT_TRY(tt_text_file_open(paths.v[i], field, true, &t->file[i]));
        t->n++;
        t->text[i] = (tt_text){t->file[i].p, t->file[i].n};
        t->bytes += t->file[i].n;
    }
    if (t->bytes == 0)
        return tt_fail(TT_ERR_ARG, "%s: it is empty", paths.v[0]);
    return TT_OK;
}

static tt_status cut_special(tt_cli *cli, const char *list,
                             const char **special, int *n_out)
{
    char *rest = tt_arena_strdup(cli->arena, list);
    if (rest == NULL)
        return TT_ERR_NOMEM;
    for (char *p = rest; p != NULL && *p != '\0';) {
        char *comma = strchr(p, ',');
        if (comma != NULL)
            *comma = '\0';
        if (*n_out == SPECIAL_MAX)
            return tt_fail(TT_ERR_ARG, "more than %d special tokens",
                           SPECIAL_MAX);
        special[(*n_out)++] = p;
        p = comma != NULL ? comma + 1 : NULL;
    }
    return TT_OK;
}

// The files of a tokenizer; whoever reads a folder takes what it finds of them.
static const char *const names[] = {"vocab.json", "merges.txt",
                                    "tokenizer.json"};
enum { N_NAMES = sizeof names / sizeof *names };

static tt_status write_set(tt_cli *cli, const char *folder, const tt_str *text,
                           tt_file_set *set)
{
    for (int i = 0; i < N_NAMES; i++) {
        const char *path = tt_path_join(cli->arena, folder, names[i]);
        TT_TRY(tt_str_status(&text[i]));
        if (path == NULL)
            return TT_ERR_NOMEM;
        TT_TRY(tt_file_set_write(set, path, tt_str_text(&text[i]), text[i].n));
    }
    return tt_file_set_place(set);
}

static tt_status write_all(tt_cli *cli, const tt_tokenizer *t,
                           const char *folder)
{
    tt_str text[N_NAMES] = {0};
    tt_file_set set = {0};
    tt_tokenizer_print(t, &text[2]);
    tt_status status = tt_tokenizer_print_gpt2(t, &text[0], &text[1]);
    if (status == TT_OK)
        status = tt_file_make_folder(folder);
    if (status == TT_OK)
        status = write_set(cli, folder, text, &set);
    tt_file_set_fini(&set);
    for (int i = 0; i < N_NAMES; i++)
        tt_str_fini(&text[i]);
    return status;
}

static void report(const tt_cli *cli, const options *o, const tt_tokenizer *t,
                   int64_t bytes, double seconds)
{
    const int64_t vocab = tt_tokenizer_vocab(t);
    tt_str text = {0};
    if (tt_cli_has(cli, "--json")) {
        tt_json json = {.out = &text};
        tt_json_open(&json, NULL, '{');
        tt_json_str(&json, "folder", o->out);
        tt_json_i64(&json, "vocab", vocab);
        tt_json_i64(&json, "text_bytes", bytes);
        tt_json_f64(&json, "seconds", seconds);
        tt_json_close(&json, '}');
    } else {
        tt_str_addf(&text, "%s: ", o->out);
        tt_add_grouped(&text, vocab);
        tt_str_add(&text, " tokens from ");
        tt_add_bytes(&text, bytes);
        tt_str_add(&text, " of text in ");
        tt_add_seconds(&text, seconds);
        if (vocab < o->vocab)
            tt_str_add(&text, "; every piece of the text is a token already");
    }
    puts(tt_str_text(&text));
    tt_str_fini(&text);
}

static tt_status train(tt_cli *cli, const options *o, const texts *t)
{
    const char *special[SPECIAL_MAX];
    tt_bpe_options bpe = {.vocab = o->vocab, .special = special};
    tt_tokenizer *tokenizer = NULL;
    const double start = tt_clock_seconds();
    bpe.pattern = o->pattern[0] != '\0' ? o->pattern : NULL;
    TT_TRY(cut_special(cli, o->special, special, &bpe.n_special));
    TT_TRY(tt_bpe_train(t->text, t->n, &bpe, &tokenizer));
    const tt_status status = write_all(cli, tokenizer, o->out);
    if (status == TT_OK)
        report(cli, o, tokenizer, t->bytes, tt_clock_seconds() - start);
    tt_tokenizer_close(tokenizer);
    return status;
}

static tt_status check_free(tt_cli *cli, const char *folder)
{
    for (int i = N_NAMES - 1; i >= 0; i--) {
        const char *there = tt_path_join(cli->arena, folder, names[i]);
        if (there == NULL)
            return TT_ERR_NOMEM;
        if (tt_file_exists(there))
            return tt_fail(TT_ERR_ARG,
                           "%s is there already; remove its folder, or name "
                           "another out=",
                           there);
    }
    return TT_OK;
}

tt_status tt_cmd_data_train_bpe(tt_cli *cli)
{
    options o;
    texts t = {0};
    TT_TRY(tt_cmd_data_options(cli, table, &o));
    if (o.out[0] == '\0')
        return tt_fail(TT_ERR_ARG, "out=FOLDER says where the tokenizer goes");
    TT_TRY(check_free(cli, o.out));
    tt_status status = open_texts(cli, o.field, &t);
    if (status == TT_OK)
        status = train(cli, &o, &t);
    for (int64_t i = 0; i < t.n; i++)
        tt_text_file_close(&t.file[i]);
    return status;
}
