// text - text through a tokenizer: a file, a folder of files or a pattern, one after
// the other; plain, or a member of JSON lines; packed with gzip or not.
//
// Validation is the end of the text by characters: of 1,000 with a holdout of 0.1
// training has the first 900. Either part is encoded by itself, as nanoGPT does.
// Lines of JSON are documents: each is encoded by itself and followed by the
// tokenizer's end of text, or by a line break where it has none. The ids are kept in
// memory, in as few bytes as the vocabulary needs; the text is not.

#include "base/alloc.h"
#include "data/number.h"
#include "data/source/source.h"
#include "data/source/text_file.h"
#include "data/tokenizer/tokenizer_stream.h"

#include <stddef.h>
#include <string.h>

enum { PIECE = 1 << 20 };

typedef struct params {
    const char *field;
} params;

// The text of both splits.
typedef struct reading {
    tt_arena *arena;
    const char *field;
    tt_tokenizer *tokenizer; // NULL: it comes from the text
    int64_t n_files;
    tt_text_file *file;
    const char **path; // of each
    char *joined;      // of several files
    const char *text;  // one file's, or what was joined
    int64_t n;
    int64_t n_path;      // of it from data.path; the rest is from data.val
    int64_t n_documents; // 0: there are no lines of JSON
    int64_t *end;        // of each document in the text
} reading;

typedef struct text {
    tt_source source;
    tt_number type;
    uint8_t *ids;
    int64_t n_ids, capacity;
    int64_t *end; // of documents, in ids
    tt_file_list files;
} text;

// ---- reading -----------------------------------------------------------------

static bool has_breaks(const reading *r)
{
    return r->tokenizer == NULL || tt_tokenizer_end(r->tokenizer) < 0;
}

static tt_status open_files(reading *r, const tt_paths *paths)
{
    for (int64_t i = 0; i < paths->n; i++) {
        tt_text_file *f = &r->file[r->n_files];
        r->path[r->n_files] = paths->v[i];
        TT_TRY(tt_text_file_open(paths->v[i], r->field, has_breaks(r), f));
        r->n_files++;
        r->n += f->n;
        r->n_documents += f->n_documents;
    }
    return TT_OK;
}

static tt_status join(reading *r)
{
    if (r->n_files == 1) {
        r->text = r->file[0].p;
        return TT_OK;
    }
    r->joined = tt_alloc(r->n);
    if (r->joined == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld bytes of text",
                       (long long)r->n);
    int64_t at = 0;
    for (int64_t i = 0; i < r->n_files; i++) {
        if (r->file[i].n > 0)
            memcpy(r->joined + at, r->file[i].p, (size_t)r->file[i].n);
        at += r->file[i].n;
        tt_text_file_close(&r->file[i]);
    }
    r->text = r->joined;
    return TT_OK;
}

// Where documents end. Beside lines of JSON a plain file is one document.
static tt_status find_documents(reading *r)
{
    int64_t at = 0, n = 0;
    if (r->n_documents == 0)
        return TT_OK;
    r->end = tt_alloc((r->n_documents + r->n_files) * (int64_t)sizeof *r->end);
    if (r->end == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a list of documents");
    for (int64_t i = 0; i < r->n_files; i++) {
        const tt_text_file *f = &r->file[i];
        for (int64_t k = 0; k < f->n_documents; k++)
            r->end[n++] = at + f->end[k];
        at += f->n;
        if (f->n_documents == 0 && f->n > 0)
            r->end[n++] = at;
    }
    r->n_documents = n;
    return TT_OK;
}

// Characters come from both splits, so both are read for either; a tokenizer that
// is there already needs only its own.
static bool is_from_text(const tt_source_request *request)
{
    const char *spec = request->tokenizer;
    return spec[0] == '\0' || strcmp(spec, "chars") == 0;
}

static bool reads_path(const tt_source_request *request)
{
    return request->split == TT_SPLIT_TRAIN || request->val[0] == '\0' ||
           is_from_text(request);
}

static tt_status find_files(reading *r, const tt_source_request *request,
                            tt_paths *path, tt_paths *val)
{
    if (reads_path(request))
        TT_TRY(tt_paths_find("data.path", request->path, r->arena, path));
    if (request->val[0] != '\0')
        TT_TRY(tt_paths_find("data.val", request->val, r->arena, val));
    const int64_t n = path->n + val->n;
    r->file = tt_arena_alloc(r->arena, n * (int64_t)sizeof *r->file);
    r->path = tt_arena_alloc(r->arena, n * (int64_t)sizeof *r->path);
    return r->file != NULL && r->path != NULL ? TT_OK : TT_ERR_NOMEM;
}

static tt_status read_text(reading *r, const tt_source_request *request)
{
    tt_paths path = {0}, val = {0};
    TT_TRY(find_files(r, request, &path, &val));
    TT_TRY(open_files(r, &path));
    r->n_path = r->n;
    TT_TRY(open_files(r, &val));
    if (r->n == 0)
        return tt_fail(TT_ERR_ARG, "%s: it is empty",
                       path.n > 0 ? request->path : request->val);
    TT_TRY(find_documents(r));
    return join(r);
}

static void end_reading(reading *r)
{
    for (int64_t i = 0; i < r->n_files; i++)
        tt_text_file_close(&r->file[i]);
    tt_free(r->joined);
    tt_free(r->end);
    tt_arena_destroy(r->arena);
}

// ---- splitting ---------------------------------------------------------------

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

// Where character number `want` begins; the end when there are not as many.
static int64_t find_character(const char *bytes, int64_t n, int64_t want)
{
    int64_t i = 0;
    for (int64_t seen = 0; i < n; i++) {
        seen += begins_character(bytes[i]);
        if (seen > want)
            break;
    }
    return i;
}

// The border between the splits is counted in characters, not bytes, as Python counts;
// so nanoGPT's splits are the same.
static void find_part(const reading *r, const tt_source_request *request,
                      int64_t *from_out, int64_t *to_out)
{
    const bool is_train = request->split == TT_SPLIT_TRAIN;
    int64_t border = r->n_path, end = r->n;
    if (request->val[0] == '\0') {
        int64_t n = 0, first = 0, n_train = 0;
        for (int64_t i = 0; i < r->n; i++)
            n += begins_character(r->text[i]);
        tt_source_request train = *request;
        train.split = TT_SPLIT_TRAIN;
        tt_source_part(&train, n, &first, &n_train);
        border = find_character(r->text, r->n, n_train);
    }
    *from_out = is_train ? 0 : border;
    *to_out = is_train ? border : end;
}

// ---- encoding ----------------------------------------------------------------

// A vocabulary of characters fits into one byte per token, GPT-2's into two.
static tt_number type_for(int64_t vocab)
{
    const int bytes = vocab <= 1 << 8 ? 1 : vocab <= 1 << 16 ? 2 : 4;
    return (tt_number){'u', bytes, false};
}

static tt_status resize(text *t, int64_t capacity)
{
    const int64_t bytes = t->type.bytes;
    uint8_t *ids = tt_realloc(t->ids, t->capacity * bytes, capacity * bytes);
    if (ids == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld tokens",
                       (long long)capacity);
    t->ids = ids;
    t->capacity = capacity;
    return TT_OK;
}

static tt_status append(text *t, const tt_ids *ids)
{
    const int64_t bytes = t->type.bytes;
    if (t->n_ids + ids->n > t->capacity)
        TT_TRY(resize(t, t->n_ids + ids->n + t->capacity / 4));
    uint8_t *to = t->ids + t->n_ids * bytes;
    for (int64_t i = 0; i < ids->n; i++, to += bytes)
        memcpy(to, &ids->v[i], (size_t)bytes); // the low ones come first
    t->n_ids += ids->n;
    return TT_OK;
}

// Piece by piece, so that the 32-bit ids of the whole text are never in memory at once.
static tt_status encode(text *t, const char *bytes, int64_t n)
{
    tt_ids ids = {0};
    tt_encoder *encoder = NULL;
    bool has_more = true;
    tt_status status =
        tt_encoder_open(t->source.tokenizer, bytes, n, false, &encoder);
    while (status == TT_OK && has_more) {
        ids.n = 0;
        status = tt_encoder_next(encoder, PIECE, &ids, &has_more);
        if (status == TT_OK && ids.n > 0)
            status = append(t, &ids);
    }
    tt_encoder_close(encoder);
    tt_ids_fini(&ids);
    return status;
}

// One document after the other, as far as they are between two bytes of the text.
static tt_status encode_documents(text *t, const reading *r, int64_t from,
                                  int64_t to)
{
    const int32_t end = tt_tokenizer_end(t->source.tokenizer);
    int64_t begin = 0;
    t->end = tt_alloc(r->n_documents * (int64_t)sizeof *t->end);
    t->source.document_end = t->end;
    if (t->end == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a list of documents");
    for (int64_t i = 0; i < r->n_documents && begin < to; i++) {
        const int64_t a = begin > from ? begin : from;
        const int64_t b = r->end[i] < to ? r->end[i] : to;
        begin = r->end[i];
        if (a >= b)
            continue;
        TT_TRY(encode(t, r->text + a, b - a));
        if (end >= 0 && b == r->end[i])
            TT_TRY(append(t, &(tt_ids){.v = (int32_t[]){end}, .n = 1}));
        t->end[t->source.n_documents++] = t->n_ids;
    }
    return TT_OK;
}

static tt_status keep_names(text *t, const reading *r)
{
    for (int64_t i = 0; i < r->n_files; i++)
        TT_TRY(tt_file_list_add(&t->files, r->path[i]));
    return TT_OK;
}

// A tokenizer that does not come from the text is opened first: it says how
// documents end.
static tt_status open_tokenizer(text *t, const tt_source_request *request,
                                reading *r)
{
    r->arena = tt_arena_create();
    if (r->arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a source");
    if (is_from_text(request)) {
        TT_TRY(read_text(r, request));
        return tt_tokenizer_open("chars", r->text, r->n, &t->source.tokenizer);
    }
    TT_TRY(
        tt_tokenizer_open(request->tokenizer, NULL, 0, &t->source.tokenizer));
    r->tokenizer = t->source.tokenizer;
    return read_text(r, request);
}

static tt_status fill(text *t, const tt_source_request *request, reading *r)
{
    int64_t from = 0, to = 0;
    TT_TRY(open_tokenizer(t, request, r));
    TT_TRY(keep_names(t, r));
    find_part(r, request, &from, &to);
    t->source.classes = tt_tokenizer_vocab(t->source.tokenizer);
    t->source.is_text = true;
    t->type = type_for(t->source.classes);
    TT_TRY(r->n_documents > 0 ? encode_documents(t, r, from, to)
                              : encode(t, r->text + from, to - from));
    t->source.n = t->n_ids;
    return t->n_ids > 0 ? resize(t, t->n_ids) : TT_OK;
}

// ---- the source ----------------------------------------------------------------

static void close_source(tt_source *source)
{
    text *t = (text *)source;
    tt_tokenizer_close(source->tokenizer);
    tt_file_list_fini(&t->files);
    tt_free(t->ids);
    tt_free(t->end);
    tt_free(t);
}

extern const tt_source_def tt_source_text;

static tt_status open_source(const tt_source_request *request,
                             const void *params_, tt_source **source_out)
{
    const params *p = params_;
    reading r = {.field = p->field};
    text *t = tt_alloc(sizeof *t);
    if (t == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a source");
    t->source.def = &tt_source_text;
    t->source.kind = TT_DATA_TOKENS;
    const tt_status status = fill(t, request, &r);
    end_reading(&r);
    if (status != TT_OK) {
        close_source(&t->source);
        return status;
    }
    *source_out = &t->source;
    return TT_OK;
}

static tt_status tokens(const tt_source *source, int64_t first, int64_t n,
                        int32_t *out)
{
    const text *t = (const text *)source;
    int64_t bad = 0;
    return tt_number_to_i32(t->type, t->ids + first * t->type.bytes, n, out,
                            &bad);
}

static tt_status files(const tt_source *source, tt_file_list *list)
{
    const text *t = (const text *)source;
    for (int64_t i = 0; i < t->files.n; i++)
        TT_TRY(tt_file_list_add(list, tt_file_list_at(&t->files, i)));
    return TT_OK;
}

static const tt_opt options[] = {
    {"field", "",
     "the files are JSON lines and this member is the text; without it only "
     "*.jsonl are, and it is \"text\"",
     TT_OPT_STR, offsetof(params, field)},
    {0},
};

const tt_source_def tt_source_text = {
    .name = "text",
    .doc = "Text or JSON lines, .gz or not: a file, a folder, or a pattern.",
    .options = options,
    .params_bytes = sizeof(params),
    .open = open_source,
    .close = close_source,
    .tokens = tokens,
    .files = files,
};
