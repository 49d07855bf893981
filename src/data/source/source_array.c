// source_array - from arrays to images: [n, features], [n, height, width], or
// [n, channels, height, width] in either order. Features are channels of one pixel.

#include "data/source/source_array.h"

#include "base/alloc.h"

#include <string.h>

tt_status tt__array_check(tt_array *array, int64_t offset)
{
    int64_t bytes = array->type.bytes;
    const int64_t room = array->blob.n - offset;
    bool is_empty = false, is_huge = false;
    for (int i = 0; i < array->ndim; i++) {
        is_empty = is_empty || array->dim[i] == 0;
        is_huge =
            is_huge || __builtin_mul_overflow(bytes, array->dim[i], &bytes);
    }
    if (is_empty)
        bytes = 0;
    if ((is_huge && !is_empty) || bytes != room)
        return tt_fail(TT_ERR_ARG,
                       "the sizes in its header make %s%lld bytes, and %lld "
                       "follow it; it is damaged or cut short",
                       is_huge ? "more than " : "",
                       (long long)(is_huge ? INT64_MAX : bytes),
                       (long long)room);
    array->data = array->blob.p + offset;
    return TT_OK;
}

tt_status tt__arrays_create(const tt_source_def *def, tt_arrays **arrays_out)
{
    tt_arrays *arrays = tt_alloc(sizeof *arrays);
    tt_arena *arena = arrays != NULL ? tt_arena_create() : NULL;
    if (arena == NULL) {
        tt_free(arrays);
        return tt_fail(TT_ERR_NOMEM, "no memory for a source");
    }
    arrays->source.def = def;
    arrays->arena = arena;
    *arrays_out = arrays;
    return TT_OK;
}

void tt__arrays_close(tt_source *source)
{
    tt_arrays *arrays = (tt_arrays *)source;
    if (arrays == NULL)
        return;
    tt_blob_close(&arrays->x.blob);
    tt_blob_close(&arrays->y.blob);
    tt_tokenizer_close(source->tokenizer);
    tt_arena_destroy(arrays->arena);
    tt_free(arrays);
}

// Of FILE.npz/NAME the file alone.
static tt_status add_file(tt_file_list *list, const char *path)
{
    const char *inside = strstr(path, ".npz/");
    tt_str file = {0};
    if (inside == NULL)
        return tt_file_list_add(list, path);
    tt_str_add_bytes(&file, path, inside + 4 - path);
    tt_status status = tt_str_status(&file);
    if (status == TT_OK)
        status = tt_file_list_add(list, file.text);
    tt_str_fini(&file);
    return status;
}

tt_status tt__arrays_files(const tt_source *source, tt_file_list *list)
{
    const tt_arrays *arrays = (const tt_arrays *)source;
    TT_TRY(add_file(list, arrays->x.path));
    return arrays->y.path != NULL ? add_file(list, arrays->y.path) : TT_OK;
}

// ---- labels ------------------------------------------------------------------

static bool is_one_hot(const tt_array *labels)
{
    return labels->ndim == 2 && labels->dim[1] > 1;
}

// The place of the only 1 among zeros.
static tt_status hot_at(const tt_array *labels, int64_t i, int32_t *label_out)
{
    const int64_t n = labels->dim[1], bytes = labels->type.bytes;
    const uint8_t *row = labels->data + i * n * bytes;
    int64_t at = -1;
    for (int64_t k = 0; k < n; k++) {
        float value = 0;
        tt_number_to_f32(labels->type, row + k * bytes, 1, &value);
        if (value == 0)
            continue;
        if (value != 1 || at >= 0)
            return tt_fail(TT_ERR_ARG,
                           "%s: row %lld of the labels is not one-hot: beside "
                           "one 1 all must be 0",
                           labels->path, (long long)i);
        at = k;
    }
    if (at < 0)
        return tt_fail(TT_ERR_ARG,
                       "%s: row %lld of the labels is not one-hot: all is 0",
                       labels->path, (long long)i);
    *label_out = (int32_t)at;
    return TT_OK;
}

static tt_status label_at(const tt_array *labels, int64_t i, int32_t *label_out)
{
    int64_t bad = 0;
    int32_t label = 0;
    if (is_one_hot(labels))
        return hot_at(labels, i, label_out);
    const tt_status status = tt_number_to_i32(
        labels->type, labels->data + i * labels->type.bytes, 1, &label, &bad);
    if (status != TT_OK || label < 0)
        return tt_fail(TT_ERR_ARG, "%s: label %lld is %s", labels->path,
                       (long long)i, label < 0 ? "negative" : "above 2^31");
    *label_out = label;
    return TT_OK;
}

static tt_status check_labels(const tt_array *labels)
{
    const bool is_column = labels->ndim == 2 && labels->dim[1] == 1;
    if (is_one_hot(labels) && labels->dim[1] <= INT32_MAX)
        return TT_OK;
    if (labels->ndim != 1 && !is_column)
        return tt_fail(TT_ERR_ARG,
                       "%s: labels must be one whole number per sample, or "
                       "one-hot, and it has %d dimensions",
                       labels->path, labels->ndim);
    if (!tt_number_is_whole(labels->type))
        return tt_fail(TT_ERR_ARG,
                       "%s: labels must be whole numbers, and it holds "
                       "floating-point ones",
                       labels->path);
    return TT_OK;
}

// One more than the greatest label.
static tt_status count_classes(const tt_array *labels, int64_t *classes_out)
{
    int64_t classes = 0;
    int32_t label = 0;
    TT_TRY(check_labels(labels));
    if (is_one_hot(labels))
        classes = labels->dim[1]; // also where the last does not occur
    for (int64_t i = 0; i < labels->dim[0]; i++) {
        TT_TRY(label_at(labels, i, &label));
        if (label >= classes)
            classes = (int64_t)label + 1;
    }
    *classes_out = classes;
    return TT_OK;
}

tt_status tt__arrays_count_other(tt_arrays *arrays, tt_array_open_fn *open,
                                 const char *labels)
{
    tt_array other = {0};
    int64_t n = 0;
    tt_status status = open(labels, &other);
    if (status == TT_OK)
        status = count_classes(&other, &n);
    tt_blob_close(&other.blob);
    if (status == TT_OK && n > arrays->source.classes)
        arrays->source.classes = n;
    return status;
}

// ---- images ------------------------------------------------------------------

static bool looks_like_channels(int64_t dim)
{
    return dim == 1 || dim == 3 || dim == 4;
}

static tt_status describe_x(tt_arrays *a, tt_array_layout layout)
{
    tt_source *s = &a->source;
    const int64_t *dim = a->x.dim;
    s->channels = s->height = s->width = 1;
    if (a->x.ndim == 2) {
        s->channels = dim[1];
    } else if (a->x.ndim == 3) {
        s->height = dim[1];
        s->width = dim[2];
    } else if (a->x.ndim == 4) {
        a->is_hwc = layout == TT_ARRAY_HWC ||
                    (layout == TT_ARRAY_AUTO && !looks_like_channels(dim[1]) &&
                     looks_like_channels(dim[3]));
        s->channels = dim[a->is_hwc ? 3 : 1];
        s->height = dim[a->is_hwc ? 1 : 2];
        s->width = dim[a->is_hwc ? 2 : 3];
    } else {
        return tt_fail(TT_ERR_ARG,
                       "%s: it has %d dimensions; samples have 2 (features), 3 "
                       "(gray images) or 4",
                       a->x.path, a->x.ndim);
    }
    if (s->channels < 1 || s->height < 1 || s->width < 1)
        return tt_fail(TT_ERR_ARG, "%s: its samples are empty", a->x.path);
    return TT_OK;
}

tt_status tt__arrays_describe(tt_arrays *a, tt_array_layout layout)
{
    TT_TRY(describe_x(a, layout));
    TT_TRY(count_classes(&a->y, &a->source.classes));
    if (a->x.dim[0] != a->y.dim[0])
        return tt_fail(TT_ERR_ARG, "%s has %lld samples and %s %lld labels",
                       a->x.path, (long long)a->x.dim[0], a->y.path,
                       (long long)a->y.dim[0]);
    a->source.kind = TT_DATA_IMAGES;
    a->source.n = a->x.dim[0];
    return TT_OK;
}

void tt__planes_to_image(const uint8_t *planes, tt_image *out)
{
    const int64_t n = out->height * out->width, channels = out->channels;
    if (channels == 1) {
        memcpy(out->u8, planes, (size_t)n);
        return;
    }
    if (channels == 3) { // of a known number the compiler makes better code
        for (int64_t i = 0; i < n; i++) {
            out->u8[3 * i] = planes[i];
            out->u8[3 * i + 1] = planes[n + i];
            out->u8[3 * i + 2] = planes[2 * n + i];
        }
        return;
    }
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < n; i++)
            out->u8[i * channels + c] = planes[c * n + i];
}

// Pixels that stand together, taken apart into planes.
static void pixels_to_planes(tt_number type, const uint8_t *from, tt_image *out)
{
    const int64_t n = out->height * out->width;
    for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < out->channels; c++)
            tt_number_to_f32(type, from + (i * out->channels + c) * type.bytes,
                             1, &out->f32[c * n + i]);
}

tt_status tt__arrays_image(const tt_source *source, int64_t index,
                           tt_image *out, int32_t *label_out)
{
    const tt_arrays *a = (const tt_arrays *)source;
    const tt_number type = a->x.type;
    const bool is_bytes = type.kind == 'u' && type.bytes == 1;
    const int64_t count = source->channels * source->height * source->width;
    const uint8_t *from = a->x.data + (a->first + index) * count * type.bytes;
    TT_TRY(tt_blob_check(&a->x.blob));
    TT_TRY(tt_blob_check(&a->y.blob));
    TT_TRY(tt_image_reserve(out, source->channels, source->height,
                            source->width, !is_bytes));
    if (!is_bytes && a->is_hwc)
        pixels_to_planes(type, from, out);
    else if (!is_bytes)
        tt_number_to_f32(type, from, count, out->f32);
    else if (a->is_hwc)
        memcpy(out->u8, from, (size_t)count);
    else
        tt__planes_to_image(from, out);
    return label_at(&a->y, a->first + index, label_out);
}
