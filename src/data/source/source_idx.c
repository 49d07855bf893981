// idx - MNIST and its family: images and labels in IDX files, packed or not.
//
//   0, 0, type, dimensions; u32 sizes; data in C order. All big-endian.
//
// Files belong together by name: images and labels, train and t10k (or test).

#include "base/file.h"
#include "data/source/source_array.h"
#include "data/source/source_names.h"

#include <stddef.h>
#include <string.h>

typedef struct params {
    const char *labels;
} params;

static const tt_number types[] = {
    [0x08] = {'u', 1, true}, [0x09] = {'i', 1, true}, [0x0b] = {'i', 2, true},
    [0x0c] = {'i', 4, true}, [0x0d] = {'f', 4, true}, [0x0e] = {'f', 8, true},
};

static int64_t size_at(const uint8_t *p)
{
    return (int64_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
}

static tt_status read_header(tt_array *a)
{
    const tt_blob *b = &a->blob;
    if (b->n < 4 || b->p[0] != 0 || b->p[1] != 0)
        return tt_fail(TT_ERR_ARG, "not an IDX file");
    const size_t type = b->p[2];
    if (type >= sizeof types / sizeof *types || types[type].bytes == 0)
        return tt_fail(TT_ERR_ARG,
                       "not an IDX file, or of an unknown type "
                       "(0x%02x)",
                       b->p[2]);
    a->type = types[type];
    a->ndim = b->p[3];
    if (a->ndim < 1 || a->ndim > TT_ARRAY_NDIM || b->n < 4 + 4 * a->ndim)
        return tt_fail(TT_ERR_ARG,
                       "an IDX file of %d dimensions, and %lld bytes follow",
                       a->ndim, (long long)b->n - 4);
    for (int i = 0; i < a->ndim; i++)
        a->dim[i] = size_at(b->p + 4 + 4 * (int64_t)i);
    return tt__array_check(a, 4 + 4 * a->ndim);
}

static tt_status open_array(const char *path, tt_array *array)
{
    array->path = path;
    TT_TRY(tt_blob_open(path, &array->blob));
    const tt_status status = read_header(array);
    return status == TT_OK ? TT_OK : tt_fail_context(status, "%s", path);
}

static bool is_images(const char *base)
{
    return strstr(base, "images") != NULL;
}

// The labels of these images: idx3 (or idx4) becomes idx1 as well.
static tt_status find_labels(tt_arena *arena, const char *images,
                             const char **labels_out)
{
    const char *name = tt__name_swap(arena, images, "images", "labels");
    static const char *const words[] = {"idx3", "idx4", "idx2"};
    for (size_t i = 0; i < sizeof words / sizeof *words && name != NULL; i++) {
        const char *swapped = tt__name_swap(arena, name, words[i], "idx1");
        name = swapped != NULL ? swapped : name;
    }
    *labels_out = tt__name_existing(arena, name);
    if (*labels_out == NULL)
        return tt_fail(TT_ERR_ARG,
                       "%s: its labels are missing (%s); name them "
                       "with data.labels",
                       images,
                       name != NULL ? tt_path_base(name)
                                    : "no \"images\" in the name");
    return TT_OK;
}

// The names of a data set: *val is NULL when validation is cut out.
typedef struct names {
    const char *train, *val;
    const char *train_labels, *val_labels;
} names;

static tt_status find(const tt_source_request *r, const params *p,
                      tt_arena *arena, names *n)
{
    TT_TRY(tt__name_main("data.path", r->path, is_images, arena, &n->train));
    if (r->val[0] != '\0')
        TT_TRY(tt__name_main("data.val", r->val, is_images, arena, &n->val));
    else
        n->val = tt__name_of_val(arena, n->train);
    n->train_labels = p->labels;
    if (p->labels[0] == '\0')
        TT_TRY(find_labels(arena, n->train, &n->train_labels));
    if (n->val != NULL)
        TT_TRY(find_labels(arena, n->val, &n->val_labels));
    return TT_OK;
}

static tt_status fill(tt_arrays *a, const tt_source_request *r, const params *p)
{
    names n = {0};
    TT_TRY(find(r, p, a->arena, &n));
    const bool is_own = n.val != NULL && r->split == TT_SPLIT_VAL;
    TT_TRY(open_array(is_own ? n.val : n.train, &a->x));
    TT_TRY(open_array(is_own ? n.val_labels : n.train_labels, &a->y));
    TT_TRY(tt__arrays_describe(a, TT_ARRAY_CHW));
    if (n.val == NULL) {
        tt_source_part(r, a->source.n, &a->first, &a->source.n);
        return TT_OK;
    }
    return tt__arrays_count_other(a, open_array,
                                  is_own ? n.train_labels : n.val_labels);
}

extern const tt_source_def tt_source_idx;

static tt_status open_source(const tt_source_request *request,
                             const void *params_, tt_source **source_out)
{
    tt_arrays *a = NULL;
    TT_TRY(tt__arrays_create(&tt_source_idx, &a));
    const tt_status status = fill(a, request, params_);
    if (status != TT_OK) {
        tt__arrays_close(&a->source);
        return status;
    }
    *source_out = &a->source;
    return TT_OK;
}

static const tt_opt options[] = {
    {"labels", "", "file of labels; found by its name when not set", TT_OPT_STR,
     offsetof(params, labels)},
    {0},
};

const tt_source_def tt_source_idx = {
    .name = "idx",
    .doc = "MNIST's format: a folder, or a file of images, .gz or not.",
    .options = options,
    .params_bytes = sizeof(params),
    .open = open_source,
    .close = tt__arrays_close,
    .image = tt__arrays_image,
    .files = tt__arrays_files,
};
