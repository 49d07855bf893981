// text - plain text through a tokenizer: a file, a folder of files or a pattern,
// one behind the other.
//
// Validation is the end of the text by characters: of 1,000 with a holdout of 0.1
// training has the first 900. Either part is encoded by itself, as nanoGPT does.
// The ids are kept in memory, in as few bytes as the vocabulary needs; the text is
// not.

#include "base/alloc.h"
#include "data/files.h"
#include "data/number.h"
#include "data/source.h"
#include "data/tokenizer_stream.h"

#include <string.h>

enum { PIECE = 1 << 20 };

// The text of both splits.
typedef struct reading {
    tt_arena *arena;
    int64_t n_blobs;
    tt_blob *blob;
    const char **path; // of each
    char *joined;      // of several files
    const char *text;  // one file's, or what was joined
    int64_t n;
    int64_t n_path; // of it from data.path; the rest is from data.val
} reading;

typedef struct text {
    tt_source source;
    tt_number type;
    uint8_t *ids;
    int64_t n_ids;
    tt_file_list files;
} text;

// ---- reading -----------------------------------------------------------------

static tt_status open_files(reading *r, const tt_paths *paths)
{
    for (int64_t i = 0; i < paths->n; i++) {
        r->path[r->n_blobs] = paths->v[i];
        TT_TRY(tt_blob_open(paths->v[i], &r->blob[r->n_blobs]));
        r->n += r->blob[r->n_blobs++].n;
    }
    return TT_OK;
}

static tt_status join(reading *r)
{
    if (r->n_blobs == 1) {
        r->text = (const char *)r->blob[0].p;
        return TT_OK;
    }
    r->joined = tt_alloc(r->n);
    if (r->joined == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld bytes of text",
                       (long long)r->n);
    int64_t at = 0;
    for (int64_t i = 0; i < r->n_blobs; i++) {
        if (r->blob[i].n > 0)
            memcpy(r->joined + at, r->blob[i].p, (size_t)r->blob[i].n);
        at += r->blob[i].n;
        tt_blob_close(&r->blob[i]);
    }
    r->text = r->joined;
    return TT_OK;
}

// Characters come from both splits, so both are read for either; a tokenizer that
// is there already needs only its own.
static bool reads_path(const tt_source_request *request)
{
    const char *spec = request->tokenizer;
    return request->split == TT_SPLIT_TRAIN || request->val[0] == '\0' ||
           spec[0] == '\0' || strcmp(spec, "chars") == 0;
}

static tt_status read_text(reading *r, const tt_source_request *request)
{
    tt_paths path = {0}, val = {0};
    r->arena = tt_arena_create();
    if (r->arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a source");
    if (reads_path(request))
        TT_TRY(tt_paths_find("data.path", request->path, r->arena, &path));
    if (request->val[0] != '\0')
        TT_TRY(tt_paths_find("data.val", request->val, r->arena, &val));
    r->blob =
        tt_arena_alloc(r->arena, (path.n + val.n) * (int64_t)sizeof *r->blob);
    r->path =
        tt_arena_alloc(r->arena, (path.n + val.n) * (int64_t)sizeof *r->path);
    if (r->blob == NULL || r->path == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(open_files(r, &path));
    r->n_path = r->n;
    TT_TRY(open_files(r, &val));
    if (r->n == 0)
        return tt_fail(TT_ERR_ARG, "%s: it is empty",
                       path.n > 0 ? request->path : request->val);
    return join(r);
}

static void end_reading(reading *r)
{
    for (int64_t i = 0; i < r->n_blobs; i++)
        tt_blob_close(&r->blob[i]);
    tt_free(r->joined);
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

static tt_number type_for(int64_t vocab)
{
    const int bytes = vocab <= 1 << 8 ? 1 : vocab <= 1 << 16 ? 2 : 4;
    return (tt_number){'u', bytes, false};
}

static tt_status append(text *t, const tt_ids *ids)
{
    const int64_t bytes = t->type.bytes;
    uint8_t *grown =
        tt_realloc(t->ids, t->n_ids * bytes, (t->n_ids + ids->n) * bytes);
    if (grown == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld tokens",
                       (long long)(t->n_ids + ids->n));
    t->ids = grown;
    uint8_t *to = grown + t->n_ids * bytes;
    for (int64_t i = 0; i < ids->n; i++, to += bytes)
        memcpy(to, &ids->v[i], (size_t)bytes); // the low ones come first
    t->n_ids += ids->n;
    return TT_OK;
}

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

static tt_status keep_names(text *t, const reading *r)
{
    for (int64_t i = 0; i < r->n_blobs; i++)
        TT_TRY(tt_file_list_add(&t->files, r->path[i]));
    return TT_OK;
}

static tt_status fill(text *t, const tt_source_request *request, reading *r)
{
    const char *spec =
        request->tokenizer[0] != '\0' ? request->tokenizer : "chars";
    int64_t from = 0, to = 0;
    TT_TRY(read_text(r, request));
    TT_TRY(keep_names(t, r));
    find_part(r, request, &from, &to);
    TT_TRY(tt_tokenizer_open(spec, r->text, r->n, &t->source.tokenizer));
    t->source.classes = tt_tokenizer_vocab(t->source.tokenizer);
    t->type = type_for(t->source.classes);
    TT_TRY(encode(t, r->text + from, to - from));
    t->source.n = t->n_ids;
    return TT_OK;
}

// ---- the source ----------------------------------------------------------------

static void close_source(tt_source *source)
{
    text *t = (text *)source;
    tt_tokenizer_close(source->tokenizer);
    tt_file_list_fini(&t->files);
    tt_free(t->ids);
    tt_free(t);
}

extern const tt_source_def tt_source_text;

static tt_status open_source(const tt_source_request *request,
                             const void *params, tt_source **source_out)
{
    reading r = {0};
    (void)params;
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

const tt_source_def tt_source_text = {
    .name = "text",
    .doc = "Plain text: a file, a folder of files, or a pattern.",
    .open = open_source,
    .close = close_source,
    .tokens = tokens,
    .files = files,
};
