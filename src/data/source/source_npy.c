// npy - NumPy arrays: samples and labels in two files, or one list of token ids.
//
// Files belong together by name: x and y, images and labels, train and test. So do
// the arrays in an .npz file, which is like a folder: FILE.npz/x_train.npy.

#include "base/str.h"
#include "data/source/npy_header.h"
#include "data/source/source_names.h"
#include "data/source/source_tokenizer.h"
#include "data/source/zip.h"

#include <stddef.h>
#include <string.h>

typedef struct params {
    const char *labels, *val_labels;
    int layout; // tt_array_layout
} params;

static const struct pair {
    const char *samples, *labels;
} pairs[] = {
    {"x", "y"},
    {"X", "y"},
    {"X", "Y"},
    {"images", "labels"},
    {"data", "labels"},
    {"data", "target"},
    {"inputs", "labels"},
    {"inputs", "targets"},
    {"features", "labels"},
    {"features", "targets"},
};
enum { N_PAIRS = sizeof pairs / sizeof *pairs };

// ---- arrays in an .npz file --------------------------------------------------

// "x.npy" of FILE.npz/x.npy; NULL: a file of its own.
static const char *inside_npz(const char *path)
{
    const char *at = strstr(path, ".npz/");
    return at != NULL ? at + 5 : NULL;
}

static bool is_member(const tt_zip_member *m, const char *name)
{
    return m->name_n == (int64_t)strlen(name) &&
           memcmp(m->name, name, (size_t)m->name_n) == 0;
}

static tt_status find_member(tt_zip *zip, const char *name, tt_zip_member *m,
                             bool *has_it)
{
    *has_it = true;
    do
        TT_TRY(tt_zip_next(zip, m, has_it));
    while (*has_it && !is_member(m, name));
    return TT_OK;
}

static tt_status open_npz(const char *path, const char *inside, tt_zip *zip)
{
    tt_str file = {0};
    tt_str_add_bytes(&file, path, inside - 1 - path);
    tt_status status = tt_str_status(&file);
    if (status == TT_OK)
        status = tt_zip_open(file.text, zip);
    tt_str_fini(&file);
    return status;
}

static tt_status open_member(const char *path, const char *inside,
                             tt_blob *blob_out)
{
    tt_zip zip = {0};
    tt_zip_member m = {0};
    bool has_it = false;
    TT_TRY(open_npz(path, inside, &zip));
    tt_status status = find_member(&zip, inside, &m, &has_it);
    if (status == TT_OK && !has_it)
        status = tt_fail(TT_ERR_ARG, "there is no such array in it");
    if (status == TT_OK)
        status = tt_zip_take(&zip, &m, blob_out);
    tt_zip_close(&zip);
    return status == TT_OK ? status : tt_fail_context(status, "%s", path);
}

// *found_out is the path when there is such a file or array, else NULL.
static tt_status find_existing(tt_arena *arena, const char *path,
                               const char **found_out)
{
    const char *inside = path != NULL ? inside_npz(path) : NULL;
    tt_zip zip = {0};
    tt_zip_member m = {0};
    bool has_it = false;
    *found_out = NULL;
    if (inside == NULL) {
        *found_out = tt__name_existing(arena, path);
        return TT_OK;
    }
    TT_TRY(open_npz(path, inside, &zip));
    const tt_status status = find_member(&zip, inside, &m, &has_it);
    tt_zip_close(&zip);
    if (status == TT_OK && has_it)
        *found_out = path;
    return status;
}

static tt_status find_val(tt_arena *arena, const char *path,
                          const char **found_out)
{
    static const char *const words[] = {"test", "val", "valid", "validation"};
    *found_out = NULL;
    if (inside_npz(path) == NULL) {
        *found_out = tt__name_of_val(arena, path);
        return TT_OK;
    }
    for (size_t i = 0; *found_out == NULL && i < sizeof words / sizeof *words;
         i++)
        TT_TRY(find_existing(
            arena, tt__name_swap(arena, path, "train", words[i]), found_out));
    return TT_OK;
}

static tt_status open_array(const char *path, tt_array *array)
{
    const char *inside = inside_npz(path);
    array->path = path;
    TT_TRY(inside != NULL ? open_member(path, inside, &array->blob)
                          : tt_blob_open(path, &array->blob));
    const tt_status status = tt__npy_read(array);
    return status == TT_OK ? TT_OK : tt_fail_context(status, "%s", path);
}

// ---- names ---------------------------------------------------------------------

static bool is_npy(const char *base)
{
    return tt_path_ends(base, ".npy") || tt_path_ends(base, ".npy.gz") ||
           tt_path_ends(base, ".npz");
}

// Any array whose name is not that of labels.
static bool is_samples(const char *base)
{
    bool is_labels = false;
    for (int i = 0; i < N_PAIRS; i++)
        is_labels = is_labels || tt__name_has(base, pairs[i].labels);
    return is_npy(base) && !is_labels;
}

// Of the arrays in an .npz file the one of samples to train on: the only one, or the
// only one with "train" in its name.
static tt_status choose_member(tt_arena *arena, const char *path, tt_zip *zip,
                               const char **path_out)
{
    const char *any = NULL, *train = NULL;
    int n = 0, n_train = 0;
    for (;;) {
        tt_zip_member m = {0};
        bool has_one = false;
        TT_TRY(tt_zip_next(zip, &m, &has_one));
        if (!has_one)
            break;
        const char *name =
            tt_arena_printf(arena, "%s/%.*s", path, (int)m.name_n, m.name);
        if (name == NULL)
            return TT_ERR_NOMEM;
        if (!is_samples(inside_npz(name)))
            continue;
        any = name;
        n++;
        if (strstr(inside_npz(name), "train") != NULL) {
            train = name;
            n_train++;
        }
    }
    if (n != 1 && n_train != 1)
        return tt_fail(TT_ERR_ARG,
                       "it is not clear which of its arrays to train on; name "
                       "one, as data.path=%s/x.npy (and data.labels)",
                       path);
    *path_out = n_train == 1 ? train : any;
    return TT_OK;
}

static tt_status find_samples(const char *setting, const char *path,
                              tt_arena *arena, const char **path_out)
{
    const char *found = NULL;
    tt_zip zip = {0};
    TT_TRY(tt__name_main(setting, path, is_samples, arena, &found));
    if (!tt_path_ends(found, ".npz")) {
        *path_out = found;
        return TT_OK;
    }
    TT_TRY(tt_zip_open(found, &zip));
    const tt_status status = choose_member(arena, found, &zip, path_out);
    tt_zip_close(&zip);
    return status == TT_OK ? status : tt_fail_context(status, "%s", found);
}

// A split: its samples, its labels if they were named, and by which setting.
typedef struct split {
    const char *path, *labels, *setting;
} split;

static tt_status find_labels(tt_arena *arena, split *s)
{
    if (s->labels[0] != '\0')
        return TT_OK;
    for (int i = 0; i < N_PAIRS; i++) {
        const char *found = NULL;
        TT_TRY(find_existing(
            arena,
            tt__name_swap(arena, s->path, pairs[i].samples, pairs[i].labels),
            &found));
        if (found != NULL) {
            s->labels = found;
            return TT_OK;
        }
    }
    return tt_fail(TT_ERR_ARG,
                   "%s: its labels are not beside it (x.npy has y.npy, "
                   "images.npy labels.npy); name them with %s",
                   s->path, s->setting);
}

static bool is_tokens(const tt_array *x, const split *s)
{
    return x->ndim == 1 && tt_number_is_whole(x->type) && s->labels[0] == '\0';
}

static tt_status open_split(tt_arrays *a, split *s, int layout)
{
    TT_TRY(open_array(s->path, &a->x));
    if (is_tokens(&a->x, s)) {
        a->source.kind = TT_DATA_TOKENS;
        a->source.n = a->x.dim[0];
        return TT_OK;
    }
    if (a->x.ndim == 1)
        return tt_fail(TT_ERR_ARG,
                       "%s: it has one dimension, and only token ids (whole "
                       "numbers) may",
                       s->path);
    TT_TRY(find_labels(a->arena, s));
    TT_TRY(open_array(s->labels, &a->y));
    return tt__arrays_describe(a, (tt_array_layout)layout);
}

static tt_status fill(tt_arrays *a, const tt_source_request *r, const params *p)
{
    split train = {.labels = p->labels, .setting = "data.labels"};
    split val = {.labels = p->val_labels, .setting = "data.val_labels"};
    TT_TRY(find_samples("data.path", r->path, a->arena, &train.path));
    if (r->val[0] != '\0')
        TT_TRY(find_samples("data.val", r->val, a->arena, &val.path));
    else
        TT_TRY(find_val(a->arena, train.path, &val.path));
    const bool is_own = val.path != NULL && r->split == TT_SPLIT_VAL;
    TT_TRY(open_split(a, is_own ? &val : &train, p->layout));
    if (val.path == NULL)
        tt_source_part(r, a->source.n, &a->first, &a->source.n);
    if (a->source.kind == TT_DATA_TOKENS)
        return tt__source_tokenizer(r, a->x.path, a->arena, &a->source);
    if (val.path == NULL)
        return TT_OK;
    split *other = is_own ? &train : &val;
    TT_TRY(find_labels(a->arena, other));
    return tt__arrays_count_other(a, open_array, other->labels);
}

extern const tt_source_def tt_source_npy;

static tt_status open_source(const tt_source_request *request,
                             const void *params_, tt_source **source_out)
{
    tt_arrays *a = NULL;
    TT_TRY(tt__arrays_create(&tt_source_npy, &a));
    const tt_status status = fill(a, request, params_);
    if (status != TT_OK) {
        tt__arrays_close(&a->source);
        return status;
    }
    *source_out = &a->source;
    return TT_OK;
}

static tt_status tokens(const tt_source *source, int64_t first, int64_t n,
                        int32_t *out)
{
    const tt_arrays *a = (const tt_arrays *)source;
    const int64_t at = a->first + first;
    int64_t bad = 0;
    const tt_status status = tt_number_to_i32(
        a->x.type, a->x.data + at * a->x.type.bytes, n, out, &bad);
    if (status != TT_OK)
        return tt_fail(status, "%s: element %lld is no token id", a->x.path,
                       (long long)(at + bad));
    return TT_OK;
}

static const tt_opt options[] = {
    {"labels", "", "file of labels; found by its name when not set", TT_OPT_STR,
     offsetof(params, labels)},
    {"val_labels", "", "the same of data.val", TT_OPT_STR,
     offsetof(params, val_labels)},
    {"layout", "auto",
     "of images with channels; auto: hwc if only the last "
     "size is 1, 3 or 4",
     TT_OPT_CHOICE, offsetof(params, layout), "auto|chw|hwc"},
    {0},
};

const tt_source_def tt_source_npy = {
    .name = "npy",
    .doc = "NumPy arrays (.npy, .npz): images or features with labels, or ids.",
    .options = options,
    .params_bytes = sizeof(params),
    .open = open_source,
    .close = tt__arrays_close,
    .tokens = tokens,
    .image = tt__arrays_image,
    .files = tt__arrays_files,
};
