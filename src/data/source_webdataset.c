// webdataset - images in tar shards.
//
// Adjacent members whose paths agree up to the first dot of the last name are one
// sample: KEY.jpg, .jpeg or .png is its image, KEY.cls its class as a decimal
// number, other members are not looked at. Opening walks all headers and reads the
// classes; of each sample 40 bytes and its name are kept. Validation is data.val,
// or the last part of all samples. Shards are opened for every image, so there may
// be any number of them.

#include "base/alloc.h"
#include "data/decode.h"
#include "data/decode_file.h"
#include "data/tar.h"
#include "data/tar_shards.h"

#include <string.h>
#include <strings.h>

enum { MAX_CLASS = 1 << 24, CLASS_TEXT = 32 };

typedef struct sample {
    int64_t offset, bytes; // of the image
    int64_t name;          // in `names`
    int32_t shard, label;
} sample;

typedef struct webdataset {
    tt_source source;
    tt_file_list shards;
    tt_str names;
    sample *v;
    int64_t n, capacity, first; // the split begins at `first`
} webdataset;

static void close_source(tt_source *source)
{
    webdataset *w = (webdataset *)source;
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

static tt_status files(const tt_source *source, tt_file_list *list)
{
    const webdataset *w = (const webdataset *)source;
    for (int64_t i = 0; i < w->shards.n; i++)
        TT_TRY(tt_file_list_add(list, tt_file_list_at(&w->shards, i)));
    return TT_OK;
}

// One sample while its members are met.
typedef struct group {
    const char *shard;
    tt_tar *tar;
    tt_str key; // "" before the first
    bool has_image, has_label;
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

static tt_status end_group(webdataset *w, group *g)
{
    if (g->key.n > 0) {
        if (!g->has_image || !g->has_label)
            return tt_fail(TT_ERR_ARG,
                           "%s: sample %s has no %s; the members of a sample "
                           "must stand together",
                           g->shard, g->key.text,
                           g->has_image ? "class (.cls)"
                                        : "image (.jpg, .jpeg or .png)");
        TT_TRY(add_sample(w, g));
    }
    g->has_image = g->has_label = false;
    return TT_OK;
}

static tt_status read_label(group *g, const tt_tar_member *m)
{
    char text[CLASS_TEXT + 1] = "";
    const char *p = text;
    int64_t label = 0;
    if (m->bytes <= CLASS_TEXT)
        TT_TRY(tt_tar_read(g->tar, m, m->bytes, text));
    while (*p == ' ')
        p++;
    const char *digits = p;
    for (; *p >= '0' && *p <= '9' && label <= MAX_CLASS; p++)
        label = label * 10 + (*p - '0');
    const char *end = p + strspn(p, " \r\n");
    if (p == digits || end < text + (m->bytes <= CLASS_TEXT ? m->bytes : 0) ||
        label > MAX_CLASS)
        return tt_fail(TT_ERR_ARG,
                       "%s: %s is not the number of a class, from 0 to %d",
                       g->shard, m->name, MAX_CLASS);
    g->sample.label = (int32_t)label;
    return TT_OK;
}

static tt_status add_part(group *g, const tt_tar_member *m, const char *dot)
{
    const bool is_label = strcasecmp(dot, ".cls") == 0;
    const bool is_image = tt_decode_knows(dot) && strrchr(dot, '.') == dot;
    if (!is_label && !is_image)
        return TT_OK;
    if (is_label ? g->has_label : g->has_image)
        return tt_fail(TT_ERR_ARG, "%s: sample %s has two %s, the second is %s",
                       g->shard, g->key.text, is_label ? "classes" : "images",
                       m->name);
    if (is_label) {
        g->has_label = true;
        return read_label(g, m);
    }
    g->has_image = true;
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

static tt_status index_shard(webdataset *w, int64_t i)
{
    group g = {.shard = tt_file_list_at(&w->shards, i),
               .sample = {.shard = (int32_t)i}};
    TT_TRY(tt_tar_open(g.shard, &g.tar));
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
    .blame = blame,
    .files = files,
};
