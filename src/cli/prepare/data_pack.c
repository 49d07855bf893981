// data pack - token files of any format, one after another, in another format.

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/prepare/data.h"
#include "cli/table.h"
#include "data/token_write.h"

#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 18 };

typedef struct options {
    const char *out, *dtype;
    int format;
    int64_t shard, vocab, end;
} options;

static const tt_opt table[] = {
    {"out", "", "prefix of the files", TT_OPT_STR, offsetof(options, out)},
    {"format", "llmc", "of the files", TT_OPT_CHOICE, offsetof(options, format),
     TT_TOKEN_FORMATS},
    {"shard", "0", "tokens of a file; 0: as many as it can hold", TT_OPT_I64,
     offsetof(options, shard), NULL, 0, 9e15},
    {"vocab", "0", "ids are below it; 0: look", TT_OPT_I64,
     offsetof(options, vocab), NULL, 0, INT32_MAX},
    {"end", "-1", "id that ends a document; -1: each file is one", TT_OPT_I64,
     offsetof(options, end), NULL, -1, INT32_MAX},
    {"dtype", "auto", "ids of files without a header", TT_OPT_STR,
     offsetof(options, dtype)},
    {0},
};

typedef struct work {
    tt_cli *cli;
    options o;
    tt_paths paths;
    tt_source **source;
    const char **name; // of the file of each
    int64_t n;
    tt_token_writer *writer;
    int32_t *ids;
} work;

static tt_status open_one(work *w, const char *path)
{
    tt_blob blob = {0};
    tt_sniff sniff = {0};
    TT_TRY(tt_blob_open(path, &blob));
    const tt_status status = tt_cmd_data_sniff(w->cli, path, &blob, &sniff);
    tt_blob_close(&blob);
    TT_TRY(status);
    if (sniff.kind != TT_SNIFF_TOKENS)
        return tt_fail(TT_ERR_ARG, "%s: no file of tokens: it is %s", path,
                       sniff.format);
    TT_TRY(tt_cmd_data_source(w->cli, path, sniff.source, w->o.dtype,
                              &w->source[w->n]));
    w->name[w->n++] = path;
    return TT_OK;
}

// An .idx file whose .bin file is in the list too is not a file of its own.
static bool is_index(const work *w, const char *path)
{
    const char *bin = tt_cmd_data_beside(w->cli, path, ".idx", ".bin");
    for (int64_t i = 0; i < w->paths.n && bin != NULL; i++)
        if (strcmp(w->paths.v[i], bin) == 0)
            return true;
    return false;
}

static tt_status open_all(work *w)
{
    TT_TRY(tt_cmd_data_files(w->cli, "token files", &w->paths));
    w->source = tt_arena_alloc(w->cli->arena,
                               w->paths.n * (int64_t)sizeof(tt_source *));
    w->name =
        tt_arena_alloc(w->cli->arena, w->paths.n * (int64_t)sizeof *w->name);
    if (w->source == NULL || w->name == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < w->paths.n; i++)
        if (!is_index(w, w->paths.v[i]))
            TT_TRY(open_one(w, w->paths.v[i]));
    return TT_OK;
}

static tt_status find_vocab(work *w)
{
    int64_t most = -1;
    if (w->o.vocab > 0)
        return TT_OK;
    for (int64_t i = 0; i < w->n; i++) {
        int64_t min = 0, max = 0;
        TT_TRY(tt_cmd_data_range(w->source[i], &min, &max));
        if (min < 0)
            return tt_fail(TT_ERR_ARG, "%s: %lld is no id", w->name[i],
                           (long long)min);
        most = max > most ? max : most;
    }
    w->o.vocab = most + 1;
    return TT_OK;
}

// A document ends after the id `end`.
static tt_status add(work *w, int64_t n)
{
    int64_t from = 0;
    for (int64_t i = 0; i < n && w->o.end >= 0; i++) {
        if (w->ids[i] != w->o.end)
            continue;
        TT_TRY(tt_token_writer_add(w->writer, w->ids + from, i + 1 - from));
        TT_TRY(tt_token_writer_document(w->writer));
        from = i + 1;
    }
    return tt_token_writer_add(w->writer, w->ids + from, n - from);
}

static tt_status copy_one(work *w, const tt_source *source)
{
    TT_TRY(tt_token_writer_document(w->writer));
    for (int64_t at = 0; at < source->n; at += PIECE) {
        const int64_t n = source->n - at < PIECE ? source->n - at : PIECE;
        TT_TRY(tt_source_read_tokens(source, at, n, w->ids));
        TT_TRY(add(w, n));
        if (tt_cmd_data_is_stopped())
            return tt_cmd_data_interrupted();
    }
    return TT_OK;
}

static tt_status place(work *w, tt_str *paths)
{
    tt_file_set set = {0};
    tt_status status = tt_token_writer_finish(w->writer, &set, paths);
    if (status == TT_OK)
        status = tt_file_set_place(&set);
    tt_file_set_fini(&set);
    return status;
}

static tt_status copy_all(work *w, tt_str *paths)
{
    TT_TRY(open_all(w));
    tt_cmd_data_catch();
    TT_TRY(find_vocab(w));
    const tt_token_target target = {
        .prefix = w->o.out,
        .format = (tt_token_format)w->o.format,
        .vocab = w->o.vocab,
        .shard = w->o.shard,
    };
    if (tt_file_is_folder(w->o.out))
        return tt_fail(TT_ERR_ARG,
                       "%s: is a folder; out=PREFIX is how names begin",
                       w->o.out);
    TT_TRY(tt_cmd_data_check_free(w->cli, w->o.out));
    TT_TRY(tt_cmd_data_make_folder(w->o.out));
    w->ids = tt_alloc(PIECE * (int64_t)sizeof(*w->ids));
    if (w->ids == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory");
    TT_TRY(tt_token_writer_open(&target, &w->writer));
    for (int64_t i = 0; i < w->n; i++)
        TT_TRY(copy_one(w, w->source[i]));
    return place(w, paths);
}

static void report(const work *w, tt_str *paths)
{
    const int64_t n = tt_token_writer_count(w->writer);
    tt_str text = {0};
    tt_json json = {.out = &text};
    const bool is_json = tt_cli_has(w->cli, "--json");
    char *rest = NULL;
    if (is_json) {
        tt_json_open(&json, NULL, '{');
        tt_json_i64(&json, "tokens", n);
        tt_json_open(&json, "files", '[');
    } else {
        tt_add_grouped(&text, n);
        tt_str_add(&text, " tokens in");
    }
    for (char *path = strtok_r(paths->text, "\n", &rest); path != NULL;
         path = strtok_r(NULL, "\n", &rest)) {
        if (is_json)
            tt_json_str(&json, NULL, path);
        else
            tt_str_addf(&text, " %s", path);
    }
    if (is_json) {
        tt_json_close(&json, ']');
        tt_json_close(&json, '}');
    }
    puts(tt_str_text(&text));
    tt_str_fini(&text);
}

tt_status tt_cmd_data_pack(tt_cli *cli)
{
    work w = {.cli = cli};
    tt_str paths = {0};
    TT_TRY(tt_cmd_data_options(cli, table, &w.o));
    if (w.o.out[0] == '\0')
        return tt_fail(TT_ERR_ARG, "out=PREFIX says where the tokens go");
    const tt_status status = copy_all(&w, &paths);
    if (status == TT_OK)
        report(&w, &paths);
    tt_token_writer_close(w.writer);
    for (int64_t i = 0; i < w.n; i++)
        tt_source_close(w.source[i]);
    tt_free(w.ids);
    tt_str_fini(&paths);
    return status;
}
