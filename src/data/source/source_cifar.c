// cifar - the binary version of CIFAR-10 and CIFAR-100.
//
//   CIFAR-10    records of 3,073 bytes: label, then 32 x 32 of red, green, blue
//   CIFAR-100   3,074 bytes: coarse label, fine label, and the same
//
// A folder holds data_batch_*.bin and test_batch.bin, or train.bin and test.bin.

#include "base/alloc.h"
#include "base/file.h"
#include "data/source/source_array.h"

#include <stddef.h>
#include <string.h>

enum {
    SIDE = 32,
    PIXELS = 3 * SIDE * SIDE,
    CLASSES_MAX = 100,
    LONGEST_NAME = 64
};

typedef struct params {
    int version, label;
} params;

enum { AUTO, CIFAR_10, CIFAR_100 };
enum { FINE, COARSE };

typedef struct file {
    const char *path;
    tt_blob blob;
    int64_t first; // place of its first record among all
} file;

typedef struct cifar {
    tt_source source;
    tt_arena *arena;
    int64_t n;
    file *v;
    int64_t record, label_at; // bytes of a record, the label's place in it
    int64_t first;
    const char *name[CLASSES_MAX];
} cifar;

static int64_t record_bytes(int version)
{
    return PIXELS + (version == CIFAR_100 ? 2 : 1);
}

// What belongs to a split, of the files in a folder.
static bool is_of(const char *base, bool is_val)
{
    if (is_val)
        return strcmp(base, "test_batch.bin") == 0 ||
               strcmp(base, "test.bin") == 0;
    return strcmp(base, "train.bin") == 0 ||
           (strncmp(base, "data_batch", 10) == 0 && tt_path_ends(base, ".bin"));
}

static int64_t count_of(const tt_paths *paths, bool is_val)
{
    int64_t n = 0;
    for (int64_t i = 0; i < paths->n; i++)
        n += is_of(tt_path_base(paths->v[i]), is_val);
    return n;
}

static void choose(tt_paths *paths, bool is_val)
{
    int64_t n = 0;
    for (int64_t i = 0; i < paths->n; i++)
        if (is_of(tt_path_base(paths->v[i]), is_val))
            paths->v[n++] = paths->v[i];
    paths->n = n;
}

static tt_status find(const tt_source_request *r, tt_arena *arena,
                      tt_paths *paths, bool *is_cut)
{
    const bool has_val = r->val[0] != '\0';
    const bool is_val = r->split == TT_SPLIT_VAL;
    const bool is_own = has_val && is_val;
    const char *path = is_own ? r->val : r->path;
    *is_cut = !has_val;
    TT_TRY(
        tt_paths_find(is_own ? "data.val" : "data.path", path, arena, paths));
    if (!tt_file_is_folder(path))
        return TT_OK;
    const bool has_test = count_of(paths, true) > 0;
    *is_cut = !has_val && !has_test;
    choose(paths, is_val && has_test);
    if (paths->n == 0)
        return tt_fail(
            TT_ERR_ARG,
            "%s: there is no data_batch_*.bin and no train.bin in it", path);
    return TT_OK;
}

static tt_status guess_version(const file *f, int *version)
{
    const char *base = tt_path_base(f->path);
    if (*version != AUTO)
        return TT_OK;
    const bool is_10 = f->blob.n % record_bytes(CIFAR_10) == 0;
    const bool is_100 = f->blob.n % record_bytes(CIFAR_100) == 0;
    if (!is_10 && !is_100)
        return tt_fail(TT_ERR_ARG,
                       "%s: %lld bytes are no whole number of records of "
                       "CIFAR-10 (3073) or CIFAR-100 (3074)",
                       f->path, (long long)f->blob.n);
    const bool has_10_name = strstr(base, "batch") != NULL;
    *version = is_10 && (!is_100 || has_10_name) ? CIFAR_10 : CIFAR_100;
    return TT_OK;
}

static tt_status open_all(cifar *c, const tt_paths *paths, int *version)
{
    c->v = tt_arena_alloc(c->arena, paths->n * (int64_t)sizeof *c->v);
    if (c->v == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < paths->n; i++) {
        file *f = &c->v[c->n++];
        f->path = paths->v[i];
        f->first = c->source.n;
        TT_TRY(tt_blob_open(f->path, &f->blob));
        TT_TRY(guess_version(f, version));
        if (f->blob.n % record_bytes(*version) != 0)
            return tt_fail(TT_ERR_ARG,
                           "%s: %lld bytes are no whole number of records of "
                           "%lld; it is damaged or of another kind",
                           f->path, (long long)f->blob.n,
                           (long long)record_bytes(*version));
        c->source.n += f->blob.n / record_bytes(*version);
    }
    return TT_OK;
}

// One name a line. What is missing or odd leaves the classes without names.
static tt_status read_names(cifar *c, const char *path)
{
    tt_blob blob = {0};
    int64_t n = 0, at = 0;
    if (!tt_file_exists(path))
        return TT_OK;
    const tt_status status = tt_blob_open(path, &blob);
    if (status != TT_OK)
        return status == TT_ERR_NOMEM ? status : TT_OK;
    while (at < blob.n && n < c->source.classes) {
        const uint8_t *end = memchr(blob.p + at, '\n', (size_t)(blob.n - at));
        const int64_t stop = end != NULL ? end - blob.p : blob.n;
        int64_t length = stop - at;
        length -= length > 0 && blob.p[stop - 1] == '\r';
        if (length == 0 || length > LONGEST_NAME)
            break;
        c->name[n] = tt_arena_printf(c->arena, "%.*s", (int)length,
                                     (const char *)blob.p + at);
        if (c->name[n++] == NULL)
            break;
        at = stop + 1;
    }
    if (n == c->source.classes && c->name[n - 1] != NULL)
        c->source.class_name = c->name;
    tt_blob_close(&blob);
    return TT_OK;
}

static tt_status describe(cifar *c, int version, int label)
{
    static const char *const names[] = {
        "batches.meta.txt", "fine_label_names.txt", "coarse_label_names.txt"};
    const bool is_coarse = version == CIFAR_100 && label == COARSE;
    tt_source *s = &c->source;
    s->classes = version == CIFAR_10 ? 10 : is_coarse ? 20 : 100;
    s->channels = 3;
    s->height = s->width = SIDE;
    c->record = record_bytes(version);
    c->label_at = version == CIFAR_100 && !is_coarse;
    const char *path = c->v[0].path;
    const int folder = (int)(tt_path_base(path) - path);
    const char *list = tt_arena_printf(c->arena, "%.*s%s", folder, path,
                                       names[version == CIFAR_10 ? 0
                                             : is_coarse         ? 2
                                                                 : 1]);
    return list != NULL ? read_names(c, list) : TT_ERR_NOMEM;
}

static tt_status fill(cifar *c, const tt_source_request *r, const params *p)
{
    tt_paths paths = {0};
    bool is_cut = false;
    int version = p->version;
    TT_TRY(find(r, c->arena, &paths, &is_cut));
    TT_TRY(open_all(c, &paths, &version));
    if (version == CIFAR_10 && p->label == COARSE)
        return tt_fail(
            TT_ERR_ARG,
            "%s: CIFAR-10 has no coarse labels; leave data.label out",
            c->v[0].path);
    TT_TRY(describe(c, version, p->label));
    if (is_cut)
        tt_source_part(r, c->source.n, &c->first, &c->source.n);
    return TT_OK;
}

static void close_source(tt_source *source)
{
    cifar *c = (cifar *)source;
    for (int64_t i = 0; i < c->n; i++)
        tt_blob_close(&c->v[i].blob);
    tt_arena_destroy(c->arena);
    tt_free(c);
}

extern const tt_source_def tt_source_cifar;

static tt_status open_source(const tt_source_request *request,
                             const void *params_, tt_source **source_out)
{
    tt_status status = TT_ERR_NOMEM;
    cifar *c = tt_alloc(sizeof *c);
    if (c == NULL)
        return tt_fail(status, "no memory for a source");
    c->source.def = &tt_source_cifar;
    c->source.kind = TT_DATA_IMAGES;
    c->arena = tt_arena_create();
    if (c->arena == NULL)
        (void)tt_fail(status, "no memory for a source");
    else
        status = fill(c, request, params_);
    if (status != TT_OK) {
        close_source(&c->source);
        return status;
    }
    *source_out = &c->source;
    return TT_OK;
}

static tt_status image(const tt_source *source, int64_t index, tt_image *out,
                       int32_t *label_out)
{
    const cifar *c = (const cifar *)source;
    const int64_t at = c->first + index;
    int64_t i = c->n - 1;
    while (c->v[i].first > at)
        i--;
    const int64_t number = at - c->v[i].first;
    TT_TRY(tt_blob_check(&c->v[i].blob));
    const uint8_t *record = c->v[i].blob.p + number * c->record;
    const int label = record[c->label_at];
    if (label >= source->classes)
        return tt_fail(TT_ERR_ARG,
                       "%s: record %lld has label %d, and there are %lld "
                       "classes",
                       c->v[i].path, (long long)number, label,
                       (long long)source->classes);
    TT_TRY(tt_image_reserve(out, 3, SIDE, SIDE, false));
    tt__planes_to_image(record + c->record - PIXELS, out);
    *label_out = label;
    return TT_OK;
}

static tt_status files(const tt_source *source, tt_file_list *list)
{
    const cifar *c = (const cifar *)source;
    for (int64_t i = 0; i < c->n; i++)
        TT_TRY(tt_file_list_add(list, c->v[i].path));
    return TT_OK;
}

static const tt_opt options[] = {
    {"version", "auto", "which of the two; auto: by the size of the file",
     TT_OPT_CHOICE, offsetof(params, version), "auto|10|100"},
    {"label", "fine", "which label of CIFAR-100", TT_OPT_CHOICE,
     offsetof(params, label), "fine|coarse"},
    {0},
};

const tt_source_def tt_source_cifar = {
    .name = "cifar",
    .doc = "CIFAR-10 and CIFAR-100, the binary version.",
    .options = options,
    .params_bytes = sizeof(params),
    .open = open_source,
    .close = close_source,
    .image = image,
    .files = files,
};
