// text_file - opening, and reading lines of JSON. Documents are copied one
// after another: they never need more than the lines they came from.

#include "data/source/text_file.h"

#include "base/alloc.h"
#include "base/json_read.h"
#include "base/str.h"
#include "data/format.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 5 };

bool tt_text_is_lines(const char *path, const char *field)
{
    static const char *const ends[] = {".jsonl", ".ndjson", ".jsonl.gz",
                                       ".ndjson.gz"};
    bool is_lines = field[0] != '\0';
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        is_lines = is_lines || tt_path_ends(path, ends[i]);
    return is_lines;
}

// ---- lines -------------------------------------------------------------------

typedef struct lines {
    const char *path, *field;
    bool has_breaks;
    int64_t line; // from 1 on
    int64_t capacity;
    tt_text_file *file;
} lines;

// "text:1:17: expected ..." without its beginning: a line is all there is.
static tt_status not_json(const lines *l)
{
    char why[256];
    const char *message = tt_error_message();
    const char *place = strncmp(message, "text:1:", 7) == 0 ? message + 7 : "";
    snprintf(why, sizeof why, "%s", place[0] != '\0' ? place : message);
    return tt_fail(TT_ERR_ARG, "%s: line %lld is not JSON: %s%s", l->path,
                   (long long)l->line, place[0] != '\0' ? "column " : "", why);
}

static tt_status missing(const lines *l, const tt_json_value *object)
{
    tt_str names = {0};
    int n = 0;
    for (const tt_json_value *v = object->first; v != NULL && n <= SHOWN;
         v = v->next, n++)
        tt_str_addf(&names, "%s%s", n > 0 ? ", " : "",
                    n < SHOWN ? v->key : "...");
    (void)tt_fail(TT_ERR_ARG,
                  "%s: line %lld has no \"%s\"; set data.field to one of its "
                  "members: %s",
                  l->path, (long long)l->line, l->field,
                  n > 0 ? tt_str_text(&names) : "it has none");
    tt_str_fini(&names);
    return TT_ERR_ARG;
}

// The member of that name, or a member of a member where the name has dots.
static const tt_json_value *find(const tt_json_value *object, const char *name)
{
    char first[128];
    const tt_json_value *found = tt_json_get(object, name);
    const char *dot = strchr(name, '.');
    if (found != NULL || dot == NULL || dot - name >= (int)sizeof first)
        return found;
    snprintf(first, sizeof first, "%.*s", (int)(dot - name), name);
    object = tt_json_get(object, first);
    return object != NULL ? find(object, dot + 1) : NULL;
}

static tt_status add_document(lines *l, const tt_json_value *text)
{
    tt_text_file *f = l->file;
    if (f->n_documents == l->capacity) {
        const int64_t more = l->capacity == 0 ? 64 : 2 * l->capacity;
        int64_t *end = tt_realloc(f->end, l->capacity * (int64_t)sizeof *end,
                                  more * (int64_t)sizeof *end);
        if (end == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for the documents of %s",
                           l->path);
        f->end = end;
        l->capacity = more;
    }
    memcpy(f->memory + f->n, text->text, (size_t)text->n);
    f->n += text->n;
    if (l->has_breaks)
        f->memory[f->n++] = '\n';
    f->end[f->n_documents++] = f->n;
    return TT_OK;
}

static tt_status read_line(lines *l, const char *line, int64_t n,
                           tt_arena *arena)
{
    const tt_json_value *root = NULL;
    const tt_status status = tt_json_read(line, n, "text", arena, &root);
    if (status != TT_OK)
        return status == TT_ERR_ARG ? not_json(l) : status;
    if (root->type != TT_JSON_OBJECT)
        return tt_fail(TT_ERR_ARG,
                       "%s: line %lld is no object, as {\"%s\": ...}; of an "
                       "array `jq -c '.[]'` makes lines",
                       l->path, (long long)l->line, l->field);
    const tt_json_value *text = find(root, l->field);
    if (text == NULL)
        return missing(l, root);
    if (text->type != TT_JSON_STRING)
        return tt_fail(TT_ERR_ARG, "%s: \"%s\" of line %lld is no text",
                       l->path, l->field, (long long)l->line);
    return add_document(l, text);
}

static bool is_blank(const char *line, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static tt_status read_lines(lines *l, const char *p, int64_t n)
{
    l->file->memory = tt_alloc(n + 1);
    if (l->file->memory == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld bytes of text",
                       (long long)n);
    for (int64_t at = 0; at < n;) {
        const char *end = memchr(p + at, '\n', (size_t)(n - at));
        const int64_t length = end != NULL ? end - p - at : n - at;
        l->line++;
        if (!is_blank(p + at, length)) {
            tt_arena *arena = tt_arena_create();
            const tt_status status =
                arena == NULL ? tt_fail(TT_ERR_NOMEM, "no memory for a line")
                              : read_line(l, p + at, length, arena);
            tt_arena_destroy(arena);
            TT_TRY(status);
        }
        at += length + 1;
    }
    return TT_OK;
}

// ---- files -------------------------------------------------------------------

static tt_status open_file(const char *path, const char *field, bool has_breaks,
                           tt_text_file *f)
{
    TT_TRY(tt_blob_open(path, &f->blob));
    const tt_status status = tt_blob_unpack(&f->blob);
    if (status != TT_OK)
        return tt_fail_context(status, "%s", path);
    TT_TRY(tt_format_refuse(path, f->blob.p, f->blob.n, "text"));
    const char *p = (const char *)f->blob.p;
    int64_t n = f->blob.n;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
        p += 3;
        n -= 3;
    }
    if (!tt_text_is_lines(path, field)) {
        f->p = p;
        f->n = n;
        return TT_OK;
    }
    lines l = {.path = path,
               .field = field[0] != '\0' ? field : "text",
               .has_breaks = has_breaks,
               .file = f};
    TT_TRY(read_lines(&l, p, n));
    tt_blob_close(&f->blob);
    f->p = f->memory;
    return TT_OK;
}

tt_status tt_text_file_open(const char *path, const char *field,
                            bool has_breaks, tt_text_file *file_out)
{
    tt_text_file file = {0};
    const tt_status status = open_file(path, field, has_breaks, &file);
    if (status != TT_OK) {
        tt_text_file_close(&file);
        return status;
    }
    *file_out = file;
    return TT_OK;
}

void tt_text_file_close(tt_text_file *file)
{
    tt_blob_close(&file->blob);
    tt_free(file->memory);
    tt_free(file->end);
    *file = (tt_text_file){0};
}
