// data tokenize - text to files of token ids, a piece at a time.
//
// Validation is the end of the text, counted in characters. Each part is encoded by
// itself, as the source "text" and nanoGPT do it, so all three give the same ids. The
// border may lie within a document.
//
//   file 0          file 1                 file 2
//   [doc][doc]      [doc][doc][doc]        [doc ...     ]
//   <------------- train ---------------------><-- val ->
//                                              ^ border

#include "base/file.h"
#include "base/json.h"
#include "cli/prepare/data.h"
#include "cli/table.h"
#include "data/source/text_file.h"
#include "data/token_write.h"
#include "data/tokenizer/tokenizer_stream.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 2 << 20 }; // bytes of text per thread

typedef struct options {
    const char *tokenizer, *out, *field;
    int format;
    double holdout;
    bool end, special;
    int64_t shard, threads;
} options;

static const tt_opt table[] = {
    {"tokenizer", "", "bytes, chars, or a folder or file of one", TT_OPT_STR,
     offsetof(options, tokenizer)},
    {"out", "", "prefix of the files, or a folder", TT_OPT_STR,
     offsetof(options, out)},
    {"field", "", "of JSON lines: the member that is the text", TT_OPT_STR,
     offsetof(options, field)},
    {"format", "llmc", "of the files", TT_OPT_CHOICE, offsetof(options, format),
     TT_TOKEN_FORMATS},
    {"holdout", "0.1", "part of the end for validation", TT_OPT_F64,
     offsetof(options, holdout), NULL, 0, 1},
    {"end", "true", "the end-of-text token between documents", TT_OPT_BOOL,
     offsetof(options, end)},
    {"special", "false", "special tokens in the text count as such",
     TT_OPT_BOOL, offsetof(options, special)},
    {"shard", "0", "tokens of a file; 0: as many as it can hold", TT_OPT_I64,
     offsetof(options, shard), NULL, 0, 9e15},
    {"threads", "0", "that encode; 0: all cores", TT_OPT_I64,
     offsetof(options, threads), NULL, 0, 256},
    {0},
};

// Training or validation.
typedef struct part {
    const char *name;
    tt_token_writer *writer;
    int64_t tokens;
    tt_str paths;
} part;

typedef struct work {
    tt_cli *cli;
    options o;
    tt_paths paths;
    tt_text_file *file;
    int64_t n_files;
    int n_threads;
    int64_t border; // byte of all texts together where validation begins
    tt_tokenizer *tokenizer;
    const char *tokenizer_path;
    part part[2];
} work;

// ---- texts ---------------------------------------------------------------

static bool begins_character(uint8_t byte)
{
    return (byte & 0xc0) != 0x80;
}

static tt_status open_texts(work *w)
{
    TT_TRY(tt_cmd_data_files(w->cli, "text", &w->paths));
    w->file =
        tt_arena_alloc(w->cli->arena, w->paths.n * (int64_t)sizeof(*w->file));
    if (w->file == NULL)
        return TT_ERR_NOMEM;
    // Without an end-of-text token, documents end with a line break.
    const bool has_breaks =
        w->tokenizer == NULL || tt_tokenizer_end(w->tokenizer) < 0;
    for (int64_t i = 0; i < w->paths.n; i++, w->n_files++)
        TT_TRY(tt_text_file_open(w->paths.v[i], w->o.field, has_breaks,
                                 &w->file[i]));
    return TT_OK;
}

// Finds the byte where validation begins. Two passes over the bytes: one counts
// characters, one finds the border.
static void find_border(work *w)
{
    int64_t n = 0, seen = 0, at = 0;
    for (int64_t i = 0; i < w->n_files; i++)
        for (int64_t k = 0; k < w->file[i].n; k++)
            n += begins_character((uint8_t)w->file[i].p[k]);
    const int64_t n_train = (int64_t)floor((1 - w->o.holdout) * (double)n);
    for (int64_t i = 0; i < w->n_files; i++) {
        for (int64_t k = 0; k < w->file[i].n; k++, at++) {
            seen += begins_character((uint8_t)w->file[i].p[k]);
            if (seen > n_train) {
                w->border = at;
                return;
            }
        }
    }
    w->border = at;
}

// ---- the tokenizer -------------------------------------------------------

// Adds the characters of one text to the set, without joining the texts.
static tt_status add_characters(const work *w, int64_t i, tt_str *all)
{
    tt_tokenizer *one = NULL;
    tt_status status = TT_OK;
    if (w->file[i].n == 0)
        return TT_OK;
    status = tt_tokenizer_open("chars", w->file[i].p, w->file[i].n, &one);
    if (status != TT_OK)
        return tt_fail_context(status, "%s", w->paths.v[i]);
    for (int32_t id = 0; id < tt_tokenizer_vocab(one) && status == TT_OK; id++)
        status = tt_tokenizer_decode(one, &id, 1, all);
    tt_tokenizer_close(one);
    return status;
}

static bool is_from_text(const work *w)
{
    return strcmp(w->o.tokenizer, "chars") == 0;
}

static tt_status make_tokenizer(work *w)
{
    tt_str all = {0};
    tt_status status = TT_OK;
    if (!is_from_text(w))
        return TT_OK; // it is open
    for (int64_t i = 0; i < w->n_files && status == TT_OK; i++)
        status = add_characters(w, i, &all);
    if (status == TT_OK)
        status =
            tt_tokenizer_open("chars", tt_str_text(&all), all.n, &w->tokenizer);
    tt_str_fini(&all);
    return status;
}

static tt_status write_tokenizer(work *w, tt_file_set *set)
{
    tt_str text = {0};
    w->tokenizer_path = tt_cmd_data_name(w->cli, w->o.out, "tokenizer.json");
    if (w->tokenizer_path == NULL)
        return TT_ERR_IO;
    tt_tokenizer_print(w->tokenizer, &text);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status = tt_file_set_write(set, w->tokenizer_path, text.text, text.n);
    tt_str_fini(&text);
    return status;
}

// ---- encoding ------------------------------------------------------------

static tt_status encode(const work *w, part *p, const char *text, int64_t n)
{
    tt_encoder *e = NULL;
    tt_ids ids = {0};
    bool more = n > 0;
    tt_status status = tt_encoder_open(w->tokenizer, text, n, w->o.special, &e);
    while (status == TT_OK && more) {
        ids.n = 0;
        status =
            tt_encoder_next_threads(e, (int64_t)PIECE * w->n_threads,
                                    n < PIECE ? 1 : w->n_threads, &ids, &more);
        if (status == TT_OK)
            status = tt_token_writer_add(p->writer, ids.v, ids.n);
        if (status == TT_OK && tt_cmd_data_is_stopped())
            status = tt_cmd_data_interrupted();
    }
    tt_ids_fini(&ids);
    tt_encoder_close(e);
    return status;
}

static tt_status begin_document(const work *w, part *p)
{
    const int32_t end = tt_tokenizer_end(w->tokenizer);
    if (tt_token_writer_count(p->writer) > 0 && w->o.end && end >= 0)
        TT_TRY(tt_token_writer_add(p->writer, &end, 1));
    return tt_token_writer_document(p->writer);
}

// Encodes bytes `from` to `to` of a file, each document by itself.
static tt_status encode_file(const work *w, part *p, const tt_text_file *f,
                             int64_t from, int64_t to)
{
    int64_t begin = 0;
    const int64_t n = f->n_documents > 0 ? f->n_documents : 1;
    for (int64_t i = 0; i < n && begin < to; i++) {
        const int64_t end = f->n_documents > 0 ? f->end[i] : f->n;
        const int64_t a = begin > from ? begin : from;
        const int64_t b = end < to ? end : to;
        begin = end;
        if (a >= b)
            continue;
        TT_TRY(begin_document(w, p));
        TT_TRY(encode(w, p, f->p + a, b - a));
    }
    return TT_OK;
}

// Encodes bytes `from` to `to` of all texts together.
static tt_status encode_part(work *w, part *p, int64_t from, int64_t to)
{
    int64_t at = 0;
    for (int64_t i = 0; i < w->n_files; i++) {
        const tt_text_file *f = &w->file[i];
        const int64_t a = from > at ? from - at : 0;
        const int64_t b = to - at < f->n ? to - at : f->n;
        at += f->n;
        if (a >= b)
            continue;
        const tt_status status = encode_file(w, p, f, a, b);
        if (status == TT_ERR_ARG)
            return tt_fail_context(status, "%s", w->paths.v[i]);
        TT_TRY(status);
    }
    p->tokens = tt_token_writer_count(p->writer);
    return TT_OK;
}

static tt_status write_part(work *w, part *p, int64_t from, int64_t to)
{
    if (from >= to)
        return TT_OK;
    const tt_token_target target = {
        .prefix = tt_cmd_data_name(w->cli, w->o.out, p->name),
        .format = (tt_token_format)w->o.format,
        .vocab = tt_tokenizer_vocab(w->tokenizer),
        .shard = w->o.shard,
    };
    if (target.prefix == NULL)
        return TT_ERR_IO;
    TT_TRY(tt_token_writer_open(&target, &p->writer));
    return encode_part(w, p, from, to);
}

// The tokenizer comes last: it alone may replace a file that was there.
static tt_status place(work *w, tt_file_set *set)
{
    for (int i = 0; i < 2; i++)
        if (w->part[i].writer != NULL)
            TT_TRY(tt_token_writer_finish(w->part[i].writer, set,
                                          &w->part[i].paths));
    TT_TRY(write_tokenizer(w, set));
    return tt_file_set_place(set);
}

static tt_status write_all(work *w)
{
    int64_t n = 0;
    for (int64_t i = 0; i < w->n_files; i++)
        n += w->file[i].n;
    if (n == 0)
        return tt_fail(TT_ERR_ARG, "%s: it is empty", w->paths.v[0]);
    for (int i = 0; i < 2; i++) {
        const char *prefix =
            tt_cmd_data_name(w->cli, w->o.out, w->part[i].name);
        if (prefix == NULL)
            return TT_ERR_IO;
        TT_TRY(tt_cmd_data_check_free(w->cli, prefix));
    }
    find_border(w);
    TT_TRY(make_tokenizer(w));
    tt_cmd_data_catch();
    TT_TRY(write_part(w, &w->part[0], 0, w->border));
    TT_TRY(write_part(w, &w->part[1], w->border, n));
    tt_file_set set = {0};
    const tt_status status = place(w, &set);
    tt_file_set_fini(&set);
    return status;
}

// ---- what was done -------------------------------------------------------

static void report_text(work *w)
{
    tt_str text = {0};
    for (int i = 0; i < 2; i++) {
        part *p = &w->part[i];
        if (p->writer == NULL)
            continue;
        char *rest = NULL;
        tt_str_addf(&text, "%-10s", p->name);
        tt_add_grouped(&text, p->tokens);
        tt_str_add(&text, " tokens in");
        for (char *path = strtok_r(p->paths.text, "\n", &rest); path != NULL;
             path = strtok_r(NULL, "\n", &rest))
            tt_str_addf(&text, " %s", path);
        tt_str_add(&text, "\n");
    }
    tt_str_add(&text, "tokenizer ");
    tt_add_grouped(&text, tt_tokenizer_vocab(w->tokenizer));
    tt_str_addf(&text, " ids in %s\n", w->tokenizer_path);
    fputs(tt_str_text(&text), stdout);
    tt_str_fini(&text);
}

static void report_json(work *w)
{
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    for (int i = 0; i < 2; i++) {
        part *p = &w->part[i];
        if (p->writer == NULL)
            continue;
        char *rest = NULL;
        tt_json_open(&json, p->name, '{');
        tt_json_i64(&json, "tokens", p->tokens);
        tt_json_open(&json, "files", '[');
        for (char *path = strtok_r(p->paths.text, "\n", &rest); path != NULL;
             path = strtok_r(NULL, "\n", &rest))
            tt_json_str(&json, NULL, path);
        tt_json_close(&json, ']');
        tt_json_close(&json, '}');
    }
    tt_json_i64(&json, "vocab", tt_tokenizer_vocab(w->tokenizer));
    tt_json_str(&json, "tokenizer", w->tokenizer_path);
    tt_json_close(&json, '}');
    puts(tt_str_text(&text));
    tt_str_fini(&text);
}

tt_status tt_cmd_data_tokenize(tt_cli *cli)
{
    work w = {.cli = cli, .part = {{.name = "train"}, {.name = "val"}}};
    TT_TRY(tt_cmd_data_options(cli, table, &w.o));
    w.n_threads = w.o.threads > 0 ? (int)w.o.threads : omp_get_num_procs();
    if (w.o.tokenizer[0] == '\0')
        return tt_fail(TT_ERR_ARG, "tokenizer=SPEC says how: bytes, chars, or "
                                   "a folder or file of a tokenizer");
    if (w.o.out[0] == '\0')
        return tt_fail(TT_ERR_ARG, "out=PREFIX says where the tokens go");
    tt_status status = TT_OK;
    if (!is_from_text(&w))
        status = tt_tokenizer_open(w.o.tokenizer, NULL, 0, &w.tokenizer);
    if (status == TT_OK)
        status = open_texts(&w);
    if (status == TT_OK)
        status = write_all(&w);
    if (status == TT_OK && tt_cli_has(cli, "--json"))
        report_json(&w);
    else if (status == TT_OK)
        report_text(&w);
    for (int i = 0; i < 2; i++) {
        tt_token_writer_close(w.part[i].writer);
        tt_str_fini(&w.part[i].paths);
    }
    for (int64_t i = 0; i < w.n_files; i++)
        tt_text_file_close(&w.file[i]);
    tt_tokenizer_close(w.tokenizer);
    return status;
}
