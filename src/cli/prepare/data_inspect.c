// data inspect - what a file is and what it holds, as text or as JSON. The say_
// functions write one fact in either form.

#include "base/file.h"
#include "base/json.h"
#include "base/utf8.h"
#include "cli/prepare/data.h"
#include "cli/table.h"
#include "data/source/text_file.h"

#include <stdio.h>
#include <string.h>

enum { FIRST = 16 };

typedef struct options {
    const char *tokenizer, *dtype, *field;
} options;

static const tt_opt table[] = {
    {"tokenizer", "", "shows the first tokens as text", TT_OPT_STR,
     offsetof(options, tokenizer)},
    {"dtype", "auto", "ids of files without a header", TT_OPT_STR,
     offsetof(options, dtype)},
    {"field", "", "of JSON lines: the member that is the text", TT_OPT_STR,
     offsetof(options, field)},
    {0},
};

typedef struct work {
    tt_cli *cli;
    options o;
    tt_tokenizer *tokenizer; // or NULL
    tt_str out;
    tt_json json;
    bool is_json;
} work;

// ---- lines ---------------------------------------------------------------

static void say_i64(work *w, const char *name, int64_t value)
{
    if (w->is_json) {
        tt_json_i64(&w->json, name, value);
        return;
    }
    tt_str_addf(&w->out, "  %-10s ", name);
    tt_add_grouped(&w->out, value);
    tt_str_add(&w->out, "\n");
}

static void say(work *w, const char *name, const char *value)
{
    if (w->is_json)
        tt_json_str(&w->json, name, value);
    else
        tt_str_addf(&w->out, "  %-10s %s\n", name, value);
}

// Text on one line, with escapes for control characters and U+FFFD for bytes that are
// no UTF-8, as at the end where a character may be cut.
static void say_text(work *w, const char *name, const tt_str *text)
{
    tt_str line = {0};
    for (int64_t i = 0; i < text->n;) {
        const int k = tt_utf8_read(text->text + i, text->n - i, NULL);
        const unsigned char c = (unsigned char)text->text[i];
        if (k == 0)
            tt_str_add(&line, "\xef\xbf\xbd");
        else if (!w->is_json && c == '\n')
            tt_str_add(&line, "\\n");
        else if (!w->is_json && (c < 0x20 || c == 0x7f))
            tt_str_addf(&line, "\\x%02x", c);
        else if (c != 0)
            tt_str_add_bytes(&line, text->text + i, k);
        i += k > 0 ? k : 1;
    }
    say(w, name, tt_str_text(&line));
    tt_str_fini(&line);
}

// ---- kinds ---------------------------------------------------------------

static void say_first(work *w, const int32_t *ids, int64_t n)
{
    tt_str text = {0};
    if (w->is_json)
        tt_json_open(&w->json, "first", '[');
    for (int64_t i = 0; i < n; i++) {
        if (w->is_json)
            tt_json_i64(&w->json, NULL, ids[i]);
        else
            tt_str_addf(&text, i > 0 ? " %d" : "%d", ids[i]);
    }
    if (w->is_json)
        tt_json_close(&w->json, ']');
    else
        say(w, "first", tt_str_text(&text));
    tt_str_fini(&text);
}

static tt_status inspect_ids(work *w, const tt_source *source)
{
    int32_t ids[FIRST];
    int64_t min = 0, max = 0;
    const int64_t n = source->n < FIRST ? source->n : FIRST;
    say_i64(w, "tokens", source->n);
    if (n == 0)
        return TT_OK;
    TT_TRY(tt_cmd_data_range(source, &min, &max));
    TT_TRY(tt_source_read_tokens(source, 0, n, ids));
    say_i64(w, "min", min);
    say_i64(w, "max", max);
    say_first(w, ids, n);
    if (w->tokenizer == NULL)
        return TT_OK;
    tt_str text = {0};
    const tt_status status = tt_tokenizer_decode(w->tokenizer, ids, n, &text);
    if (status == TT_OK)
        say_text(w, "text", &text);
    tt_str_fini(&text);
    return status;
}

static tt_status inspect_tokens(work *w, const char *path, const tt_sniff *s)
{
    tt_source *source = NULL;
    TT_TRY(tt_cmd_data_source(w->cli, path, s->source, w->o.dtype, &source));
    const tt_status status =
        source->kind == TT_DATA_TOKENS ? inspect_ids(w, source) : TT_OK;
    tt_source_close(source);
    return status;
}

static tt_status inspect_images(work *w, const char *path, const tt_sniff *s)
{
    tt_source *source = NULL;
    TT_TRY(tt_cmd_data_source(w->cli, path, s->source, w->o.dtype, &source));
    if (source->kind == TT_DATA_TOKENS) { // an .npz file may hold either
        const tt_status status = inspect_ids(w, source);
        tt_source_close(source);
        return status;
    }
    say_i64(w, "images", source->n);
    if (source->note != NULL)
        say(w, "note", source->note);
    if (source->classes > 0)
        say_i64(w, "classes", source->classes);
    if (source->height > 0) {
        say_i64(w, "channels", source->channels);
        say_i64(w, "height", source->height);
        say_i64(w, "width", source->width);
    }
    tt_source_close(source);
    return TT_OK;
}

static void inspect_array(work *w, const tt_sniff *s)
{
    tt_str text = {0};
    if (w->is_json)
        tt_json_open(&w->json, "shape", '[');
    for (int i = 0; i < s->ndim; i++) {
        if (w->is_json)
            tt_json_i64(&w->json, NULL, s->dim[i]);
        else
            tt_str_addf(&text, i > 0 ? " x %lld" : "%lld",
                        (long long)s->dim[i]);
    }
    if (w->is_json)
        tt_json_close(&w->json, ']');
    else
        say(w, "shape", s->ndim > 0 ? tt_str_text(&text) : "one number");
    tt_str_fini(&text);
}

static tt_status inspect_tokenizer(work *w, const char *path)
{
    tt_tokenizer *t = NULL;
    TT_TRY(tt_tokenizer_open(path, NULL, 0, &t));
    say(w, "kind", tt_tokenizer_kind(t));
    say_i64(w, "vocab", tt_tokenizer_vocab(t));
    if (tt_tokenizer_end(t) >= 0)
        say_i64(w, "end", tt_tokenizer_end(t));
    tt_tokenizer_close(t);
    return TT_OK;
}

static tt_status inspect_text(work *w, const char *text, int64_t n,
                              int64_t bytes)
{
    int64_t lines = 0, characters = 0;
    tt_ids ids = {0};
    for (int64_t i = 0; i < n; i++) {
        lines += text[i] == '\n';
        characters += ((uint8_t)text[i] & 0xc0) != 0x80;
    }
    say_i64(w, "bytes", bytes);
    say_i64(w, "characters", characters);
    say_i64(w, "lines", lines + (n > 0 && text[n - 1] != '\n'));
    if (w->tokenizer == NULL)
        return TT_OK;
    const tt_status status =
        tt_tokenizer_encode(w->tokenizer, text, n, false, &ids);
    if (status == TT_OK)
        say_i64(w, "tokens", ids.n);
    tt_ids_fini(&ids);
    return status;
}

// JSON lines: the texts that training would see.
static tt_status inspect_lines(work *w, const char *path, const tt_blob *b)
{
    tt_text_file file = {0};
    TT_TRY(tt_text_file_open(path, w->o.field, false, &file));
    say_i64(w, "documents", file.n_documents);
    const tt_status status = inspect_text(w, file.p, file.n, b->n);
    tt_text_file_close(&file);
    return status;
}

static tt_status inspect_kind(work *w, const char *path, const tt_blob *blob,
                              const tt_sniff *s)
{
    switch (s->kind) {
    case TT_SNIFF_TOKENS:
        return inspect_tokens(w, path, s);
    case TT_SNIFF_IMAGES:
        return inspect_images(w, path, s);
    case TT_SNIFF_ARRAY:
        inspect_array(w, s);
        return TT_OK;
    case TT_SNIFF_TOKENIZER:
        return inspect_tokenizer(w, path);
    case TT_SNIFF_TEXT:
        return tt_text_is_lines(path, w->o.field)
                   ? inspect_lines(w, path, blob)
                   : inspect_text(w, (const char *)blob->p, blob->n, blob->n);
    case TT_SNIFF_OTHER:
        say_i64(w, "bytes", blob->n);
        break;
    }
    return TT_OK;
}

// ---- files ---------------------------------------------------------------

static void open_entry(work *w, const char *path, const tt_sniff *s)
{
    if (w->is_json) {
        tt_json_open(&w->json, NULL, '{');
        tt_json_str(&w->json, "file", path);
        tt_json_str(&w->json, "format", s->format);
        if (s->dtype != NULL)
            tt_json_str(&w->json, "dtype", s->dtype);
    } else {
        tt_str_addf(&w->out, "%s: %s%s%s\n", path, s->format,
                    s->dtype != NULL ? ", " : "",
                    s->dtype != NULL ? s->dtype : "");
    }
}

static tt_status inspect_folder(work *w, const char *path)
{
    char other[PATH_MAX];
    tt_sniff s = {.format = "folder of images",
                  .source = "folder",
                  .kind = TT_SNIFF_IMAGES};
    static const char *const names[] = {"tokenizer.json", "vocab.json",
                                        "encoder.json"};
    for (int i = 0; i < 3; i++)
        if (snprintf(other, sizeof other, "%s/%s", path, names[i]) <
                (int)sizeof other &&
            tt_file_exists(other))
            s = (tt_sniff){.format = "tokenizer", .kind = TT_SNIFF_TOKENIZER};
    const tt_blob none = {0};
    open_entry(w, path, &s);
    TT_TRY(inspect_kind(w, path, &none, &s));
    if (w->is_json)
        tt_json_close(&w->json, '}');
    return TT_OK;
}

static tt_status inspect_file(work *w, const char *path)
{
    tt_blob blob = {0};
    tt_sniff s = {0};
    if (tt_file_is_folder(path))
        return inspect_folder(w, path);
    TT_TRY(tt_blob_open(path, &blob));
    tt_status status = tt_cmd_data_sniff(w->cli, path, &blob, &s);
    if (status == TT_OK) {
        open_entry(w, path, &s);
        status = inspect_kind(w, path, &blob, &s);
    }
    if (status == TT_OK && w->is_json)
        tt_json_close(&w->json, '}');
    tt_blob_close(&blob);
    return status;
}

static tt_status inspect_all(work *w)
{
    if (w->cli->n_words < 2)
        return tt_fail(TT_ERR_ARG,
                       "which files? `tutti data --help` says more");
    if (w->o.tokenizer[0] != '\0')
        TT_TRY(tt_tokenizer_open(w->o.tokenizer, NULL, 0, &w->tokenizer));
    tt_json_open(&w->json, NULL, '[');
    if (!w->is_json)
        tt_str_clear(&w->out);
    for (int i = 1; i < w->cli->n_words; i++)
        TT_TRY(inspect_file(w, w->cli->word[i]));
    if (w->is_json)
        tt_str_add(&w->out, "]\n");
    TT_TRY(tt_str_status(&w->out));
    fputs(tt_str_text(&w->out), stdout);
    return TT_OK;
}

tt_status tt_cmd_data_inspect(tt_cli *cli)
{
    work w = {.cli = cli, .is_json = tt_cli_has(cli, "--json")};
    TT_TRY(tt_cmd_data_options(cli, table, &w.o));
    w.json.out = &w.out;
    const tt_status status = inspect_all(&w);
    tt_tokenizer_close(w.tokenizer);
    tt_str_fini(&w.out);
    return status;
}
