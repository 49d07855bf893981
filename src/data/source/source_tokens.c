// tokens - shards of token ids: those of llm.c and nanoGPT's plain uint16.
//
//   llm.c     256 int32: magic, version, count, zeros; then the ids
//             20240520, version 1: uint16      20240801, version 7: uint32
//   plain     ids alone, of data.dtype; meta.pkl beside them says the vocabulary
//
// Files are mapped. Shards are one stream, in the order of their names. In a
// folder files named *val*.bin are for validation and the other *.bin for training.
//
// A plain file has no header, so any file could be one. Text and other formats are
// recognised and refused, as are llm.c's files that hold something else than tokens.

#include "base/alloc.h"
#include "base/file.h"
#include "base/utf8.h"
#include "data/files.h"
#include "data/format.h"
#include "data/number.h"
#include "data/source/nanogpt_meta.h"
#include "data/source/source.h"
#include "data/source/source_tokenizer.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

enum { HEADER_BYTES = 1024 };

typedef struct params {
    int dtype;
} params;

static const tt_number dtypes[] = {
    {'u', 2, false}, {'u', 2, false}, {'u', 4, false},
    {'i', 4, false}, {'u', 1, false},
};
static const char dtype_names[] = "auto|u16|u32|i32|u8";

typedef struct shard {
    const char *path;
    tt_blob blob;
    const uint8_t *ids;
    int64_t n;
    int64_t first; // place in the stream
    tt_number type;
} shard;

typedef struct shards {
    tt_source source;
    tt_arena *arena;
    int64_t n;
    shard *v;
    int64_t first; // token of all shards that is the stream's first
} shards;

// What llm.c writes, by magic.
static const struct known {
    int32_t magic, version;
    tt_number type;
    const char *what; // of one that has no tokens
} known[] = {
    {20240520, 1, {'u', 2, false}, NULL},
    {20240801, 7, {'u', 4, false}, NULL},
    {20240522, 1, {0}, "multiple-choice examples"},
    {20240326, 3, {0}, "a model"},
    {20240326, 5, {0}, "a model"},
    {20240327, 2, {0}, "debug state"},
    {20240328, 2, {0}, "a tokenizer"},
    {20240527, 1, {0}, "optimiser state"},
};

static const struct known *recognise(const tt_blob *blob)
{
    if (blob->n < HEADER_BYTES)
        return NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (tt_u32_at(blob->p) == (uint32_t)known[i].magic)
            return &known[i];
    return NULL;
}

static tt_status read_header(shard *s, const struct known *k)
{
    const uint32_t version = tt_u32_at(s->blob.p + 4);
    const int64_t n = (int32_t)tt_u32_at(s->blob.p + 8);
    if (k->what != NULL)
        return tt_fail(TT_ERR_ARG, "an llm.c file that holds %s, not tokens",
                       k->what);
    if (version != (uint32_t)k->version)
        return tt_fail(TT_ERR_ARG,
                       "an llm.c file of version %u; only version %d is known",
                       version, k->version);
    if (n < 0 || s->blob.n != HEADER_BYTES + n * k->type.bytes)
        return tt_fail(TT_ERR_ARG,
                       "an llm.c file that says it holds %lld tokens, which "
                       "would be %lld bytes; it has %lld",
                       (long long)n,
                       (long long)(HEADER_BYTES + n * k->type.bytes),
                       (long long)s->blob.n);
    s->ids = s->blob.p + HEADER_BYTES;
    s->n = n;
    s->type = k->type;
    return TT_OK;
}

static tt_status read_plain(shard *s, int dtype)
{
    s->type = dtypes[dtype];
    if (s->blob.n % s->type.bytes != 0)
        return tt_fail(TT_ERR_ARG,
                       "%lld bytes are no whole number of ids of %d bytes; is "
                       "it no token file, or is data.dtype another?",
                       (long long)s->blob.n, s->type.bytes);
    s->ids = s->blob.p;
    s->n = s->blob.n / s->type.bytes;
    return TT_OK;
}

enum { TEXT_LEAST = 256, TEXT_LOOK = 1 << 16 };

// Ids of 2 bytes would all be above 8,000 to look like this.
static bool looks_like_text(const tt_blob *blob)
{
    const int64_t n = blob->n < TEXT_LOOK ? blob->n : TEXT_LOOK;
    const uint8_t *byte = blob->p;
    for (int64_t i = 0; i < n; i++)
        if (byte[i] < ' ' && !isspace(byte[i]))
            return false;
    // A character may be cut at the end of what was looked at.
    return n >= TEXT_LEAST && tt_utf8_valid((const char *)byte, n) > n - 4;
}

static tt_status check_is_no_text(const shard *s)
{
    return looks_like_text(&s->blob)
               ? tt_fail(TT_ERR_ARG, "this is text, not token ids; data=text "
                                     "reads it, and data.dtype=u16 would take "
                                     "its bytes for ids")
               : TT_OK;
}

static tt_status open_shard(shard *s, int dtype)
{
    TT_TRY(tt_blob_open(s->path, &s->blob));
    const struct known *k = dtype == 0 ? recognise(&s->blob) : NULL;
    if (dtype == 0 && k == NULL)
        TT_TRY(tt_format_refuse(s->path, s->blob.p, s->blob.n, "token ids"));
    tt_status status = dtype == 0 && k == NULL ? check_is_no_text(s) : TT_OK;
    if (status == TT_OK)
        status = k != NULL ? read_header(s, k) : read_plain(s, dtype);
    return status == TT_OK ? TT_OK : tt_fail_context(status, "%s", s->path);
}

// "val", not as a part of another word.
static bool is_val(const char *path)
{
    const char *base = tt_path_base(path);
    for (const char *p = strstr(base, "val"); p != NULL;
         p = strstr(p + 1, "val"))
        if (p == base || !isalpha((unsigned char)p[-1]))
            return true;
    return false;
}

// Leaves what belongs to the split when a folder was named.
static tt_status choose(const char *folder, bool wants_val, tt_paths *paths)
{
    int64_t n = 0;
    for (int64_t i = 0; i < paths->n; i++)
        if (tt_path_ends(paths->v[i], ".bin") &&
            is_val(paths->v[i]) == wants_val)
            paths->v[n++] = paths->v[i];
    paths->n = n;
    if (n == 0 && !wants_val)
        return tt_fail(TT_ERR_ARG, "%s: there are no *.bin files to train on",
                       folder);
    return TT_OK;
}

static tt_status open_all(shards *s, const tt_paths *paths, int dtype)
{
    s->v = tt_arena_alloc(s->arena, paths->n * (int64_t)sizeof *s->v);
    if (s->v == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < paths->n; i++) {
        shard *one = &s->v[s->n++];
        one->path = paths->v[i];
        one->first = s->source.n;
        TT_TRY(open_shard(one, dtype));
        s->source.n += one->n;
    }
    return TT_OK;
}

// Which files a split has, and whether the end of them is held out.
static tt_status find(const tt_source_request *r, tt_arena *arena,
                      tt_paths *paths, bool *is_cut_out)
{
    const bool is_val_split = r->split == TT_SPLIT_VAL;
    *is_cut_out = false;
    if (is_val_split && r->val[0] != '\0')
        return tt_paths_find("data.val", r->val, arena, paths);
    TT_TRY(tt_paths_find("data.path", r->path, arena, paths));
    if (!tt_file_is_folder(r->path)) {
        *is_cut_out = r->val[0] == '\0';
        return TT_OK;
    }
    bool has_val = r->val[0] != '\0';
    for (int64_t i = 0; i < paths->n; i++)
        has_val = has_val ||
                  (tt_path_ends(paths->v[i], ".bin") && is_val(paths->v[i]));
    *is_cut_out = !has_val;
    return choose(r->path, is_val_split && has_val, paths);
}

static tt_status fill(shards *s, const tt_source_request *request, int dtype)
{
    tt_paths paths = {0};
    bool is_cut = false;
    TT_TRY(find(request, s->arena, &paths, &is_cut));
    TT_TRY(open_all(s, &paths, dtype));
    s->source.classes = tt__nanogpt_vocab(s->v[0].path);
    TT_TRY(tt__source_tokenizer(request, s->v[0].path, s->arena, &s->source));
    if (is_cut)
        tt_source_part(request, s->source.n, &s->first, &s->source.n);
    return TT_OK;
}

static void close_source(tt_source *source)
{
    shards *s = (shards *)source;
    for (int64_t i = 0; i < s->n; i++)
        tt_blob_close(&s->v[i].blob);
    tt_tokenizer_close(source->tokenizer);
    tt_arena_destroy(s->arena);
    tt_free(s);
}

extern const tt_source_def tt_source_tokens;

static tt_status open_source(const tt_source_request *request,
                             const void *params_, tt_source **source_out)
{
    const params *p = params_;
    tt_status status = TT_ERR_NOMEM;
    shards *s = tt_alloc(sizeof *s);
    if (s == NULL)
        return tt_fail(status, "no memory for a source");
    s->source.def = &tt_source_tokens;
    s->source.kind = TT_DATA_TOKENS;
    s->arena = tt_arena_create();
    if (s->arena == NULL)
        (void)tt_fail(status, "no memory for a source");
    else
        status = fill(s, request, p->dtype);
    if (status != TT_OK) {
        close_source(&s->source);
        return status;
    }
    *source_out = &s->source;
    return TT_OK;
}

// The shard that holds token `at` of all.
static const shard *shard_of(const shards *s, int64_t at)
{
    int64_t low = 0, high = s->n;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (s->v[middle].first <= at)
            low = middle;
        else
            high = middle;
    }
    return &s->v[low];
}

static tt_status read_part(const shard *one, int64_t at, int64_t n,
                           int32_t *out)
{
    int64_t bad = 0;
    const tt_status status = tt_number_to_i32(
        one->type, one->ids + at * one->type.bytes, n, out, &bad);
    if (status != TT_OK)
        return tt_fail(status, "%s: token %lld is no id: it is above 2^31",
                       one->path, (long long)(at + bad));
    return TT_OK;
}

static tt_status tokens(const tt_source *source, int64_t first, int64_t n,
                        int32_t *out)
{
    const shards *s = (const shards *)source;
    const int64_t start = s->first + first;
    for (int64_t done = 0; done < n;) {
        const shard *one = shard_of(s, start + done);
        const int64_t at = start + done - one->first;
        const int64_t left = one->n - at;
        const int64_t part = left < n - done ? left : n - done;
        TT_TRY(tt_blob_check(&one->blob));
        TT_TRY(read_part(one, at, part, out + done));
        done += part;
    }
    return TT_OK;
}

static tt_status files(const tt_source *source, tt_file_list *list)
{
    const shards *s = (const shards *)source;
    for (int64_t i = 0; i < s->n; i++)
        TT_TRY(tt_file_list_add(list, s->v[i].path));
    return TT_OK;
}

static const tt_opt options[] = {
    {"dtype", "auto", "ids of files without a header; auto: u16", TT_OPT_CHOICE,
     offsetof(params, dtype), dtype_names},
    {0},
};

const tt_source_def tt_source_tokens = {
    .name = "tokens",
    .doc = "Token shards of llm.c (both kinds), and nanoGPT's plain uint16.",
    .options = options,
    .params_bytes = sizeof(params),
    .open = open_source,
    .close = close_source,
    .tokens = tokens,
    .files = files,
};
