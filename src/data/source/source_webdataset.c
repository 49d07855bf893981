// webdataset - images in tar shards.
//
// Adjacent members whose paths agree up to the first dot of the last name are one
// sample: KEY.jpg (or what else decode.h names) is its image. KEY.cls is its class, a
// decimal number; without it that is "label", "class", "cls" or "target" of KEY.json,
// or the number in KEY.txt. Where there is no such member, one with more dots will do:
// KEY.left.jpg. Other members are not looked at. The folder of KEY is a user's, for those who
// ask (exchange.split=user).
//
// WebDataset reads shards from front to back and shuffles in a buffer. Here any sample
// can be read at any time, since the order is a function of the position (order.h).
// For that, opening walks all headers and reads the classes; of each sample 40 bytes
// and its name are kept. Validation is data.val, or the last part of all samples.
// Shards are opened for every image, so there may be any number of them; those that
// are packed (.tar.gz) are unpacked into memory.

#include "base/alloc.h"
#include "base/json_read.h"
#include "data/files.h"
#include "data/image/decode.h"
#include "data/image/decode_file.h"
#include "data/source/tar.h"
#include "data/source/tar_shards.h"

#include <string.h>
#include <strings.h>

enum { MAX_CLASS = 1 << 24, MAX_LABEL = 1 << 20 };

// Of all packed shards together.
static const int64_t max_unpacked = (int64_t)2 << 30;

typedef struct sample {
    int64_t offset, bytes; // of the image
    int64_t name;          // in `names`
    int32_t shard, label;
} sample;

typedef struct webdataset {
    tt_source source;
    tt_file_list shards;
    tt_blob *unpacked;    // [shards]: those that are packed
    int64_t unpacked_all; // bytes of them
    tt_str names;
    sample *v;
    int64_t n, capacity, first; // the split begins at `first`
} webdataset;

static void close_source(tt_source *source)
{
    webdataset *w = (webdataset *)source;
    for (int64_t i = 0; w->unpacked != NULL && i < w->shards.n; i++)
        tt_blob_close(&w->unpacked[i]);
    tt_free(w->unpacked);
    tt_file_list_fini(&w->shards);
    tt_str_fini(&w->names);
    tt_free(w->v);
    tt_free(w);
}

static tt_status read_encoded(const tt_source *source, int64_t index,
                              tt_encoded *out)
{
    const webdataset *w = (const webdataset *)source;
    const sample *s = &w->v[w->first + index];
    const tt_blob *blob = &w->unpacked[s->shard];
    if (blob->p != NULL) {
        TT_TRY(tt_blob_check(blob));
        out->bytes = tt_alloc(s->bytes + 1);
        if (out->bytes == NULL)
            return tt_fail(TT_ERR_NOMEM, "there is no memory for an image");
        memcpy(out->bytes, blob->p + s->offset, (size_t)s->bytes);
        out->n = s->bytes;
        return TT_OK;
    }
    return tt_encoded_read(tt_file_list_at(&w->shards, s->shard), s->offset,
                           s->bytes, out);
}

static tt_status blame(const tt_source *source, int64_t index, tt_status status)
{
    const webdataset *w = (const webdataset *)source;
    const sample *s = &w->v[w->first + index];
    return tt_fail_context(status, "%s: sample %s",
                           tt_file_list_at(&w->shards, s->shard),
                           w->names.text + s->name);
}

static tt_status image(const tt_source *source, int64_t index, tt_image *out,
                       int32_t *label_out)
{
    const webdataset *w = (const webdataset *)source;
    TT_TRY(tt_encoded_image(read_encoded, source, index, out));
    *label_out = w->v[w->first + index].label;
    return TT_OK;
}

// Of USER/KEY.jpg.
static const char *user(const tt_source *source, int64_t index,
                        int64_t *bytes_out)
{
    const webdataset *w = (const webdataset *)source;
    const char *name = w->names.text + w->v[w->first + index].name;
    name += strncmp(name, "./", 2) == 0 ? 2 : 0; // as tar writes it
    const char *end = strrchr(name, '/');
    if (end == NULL)
        return NULL;
    *bytes_out = end - name;
    return name;
}

static tt_status files(const tt_source *source, tt_file_list *list)
{
    const webdataset *w = (const webdataset *)source;
    for (int64_t i = 0; i < w->shards.n; i++)
        TT_TRY(tt_file_list_add(list, tt_file_list_at(&w->shards, i)));
    return TT_OK;
}

// How well a member fits: one with more dots gives way to one without, and a class in
// a text to one in JSON and that to a .cls.
enum { NONE, DOTTED = 1, PLAIN = 8, TXT = 1, JSON = 2, CLS = 3 };

// One sample while its members are met.
typedef struct group {
    const char *shard;
    tt_tar *tar;
    tt_str key;       // "" before the first
    int image, label; // how well they fit; NONE: not there
    bool is_foreign;  // it has an image of a kind that is not read
    sample sample;
} group;

static tt_status add_sample(webdataset *w, const group *g)
{
    if (w->n == w->capacity) {
        const int64_t more = w->capacity == 0 ? 64 : w->capacity * 2;
        sample *v = tt_realloc(w->v, w->capacity * (int64_t)sizeof *v,
                               more * (int64_t)sizeof *v);
        if (v == NULL)
            return tt_fail(TT_ERR_NOMEM, "there is no memory for the list of "
                                         "samples");
        w->v = v;
        w->capacity = more;
    }
    w->v[w->n] = g->sample;
    w->v[w->n].name = w->names.n;
    tt_str_add_bytes(&w->names, g->key.text, g->key.n + 1);
    TT_TRY(tt_str_status(&w->names));
    if (g->sample.label >= w->source.classes)
        w->source.classes = g->sample.label + 1;
    w->n++;
    return TT_OK;
}

static tt_status incomplete(const group *g)
{
    return tt_fail(
        TT_ERR_ARG,
        "%s: sample %s has no %s; the members of a sample must stand "
        "together",
        g->shard, g->key.text,
        g->image != NONE ? "class (.cls, or a number in .json or "
                           ".txt)"
        : g->is_foreign  ? "image that can be read (" TT_DECODE_NAMES
                          "), but one of another kind"
                        : "image (" TT_DECODE_NAMES ")");
}

static tt_status end_group(webdataset *w, group *g)
{
    if (g->key.n > 0) {
        if (g->image == NONE || g->label == NONE)
            return incomplete(g);
        TT_TRY(add_sample(w, g));
    }
    g->image = g->label = NONE;
    g->is_foreign = false;
    return TT_OK;
}

static tt_status bad_label(const group *g, const char *name)
{
    return tt_fail(TT_ERR_ARG,
                   "%s: %s is not the number of a class, from 0 to %d",
                   g->shard, name, MAX_CLASS);
}

// A whole number with nothing but blanks around it.
static bool read_number(const char *text, int64_t n, int64_t *out)
{
    const char *p = text, *end = text + n;
    int64_t label = 0;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    const char *digits = p;
    for (; p < end && *p >= '0' && *p <= '9' && label <= MAX_CLASS; p++)
        label = label * 10 + (*p - '0');
    const bool has_digits = p > digits;
    while (p < end && strchr(" \t\r\n", *p) != NULL && *p != '\0')
        p++;
    *out = label;
    return has_digits && p == end && label <= MAX_CLASS;
}

static tt_status read_json(const group *g, const tt_tar_member *m,
                           const char *text, int64_t *out)
{
    static const char *const names[] = {"label", "class", "cls", "target"};
    const tt_json_value *root = NULL, *found = NULL;
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "there is no memory to read %s", m->name);
    const tt_status status =
        tt_json_read(text, m->bytes, m->name, arena, &root);
    for (int i = 0; status == TT_OK && found == NULL && i < 4; i++)
        found = tt_json_get(root, names[i]);
    *out = -1;
    if (found != NULL && found->type == TT_JSON_NUMBER)
        *out = tt_json_int(found, -1);
    const bool is_missing = found == NULL;
    tt_arena_destroy(arena);
    if (status != TT_OK)
        return tt_fail_context(status, "%s", g->shard);
    if (is_missing)
        *out = -2; // a .txt may have it
    return TT_OK;
}

static tt_status read_label(group *g, const tt_tar_member *m, int kind)
{
    int64_t label = -1;
    tt_status status = TT_OK;
    if (m->bytes > MAX_LABEL)
        return kind == CLS ? bad_label(g, m->name) : TT_OK;
    char *text = tt_alloc(m->bytes + 1);
    if (text == NULL)
        return tt_fail(TT_ERR_NOMEM, "there is no memory to read %s", m->name);
    status = tt_tar_read(g->tar, m, m->bytes, text);
    if (status == TT_OK && kind == JSON)
        status = read_json(g, m, text, &label);
    else if (status == TT_OK && !read_number(text, m->bytes, &label))
        label = kind == TXT ? -2 : -1; // a text may be a caption
    tt_free(text);
    TT_TRY(status);
    if (label == -2)
        return TT_OK;
    if (label < 0 || label > MAX_CLASS)
        return bad_label(g, m->name);
    g->sample.label = (int32_t)label;
    g->label = kind;
    return TT_OK;
}

static int label_kind(const char *end)
{
    return strcasecmp(end, ".cls") == 0    ? CLS
           : strcasecmp(end, ".json") == 0 ? JSON
           : strcasecmp(end, ".txt") == 0  ? TXT
                                           : NONE;
}

static tt_status twice(const group *g, const tt_tar_member *m, const char *what)
{
    return tt_fail(TT_ERR_ARG, "%s: sample %s has two %s, the second is %s",
                   g->shard, g->key.text, what, m->name);
}

static tt_status add_label(group *g, const tt_tar_member *m, int kind, int fit)
{
    const int before = g->label;
    const int now = kind + fit;
    if (before == now)
        return twice(g, m, "classes");
    if (before > now)
        return TT_OK;
    g->label = NONE;
    TT_TRY(read_label(g, m, kind));
    g->label = g->label != NONE ? now : before;
    return TT_OK;
}

static tt_status add_part(group *g, const tt_tar_member *m, const char *dot)
{
    const char *end = strrchr(dot, '.');
    const int fit = end == dot ? PLAIN : DOTTED;
    const int kind = label_kind(end);
    if (kind != NONE)
        return add_label(g, m, kind, fit == PLAIN ? PLAIN : 0);
    g->is_foreign = g->is_foreign || tt_decode_is_foreign(end);
    if (!tt_decode_knows(end) || g->image > fit)
        return TT_OK;
    if (g->image == fit)
        return twice(g, m, "images");
    g->image = fit;
    g->sample.offset = m->offset;
    g->sample.bytes = m->bytes;
    return TT_OK;
}

static tt_status add_member(webdataset *w, group *g, const tt_tar_member *m)
{
    const char *slash = strrchr(m->name, '/');
    const char *base = slash == NULL ? m->name : slash + 1;
    const char *dot = strchr(base, '.');
    if (dot == NULL || dot == base)
        return TT_OK; // hidden, or nothing that belongs to a sample
    const int64_t n = dot - m->name;
    if (n != g->key.n || memcmp(m->name, g->key.text, (size_t)n) != 0) {
        TT_TRY(end_group(w, g));
        tt_str_clear(&g->key);
        tt_str_add_bytes(&g->key, m->name, n);
        TT_TRY(tt_str_status(&g->key));
    }
    return add_part(g, m, dot);
}

// What is packed is unpacked and stays: images are read in any order.
static tt_status open_shard(webdataset *w, int64_t i, tt_tar **tar_out)
{
    const char *path = tt_file_list_at(&w->shards, i);
    tt_blob *blob = &w->unpacked[i];
    if (!tt_path_ends(path, ".gz") && !tt_path_ends(path, ".tgz"))
        return tt_tar_open(path, tar_out);
    TT_TRY(tt_blob_open(path, blob));
    const tt_status status = tt_blob_unpack(blob);
    if (status != TT_OK)
        return tt_fail_context(status, "%s", path);
    w->unpacked_all += blob->n;
    if (w->unpacked_all > max_unpacked)
        return tt_fail(TT_ERR_ARG,
                       "%s: the packed shards need more than 2 GiB of memory; "
                       "unpack them with gunzip and use the result, which "
                       "needs none",
                       path);
    return tt_tar_open_bytes(path, blob->n > 0 ? blob->p : (const void *)"",
                             blob->n, tar_out);
}

static tt_status index_shard(webdataset *w, int64_t i)
{
    group g = {.shard = tt_file_list_at(&w->shards, i),
               .sample = {.shard = (int32_t)i}};
    TT_TRY(open_shard(w, i, &g.tar));
    tt_status status = TT_OK;
    for (bool has_one = true; status == TT_OK && has_one;) {
        tt_tar_member m = {0};
        status = tt_tar_next(g.tar, &m, &has_one);
        if (status == TT_OK && has_one)
            status = add_member(w, &g, &m);
    }
    if (status == TT_OK)
        status = end_group(w, &g);
    tt_str_fini(&g.key);
    tt_tar_close(g.tar);
    return status;
}

static tt_status fill(webdataset *w, const tt_source_request *request)
{
    const bool is_own =
        request->split == TT_SPLIT_VAL && request->val[0] != '\0';
    const char *path = is_own ? request->val : request->path;
    if (path[0] == '\0')
        return tt_fail(TT_ERR_ARG, "data.path is not set: the tar shards, as "
                                   "data.path='shards/train-*.tar'");
    TT_TRY(tt_tar_shards(path, &w->shards));
    w->unpacked = tt_alloc(w->shards.n * (int64_t)sizeof *w->unpacked);
    if (w->unpacked == NULL)
        return tt_fail(TT_ERR_NOMEM, "there is no memory for a list of shards");
    for (int64_t i = 0; i < w->shards.n; i++)
        TT_TRY(index_shard(w, i));
    if (w->n == 0)
        return tt_fail(TT_ERR_ARG, "%s: there are no samples in it", path);
    w->source.n = w->n;
    if (request->val[0] == '\0')
        tt_source_part(request, w->n, &w->first, &w->source.n);
    if (request->classes > w->source.classes)
        w->source.classes = request->classes; // the last may not occur
    return w->source.n == 0
               ? TT_OK
               : tt_encoded_probe(read_encoded, &w->source, request);
}

extern const tt_source_def tt_source_webdataset;

static tt_status open_source(const tt_source_request *request,
                             const void *params, tt_source **source_out)
{
    (void)params;
    webdataset *w = tt_alloc(sizeof *w);
    if (w == NULL)
        return tt_fail(TT_ERR_NOMEM, "there is no memory for a list of shards");
    w->source.def = &tt_source_webdataset;
    w->source.kind = TT_DATA_IMAGES;
    const tt_status status = fill(w, request);
    if (status != TT_OK) {
        close_source(&w->source);
        return status;
    }
    *source_out = &w->source;
    return TT_OK;
}

const tt_source_def tt_source_webdataset = {
    .name = "webdataset",
    .doc = "Images with their classes in tar shards, .gz or not.",
    .open = open_source,
    .close = close_source,
    .image = image,
    .user = user,
    .blame = blame,
    .files = files,
};
