// folder - images in folders, one folder per class: ROOT/CLASS/**/x.jpg.
//
// Classes are the names of the folders in ROOT in the order of their bytes; files
// are sorted too. Names that begin with a dot are skipped. Where data.path has a
// folder train and one of val, validation or test, these are the splits. Else
// validation is data.val or the last part (data.holdout) of every class, of which
// one image at least stays in training. A folder in a class's folder is a user's, for those
// who ask (exchange.split=user). Only names are kept in memory.

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "data/image/decode.h"
#include "data/image/decode_file.h"
#include "data/source/decode_list.h"
#include "data/source/left_out.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct folder {
    tt_source source;
    tt_arena *arena;
    const char *root;
    tt_file_list files; // names below root, class by class
    int64_t *end;       // [classes]: of the files of each class
    tt_left_out left;
} folder;

static void close_source(tt_source *source)
{
    folder *f = (folder *)source;
    tt_file_list_fini(&f->files);
    tt_free(f->end);
    tt_arena_destroy(f->arena);
    tt_free(f);
}

static tt_status read_encoded(const tt_source *source, int64_t index,
                              tt_encoded *out)
{
    const folder *f = (const folder *)source;
    char path[PATH_MAX];
    const char *name = tt_file_list_at(&f->files, index);
    if (snprintf(path, sizeof path, "%s/%s", f->root, name) >= (int)sizeof path)
        return tt_fail(TT_ERR_IO, "%s/%s: the name is too long", f->root, name);
    return tt_encoded_read(path, 0, -1, out);
}

static tt_status blame(const tt_source *source, int64_t index, tt_status status)
{
    const folder *f = (const folder *)source;
    return tt_fail_context(status, "%s/%s", f->root,
                           tt_file_list_at(&f->files, index));
}

static int32_t class_of(const folder *f, int64_t index)
{
    int64_t low = 0, high = f->source.classes - 1;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (index < f->end[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return (int32_t)low;
}

static tt_status image(const tt_source *source, int64_t index, tt_image *out,
                       int32_t *label_out)
{
    TT_TRY(tt_encoded_image(read_encoded, source, index, out));
    *label_out = class_of((const folder *)source, index);
    return TT_OK;
}

static tt_status label(const tt_source *source, int64_t index,
                       int32_t *label_out)
{
    *label_out = class_of((const folder *)source, index);
    return TT_OK;
}

// Of CLASS/USER/x.jpg.
static const char *user(const tt_source *source, int64_t index,
                        int64_t *bytes_out)
{
    const char *name = tt_file_list_at(&((const folder *)source)->files, index);
    const char *begin = strchr(name, '/');
    const char *end = begin != NULL ? strchr(begin + 1, '/') : NULL;
    *bytes_out = end != NULL ? end - begin - 1 : 0;
    return end != NULL ? begin + 1 : NULL;
}

static tt_status files(const tt_source *source, tt_file_list *list)
{
    const folder *f = (const folder *)source;
    tt_str path = {0};
    tt_status status = TT_OK;
    for (int64_t i = 0; status == TT_OK && i < f->files.n; i++) {
        tt_str_clear(&path);
        tt_str_addf(&path, "%s/%s", f->root, tt_file_list_at(&f->files, i));
        status = tt_str_status(&path);
        if (status == TT_OK)
            status = tt_file_list_add(list, path.text);
    }
    tt_str_fini(&path);
    return status;
}

// Where the splits are. `val` is "" when it is a part of `train`.
typedef struct places {
    const char *train, *val;
} places;

static tt_status find_places(const tt_source_request *request, tt_arena *arena,
                             places *out)
{
    static const char *const names[] = {"val", "validation", "test"};
    if (request->path[0] == '\0')
        return tt_fail(TT_ERR_ARG, "data.path is not set: the folder that has "
                                   "a folder of images for each class");
    out->train = request->path;
    out->val = request->val;
    const char *train = tt_arena_printf(arena, "%s/train", request->path);
    if (train == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; tt_file_is_folder(train) && i < 3; i++) {
        const char *val =
            tt_arena_printf(arena, "%s/%s", request->path, names[i]);
        if (val == NULL)
            return TT_ERR_NOMEM;
        if (!tt_file_is_folder(val))
            continue;
        out->train = train;
        out->val = request->val[0] != '\0' ? request->val : val;
        break;
    }
    return TT_OK;
}

// The classes are those of the training folder, also for validation.
static tt_status find_classes(folder *f, const char *root)
{
    tt_file_list list = {0};
    const char **name = NULL;
    tt_status status = tt_file_list_folders(root, &list);
    if (status == TT_OK && list.n == 0)
        status = tt_fail(TT_ERR_ARG,
                         "%s has no folders: there must be one for each class, "
                         "with its images in it",
                         root);
    if (status != TT_OK)
        goto out;
    name = tt_arena_alloc(f->arena, list.n * (int64_t)sizeof *name);
    f->end = tt_alloc(list.n * (int64_t)sizeof *f->end);
    status = name == NULL || f->end == NULL
                 ? tt_fail(TT_ERR_NOMEM, "there is no memory for the classes")
                 : TT_OK;
    for (int64_t i = 0; status == TT_OK && i < list.n; i++) {
        name[i] = tt_arena_strdup(f->arena, tt_file_list_at(&list, i));
        status = name[i] == NULL ? TT_ERR_NOMEM : TT_OK;
    }
    f->source.class_name = name;
    f->source.classes = list.n;
out:
    tt_file_list_fini(&list);
    return status;
}

static bool is_class(const folder *f, const char *name)
{
    for (int64_t i = 0; i < f->source.classes; i++)
        if (strcmp(f->source.class_name[i], name) == 0)
            return true;
    return false;
}

// A class that training does not have is a mistake, one that is missing is not.
static tt_status check_classes(const folder *f, const char *train)
{
    tt_file_list list = {0};
    tt_status status = tt_file_list_folders(f->root, &list);
    for (int64_t i = 0; status == TT_OK && i < list.n; i++)
        if (!is_class(f, tt_file_list_at(&list, i)))
            status = tt_fail(TT_ERR_ARG,
                             "%s/%s is a class that the training data in %s "
                             "do not have",
                             f->root, tt_file_list_at(&list, i), train);
    tt_file_list_fini(&list);
    return status;
}

// Keeps the split's part of the files of one class, which are those from `first`
// on.
static void keep_part(folder *f, const tt_source_request *request,
                      int64_t first)
{
    const int64_t n = f->files.n - first;
    int64_t from = 0, count = 0;
    tt_source_part(request, n, &from, &count);
    if (request->split == TT_SPLIT_TRAIN && count == 0)
        count = 1;
    if (request->split == TT_SPLIT_VAL && from == 0) {
        from = 1;
        count = n - 1;
    }
    tt_file_list_keep(&f->files, first, from, count);
}

static bool wants_all(const char *name)
{
    (void)name;
    return true;
}

// Of the files from `first` on keeps those that can be decoded.
static void keep_images(folder *f, int64_t first)
{
    int64_t n = first;
    for (int64_t i = first; i < f->files.n; i++) {
        const char *name = tt_file_list_at(&f->files, i);
        if (tt_decode_knows(name))
            f->files.at[n++] = f->files.at[i];
        else
            tt_left_out_add(&f->left, name);
    }
    f->files.n = n;
}

static tt_status no_images(const folder *f, const char *path)
{
    const char *left = tt_left_out_text(&f->left, f->arena);
    return tt_fail(TT_ERR_ARG,
                   "%s has no images that can be read (" TT_DECODE_NAMES
                   ")%s%s; remove the folder if it is not a class",
                   path, left != NULL ? "; " : "", left != NULL ? left : "");
}

// The files of one class follow each other in the list, and `end` has where each class
// ends. So an image's label is found from its index, and is not stored per image.
static tt_status list_class(folder *f, const tt_source_request *request,
                            int64_t i, bool is_part)
{
    const char *name = f->source.class_name[i];
    const int64_t first = f->files.n;
    const char *path = tt_arena_printf(f->arena, "%s/%s", f->root, name);
    if (path == NULL)
        return TT_ERR_NOMEM;
    if (request->split == TT_SPLIT_TRAIN || is_part || tt_file_is_folder(path))
        TT_TRY(tt_file_list_tree(f->root, name, wants_all, &f->files));
    keep_images(f, first);
    if (f->files.n == first && (request->split == TT_SPLIT_TRAIN || is_part))
        return no_images(f, path);
    if (is_part)
        keep_part(f, request, first);
    f->end[i] = f->files.n;
    return TT_OK;
}

static tt_status fill(folder *f, const tt_source_request *request)
{
    places at = {0};
    TT_TRY(find_places(request, f->arena, &at));
    const bool is_val = request->split == TT_SPLIT_VAL;
    const bool is_part = at.val[0] == '\0';
    if (is_val && is_part && request->holdout == 0)
        return TT_OK;
    f->root = tt_arena_strdup(f->arena, is_val && !is_part ? at.val : at.train);
    if (f->root == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(find_classes(f, at.train));
    if (is_val && !is_part)
        TT_TRY(check_classes(f, at.train));
    for (int64_t i = 0; i < f->source.classes; i++)
        TT_TRY(list_class(f, request, i, is_part));
    f->source.n = f->files.n;
    if (f->left.n > 0) {
        const char *text = tt_left_out_text(&f->left, f->arena);
        f->source.note =
            text == NULL ? NULL
                         : tt_arena_printf(f->arena, "%s: %s", f->root, text);
        if (f->source.note == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for a list of files");
    }
    if (is_val && !is_part && f->source.n == 0)
        return tt_fail(TT_ERR_ARG, "%s has no images of the %lld classes",
                       f->root, (long long)f->source.classes);
    return f->source.n == 0
               ? TT_OK
               : tt_encoded_probe(read_encoded, &f->source, request);
}

extern const tt_source_def tt_source_folder;

static tt_status open_source(const tt_source_request *request,
                             const void *params, tt_source **source_out)
{
    (void)params;
    folder *f = tt_alloc(sizeof *f);
    if (f == NULL)
        return tt_fail(TT_ERR_NOMEM, "there is no memory for a list of files");
    f->source.def = &tt_source_folder;
    f->source.kind = TT_DATA_IMAGES;
    f->arena = tt_arena_create();
    const tt_status status =
        f->arena == NULL
            ? tt_fail(TT_ERR_NOMEM, "there is no memory for a list of files")
            : fill(f, request);
    if (status != TT_OK) {
        close_source(&f->source);
        return status;
    }
    *source_out = &f->source;
    return TT_OK;
}

const tt_source_def tt_source_folder = {
    .name = "folder",
    .doc = "Images (JPEG, PNG, BMP, GIF, PPM) in a folder per class.",
    .open = open_source,
    .close = close_source,
    .image = image,
    .label = label,
    .user = user,
    .blame = blame,
    .files = files,
};
