// npy - NumPy arrays: samples and labels in two files, or one list of token ids.
//
// Files belong together by name: x and y, images and labels, train and test.

#include "data/npy_header.h"
#include "data/source_names.h"

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

static tt_status open_array(const char *path, tt_array *array)
{
    array->path = path;
    TT_TRY(tt_blob_open(path, &array->blob));
    const tt_status status = tt__npy_read(array);
    return status == TT_OK ? TT_OK : tt_fail_context(status, "%s", path);
}

static bool is_npy(const char *base)
{
    return tt_path_ends(base, ".npy") || tt_path_ends(base, ".npy.gz");
}

// Any array whose name is not that of labels.
static bool is_samples(const char *base)
{
    bool is_labels = false;
    for (int i = 0; i < N_PAIRS; i++)
        is_labels = is_labels || tt__name_has(base, pairs[i].labels);
    return is_npy(base) && !is_labels;
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
        const char *found = tt__name_existing(
            arena,
            tt__name_swap(arena, s->path, pairs[i].samples, pairs[i].labels));
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
    TT_TRY(
        tt__name_main("data.path", r->path, is_samples, a->arena, &train.path));
    if (r->val[0] != '\0')
        TT_TRY(
            tt__name_main("data.val", r->val, is_samples, a->arena, &val.path));
    else
        val.path = tt__name_of_val(a->arena, train.path);
    const bool is_own = val.path != NULL && r->split == TT_SPLIT_VAL;
    TT_TRY(open_split(a, is_own ? &val : &train, p->layout));
    if (val.path == NULL)
        tt_source_part(r, a->source.n, &a->first, &a->source.n);
    if (val.path == NULL || a->source.kind == TT_DATA_TOKENS)
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
    .doc = "NumPy arrays: images or features with labels, or token ids.",
    .options = options,
    .params_bytes = sizeof(params),
    .open = open_source,
    .close = tt__arrays_close,
    .tokens = tokens,
    .image = tt__arrays_image,
    .files = tt__arrays_files,
};
